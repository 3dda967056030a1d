/*
 * call_record.h - one record of the table of calls: its state word taken apart, and the steps by which it changes.
 *
 * Private to src/segment and src/guard. Any bit pattern can be taken apart (the memory is shared and may be
 * corrupt).
 */
#ifndef SOCKFUSE_SEGMENT_CALL_RECORD_H
#define SOCKFUSE_SEGMENT_CALL_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "segment/layout.h"
#include "segment/segment_model.h"

/* The state word: number:32 of the call in the low half, then settled:8, phase:8. */
#define SETTLED_SHIFT 32
#define PHASE_SHIFT 40
#define FIELD_MASK 0xffu

static inline uint64_t state_pack(uint32_t number, enum phase phase, enum call_settled settled)
{
    return (uint64_t)phase << PHASE_SHIFT | (uint64_t)settled << SETTLED_SHIFT | number;
}

static inline uint32_t state_number(uint64_t state)
{
    return (uint32_t)state;
}

static inline enum phase state_phase(uint64_t state)
{
    uint32_t phase = (uint32_t)(state >> PHASE_SHIFT) & FIELD_MASK;

    return phase < PHASE_ANSWERED ? (enum phase)phase : PHASE_ANSWERED;
}

static inline enum call_settled state_settled(uint64_t state)
{
    uint32_t settled = (uint32_t)(state >> SETTLED_SHIFT) & FIELD_MASK;

    return settled <= CALL_CLAIMED ? (enum call_settled)settled : CALL_SETTLED;
}

/* The number of the call after this one; never 0. */
static inline uint32_t state_next_number(uint64_t state)
{
    uint32_t number = state_number(state) + 1;

    return number != 0 ? number : 1;
}

/* Whether somebody is about to begin a call on the record, under the number that stands there. */
static inline bool state_is_taken(uint64_t state)
{
    return state_settled(state) == CALL_RESERVED || state_settled(state) == CALL_CLAIMED;
}

/* Number 0: the record was never used. */
static inline bool state_in_flight(uint64_t state)
{
    return state_settled(state) == CALL_UNSETTLED && state_number(state) != 0;
}

static inline struct call *record_at(const struct segment *segment, uint32_t call)
{
    if (segment->map == NULL || call >= segment->capacity.calls)
        return NULL;
    return &segment->calls[call];
}

static inline int record_address(const struct call *record)
{
    uint32_t address = atomic_load_explicit(&record->address, memory_order_relaxed);

    return address >= 1 && address <= CIRCUIT_ADDRESSES ? (int)address - 1 : ADDRESS_NONE;
}

static inline void record_set_times(struct call *record, uint64_t started_ns, uint64_t due_ns)
{
    /* Relaxed: published by the state that follows; who reads the old one with the new times finds it less overdue. */
    atomic_store_explicit(&record->started_ns, started_ns, memory_order_relaxed);
    atomic_store_explicit(&record->due_ns, due_ns, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&record->grace_s, memory_order_relaxed) != 0, 0))
        atomic_store_explicit(&record->grace_s, 0, memory_order_relaxed);
}

/* Of many who replace the state that they have seen, one wins. */
static inline bool record_replace(struct call *record, uint64_t expected, uint64_t desired)
{
    /*
     * Release: the times come with the phase, and the settling is seen before the record's return. seq_cst:
     * calls_begin.
     */
    return atomic_compare_exchange_strong_explicit(&record->state, &expected, desired, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

#endif
