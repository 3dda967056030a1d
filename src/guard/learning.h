/*
 * learning.h - tells a circuit's table of what its calls have taught (segment/learnt.h) how a call ended.
 *
 * Called by whoever won the settling of the call's record. Decides nothing. Private to src/guard. Async-signal-safe; no
 * system call.
 */
#ifndef SOCKFUSE_GUARD_LEARNING_H
#define SOCKFUSE_GUARD_LEARNING_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "guard/report.h"
#include "segment/learnt.h"

/* A wait of this process is over, as it was seen by the process itself: who ended it, if that tells of its patience. */
void learning_note_end(const struct guard *guard, const struct target *target, const struct call_view *call,
                       const struct observation *observation);
/* The same of what came after LEARNT_LONG_NS or more, with nothing more to be said of it. `holder`: whose it is. */
void learning_note_long_wait(const struct segment *segment, uint32_t holder, uint32_t circuit, enum learnt_wait waits,
                             uint64_t waited_ns);

/* The outcome of a call; `late`: its circuit had changed since. */
void learning_note_outcome(const struct segment *segment, const struct call_view *call, const struct ending *ending,
                           bool late);
/* A call that was charged at its limit has waited on since. */
void learning_note_wait_beyond(const struct segment *segment, const struct call_view *call, const struct wait *wait);

#endif
