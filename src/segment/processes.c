/*
 * processes.c - the table of attached processes.
 *
 * Pid and epoch of a place change together, by one CAS: it frees the place or takes it. The other words of a place
 * say by their epoch whose they are, and are changed by CAS from what they were before the claim, so whoever is
 * overtaken in the middle spoils nothing. A process that is killed in the middle leaves a claim that is known by its
 * pid alone.
 */
#define _GNU_SOURCE
#include "segment/processes.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/shared.h"
#include "segment/layout.h"
#include "segment/process_alive.h"
#include "segment/proof.h"

/* Up to here a new process takes an unused place rather than ask whether somebody in a used one is dead. */
#define PLACES_BEFORE_ASKING 64u
/* How many processes a new one asks for at most: each costs some microseconds. The next one goes on behind them. */
#define ASKED_AT_ONCE 8u
/* Each time that others are faster, one of them got a place. */
#define JOIN_ROUNDS 8u
/* In a slot's `proof`, over the epoch: the lock was taken. */
#define PROOF_TAKEN (UINT32_C(1) << 31)

#define EPOCH_BITS 20u
#define EPOCH_MASK ((UINT32_C(1) << EPOCH_BITS) - 1)
_Static_assert(EPOCH_BITS + PROCESS_LIFE_BITS == 64, "a word holds both");

static uint64_t make_claim(uint32_t pid, uint32_t epoch)
{
    return (uint64_t)epoch << 32 | pid;
}

static uint32_t claim_pid(uint64_t claim)
{
    return (uint32_t)claim;
}

static uint32_t claim_epoch(uint64_t claim)
{
    return (uint32_t)(claim >> 32);
}

static uint32_t holder_of(uint32_t index, uint64_t claim)
{
    return (index + 1) << EPOCH_BITS | (claim_epoch(claim) & EPOCH_MASK);
}

static struct process_slot *slot_of(const struct segment *segment, uint32_t holder)
{
    uint32_t index = (holder >> EPOCH_BITS) - 1;
    return index < segment->capacity.processes ? &segment->processes[index] : NULL;
}

static uint64_t load_claim(const struct process_slot *slot)
{
    /* Acquire: what was written before the claim was last changed is read behind it. */
    return atomic_load_explicit(&slot->claim, memory_order_acquire);
}

/* The claim of a holder's place if it is still the holder's; else 0. */
static uint64_t claim_of(const struct process_slot *slot, uint32_t holder)
{
    uint64_t claim = load_claim(slot);
    bool same = claim_pid(claim) != 0 && (claim_epoch(claim) & EPOCH_MASK) == (holder & EPOCH_MASK);
    return same ? claim : 0;
}

/* A word's value if it belongs to the claim; else 0, unknown. Relaxed: the epoch in it tells what it belongs to. */
static uint64_t tagged_load(const _Atomic uint64_t *word, uint64_t claim)
{
    uint64_t tagged = atomic_load_explicit(word, memory_order_relaxed);
    return tagged >> PROCESS_LIFE_BITS == (claim_epoch(claim) & EPOCH_MASK) ? tagged & PROCESS_LIFE_MASK : 0;
}

static void tagged_replace(_Atomic uint64_t *word, uint64_t former, uint64_t value, uint32_t epoch)
{
    uint64_t tagged = (uint64_t)(epoch & EPOCH_MASK) << PROCESS_LIFE_BITS | (value & PROCESS_LIFE_MASK);
    atomic_compare_exchange_strong_explicit(word, &former, tagged, memory_order_relaxed, memory_order_relaxed);
}

static struct process_life judgement_of(const struct process_slot *slot, uint64_t claim)
{
    return (struct process_life){.pid = claim_pid(claim),
                                 .start = tagged_load(&slot->start, claim),
                                 .space = tagged_load(&slot->space, claim),
                                 .image = tagged_load(&slot->image, claim)};
}

