/*
 * fleet_joined.h - one circuit of a segment that is in a fleet: what the member is told of it, and what it has the circuit
 * do. Private to src/agent.
 */
#ifndef SOCKFUSE_AGENT_FLEET_JOINED_H
#define SOCKFUSE_AGENT_FLEET_JOINED_H

#include "agent/fleet.h"
#include "guard/guard_model.h"
#include "policy/policy_model.h"

/* By its place in the segment. */
struct fleet_joined {
    uint64_t key;    /* of the circuit that had the place; 0: none that is in the fleet */
    uint32_t number; /* in the fleet */
    bool held;       /* by us */
    uint64_t lease_noted;
    uint64_t word; /* the token of the operator's that was looked at last */
};

/* A look at it; what there is to show. */
struct fleet_view fleet_joined_look(struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined,
                                    uint32_t index, const struct target *target, uint64_t now_ns, uint64_t real_ns);
/* It is in the fleet no more: its policy says so, or its place is another's. */
void fleet_joined_part(struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                       uint64_t now_ns);

#endif
