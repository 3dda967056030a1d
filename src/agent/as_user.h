/*
 * as_user.h - something done as another user, for the agent: a command that his policy names, or a file of his read.
 *
 * Never in the agent's own process, and never with its rights. A runner is forked for each, which keeps what the agent
 * keeps and does nothing but watch; its child becomes that user for good: his groups, his number, no capability and no
 * way to more (no_new_privs, where root's agent acts for somebody else), a clean environment, no descriptor but 0 to 2, a
 * session of its own, limits. The runner ends the child and all that came of it when its time is over, when it has
 * said too much, or when it has ended, and outlives an agent that is killed no longer than that.
 */
#ifndef SOCKFUSE_AGENT_AS_USER_H
#define SOCKFUSE_AGENT_AS_USER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/as_user_model.h"

struct as_user_result {
    enum as_user_end end;
    int code;
    uint64_t took_ms;
    const char *output; /* what it said, with a zero byte behind; stands during the call */
    size_t output_length;
};

/* Calls `done` once, later. False: nothing was begun (no process, no descriptor), and errno says why. */
bool as_user_run(struct ev_loop *loop, const struct as_user_order *order,
                 void (*done)(const struct as_user_result *result, void *context), void *context);

/* What was begun with that context is ended, and nobody hears of it. */
void as_user_cancel(const void *context);

/* How many run, and of these that user's. */
unsigned int as_user_running(void);
unsigned int as_user_running_of(uid_t user);

#endif
