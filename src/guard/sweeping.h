/*
 * sweeping.h - what admissions do for all a little at a time, done by somebody who makes none: the agent.
 *
 * So that it is done while nobody calls: a lone program that hangs is counted while it hangs. The same steps by the
 * same protocols, with bounds of their own; what a sweep leaves undone, the next one or the next admission does. The
 * guard needs a segment that can be written, a pid, a program's name and target_named, and no holder.
 */
#ifndef SOCKFUSE_GUARD_SWEEPING_H
#define SOCKFUSE_GUARD_SWEEPING_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"

/*
 * Charges calls that are overdue, each under its own target, and gives back what dead owners left. A few loads where
 * nothing is due, nobody died and nobody is attached; asks whether a few of the attached live, each once a second at the
 * most: system calls.
 */
void sweeping_charge(struct guard *guard, uint64_t now_ns);

/*
 * Looks through the circuits: a probe whose time is over has failed, a dead one's lease is free, and the end of an
 * operator's word and of a hold is noted. Returns whether there is anything of that kind still to come, so that it need
 * not be looked for again before the journal tells of some.
 */
bool sweeping_tend(struct guard *guard, uint64_t now_ns);

#endif
