/*
 * processes.c - the table of attached processes: who is in it, who lives, who leaves.
 *
 * How a place is taken is in process_join.c, what a place is in process_slots.h.
 */
#include "segment/processes.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/shared.h"
#include "segment/layout.h"
#include "segment/process_alive.h"
#include "segment/process_slots.h"
#include "segment/proof.h"

bool slot_is_proven(const struct process_slot *slot, uint64_t claim)
{
    /* Acquire: what is seen here was locked before. */
    uint32_t proof = atomic_load_explicit(&slot->proof, memory_order_acquire);
    return proof == (SLOT_PROOF_TAKEN | (slot_claim_epoch(claim) & HOLDER_EPOCH_MASK));
}

/* Whether the image that took the place goes on. A lock that stands may be a child's, see proof.c. */
bool slot_goes_on(const struct segment *segment, uint32_t index, uint64_t claim)
{
    const struct process_slot *slot = &segment->processes[index];
    if (slot_is_proven(slot, claim) && proof_ask(segment, slot_holder(index, claim)) == LOCK_GONE)
        return false;
    struct process_life owner = slot_life(slot, claim);
    return process_life_goes_on(&owner);
}

/* False: the place is not the holder's any more. */
static bool give_place(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? slot_claim_of(slot, holder) : 0;
    /* The epoch stays: the next owner counts on from it. Release: our last words come before the free claim. */
    return claim != 0 &&
           atomic_compare_exchange_strong_explicit(&slot->claim, &claim, slot_claim(0, slot_claim_epoch(claim)),
                                                   memory_order_release, memory_order_relaxed);
}

static bool leaves_records(const struct segment *segment, uint32_t holder)
{
    uint32_t high = atomic_load_explicit(&segment->map->calls_high, memory_order_relaxed), call = 0;
    while (call < high && call < segment->capacity.calls)
        if (atomic_load_explicit(&segment->call_owner[call++], memory_order_relaxed) == holder)
            return true;
    return false;
}

void process_died(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    if (slot == NULL || slot_claim_of(slot, holder) == 0)
        return;
    slots_count_death(segment);
    if (give_place(segment, holder))
        slots_count_death(segment);
}

/* For eyes alone, so a second does not matter: to write there would cost an end a page that it has only read. */
static void note_leaving(struct segment *segment)
{
    _Atomic uint64_t *left_ns = &segment->map->left_ns;
    uint64_t now_ns = clock_wall_seldom_ns();
    if (now_ns - atomic_load_explicit(left_ns, memory_order_relaxed) >= NS_PER_S) /* or the clock was set back */
        atomic_store_explicit(left_ns, now_ns, memory_order_relaxed);
}

void process_leave(struct segment *segment, uint32_t holder)
{
    bool leaves = leaves_records(segment, holder);
    if (leaves)
        slots_count_death(segment);
    bool gives = give_place(segment, holder);
    if (gives && (leaves || leaves_records(segment, holder))) /* what another thread has claimed meanwhile */
        slots_count_death(segment);
    if (gives)
        note_leaving(segment);
    /* The page would keep the file, and its memory, also when that is deleted. */
    proof_drop(segment, holder);
}

void process_runs(struct segment *segment, uint32_t holder, uint64_t revision, bool keeps_policy)
{
    struct process_slot *slot = slot_of(segment, holder);
    /* Of a place that is lost in this very moment the next owner's words are written over once: for eyes alone. */
    if (slot == NULL || slot_claim_of(slot, holder) == 0)
        return;
    atomic_store_explicit(&slot->revision, revision, memory_order_relaxed);
    atomic_store_explicit(&slot->keeps_policy, keeps_policy, memory_order_relaxed);
}

bool process_runs_revision(const struct segment *segment, uint64_t revision)
{
    uint32_t high = slots_high(segment);
    for (uint32_t index = 0; index < high; index++) {
        const struct process_slot *slot = &segment->processes[index];
        if (slot_claim_pid(slot_load_claim(slot)) != 0 &&
            atomic_load_explicit(&slot->revision, memory_order_relaxed) == revision)
            return true;
    }
    return false;
}

