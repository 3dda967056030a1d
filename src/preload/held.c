/*
 * held.c - judgements that wait. See held.h.
 */
#define _GNU_SOURCE
#include "preload/held.h"

#include "preload/keeping.h"
#include "preload/life.h"
#include "preload/lineage.h"
#include "segment/clock.h"

#define HELD_MAX 64u
/*
 * A program that goes on to another address does so at once, or after the delay of Happy Eyeballs (RFC 8305 says 250
 * ms, and at most 2 s). Until then an attempt to the same address is another thread's,
 * or another request of an event loop.
 */
#define GOES_ON_WITHIN_NS NS_PER_S

enum { PLACE_FREE, PLACE_BUSY, PLACE_HOLDS };

struct held {
    _Atomic uint32_t state;
    uint32_t epoch;
    uint32_t call, circuit;
    struct station *station;
    const struct target *target;
    uint32_t follows; /* the target's policy, as keeping.h has it */
    uint64_t address_key;
    uint64_t since_ns; /* real clock */
    struct observation observation;
};

static struct held places[HELD_MAX]; /* a root of this file alone */
static _Atomic uint32_t holding;     /* how many hold something, so that an attempt mostly needs no walk */

/* Changes a place's state; the winner may read and write the rest. */
static bool move(struct held *place, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&place->state, &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

bool held_take(struct connection *connection, const struct observation *observation)
{
    if (atomic_load_explicit(&holding, memory_order_relaxed) >= HELD_MAX ||
        !guard_waits_for_siblings(&connection->station->guard, connection->place.call, connection_target(connection),
                                  observation, connection->siblings, connection->sibling_count,
                                  connection->address_key))
        return false;
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        struct held *place = &places[i];
        if (!move(place, PLACE_FREE, PLACE_BUSY))
            continue;
        place->epoch = connection->epoch;
        place->call = connection->place.call;
        place->circuit = connection->place.circuit;
        place->station = connection->station;
        place->target = connection_target(connection);
        place->follows = keeping_follow(place->target);
        place->address_key = connection->address_key;
        place->since_ns = clock_real_ns();
        place->observation = *observation;
        if (!place->observation.came_ns)
            place->observation.came_ns = clock_circuit_ns();
        connection->place.call = CALL_NONE;
        atomic_fetch_add_explicit(&holding, 1, memory_order_relaxed);
        atomic_store_explicit(&place->state, PLACE_HOLDS, memory_order_release);
        return true;
    }
    return false;
}

/* Judges what a place holds and frees it. `other_tried`: the program went on to another address. */
static void resolve(struct held *place, bool other_tried)
{
    uint64_t now_ns = clock_circuit_ns();
    if (place->epoch == lineage_epoch()) { /* in a fork's child it is the parent's */
        place->observation.other_tried = other_tried;
        guard_settle(&place->station->guard, place->call, place->target, life_shard(), &place->observation, now_ns);
        guard_forget(&place->station->guard, place->call, place->target, life_shard(), now_ns);
    }
    keeping_leave(place->follows);
    atomic_fetch_sub_explicit(&holding, 1, memory_order_relaxed);
    atomic_store_explicit(&place->state, PLACE_FREE, memory_order_release);
}

void held_resolve(struct station *station, uint32_t circuit, uint64_t address_key)
{
    if (!atomic_load_explicit(&holding, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        struct held *place = &places[i];
        if (!move(place, PLACE_HOLDS, PLACE_BUSY))
            continue;
        bool other = place->address_key != address_key;
        if (place->station == station && place->circuit == circuit &&
            (other || clock_real_ns() - place->since_ns >= GOES_ON_WITHIN_NS))
            resolve(place, other);
        else
            atomic_store_explicit(&place->state, PLACE_HOLDS, memory_order_release);
    }
}

bool held_has(uint32_t call)
{
    for (uint32_t i = 0; i < HELD_MAX; i++)
        if (atomic_load_explicit(&places[i].state, memory_order_acquire) != PLACE_FREE && places[i].call == call)
            return true;
    return false;
}

void held_resolve_all(void)
{
    for (uint32_t i = 0; i < HELD_MAX; i++)
        if (move(&places[i], PLACE_HOLDS, PLACE_BUSY))
            resolve(&places[i], false);
}