static uint32_t processes_high(const struct segment *segment)
{
    uint32_t high = atomic_load_explicit(&segment->map->processes_high, memory_order_acquire);
    return high < segment->capacity.processes ? high : segment->capacity.processes;
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

struct newcomer {
    struct process_life life;
    const char *program;
    uint64_t revision;
    uint32_t questions; /* how many it may still ask */
};

/*
 * Before the place is free, so that a kill in between leaves it counted, and behind that, for who has looked already.
 * Release: who looks for its records finds it gone.
 */
static void count_death(struct segment *segment)
{
    atomic_fetch_add_explicit(&segment->map->deaths, 1, memory_order_release);
}

/* Takes the place if `claim` still stands there. Returns the identity; 0: another process was faster. */
static uint32_t take_place(struct segment *segment, uint32_t index, uint64_t claim, const struct newcomer *newcomer)
{
    struct process_slot *slot = &segment->processes[index];
    uint64_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
    uint64_t image = atomic_load_explicit(&slot->image, memory_order_relaxed);
    uint32_t epoch = claim_epoch(claim) + 1;
    uint64_t mine = make_claim(newcomer->life.pid, epoch);
    bool dies = claim_pid(claim) != 0; /* of a dead one, or this process before an exec: what it left is to be found */
    if (dies)
        count_death(segment);
    /* Acquire: the three loads before are not of a later owner's words. Release: ours come behind the claim. */
    if (!atomic_compare_exchange_strong_explicit(&slot->claim, &claim, mine, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return 0;
    if (dies)
        count_death(segment);
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
    return holder_of(index, mine);
}

/* Whether this process's former image, before an exec, left the place. A place that this image took stays. */
static bool is_left_by_exec(const struct process_life *owner, const struct process_life *self)
{
    return owner->pid == self->pid && owner->start == self->start && self->start != 0 && owner->space == self->space &&
           owner->image != self->image && owner->image != 0;
}

/* Looks through the used places, without a system call: the one that an exec left is better than any free one. */
static uint32_t take_own_or_free(struct segment *segment, const struct newcomer *newcomer)
{
    uint32_t high = processes_high(segment), free_index = segment->capacity.processes;
    for (uint32_t index = 0; index < high; index++) {
        struct process_slot *slot = &segment->processes[index];
        uint64_t claim = load_claim(slot);
        if (claim_pid(claim) == 0 && free_index == segment->capacity.processes)
            free_index = index;
        if (claim_pid(claim) != newcomer->life.pid)
            continue;
        struct process_life owner = judgement_of(slot, claim);
        uint32_t holder = is_left_by_exec(&owner, &newcomer->life) ? take_place(segment, index, claim, newcomer) : 0;
        if (holder != 0)
            return holder;
    }
    for (uint32_t index = free_index; index < high; index++) {
        uint64_t claim = load_claim(&segment->processes[index]);
        uint32_t holder = claim_pid(claim) == 0 ? take_place(segment, index, claim, newcomer) : 0;
        if (holder != 0)
            return holder;
    }
    return 0;
}

static bool is_proven(const struct process_slot *slot, uint64_t claim)
{
    /* Acquire: what is seen here was locked before. */
    uint32_t proof = atomic_load_explicit(&slot->proof, memory_order_acquire);
    return proof == (PROOF_TAKEN | (claim_epoch(claim) & EPOCH_MASK));
}

/* Whether the image that took the place goes on. A lock that stands may be a child's, see proof.c. */
static bool claimer_goes_on(const struct segment *segment, uint32_t index, uint64_t claim)
{
    const struct process_slot *slot = &segment->processes[index];
    if (is_proven(slot, claim) && proof_ask(segment, holder_of(index, claim)) == LOCK_GONE)
        return false;
    struct process_life owner = judgement_of(slot, claim);
    return process_life_goes_on(&owner);
}

/* Asks for some of the processes in the first `high` places, and takes the place of the first dead one. */
static uint32_t take_from_dead(struct segment *segment, uint32_t high, struct newcomer *newcomer)
{
    for (uint32_t step = 0; step < high && newcomer->questions > 0; step++) {
        /* Many that start at once, or one that comes again and again, ask for all of them in the end. */
        uint32_t index = atomic_fetch_add_explicit(&segment->map->join_cursor, 1, memory_order_relaxed) % high;
        uint64_t claim = load_claim(&segment->processes[index]);
        if (claim_pid(claim) != 0) {
            newcomer->questions--;
            if (claimer_goes_on(segment, index, claim))
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
    for (uint32_t index = processes_high(segment); index < segment->capacity.processes; index++) {
        uint64_t claim = load_claim(&segment->processes[index]);
        uint32_t holder = claim_pid(claim) == 0 ? take_place(segment, index, claim, newcomer) : 0;
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
        uint64_t claim = load_claim(slot);
        uint64_t attached_ns = atomic_load_explicit(&slot->attached_ns, memory_order_relaxed);
        if (process_life_can_ask(tagged_load(&slot->space, claim)) || is_proven(slot, claim) ||
            (oldest_claim != 0 && attached_ns >= oldest_ns))
            continue;
        oldest = index;
        oldest_claim = claim;
        oldest_ns = attached_ns;
    }
    return oldest < segment->capacity.processes ? take_place(segment, oldest, oldest_claim, newcomer) : 0;
}

/* Marks the place as one that proves itself. */
static void prove(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    void *page = slot != NULL ? proof_take(segment, holder) : NULL;
    if (page == NULL)
        return;
    proof_keep(segment, page, holder);
    /* Release: who sees it finds the lock. Should the place be lost by now, its next owner has another epoch. */
    atomic_store_explicit(&slot->proof, PROOF_TAKEN | (holder & EPOCH_MASK), memory_order_release);
}

static uint32_t find_place(struct segment *segment, struct newcomer *newcomer)
{
    uint32_t holder = take_own_or_free(segment, newcomer), high = processes_high(segment);
    if (holder == 0 && high >= PLACES_BEFORE_ASKING)
        holder = take_from_dead(segment, high, newcomer);
    if (holder == 0)
        holder = take_unused(segment, newcomer);
    if (holder == 0)
        holder = take_from_dead(segment, segment->capacity.processes, newcomer);
    return holder != 0 ? holder : take_from_foreign(segment, newcomer);
}

OWN_FRAME uint32_t process_join(struct segment *segment, const char *program, uint64_t revision)
{
    struct newcomer newcomer = {.program = program, .revision = revision, .questions = ASKED_AT_ONCE};
    uint32_t holder = 0;
    process_life_know_self(&newcomer.life);
    /* With no question left the table is full, as far as one process looks. */
    for (unsigned int round = 0; holder == 0 && round < JOIN_ROUNDS && newcomer.questions > 0; round++)
        holder = find_place(segment, &newcomer);
    if (holder != 0)
        prove(segment, holder);
    return holder;
}

/* False: the place is not the holder's any more. */
static bool give_place(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? claim_of(slot, holder) : 0;
    /* The epoch stays: the next owner counts on from it. Release: our last words come before the free claim. */
    return claim != 0 &&
           atomic_compare_exchange_strong_explicit(&slot->claim, &claim, make_claim(0, claim_epoch(claim)),
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
    if (slot == NULL || claim_of(slot, holder) == 0)
        return;
    count_death(segment);
    if (give_place(segment, holder))
        count_death(segment);
}

void process_leave(struct segment *segment, uint32_t holder)
{
    bool leaves = leaves_records(segment, holder);
    if (leaves)
        count_death(segment);
    bool gives = give_place(segment, holder);
    if (gives && (leaves || leaves_records(segment, holder))) /* what another thread has claimed meanwhile */
        count_death(segment);
    if (gives)
        atomic_store_explicit(&segment->map->left_ns, clock_wall_ns(), memory_order_relaxed); /* for eyes alone */
    /* The page would keep the file, and its memory, also when that is deleted. */
    proof_drop(segment, holder);
}

void process_runs(struct segment *segment, uint32_t holder, uint64_t revision, bool keeps_policy)
{
    struct process_slot *slot = slot_of(segment, holder);
    /* Of a place that is lost in this very moment the next owner's words are written over once: for eyes alone. */
    if (slot == NULL || claim_of(slot, holder) == 0)
        return;
    atomic_store_explicit(&slot->revision, revision, memory_order_relaxed);
    atomic_store_explicit(&slot->keeps_policy, keeps_policy, memory_order_relaxed);
}

bool process_runs_revision(const struct segment *segment, uint64_t revision)
{
    uint32_t high = processes_high(segment);
    for (uint32_t index = 0; index < high; index++) {
        const struct process_slot *slot = &segment->processes[index];
        if (claim_pid(load_claim(slot)) != 0 && atomic_load_explicit(&slot->revision, memory_order_relaxed) == revision)
            return true;
    }
    return false;
}

uint64_t process_last_seen(const struct segment *segment)
{
    uint64_t seen_ns = atomic_load_explicit(&segment->map->left_ns, memory_order_relaxed);
    uint32_t high = processes_high(segment);
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
    if (slot != NULL && claim_of(slot, holder) != 0) /* as in process_runs */
        atomic_store_explicit(&slot->reload, (uint64_t)number << 32 | answer, memory_order_relaxed);
}

OWN_FRAME bool process_alive(const struct segment *segment, uint32_t holder)
{
    const struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? claim_of(slot, holder) : 0;
    return claim != 0 && claimer_goes_on(segment, (holder >> EPOCH_BITS) - 1, claim);
}

_Atomic uint64_t *process_asked(const struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    return slot != NULL && claim_of(slot, holder) != 0 ? &slot->asked_ns : NULL;
}

uint32_t process_holder(const struct segment *segment, uint32_t index)
{
    uint64_t claim = load_claim(&segment->processes[index]);
    return claim_pid(claim) != 0 ? holder_of(index, claim) : 0;
}

bool process_describe(const struct segment *segment, uint32_t holder, struct process_view *view)
{
    const struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? claim_of(slot, holder) : 0;
    if (claim == 0)
        return false;
    view->pid = claim_pid(claim);
    view->holder = holder;
    view->attached_ns = atomic_load_explicit(&slot->attached_ns, memory_order_acquire);
    view->revision = atomic_load_explicit(&slot->revision, memory_order_acquire);
    view->keeps_policy = atomic_load_explicit(&slot->keeps_policy, memory_order_acquire) != 0;
    view->is_near = process_life_can_ask(tagged_load(&slot->space, claim));
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
    uint32_t high = processes_high(segment);
    while (*cursor < high) {
        uint32_t index = (*cursor)++, holder = holder_of(index, load_claim(&segment->processes[index]));
        if (process_alive(segment, holder) && process_describe(segment, holder, view))
            return true;
    }
    return false;
}

bool process_any(const struct segment *segment, uint32_t most)
{
    uint32_t high = processes_high(segment), asked = 0;
    for (uint32_t index = 0; index < high; index++) {
        uint64_t claim = load_claim(&segment->processes[index]);
        if (claim_pid(claim) == 0)
            continue;
        if (asked++ == most || process_alive(segment, holder_of(index, claim)))
            return true;
    }
    return false;
}
