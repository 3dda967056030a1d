/*
 * process_join.c - how a process takes a place in the table of attached processes.
 *
 * First a place that costs no question: the one that it left by exec, or a free one. Then one of a dead process, for
 * which others are asked, a few of them each time. See process_slots.h for what a place is.
 */
#define _GNU_SOURCE
#include "segment/processes.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/shared.h"
#include "segment/layout.h"
#include "segment/process_slots.h"
#include "segment/proof.h"

/* Up to here a new process takes an unused place rather than ask whether somebody in a used one is dead. */
#define PLACES_BEFORE_ASKING 64u
/* How many processes a new one asks for at most: each costs some microseconds. The next one goes on behind them. */
#define ASKED_AT_ONCE 8u
/* Each time that others are faster, one of them got a place. */
#define JOIN_ROUNDS 8u

struct newcomer {
    struct process_life life;
    bool is_brief; /* its start is not known yet */
    const char *program;
    uint64_t revision;
    uint32_t questions; /* how many it may still ask */
};

static void tagged_replace(_Atomic uint64_t *word, uint64_t former, uint64_t value, uint32_t epoch)
{
    uint64_t tagged = (uint64_t)(epoch & HOLDER_EPOCH_MASK) << PROCESS_LIFE_BITS | (value & PROCESS_LIFE_MASK);
    atomic_compare_exchange_strong_explicit(word, &former, tagged, memory_order_relaxed, memory_order_relaxed);
}

static void raise_high(struct segment *segment, uint32_t index)
{
    _Atomic uint32_t *mark = &segment->map->processes_high;
    uint32_t high = atomic_load_explicit(mark, memory_order_relaxed);
    /* Release: whoever sees the place below the mark sees its claim. A failed exchange loads the present mark. */
    for (uint32_t rises = 0; high <= index && rises <= segment->capacity.processes; rises++)
        if (atomic_compare_exchange_strong_explicit(mark, &high, index + 1, memory_order_release, memory_order_relaxed))
            return;
}

