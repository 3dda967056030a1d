/*
 * overdue.h - calls that hang longer than their target allows.
 *
 * Nobody watches over them: the next admission finds them, in any process. Private to src/guard. Async-signal-safe;
 * system calls only where a call is overdue: whether its owner lives (owners.h), or whether it still hangs.
 */
#ifndef SOCKFUSE_GUARD_OVERDUE_H
#define SOCKFUSE_GUARD_OVERDUE_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "guard/owners.h"

/* Charges one call that was read, by its target: it hangs, or was connected after its limit and goes on. */
void overdue_charge_call(const struct guard *guard, const struct target *target, unsigned int shard, uint32_t call,
                         const struct call_view *view, enum overran overran, uint64_t now_ns);

/*
 * Charges what is overdue: of the attempt's circuit as much as it takes to open it, or 64 calls, before the attempt is
 * decided on; of the other circuits a few calls, each under its own target. One load and a comparison when nothing can
 * be. `refusing`: the circuit is open anyway, so nothing is asked that `asking` does not allow.
 */
void overdue_charge(struct guard *guard, const struct attempt *attempt, bool refusing, uint64_t now_ns,
                    struct asking *asking);

#endif