uint64_t process_last_seen(const struct segment *segment)
{
    uint64_t seen_ns = atomic_load_explicit(&segment->map->left_ns, memory_order_relaxed);
    uint32_t high = slots_high(segment);
    for (uint32_t index = 0; index < high; index++) {
        uint64_t attached_ns = atomic_load_explicit(&segment->processes[index].attached_ns, memory_order_relaxed);
        if (attached_ns > seen_ns)
            seen_ns = attached_ns;
    }
    return seen_ns;
}

void process_answers(struct segment *segment, uint32_t holder, uint32_t number, uint32_t answer)
{
    struct process_slot *slot = slot_of(segment, holder);
    if (slot != NULL && slot_claim_of(slot, holder) != 0) /* as in process_runs */
        atomic_store_explicit(&slot->reload, (uint64_t)number << 32 | answer, memory_order_relaxed);
}

OWN_FRAME bool process_alive(const struct segment *segment, uint32_t holder)
{
    const struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? slot_claim_of(slot, holder) : 0;
    return claim != 0 && slot_goes_on(segment, (holder >> HOLDER_EPOCH_BITS) - 1, claim);
}

_Atomic uint64_t *process_asked(const struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    return slot != NULL && slot_claim_of(slot, holder) != 0 ? &slot->asked_ns : NULL;
}

uint32_t process_holder(const struct segment *segment, uint32_t index)
{
    uint64_t claim = slot_load_claim(&segment->processes[index]);
    return slot_claim_pid(claim) != 0 ? slot_holder(index, claim) : 0;
}

bool process_guards_itself(const struct segment *segment, uint32_t pid)
{
    const uint32_t high = slots_high(segment);
    for (uint32_t index = 0; index < high; index++) {
        const struct process_slot *slot = &segment->processes[index];
        const uint64_t claim = slot_load_claim(slot);
        if (slot_claim_pid(claim) == pid && slot_life(slot, claim).image != 0)
            return true;
    }
    return false;
}

bool process_describe(const struct segment *segment, uint32_t holder, struct process_view *view)
{
    const struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? slot_claim_of(slot, holder) : 0;
    if (claim == 0)
        return false;
    view->pid = slot_claim_pid(claim);
    view->holder = holder;
    view->attached_ns = atomic_load_explicit(&slot->attached_ns, memory_order_acquire);
    view->revision = atomic_load_explicit(&slot->revision, memory_order_acquire);
    view->keeps_policy = atomic_load_explicit(&slot->keeps_policy, memory_order_acquire) != 0;
    view->is_near = process_life_can_ask(slot_word(&slot->space, claim));
    uint64_t reload = atomic_load_explicit(&slot->reload, memory_order_acquire);
    view->reload = (uint32_t)(reload >> 32);
    view->reload_answer = (uint32_t)reload;
    shared_load(view->program, slot->program, sizeof view->program);
    view->program[sizeof view->program - 1] = '\0';
    /* All of it was acquired: if the claim stands there even now, it belongs together. */
    return atomic_load_explicit(&slot->claim, memory_order_relaxed) == claim;
}

bool process_next(const struct segment *segment, uint32_t *cursor, struct process_view *view)
{
    uint32_t high = slots_high(segment);
    while (*cursor < high) {
        uint32_t index = (*cursor)++, holder = slot_holder(index, slot_load_claim(&segment->processes[index]));
        if (process_alive(segment, holder) && process_describe(segment, holder, view))
            return true;
    }
    return false;
}

bool process_any(const struct segment *segment, uint32_t most)
{
    uint32_t high = slots_high(segment), asked = 0;
    for (uint32_t index = 0; index < high; index++) {
        uint64_t claim = slot_load_claim(&segment->processes[index]);
        if (slot_claim_pid(claim) == 0)
            continue;
        if (asked++ == most || process_alive(segment, slot_holder(index, claim)))
            return true;
    }
    return false;
}