/* Takes the place if `claim` still stands there. Returns the identity; 0: another process was faster. */
static uint32_t take_place(struct segment *segment, uint32_t index, uint64_t claim, const struct newcomer *newcomer)
{
    struct process_slot *slot = &segment->processes[index];
    uint64_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
    uint64_t image = atomic_load_explicit(&slot->image, memory_order_relaxed);
    uint32_t epoch = slot_claim_epoch(claim) + 1;
    uint64_t mine = slot_claim(newcomer->life.pid, epoch);
    /* It is of a dead one, or of this process before an exec: what it left is to be found. */
    bool dies = slot_claim_pid(claim) != 0;
    if (dies)
        slots_count_death(segment);
    /* Acquire: the three loads before are not of a later owner's words. Release: ours come behind the claim. */
    if (!atomic_compare_exchange_strong_explicit(&slot->claim, &claim, mine, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return 0;
    if (dies)
        slots_count_death(segment);
    tagged_replace(&slot->start, start, newcomer->life.start, epoch);
    tagged_replace(&slot->space, space, newcomer->life.space, epoch);
    tagged_replace(&slot->image, image, newcomer->life.image, epoch);
    atomic_store_explicit(&slot->attached_ns, clock_wall_ns(), memory_order_relaxed);
    atomic_store_explicit(&slot->revision, newcomer->revision, memory_order_relaxed);
    atomic_store_explicit(&slot->keeps_policy, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->reload, 0, memory_order_relaxed);
    char program[PROGRAM_NAME_MAX] = {0};
    memcpy(program, newcomer->program, strnlen(newcomer->program, sizeof program - 1));
    shared_store(slot->program, program, sizeof program);
    raise_high(segment, index);
    return slot_holder(index, mine);
}

/* Whether this process's former image, before an exec, left the place. A place that this image took stays. */
static bool is_left_by_exec(const struct process_life *owner, const struct process_life *self)
{
    return owner->pid == self->pid && owner->start == self->start && self->start != 0 && owner->space == self->space &&
           owner->image != self->image && owner->image != 0;
}

/*
 * Whether the place, which has this process's number, is free to be taken by it: its former image's, or that of one
 * whose lock is gone, as is that of an image which left by exec before it said when it had started.
 */
static bool is_own(const struct segment *segment, uint32_t index, uint64_t claim, struct newcomer *newcomer)
{
    const struct process_slot *slot = &segment->processes[index];
    struct process_life owner = slot_life(slot, claim);
    if (owner.image == newcomer->life.image)
        return false;
    if (owner.start == 0)
        return slot_is_proven(slot, claim) && proof_ask(segment, slot_holder(index, claim)) == LOCK_GONE;
    if (newcomer->is_brief)
        process_life_know_self(&newcomer->life);
    newcomer->is_brief = false;
    return is_left_by_exec(&owner, &newcomer->life);
}

/* Looks through the used places: the one that an exec left is better than any free one. */
static uint32_t take_own_or_free(struct segment *segment, struct newcomer *newcomer)
{
    uint32_t high = slots_high(segment), free_index = segment->capacity.processes;
    for (uint32_t index = 0; index < high; index++) {
        uint64_t claim = slot_load_claim(&segment->processes[index]);
        if (slot_claim_pid(claim) == 0 && free_index == segment->capacity.processes)
            free_index = index;
        if (slot_claim_pid(claim) != newcomer->life.pid || !is_own(segment, index, claim, newcomer))
            continue;
        uint32_t holder = take_place(segment, index, claim, newcomer);
        if (holder != 0)
            return holder;
    }
    for (uint32_t index = free_index; index < high; index++) {
        uint64_t claim = slot_load_claim(&segment->processes[index]);
        uint32_t holder = slot_claim_pid(claim) == 0 ? take_place(segment, index, claim, newcomer) : 0;
        if (holder != 0)
            return holder;
    }
    return 0;
}

/* Asks for some of the processes in the first `high` places, and takes the place of the first dead one. */
static uint32_t take_from_dead(struct segment *segment, uint32_t high, struct newcomer *newcomer)
{
    for (uint32_t step = 0; step < high && newcomer->questions > 0; step++) {
        /* Many that start at once, or one that comes again and again, ask for all of them in the end. */
        uint32_t index = atomic_fetch_add_explicit(&segment->map->join_cursor, 1, memory_order_relaxed) % high;
        uint64_t claim = slot_load_claim(&segment->processes[index]);
        if (slot_claim_pid(claim) != 0) {
            newcomer->questions--;
            if (slot_goes_on(segment, index, claim))
                continue;
        }
        uint32_t holder = take_place(segment, index, claim, newcomer);
        if (holder != 0)
            return holder;
    }
    return 0;
}

static uint32_t take_unused(struct segment *segment, const struct newcomer *newcomer)
{
    for (uint32_t index = slots_high(segment); index < segment->capacity.processes; index++) {
        uint64_t claim = slot_load_claim(&segment->processes[index]);
        uint32_t holder = slot_claim_pid(claim) == 0 ? take_place(segment, index, claim, newcomer) : 0;
        if (holder != 0)
            return holder;
        /* Another process is about to raise the mark over its place, or was killed before it could. */
        raise_high(segment, index);
    }
    return 0;
}

/*
 * The table is full of living ones, and perhaps of some in other name spaces that have no proof: nobody here can ask
 * for these, and their whole container may be gone. The one that attached the longest time ago goes. If it lives after
 * all, its calls and leases are given up.
 */
static uint32_t take_from_foreign(struct segment *segment, const struct newcomer *newcomer)
{
    uint32_t oldest = segment->capacity.processes;
    uint64_t oldest_claim = 0, oldest_ns = UINT64_MAX;
    for (uint32_t index = 0; index < segment->capacity.processes; index++) {
        struct process_slot *slot = &segment->processes[index];
        uint64_t claim = slot_load_claim(slot);
        uint64_t attached_ns = atomic_load_explicit(&slot->attached_ns, memory_order_relaxed);
        if (process_life_can_ask(slot_word(&slot->space, claim)) || slot_is_proven(slot, claim) ||
            (oldest_claim != 0 && attached_ns >= oldest_ns))
            continue;
        oldest = index;
        oldest_claim = claim;
        oldest_ns = attached_ns;
    }
    return oldest < segment->capacity.processes ? take_place(segment, oldest, oldest_claim, newcomer) : 0;
}

/* Marks the place as one that proves itself. */
static bool prove(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    void *page = slot != NULL ? proof_take(segment, holder) : NULL;
    if (page == NULL)
        return false;
    proof_keep(segment, page, holder);
    /* Release: who sees it finds the lock. Should the place be lost by now, its next owner has another epoch. */
    atomic_store_explicit(&slot->proof, SLOT_PROOF_TAKEN | (holder & HOLDER_EPOCH_MASK), memory_order_release);
    return true;
}

static uint32_t find_place(struct segment *segment, struct newcomer *newcomer)
{
    uint32_t holder = take_own_or_free(segment, newcomer), high = slots_high(segment);
    if (holder == 0 && high >= PLACES_BEFORE_ASKING)
        holder = take_from_dead(segment, high, newcomer);
    if (holder == 0)
        holder = take_unused(segment, newcomer);
    if (holder == 0)
        holder = take_from_dead(segment, segment->capacity.processes, newcomer);
    return holder != 0 ? holder : take_from_foreign(segment, newcomer);
}

static uint32_t join(struct segment *segment, struct newcomer *newcomer)
{
    uint32_t holder = 0;
    newcomer->questions = ASKED_AT_ONCE;
    /* With no question left the table is full, as far as one process looks. */
    for (unsigned int round = 0; holder == 0 && round < JOIN_ROUNDS && newcomer->questions > 0; round++)
        holder = find_place(segment, newcomer);
    return holder;
}

OWN_FRAME uint32_t process_join(struct segment *segment, const char *program, uint64_t revision)
{
    struct newcomer newcomer = {.program = program, .revision = revision};
    process_life_know_self(&newcomer.life);
    uint32_t holder = join(segment, &newcomer);
    if (holder != 0)
        prove(segment, holder);
    return holder;
}

OWN_FRAME uint32_t process_join_for(struct segment *segment, uint32_t pid, const char *program, uint64_t revision)
{
    struct newcomer newcomer = {.program = program, .revision = revision};
    process_life_know_other(&newcomer.life, pid);
    return join(segment, &newcomer);
}

OWN_FRAME uint32_t process_join_briefly(struct segment *segment, const char *program, uint64_t revision, bool *is_known)
{
    struct newcomer newcomer = {.program = program, .revision = revision, .is_brief = true};
    process_life_know_briefly(&newcomer.life, segment->map->proc_spaces);
    uint32_t holder = join(segment, &newcomer);
    bool is_proven = holder != 0 && prove(segment, holder);
    *is_known =
        !newcomer.is_brief || (!is_proven && !segment_is_private(segment) && process_introduce(segment, holder));
    return holder;
}

OWN_FRAME bool process_introduce(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    if (slot == NULL)
        return false;
    /* Before the claim, which acquires: what a later owner has put there since is not taken for ours. */
    const uint64_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
    const uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
    const uint64_t claim = slot_claim_of(slot, holder);
    /* A vfork's child is not the one that the place is about. */
    if (claim == 0 || slot_claim_pid(claim) != (uint32_t)getpid())
        return false;
    struct process_life self;
    process_life_know_self(&self);
    /* What can't be had any more, in another root or behind a filter, is not unsaid. */
    if (self.start != 0)
        tagged_replace(&slot->start, start, self.start, holder);
    if (self.space != 0)
        tagged_replace(&slot->space, space, self.space, holder);
    return true;
}
