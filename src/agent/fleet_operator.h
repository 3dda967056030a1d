/*
 * fleet_operator.h - operators' words for all hosts of a fleet: takes those that are said on this host to the fleet, and has
 * the circuits of this host obey those of the fleet. Private to src/agent.
 *
 * A word is obeyed once, as if it had been said here: it stands in the segment as any operator's does, whatever becomes of
 * agent and Redis, and what is said on this host afterwards goes before it.
 */
#ifndef SOCKFUSE_AGENT_FLEET_OPERATOR_H
#define SOCKFUSE_AGENT_FLEET_OPERATOR_H

#include "agent/fleet.h"
#include "agent/fleet_joined.h"

/*
 * Takes orders. `is_member`: whether the target is in the fleet. `fleet` NULL, or `trouble` not "": none can be said, and
 * why. Returns whether there is something to say at once.
 */
struct fleet_orders {
    const struct segment *segment;
    struct fleet *fleet;
    const char *trouble;
    bool (*is_member)(void *context, const char *target);
    void *context;
};
bool fleet_operator_orders(const struct fleet_orders *orders, uint64_t now_ns);

/* Has a circuit obey; `key`: circuits_key. */
void fleet_operator_obey(struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                         enum target_mode mode, uint64_t now_ns, uint64_t real_ns);

#endif
