/*
 * settle.h - brings one call's outcome to its circuit, and what follows from it to where it belongs.
 *
 * Called by the one who won the settling of the call's record, or has a ticket that has no record. Private to
 * src/guard. Async-signal-safe; system calls only for the log.
 */
#ifndef SOCKFUSE_GUARD_SETTLE_H
#define SOCKFUSE_GUARD_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "guard/report.h"
#include "segment/calls.h"

/*
 * The settings a circuit of this target goes by in that mode: `closed` never opens one. `room` is where changed ones
 * are kept.
 */
const struct settings *settings_in_force(const struct target *target, enum target_mode mode, struct settings *room);

/* Who asks, for the circuit. */
struct caller guard_caller(const struct guard *guard, unsigned int shard);

/* Notes a wait on a circuit, before its call is settled if it ends it. */
void settle_wait(const struct segment *segment, uint32_t circuit, const struct wait *wait, uint64_t now_ns);

/*
 * Tells the addresses, the circuit, what it has waited, the journal and the log. The call's owner and ticket are read
 * from `call`.
 */
void settle_call(const struct guard *guard, const struct target *target, unsigned int shard,
                 const struct call_view *call, const struct ending *ending, uint64_t now_ns);

/* Of a call that was settled: if that was jumped out of before the circuit was told, a probe's permit goes back. */
void settle_permit(const struct guard *guard, const struct target *target, unsigned int shard,
                   const struct call_view *call, uint64_t now_ns);

/*
 * The target of a circuit by the policy that this process follows, for a call that somebody else may have begun: the
 * asker's own where that is it. NULL: the policy has none of that name.
 */
const struct target *target_of_circuit(const struct guard *guard, uint32_t circuit);

/*
 * A call that nobody can say the end of: neutral, as of `at_ns`. It needs no target's settings. A dead probe's call is
 * late, and its lease is left to the next admission on its circuit, which knows what comes first: a deadline that has
 * passed (then the probe has failed, whenever its holder died: `timeout 5 curl` is killed after a probe_timeout of a
 * second), or the holder's death.
 */
void settle_unknown(const struct guard *guard, unsigned int shard, const struct call_view *call, uint64_t at_ns,
                    uint64_t now_ns);

#endif
