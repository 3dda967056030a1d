/*
 * fault_numbers.c - numbers and marks of injected faults. See fault_numbers.h.
 */
#include "guard/fault_numbers.h"

#include <stdatomic.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/layout.h"

#define NUMBER_BITS 32
/* A CAS loses only to another call's. More of them in a row than this are corrupt memory that never rests. */
#define TRIES_MAX 4096u

/* A word of the entry: run:32 | number of the next call:32. */
static uint64_t word_after(uint64_t word, uint32_t run)
{
    uint32_t number = word >> NUMBER_BITS == run ? (uint32_t)word : 0;

    return (uint64_t)run << NUMBER_BITS | (uint32_t)(number + 1);
}

/* Where the run's number is, or is to be: its own place, else a free one, else one that only the run's name picks. */
static _Atomic uint64_t *place_of(struct circuit_entry *entry, uint32_t run)
{
    _Atomic uint64_t *place = &entry->rehearsals[run % REHEARSALS];

    for (uint32_t i = 0; i < REHEARSALS; i++) {
        _Atomic uint64_t *at = &entry->rehearsals[(run + i) % REHEARSALS];
        uint64_t word = atomic_load_explicit(at, memory_order_relaxed);

        if (word >> NUMBER_BITS == run || word == 0)
            return at;
    }
    return place;
}

uint32_t rehearsal_number(struct segment *segment, uint32_t circuit, uint32_t run)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);

    if (entry == NULL)
        return 0;
    /*
     * Relaxed: the number orders nothing else. A free place that another run takes at the same moment is not ours then.
     */
    for (unsigned int tries = 0; tries < TRIES_MAX; tries++) {
        _Atomic uint64_t *place = place_of(entry, run);
        uint64_t word = atomic_load_explicit(place, memory_order_relaxed);

        if (atomic_compare_exchange_weak_explicit(place, &word, word_after(word, run), memory_order_relaxed,
                                                  memory_order_relaxed))
            return word >> NUMBER_BITS == run ? (uint32_t)word : 0;
    }
    return 0;
}

void rehearsal_mark(struct segment *segment, uint32_t circuit, uint32_t call, unsigned int shard)
{
    struct circuit *at = circuits_at(segment, circuit);

    calls_mark_injected(segment, call, true);
    if (at != NULL)
        counters_add(&at->counters, shard, COUNT_INJECTED);
}

void rehearsal_unmark(struct segment *segment, uint32_t call)
{
    calls_mark_injected(segment, call, false);
}
