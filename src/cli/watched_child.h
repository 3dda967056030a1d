/*
 * watched_child.h - a program that runs as this process's child, as if it had been started in its place.
 *
 * Child and parent stay in one process group, so that a terminal's keys reach both. What only the parent is sent by
 * other processes it hands on; what the terminal sends it leaves to the child. For `observe`.
 */
#ifndef SOCKFUSE_CLI_WATCHED_CHILD_H
#define SOCKFUSE_CLI_WATCHED_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* What this process does every so often while it waits for the child. */
struct watch {
    void (*look)(void *context);
    void *context;
    int every_ms;
};

/*
 * Runs `become` in a child, which is to become the program, or to return an exit status; waits for its end. False, with
 * errno: there can be no child. `*pid` was the child's, `*status` is as waitpid has it. `watch` may be NULL.
 */
bool watched_child_run(int (*become)(void *context), void *context, const struct watch *watch, pid_t *pid, int *status);

/* Ends this process as the child ended: with its exit status, or by the signal that killed it. Returns the status. */
int watched_child_end_as(int status);

#endif
