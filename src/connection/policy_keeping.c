/*
 * policy_keeping.c - the rooms of policies. See policy_keeping.h.
 *
 * Who changes rooms can't be jumped out of (edited_policy.c). But another thread may fork meanwhile: what that leaves in the
 * child bears the parent's epoch.
 */
#define _GNU_SOURCE
#include "connection/policy_keeping.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/hot.h"
#include "connection/engine.h"
#include "connection/lineage.h"

#define ROOMS 64u             /* policies beyond are never given back */
#define GRAIN ((size_t)65536) /* so that an edited policy, a little larger, has room where the former one was */

enum { ROOM_NONE, ROOM_BUSY, ROOM_EMPTY, ROOM_USED, ROOM_STATES };

struct room {
    _Atomic uint64_t state; /* ROOM_…; BUSY with the epoch of who makes it so */
    _Atomic uint32_t followers;
    _Atomic uintptr_t base; /* with the size: addresses that are this room's for ever */
    _Atomic size_t size;
    _Atomic bool idle; /* nobody followed it when it was looked at last */
};

static struct room rooms[ROOMS];  /* a root of this file alone */
static _Atomic uint32_t high;     /* no room at or above this number was ever taken */
static _Atomic uint32_t sweeping; /* the lineage's epoch while one of its threads sweeps; else 0 */

/* The number + 1 of the room that these bytes lie in; 0: it is the program's own memory. */
static uint32_t find_room(const void *at, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < ROOMS; i++) {
        /* acquire: the size was written before the base. */
        uintptr_t base = atomic_load_explicit(&rooms[i].base, memory_order_acquire);
        if (base != 0 && (uintptr_t)at - base < atomic_load_explicit(&rooms[i].size, memory_order_relaxed))
            return i + 1;
    }
    return 0;
}

/* There is none as long as no policy was handed over. */
static inline uint32_t room_of(const void *at)
{
    uint32_t count = atomic_load_explicit(&high, memory_order_acquire);
    return LIKELY(count == 0) ? 0 : find_room(at, count);
}

/* Sequentially consistent with the sweep's look at the followers: one of the two sees the other. */
static void enter(uint32_t number)
{
    if (number)
        atomic_fetch_add_explicit(&rooms[number - 1].followers, 1, memory_order_seq_cst);
}

void policy_keeping_leave(uint32_t follower)
{
    /* Release: what was read of the policy was read before. */
    if (follower)
        atomic_fetch_sub_explicit(&rooms[follower - 1].followers, 1, memory_order_release);
}

uint32_t policy_keeping_follow(const struct target *target)
{
    uint32_t number = room_of(target);
    enter(number);
    return number;
}

HOT const struct policy *policy_keeping_hold(void)
{
    for (;;) {
        const struct policy *policy = engine_policy();
        uint32_t number = room_of(policy);
        enter(number);
        if (atomic_load_explicit(&engine.policy, memory_order_seq_cst) == policy)
            return policy;
        policy_keeping_leave(number); /* it has been replaced, and may have been given back before it was held */
    }
}

void policy_keeping_drop(const struct policy *policy)
{
    policy_keeping_leave(room_of(policy));
}

/* --- rooms --- */

static uint64_t busy(void)
{
    return (uint64_t)lineage_epoch() * ROOM_STATES + ROOM_BUSY;
}

static bool move(struct room *room, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(&room->state, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

static void *map_at(struct room *room, int protection)
{
    void *base = (void *)atomic_load_explicit(&room->base, memory_order_relaxed);
    return mmap(base, atomic_load_explicit(&room->size, memory_order_relaxed), protection,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* The former policy's addresses, if one of that size was given back. */
static void *room_again(size_t size)
{
    for (uint32_t i = 0; i < ROOMS; i++) {
        struct room *room = &rooms[i];
        if (atomic_load_explicit(&room->size, memory_order_relaxed) < size || !move(room, ROOM_EMPTY, busy()))
            continue;
        void *base = map_at(room, PROT_READ | PROT_WRITE);
        bool mapped = base != MAP_FAILED;
        if (mapped)
            enter(i + 1);
        atomic_store_explicit(&room->idle, false, memory_order_relaxed);
        atomic_store_explicit(&room->state, mapped ? ROOM_USED : ROOM_EMPTY, memory_order_release);
        if (mapped)
            return base;
    }
    return NULL;
}

/* Addresses that are new become a room, if there is one more. */
static void become_room(void *base, size_t size)
{
    uint32_t number = atomic_fetch_add_explicit(&high, 1, memory_order_relaxed);
    if (number >= ROOMS) {
        atomic_store_explicit(&high, ROOMS, memory_order_relaxed);
        return;
    }
    struct room *room = &rooms[number];
    enter(number + 1);
    atomic_store_explicit(&room->size, size, memory_order_relaxed);
    atomic_store_explicit(&room->base, (uintptr_t)base, memory_order_release);
    atomic_store_explicit(&room->state, ROOM_USED, memory_order_release);
}

void *policy_keeping_room(size_t size)
{
    size = (size + GRAIN - 1) / GRAIN * GRAIN;
    void *base = room_again(size);
    if (base)
        return base;
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    become_room(base, size);
    return base;
}

void policy_keeping_made(const void *room)
{
    policy_keeping_leave(room_of(room));
}

/* Read-only zeros take no memory, and are not charged. `from`: the room's state. */
static void give_back(struct room *room, uint64_t from)
{
    if (!move(room, from, busy()))
        return;
    bool given = map_at(room, PROT_READ) != MAP_FAILED;
    atomic_store_explicit(&room->state, given ? ROOM_EMPTY : ROOM_USED, memory_order_release);
}

/* Whether a thread of an ancestor's was about to fill or to empty it when this process was made. */
static bool is_left_busy(uint64_t state)
{
    return state % ROOM_STATES == ROOM_BUSY && state != busy();
}

static bool sweep_begins(void)
{
    uint32_t mark = atomic_load_explicit(&sweeping, memory_order_relaxed), epoch = lineage_epoch();
    return mark != epoch &&
           atomic_compare_exchange_strong_explicit(&sweeping, &mark, epoch, memory_order_acquire, memory_order_relaxed);
}

void policy_keeping_sweep(void)
{
    if (!sweep_begins())
        return;
    uint32_t present = room_of(engine_policy());
    for (uint32_t i = 0; i < ROOMS; i++) {
        struct room *room = &rooms[i];
        uint64_t state = atomic_load_explicit(&room->state, memory_order_relaxed);
        if (is_left_busy(state))
            give_back(room, state);
        if (i + 1 == present || state != ROOM_USED)
            continue;
        bool followed = atomic_load_explicit(&room->followers, memory_order_seq_cst) != 0;
        if (!followed && atomic_load_explicit(&room->idle, memory_order_relaxed))
            give_back(room, ROOM_USED);
        atomic_store_explicit(&room->idle, !followed, memory_order_relaxed);
    }
    atomic_store_explicit(&sweeping, 0, memory_order_release);
}
