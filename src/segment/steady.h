/*
 * steady.h - the short way of a request on a kept connection and of its answer, while all is well.
 *
 * Nearly all calls of a busy client are of one kind: the circuit is closed with no failure counted, nobody has forced
 * it, nothing on it can be overdue, and the call's ticket is the one that the last call on the connection had. For
 * these the long way (guard_begin, guard_settle) comes to a few loads and four atomic steps, and that is what stands
 * here. A function that finds anything else has done nothing and says so; then the long way decides.
 *
 * Private to src/segment. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_STEADY_H
#define SOCKFUSE_SEGMENT_STEADY_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/guard.h"

/* As guard_begin, where it would come to ADMIT_PASS. */
bool steady_begin(struct guard *guard, const struct attempt *attempt, uint32_t call, uint64_t now_ns);

/* As guard_settle, where it would come to a success that is not slow. */
bool steady_answer(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                   const struct observation *observation, uint64_t now_ns);

#endif
