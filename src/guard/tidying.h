/*
 * tidying.h - what each attempt does for all: it asks whether some owners live, buries a few of the dead, takes back
 * what jumps have left, and charges what is overdue, so that the circuit decides by it.
 *
 * Private to src/guard. Async-signal-safe; system calls once a second at the most, and where a call is overdue.
 */
#ifndef SOCKFUSE_GUARD_TIDYING_H
#define SOCKFUSE_GUARD_TIDYING_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "segment/circuits.h"

/* Whether it is this call's turn to do what costs system calls, once a second in this process. */
bool tidying_takes_turn(_Atomic uint64_t *after, uint64_t real_ns);

/* Whether there is anything to do. A few loads. */
bool tidying_is_due(const struct guard *guard, uint64_t now_ns);
/* Does a little of it. `circuit`: the attempt's, or NULL. */
void tidying_do_some(struct guard *guard, const struct attempt *attempt, const struct circuit *circuit,
                     uint64_t now_ns);

#endif
