/*
 * overdue.h - calls that hang longer than their target allows, and records whose owner is dead.
 *
 * Nobody watches over them: the next admission finds them, in any process. Private to src/segment. Async-signal-safe;
 * system calls only where a call is overdue, or the table of calls is full.
 */
#ifndef SOCKFUSE_SEGMENT_OVERDUE_H
#define SOCKFUSE_SEGMENT_OVERDUE_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/guard.h"

struct circuit_entry;

/* A call of the circuit that stands in the table is overdue from `due_ns` on; DUE_NEVER: nothing is noted. */
void overdue_note(struct segment *segment, uint32_t circuit, uint64_t due_ns);
void overdue_note_at(struct circuit_entry *entry, uint64_t due_ns);

/* Whether a call of the circuit may be overdue by now, for all that is noted. One load. */
bool overdue_is_possible(const struct circuit_entry *entry, uint64_t now_ns);

/* Charges what is overdue on a circuit. One load and a comparison when nothing can be. */
void overdue_charge(struct guard *guard, const struct target *target, unsigned int shard, uint32_t circuit,
                    uint64_t now_ns);

/* Charges one, a call of this process that was connected after its limit, and goes on. */
void overdue_charge_call(struct guard *guard, uint32_t call, const struct target *target, const struct call_view *view,
                         uint64_t now_ns);

/*
 * Gives back all records of dead owners, of whatever circuit, their calls neutral; for a full table. Does nothing, and
 * returns false, when this process did the same less than a second ago.
 */
bool overdue_sweep(struct guard *guard, const struct target *target, unsigned int shard, uint64_t now_ns);

#endif
