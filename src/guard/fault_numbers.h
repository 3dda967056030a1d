/*
 * fault_numbers.h - what injected faults leave in the segment: the numbers they are drawn by, and their marks.
 *
 * A rehearsal repeats: the n-th call on a circuit in one run gets the same fault as the n-th in the next. So
 * calls are numbered in the circuit's entry, for all processes of one `sockfuse run`. An outcome that was injected
 * bears a mark, so that nobody takes a rehearsal for an incident. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_GUARD_FAULT_NUMBERS_H
#define SOCKFUSE_GUARD_FAULT_NUMBERS_H

#include <stdint.h>

#include "segment/segment.h"

/*
 * The number of this call among those on the circuit in the run, from 0 on; each caller gets another. `run` is a
 * hash of the run's name, not 0. A few runs at a time are told apart; of more, the one that is pushed out begins anew.
 */
uint32_t rehearsal_number(struct segment *segment, uint32_t circuit, uint32_t run);

/* Marks a call that the caller has just begun: whatever comes of it is injected. Counts it. */
void rehearsal_mark(struct segment *segment, uint32_t circuit, uint32_t call, unsigned int shard);
/* The next call on the same record, which was just begun, is given no fault. */
void rehearsal_unmark(struct segment *segment, uint32_t call);

#endif
