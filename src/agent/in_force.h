/*
 * in_force.h - the policy that came into force last in a watched segment, for its numbers.
 *
 * By its text, which the segment keeps (segment/editions.h): no file is read, so nothing waits. It is the word of the
 * user whose segment it is, about that user's circuits. A command that is to be executed is
 * never taken from here (trusted.h). Through watched_policy alone.
 */
#ifndef SOCKFUSE_AGENT_IN_FORCE_H
#define SOCKFUSE_AGENT_IN_FORCE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"
#include "view/select.h"

struct in_force {
    struct policy *policy; /* NULL: unknown */
    uint64_t revision;
    uint64_t read_ns[2]; /* real clock: when it was read last, as that of no revision, and of one; 0: never */
};

/* The policy as it is now; it stands until the next call. NULL: it is not known. */
const struct policy *in_force_look(struct in_force *in_force, const struct selected *selected);
void in_force_free(struct in_force *in_force);

#endif
