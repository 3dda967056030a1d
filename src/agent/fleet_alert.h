/*
 * fleet_alert.h - for those who tell of what happens to a circuit: whether this host is the one to tell of it.
 *
 * What is open in the fleet is told of once, by one host. Who asks is answered CLAIM_MINE (tell), CLAIM_OTHERS (another
 * host does: be silent) or CLAIM_ALONE (tell, and say that other hosts may do so too, and why: `word`; where that is "",
 * the target is in no fleet, and there is nothing to say).
 */
#ifndef SOCKFUSE_AGENT_FLEET_ALERT_H
#define SOCKFUSE_AGENT_FLEET_ALERT_H

#include "agent/fleet.h"
#include "agent/watched.h"

/*
 * `event`: "open", "close", "flapping", …, fewer than FLEET_EVENT_MAX bytes. `lasts_ns`: for how long nobody else tells of
 * the same; that to an opening holds until the circuit is closed instead. `answer` is called exactly once: perhaps before
 * this returns, and at the latest some ten seconds later, or when the segment is gone, or the agent ends. It may start a
 * command, and must not call this again.
 */
void fleet_alert_claim(const struct watched *watched, const char *target, const char *destination, const char *event,
                       uint64_t lasts_ns, fleet_claim_answer *answer, void *context);

#endif
