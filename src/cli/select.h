/*
 * select.h - which policies' segments a command acts on.
 *
 * With -p FILE: those of that policy, whatever -t and -o its programs were run with; else all in the state folder. -p
 * may also say more, by what an identity has behind the path (policy/identity.h): then only those that have just these
 * targets, or just these options ("FILE + options:": none). If nobody uses the policy by this name, but by another name
 * of the same file, that one is meant. Segments are mapped read-only where that serves. For observers; nothing is ever
 * made or changed here.
 */
#ifndef SOCKFUSE_CLI_SELECT_H
#define SOCKFUSE_CLI_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "policy/policy.h"
#include "segment/places.h"
#include "segment/segment.h"

struct selected {
    struct segment segment; /* map == NULL: the policy of -p is not in use */
    char *identity;         /* of the policy */
};

struct selection {
    struct selected *at;
    size_t count;
    size_t unusable;  /* segments that stand in the folder and can't be used */
    struct state_places places; /* where they were looked for */
};

/*
 * Opens the segments in the order of their names. One that can't be used is skipped, with a warning unless `quiet`.
 * `policy_file` is what -p said, or NULL; if no segment belongs to it, the selection has one entry without a map.
 * Free it with select_close.
 */
void select_open(struct selection *selection, const char *policy_file, bool quiet);
void select_close(struct selection *selection);

/* Whether any segment stands in a state folder. */
bool anything_in_use(void);

/* The folders in which a segment may lie, for this user and environment. Free them with state_places_free. */
void find_places(struct state_places *places);

/* Prints what to do when there is nothing to show. */
void tell_nothing_in_use(const struct selection *selection, FILE *out);

/*
 * The policy of an identity as it is now: read from its file, with the targets of -t and the options of -o that are
 * part of it. NULL: it can't be read or has errors (the first is in `*why`, to be freed).
 */
struct policy *policy_of_identity(const char *identity, char **why);

#endif
