/*
 * check_child.h - makes a health check as the user whose policy asked for it (as_user.h). Names are resolved there, too.
 */
#ifndef SOCKFUSE_AGENT_CHECK_CHILD_H
#define SOCKFUSE_AGENT_CHECK_CHILD_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/check_peer.h"

struct check_order {
    const char *value;       /* of health_check, as it is in force: what is done is what the file has (trusted.h) */
    const char *identity;    /* of the policy */
    const char *target;      /* its name */
    const char *destination; /* the circuit's */
    uid_t uid;               /* whose policy it is */
    uint64_t timeout_ns;
};

/* A check that is under way. */
struct check_child;

/* Begins one, and tells `done` of its end, from the loop. NULL: no child could be had (errno). */
struct check_child *check_start(struct ev_loop *loop, const struct check_order *order,
                                void (*done)(void *context, const struct check_result *result), void *context);
/* Nobody is to hear of it: it is ended. */
void check_cancel(struct check_child *child);

#endif
