/*
 * runner.h - the process that watches over something that is done as another user. Private to as_user.c.
 */
#ifndef SOCKFUSE_AGENT_RUNNER_H
#define SOCKFUSE_AGENT_RUNNER_H

#include <stdint.h>

#include "agent/as_user_model.h"

/* What the runner writes to the agent before what was said. */
struct report {
    uint64_t took_ms;
    uint64_t length; /* of what was said */
    int32_t end;     /* enum as_user_end */
    int32_t code;
};

/* In a fork's child: does what is ordered, writes the report to that descriptor, and ends. */
_Noreturn void runner_live(const struct as_user_order *order, int report_to);

#endif
