/*
 * select.h - which policies' segments a command acts on.
 *
 * With -p FILE: those of that policy, whatever -t and -o its programs were run with; else all that there are: the
 * caller's, or for root all users' (user_options.h). -p may also say more, by what an identity has behind the path
 * (policy/identity.h): then only those that have just these targets, or just these options ("FILE + options:": none).
 * If nobody uses the policy by this name, but by another name of the same file, that one is meant. Segments are mapped
 * read-only where that serves. For observers; nothing is ever made or changed here, but by who opens one to write.
 * Another user's segment is hostile input to root: see homes.h.
 */
#ifndef SOCKFUSE_VIEW_SELECT_H
#define SOCKFUSE_VIEW_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "view/homes.h"
#include "view/unusable.h"
#include "view/user_options.h"
#include "segment/places.h"
#include "segment/removal.h"
#include "segment/segment.h"

struct selected {
    struct segment segment; /* map == NULL: the policy of -p is not in use */
    char *identity;         /* of the policy */
    uid_t uid;              /* whose it is */
    char *user;             /* that user's name, or number */
    char *whose;            /* behind what is told of it: " (user NAME)" if any is another user's; safe to print */
    char *which;      /* behind what does not name the policy: " under IDENTITY", if there are several, and whose */
    bool is_foreign;  /* another user's than the caller's */
    struct home home; /* where it lies; its path is the selection's */
};

struct selection {
    struct selected *at;
    size_t count, others;       /* of them, other users' */
    struct unusables unusables; /* segments that stand in a folder and can't be used */
    size_t unreadable;          /* folders that can't be looked into */
    bool is_everybody;          /* all users' were asked for */
    struct state_places places; /* where this user's are looked for */
    struct homes homes;         /* where they were looked for */
};

/*
 * Opens the segments: the caller's first, then each user's, in the order of users' and policies' names. One that can't
 * be used is skipped, with a warning unless `quiet`. If none belongs to the policy of -p, the selection has one entry
 * without a map. Free it with select_close.
 */
void select_open(struct selection *selection, const struct whose *choice, bool quiet);
void select_close(struct selection *selection);

/*
 * Whether something stood there that the command could not look into, and that may have been what it was to show or to
 * change: then its exit status is no success, whatever else it found. It was said, but for other builds' segments,
 * which select_warn_of_builds does: `status` shows them itself.
 */
bool select_missed(const struct selection *selection);
void select_warn_of_builds(const struct selection *selection);

/* Maps a selected segment a second time, to write in it. False: `error` says why. Unmap it with select_detach. */
bool select_to_write(struct segment *segment, const struct selected *selected, struct segment_error *error);

/* A descriptor of its file, to read and write, for what is done to a file and not to what lies in it; -1: errno. */
int select_descriptor(const struct selected *selected);

/* segment_detach, of such a one or any other. */
void select_detach(struct segment *segment);

/*
 * Whether all that was read or written since this was last asked stood in whole files; if not, it is said of this one.
 * To be asked whenever a selected segment is done with.
 */
bool select_was_whole(const struct selected *selected);

/*
 * Whether there is time left for this user's circuits: another user can make each of them costly. False is said once;
 * what is left is to be left out.
 */
bool select_has_time(const struct selected *selected);
/* From now on there is as much again: select_open says so, which commands that go on looking call again and again. */
void select_time_begins(void);

/* How many events of its journal may be kept in memory at a time: other users' have room for so many together. */
static inline uint64_t select_events_most(const struct selection *selection, const struct selected *selected)
{
    const uint64_t others_max = 262144;
    return selected->is_foreign ? others_max / selection->others : UINT64_MAX;
}

/* Removes the file of a selected segment, which is mapped as select_to_write does: see segment_remove. */
enum removal select_remove(const struct selected *selected, struct segment *segment, struct segment_error *error);

/* Whether any segment stands in a folder that the caller's commands look into. */
bool anything_in_use(void);

/* The folders in which a segment may lie, for this user and environment. Free them with state_places_free. */
void find_places(struct state_places *places);

/* Prints what to do when there is nothing to show. */
void tell_nothing_in_use(const struct selection *selection, FILE *out);

#endif
