/*
 * dead_owners.h - gives back what dead owners left in the table of calls: their calls, shares and records.
 *
 * Nobody watches over the dead: who asks finds one (owners.h), or takes its slot (process_join), and counts a death; so
 * does who leaves in order and leaves something behind.
 * Then each admission, in any process, looks through a few groups of records, until one round after the last death is
 * over. Private to src/guard. Async-signal-safe.
 */
#ifndef SOCKFUSE_GUARD_DEAD_OWNERS_H
#define SOCKFUSE_GUARD_DEAD_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "guard/owners.h"

/* Gives the record back whose owner is known to be dead; a call in flight on it is neutral. */
void bury_record(const struct guard *guard, uint32_t call, const struct call_view *view, unsigned int shard,
                 uint64_t now_ns);

/* Whether something is left to do. Two loads. */
bool bury_is_due(const struct segment *segment);
/* Does a little of what is left to do since the last death. No system call; mostly two loads. */
void bury_some(const struct guard *guard, unsigned int shard, uint64_t now_ns);

/*
 * A connection is refused because the circuit has so many: asks whether some of those who have a share still live, and
 * gives the dead ones' back. True: some came back. System calls.
 */
bool bury_sharers(struct guard *guard, uint32_t circuit, unsigned int shard, uint64_t now_ns, struct asking *asking);

#endif
