/*
 * discover.h - which policy a process gets.
 *
 * SOCKFUSE_POLICY; else, for a program PROG, the first of $XDG_CONFIG_HOME/sockfuse/PROG.policy,
 * /etc/sockfuse/PROG.policy and the same two folders' default.policy. ($XDG_CONFIG_HOME unset, empty or relative:
 * $HOME/.config.) A program may be known by several names: a script by its own and by its interpreter's. Then all
 * folders are asked for the first name before the second has its turn, and for default.policy last.
 * Called at start-up and in the command line only: it asks the file system.
 */
#ifndef SOCKFUSE_POLICY_DISCOVER_H
#define SOCKFUSE_POLICY_DISCOVER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* A script, the argument that may be one, argv[0], the executed file; and the end. */
#define PROGRAM_NAMES_MAX 5

struct discovery {
    char path[PATH_MAX]; /* the file to load */
    const char *name;    /* the program's name for which it is, one of those given; NULL: named, or a default.policy */
    bool named;          /* SOCKFUSE_POLICY named it: a missing file is then an error, not "no policy" */
};

/*
 * `names` are the program's names without folders ("curl"), the most telling first, NULL at the end; empty ones and
 * those with a slash are passed over. `environment` looks a variable up (secure_getenv, or a test's own). An empty
 * SOCKFUSE_POLICY is as good as none. False: no policy, the process is left alone. Without malloc.
 */
bool policy_discover(const char *const *names, const char *(*environment)(const char *name), struct discovery *found);

/* The search alone, in a NULL-terminated list of folders, the first of which comes first. */
bool policy_discover_in(const char *const *names, const char *const *folders, struct discovery *found);

/* A file that may be there; whether it is, readable or not. */
struct discovery_place {
    const char *path;
    const char *name; /* NULL: default.policy */
    bool exists;
};

/*
 * Every place that policy_discover would look at if it never found anything and SOCKFUSE_POLICY were not set, in its
 * order. `visit` returns true to end it.
 */
bool policy_discover_each(const char *const *names, const char *(*environment)(const char *name),
                          bool (*visit)(const struct discovery_place *place, void *context), void *context);

#endif
