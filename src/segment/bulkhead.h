/*
 * bulkhead.h - how many guarded connections a circuit has over all processes, and may have (max_connections).
 *
 * A connection's record in the table of calls bears a share of its circuit while the connection lives. The shares are
 * counted in one word of the circuit, which is exact, whatever dies in between: whoever finds a share that was left in
 * the middle of a step goes on from there. A dead one's come back when its records are buried (dead_owners.h).
 * Private to src/segment and src/guard, but for bulkhead_count. Async-signal-safe; nothing waits.
 */
#ifndef SOCKFUSE_SEGMENT_BULKHEAD_H
#define SOCKFUSE_SEGMENT_BULKHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment_model.h"

/* As a limit: none. */
#define BULKHEAD_UNLIMITED UINT32_MAX

/*
 * Takes a share of the circuit for a record that the caller owns and that bears none. False: `limit` connections have
 * theirs. No system call.
 */
bool bulkhead_take(struct segment *segment, uint32_t circuit, uint32_t call, uint32_t limit);

/* Whether the record bears a share, however far its taking or giving has come. */
bool bulkhead_has_share(const struct segment *segment, uint32_t call);

/*
 * Gives the record's share back, if it bears one and is `owner`'s, however far its taking or giving had come, before
 * the record itself is released; `limit` is the target's, or 0. For the owner, or when that is dead or has lost the
 * record: of several who do it at once, all together do it once.
 */
void bulkhead_give(struct segment *segment, uint32_t call, uint32_t owner, uint32_t limit);

/* The connections of living processes that have a share, for observers. System calls: a walk. */
uint32_t bulkhead_count(const struct segment *segment, uint32_t circuit);

/* What the circuit's word says; and an idle circuit's, whose place is handed over: nobody has a share. */
uint32_t bulkhead_counted(const struct segment *segment, uint32_t circuit);
void bulkhead_clear(struct circuit_entry *entry);

#endif
