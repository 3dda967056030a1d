/*
 * bulkhead.h - how many guarded connections a circuit has over all processes, and may have (max_connections).
 *
 * A connection's record in the table of calls bears a share of its circuit while the connection lives. The shares are
 * counted in one word of the circuit, which is never too low, whatever dies in between: before a connection is refused,
 * the shares of living processes are counted anew, so a dead one's come back. That count costs three system calls for
 * each other process that has a share, so it is made every ten milliseconds at the most; until then the last one holds.
 * Private to src/segment, but for bulkhead_count. Async-signal-safe; nothing waits.
 */
#ifndef SOCKFUSE_SEGMENT_BULKHEAD_H
#define SOCKFUSE_SEGMENT_BULKHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"

/* As a limit: none. */
#define BULKHEAD_UNLIMITED UINT32_MAX

/*
 * Takes a share of the circuit for a record that the caller owns and that bears none. False: `limit` connections have
 * theirs. No system call unless the limit is met.
 */
bool bulkhead_take(struct segment *segment, uint32_t circuit, uint32_t call, uint32_t limit);

/*
 * Gives the record's share back, if it bears one, before the record itself is released; `limit` is the target's. Of
 * several threads one does it. Not for a dead owner's record: nobody knows how far that one came.
 */
void bulkhead_give(struct segment *segment, uint32_t call, uint32_t limit);

/* The record's share may be a dead owner's: who would be refused for it counts anew at once. */
void bulkhead_doubt(struct segment *segment, uint32_t call);

/* The connections of living processes that have a share, for observers. System calls as above. */
uint32_t bulkhead_count(const struct segment *segment, uint32_t circuit);

#endif
