/*
 * discover.h - which policy a process gets.
 *
 * SOCKFUSE_POLICY; else, for a program PROG, the first of $XDG_CONFIG_HOME/sockfuse/PROG.policy,
 * /etc/sockfuse/PROG.policy and the same two folders' default.policy. ($XDG_CONFIG_HOME unset, empty or relative:
 * $HOME/.config.) Called at start-up only: it asks the file system.
 */
#ifndef SOCKFUSE_POLICY_DISCOVER_H
#define SOCKFUSE_POLICY_DISCOVER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct discovery {
    char path[PATH_MAX]; /* the file to load */
    bool named;          /* SOCKFUSE_POLICY named it: a missing file is then an error, not "no policy" */
};

/*
 * `program` is the program's name without folders ("curl"). `environment` looks a variable up (secure_getenv, or a
 * test's own). An empty SOCKFUSE_POLICY is as good as none. False: no policy, the process is left alone. Without
 * malloc; asks with access(2), so at start-up or in the command line only.
 */
bool policy_discover(const char *program, const char *(*environment)(const char *name), struct discovery *found);

/* The search alone, in a NULL-terminated list of folders, the first of which comes first. */
bool policy_discover_in(const char *program, const char *const *folders, struct discovery *found);

#endif
