/*
 * become_user.h - a child becomes a user for good, with nothing of the agent's left: as_user.h says what that is.
 */
#ifndef SOCKFUSE_AGENT_BECOME_USER_H
#define SOCKFUSE_AGENT_BECOME_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What is looked up beforehand. */
struct new_user {
    uid_t user;
    gid_t group, *groups;
    int group_count;
    char *name, *home;
    bool is_another; /* than this process's: rights are given up, and none can be had again */
    uint64_t tasks;  /* that he has now */
};

/* May ask name services, and wait for them: in a process with a time limit. */
void new_user_know(struct new_user *user, uid_t uid);

/* In the child. False: not all of it could be done, and nothing may be done as him. */
bool become_user(const struct new_user *user, uint64_t limit_ms);

/* Its environment, NULL at the end: what any has, and `more`. */
char **environment_of_user(const struct new_user *user, const char *const *more);

/*
 * Executes a command, found in the usual folders if its name has no slash; no shell takes what is no program. Returns
 * with errno if it can't be.
 */
void execute_as_user(const char *const *words, char **environment);

#endif
