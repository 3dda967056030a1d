/*
 * process_slots.h - one slot of the table of attached processes: its words, and what they say together.
 *
 * Pid and epoch of a place change together, by one CAS: it frees the place or takes it. The other words of a place
 * say by their epoch whose they are, and are changed by CAS from what they were before the claim, so whoever is
 * overtaken in the middle spoils nothing. A process that is killed in the middle leaves a claim that is known by its
 * pid alone. Private to processes.c and process_join.c. Async-signal-safe; system calls as said.
 */
#ifndef SOCKFUSE_SEGMENT_PROCESS_SLOTS_H
#define SOCKFUSE_SEGMENT_PROCESS_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "segment/layout.h"
#include "segment/process_alive.h"

/* In a slot's `proof`, over the epoch: the lock was taken. */
#define SLOT_PROOF_TAKEN (UINT32_C(1) << 31)

#define HOLDER_EPOCH_BITS 20u
#define HOLDER_EPOCH_MASK ((UINT32_C(1) << HOLDER_EPOCH_BITS) - 1)
_Static_assert(HOLDER_EPOCH_BITS + PROCESS_LIFE_BITS == 64, "a word holds both");

static inline uint64_t slot_claim(uint32_t pid, uint32_t epoch)
{
    return (uint64_t)epoch << 32 | pid;
}

static inline uint32_t slot_claim_pid(uint64_t claim)
{
    return (uint32_t)claim;
}

static inline uint32_t slot_claim_epoch(uint64_t claim)
{
    return (uint32_t)(claim >> 32);
}

static inline uint32_t slot_holder(uint32_t index, uint64_t claim)
{
    return (index + 1) << HOLDER_EPOCH_BITS | (slot_claim_epoch(claim) & HOLDER_EPOCH_MASK);
}

static inline struct process_slot *slot_of(const struct segment *segment, uint32_t holder)
{
    uint32_t index = (holder >> HOLDER_EPOCH_BITS) - 1;
    return index < segment->capacity.processes ? &segment->processes[index] : NULL;
}

static inline uint64_t slot_load_claim(const struct process_slot *slot)
{
    /* Acquire: what was written before the claim was last changed is read behind it. */
    return atomic_load_explicit(&slot->claim, memory_order_acquire);
}

/* The claim of a holder's place if it is still the holder's; else 0. */
static inline uint64_t slot_claim_of(const struct process_slot *slot, uint32_t holder)
{
    uint64_t claim = slot_load_claim(slot);
    bool same =
        slot_claim_pid(claim) != 0 && (slot_claim_epoch(claim) & HOLDER_EPOCH_MASK) == (holder & HOLDER_EPOCH_MASK);
    return same ? claim : 0;
}

/* A word's value if it belongs to the claim; else 0, unknown. Relaxed: the epoch in it tells what it belongs to. */
static inline uint64_t slot_word(const _Atomic uint64_t *word, uint64_t claim)
{
    uint64_t tagged = atomic_load_explicit(word, memory_order_relaxed);
    return tagged >> PROCESS_LIFE_BITS == (slot_claim_epoch(claim) & HOLDER_EPOCH_MASK) ? tagged & PROCESS_LIFE_MASK
                                                                                        : 0;
}

static inline struct process_life slot_life(const struct process_slot *slot, uint64_t claim)
{
    return (struct process_life){.pid = slot_claim_pid(claim),
                                 .start = slot_word(&slot->start, claim),
                                 .space = slot_word(&slot->space, claim),
                                 .image = slot_word(&slot->image, claim)};
}

static inline uint32_t slots_high(const struct segment *segment)
{
    uint32_t high = atomic_load_explicit(&segment->map->processes_high, memory_order_acquire);
    return high < segment->capacity.processes ? high : segment->capacity.processes;
}

/*
 * Before the place is free, so that a kill in between leaves it counted, and behind that, for who has looked already.
 * Release: who looks for its records finds it gone.
 */
static inline void slots_count_death(struct segment *segment)
{
    atomic_fetch_add_explicit(&segment->map->deaths, 1, memory_order_release);
}

/* Whether the claim has shown its proof (proof.h). */
bool slot_is_proven(const struct process_slot *slot, uint64_t claim);

/* Whether the image that took the place goes on: the system calls of process_alive. */
bool slot_goes_on(const struct segment *segment, uint32_t index, uint64_t claim);

#endif
