/*
 * homes.h - the folders in which a command looks for segments: the caller's own, and for root those of all users.
 *
 * To root another user's folder is hostile: what lies at its name may be anything, and may be exchanged at any time. So
 * it is opened without following a link at its end or going onto another file system there, and counts only if it is a
 * folder of that very user into which nobody else may write. What is in it is reached from its descriptor.
 */
#ifndef SOCKFUSE_VIEW_HOMES_H
#define SOCKFUSE_VIEW_HOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "segment/places.h"

struct home {
    char *path;
    uid_t user;    /* whose folder and files they must be */
    bool is_named; /* by SOCKFUSE_STATE: whose files lie there is seen at each of them */
};

struct homes {
    struct home *at;
    size_t count;
    bool is_cut; /* there are more than are ever looked at */
};

/* The places of this user, then, if `all` says so, those of all others in the order of their numbers. */
void homes_find(struct homes *homes, const struct state_places *own, bool all);
void homes_free(struct homes *homes);

/* The descriptor of the folder; -1: `errno`, or 0 for what is no state folder, and nothing to speak of. */
int home_open(const struct home *home);

struct names {
    char **at;
    size_t count;
    bool is_cut; /* as above */
};

/* The names of the segments in the folder, sorted. False: it can't be read (errno). Free them with names_free. */
bool home_list(int folder, const struct home *home, struct names *names);
void names_free(struct names *names);

#endif
