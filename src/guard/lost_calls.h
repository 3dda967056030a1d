/*
 * lost_calls.h - records of this very process that nobody will ever end.
 *
 * A signal's handler may siglongjmp out of any wrapper, and a cancelled thread ends in the middle of one. What it had
 * claimed or begun is found by the process's own next attempts. Private to src/guard, but for the engine's half,
 * guard->keeps. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_GUARD_LOST_CALLS_H
#define SOCKFUSE_GUARD_LOST_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"

/*
 * Ends a call as one that nobody can say the end of, also one that was reserved and never begun: a probe's permit goes
 * back by its token. `view`: as it was read. `target`: NULL: its circuit's, by its name. False: it has changed since.
 */
bool lost_calls_settle(const struct guard *guard, uint32_t call, struct call_view *view, const struct target *target,
                       unsigned int shard, uint64_t now_ns);

/* Whether there is something to look at. A few loads. */
bool lost_calls_is_due(const struct guard *guard, uint64_t real_ns);
/* Looks at a part of the table, in one round a second, and gives back what was lost in an earlier round. */
void lost_calls_look(struct guard *guard, unsigned int shard, uint64_t now_ns, uint64_t real_ns);

#endif
