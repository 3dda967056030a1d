/*
 * places.h - the folders that a user's segments may lie in, in the order in which they are tried.
 *
 * SOCKFUSE_STATE names the only one. Else there are several, so that nobody who makes a folder of our name first, and
 * no full file system, keeps a program from its circuits. The list depends on the user alone as far as can be, so that
 * a service without a session and a command typed in one arrive at the same folder; where they do not, a segment that
 * stands already is preferred to a fresh one (segment_attach_first). Start-up and the command line only: allocates.
 */
#ifndef SOCKFUSE_SEGMENT_PLACES_H
#define SOCKFUSE_SEGMENT_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#define STATE_PLACES_MAX 5u

/* What is asked of the folder that the state folder lies in. */
enum place_parent {
    PARENT_IS_MADE,  /* if it is missing: the folder was named by somebody */
    PARENT_IS_OWN,   /* it must belong to this user: it may be another one's runtime folder (su, sudo -E) */
    PARENT_IS_THERE, /* nothing: it is the system's */
};

struct state_place {
    char *folder, *parent;
    char *segment; /* the file of the policy that state_places_name was told; else NULL */
    enum place_parent kind;
};

struct state_places {
    unsigned int count;
    struct state_place at[STATE_PLACES_MAX];
};

/*
 * SOCKFUSE_STATE (a relative one from the present working folder); else, for root, /run/sockfuse; then
 * $XDG_RUNTIME_DIR/sockfuse, /run/user/UID/sockfuse, /dev/shm/sockfuse-UID, /tmp/sockfuse-UID. Touches no file. False:
 * no memory, or no working folder.
 */
bool state_places(const char *(*environment)(const char *name), struct state_places *places);
void state_places_free(struct state_places *places);

/* Names the policy's segment in each of them (segment_path). False: no memory, or a name that is too long. */
bool state_places_name(struct state_places *places, const char *identity);

/* FOLDER alone, as if SOCKFUSE_STATE named it. */
bool state_place_named(const char *folder, struct state_places *places);

/* Whether a file of that name in such a folder may be a segment: not one that is just being made. */
bool segment_is_name(const char *name);

/* The file of the policy with that identity: FOLDER/NAME-HASH.segment. Touches no file. False: the name is too long. */
bool segment_path(const char *folder, const char *identity, char *path, size_t size);

#endif
