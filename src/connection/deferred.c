/*
 * deferred.c - judgements that wait. See deferred.h.
 */
#define _GNU_SOURCE
#include "connection/deferred.h"

#include "base/clock.h"
#include "base/hot.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "connection/pool.h"
#include "connection/shard.h"

#define HELD_MAX 64u
/*
 * A program that goes on to another address does so at once, or after the delay of Happy Eyeballs (RFC 8305 says 250
 * ms, and at most 2 s). Until then an attempt to the same address is another thread's, or another request of an event
 * loop.
 */
#define GOES_ON_WITHIN_NS NS_PER_S
/* A runtime that tidies up for longer than PARTING_NS, on a busy machine, is believed for so long, if nobody has found
 * the call overdue by then. */
#define PARTS_WITHIN_NS NS_PER_S

enum { PLACE_FREE, PLACE_BUSY, PLACE_HOLDS };

/*
 * Everything but the state and the call belongs to who has made the place BUSY. A thread that is jumped out of then
 * leaves it BUSY: it is found by deferred_look, and its record, which no place holds any more, by the segment's own
 * look.
 */
struct held {
    _Atomic uint32_t state; /* PLACE_…, or a round of deferred_look that found it BUSY */
    _Atomic uint32_t call;
    uint32_t epoch, circuit;
    struct station *station;
    const struct target *target;
    uint32_t follows; /* the target's policy, as policy_keeping.h has it */
    uint64_t address_key;
    uint64_t since_ns;      /* real clock */
    enum stopping stopping; /* STOPPING_NOT: it is held for another address */
    struct observation observation;
};

static struct held places[HELD_MAX]; /* a root of this file alone */
static _Atomic uint64_t holding;     /* a bit for each that may hold something: an attempt mostly needs no walk */
_Static_assert(HELD_MAX == 64, "a word has a bit for each");

static uint64_t bit_of(const struct held *place)
{
    return UINT64_C(1) << (place - places);
}

/* Changes a place's state; the winner may read and write the rest. */
static bool move(struct held *place, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&place->state, &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static void set_free(struct held *place)
{
    atomic_store_explicit(&place->call, CALL_NONE, memory_order_relaxed);
    atomic_fetch_and_explicit(&holding, ~bit_of(place), memory_order_relaxed);
    atomic_store_explicit(&place->state, PLACE_FREE, memory_order_release);
}

/* Its connection goes now, and whoever comes when the program has had its time judges it. */
static void set_parting(struct connection *connection)
{
    struct guard *guard = &connection->station->guard;
    uint32_t call = connection->place.call;
    uint64_t due_ns = clock_circuit_ns() + PARTING_NS;
    guard_unshare(guard, call, connection_target(connection));
    if (guard_due(guard, call) > due_ns)
        guard_put_off(guard, call, due_ns);
}

static bool keep(struct connection *connection, const struct observation *observation, enum stopping stopping)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        struct held *place = &places[i];
        uint32_t call = connection->place.call;
        if (!move(place, PLACE_FREE, PLACE_BUSY))
            continue;
        if (!guard_name(&connection->station->guard, call, HELD_NUMBER + i)) {
            set_free(place);
            return false;
        }
        place->epoch = connection->epoch;
        atomic_store_explicit(&place->call, call, memory_order_relaxed);
        place->circuit = connection->place.circuit;
        place->station = connection->station;
        place->target = connection_target(connection);
        place->follows = policy_keeping_follow(place->target);
        place->address_key = connection->address_key;
        place->since_ns = clock_real_ns();
        place->stopping = stopping;
        place->observation = *observation;
        if (!place->observation.came_ns)
            place->observation.came_ns = clock_circuit_ns();
        if (stopping != STOPPING_NOT)
            set_parting(connection); /* not behind what follows: then it may be resolved, and the record another's */
        connection->place.call = CALL_NONE;
        atomic_fetch_or_explicit(&holding, bit_of(place), memory_order_relaxed);
        atomic_store_explicit(&place->state, PLACE_HOLDS, memory_order_release);
        return true;
    }
    return false;
}

bool deferred_take(struct connection *connection, const struct observation *observation)
{
    return atomic_load_explicit(&holding, memory_order_relaxed) != UINT64_MAX &&
           guard_waits_for_siblings(&connection->station->guard, connection->place.call, connection_target(connection),
                                    observation, connection->siblings, connection->sibling_count,
                                    connection->address_key) &&
           keep(connection, observation, STOPPING_NOT);
}

bool deferred_take_parting(struct connection *connection, const struct observation *observation, enum stopping stopping)
{
    return keep(connection, observation, stopping);
}

/* Judges what a place holds and frees it. `other_tried`: the program went on to another address. */
static void resolve(struct held *place, bool other_tried)
{
    uint64_t now_ns = clock_circuit_ns();
    uint32_t call = atomic_load_explicit(&place->call, memory_order_relaxed);
    if (place->epoch == lineage_epoch()) { /* in a fork's child it is the parent's */
        place->observation.other_tried = other_tried;
        guard_settle(&place->station->guard, call, place->target, shard_here(), &place->observation, now_ns);
        guard_forget(&place->station->guard, call, place->target, shard_here(), now_ns);
    }
    policy_keeping_leave(place->follows);
    set_free(place);
}

/* Whether an attempt shows what the program did next. `other`: it goes to another address than what is held. */
static bool is_shown(const struct held *place, bool is_same_circuit, bool other)
{
    uint64_t held_ns = clock_real_ns() - place->since_ns;
    if (place->stopping == STOPPING_NOT)
        return is_same_circuit && (other || held_ns >= GOES_ON_WITHIN_NS);
    return held_ns >= PARTING_NS; /* one that is stopped may still have to say so to the very peer */
}

HOT void deferred_resolve(const struct station *station, uint32_t circuit, uint64_t address_key)
{
    if (!atomic_load_explicit(&holding, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        struct held *place = &places[i];
        if (!move(place, PLACE_HOLDS, PLACE_BUSY))
            continue;
        bool other = place->address_key != address_key;
        if (is_shown(place, place->station == station && place->circuit == circuit, other))
            resolve(place, other && place->stopping == STOPPING_NOT);
        else
            atomic_store_explicit(&place->state, PLACE_HOLDS, memory_order_release);
    }
}

bool deferred_keeps(uint32_t call, uint32_t number)
{
    return number - HELD_NUMBER < HELD_MAX &&
           atomic_load_explicit(&places[number - HELD_NUMBER].state, memory_order_acquire) != PLACE_FREE &&
           atomic_load_explicit(&places[number - HELD_NUMBER].call, memory_order_relaxed) == call;
}

void deferred_look(uint32_t round)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        uint32_t state = atomic_load_explicit(&places[i].state, memory_order_relaxed);
        if (state == PLACE_BUSY)
            move(&places[i], PLACE_BUSY, round);
        else if (state > PLACE_HOLDS && state != round && move(&places[i], state, PLACE_BUSY))
            set_free(&places[i]);
    }
}

bool deferred_follows(const struct station *station)
{
    bool follows = false;
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        struct held *place = &places[i];
        if (move(place, PLACE_HOLDS, PLACE_BUSY)) {
            if (place->station == station)
                resolve(place, false);
            else
                atomic_store_explicit(&place->state, PLACE_HOLDS, memory_order_release);
        } else if (atomic_load_explicit(&place->state, memory_order_acquire) != PLACE_FREE) {
            follows = true;
        }
    }
    return follows;
}

/* What was held for the program's end says nothing if that explains it: forgotten, it is neutral. */
static void resolve_at_end(struct held *place, int status)
{
    if (place->stopping != STOPPING_NOT && place->epoch == lineage_epoch() &&
        clock_real_ns() - place->since_ns < PARTS_WITHIN_NS && stopping_explains(place->stopping, status))
        guard_forget(&place->station->guard, atomic_load_explicit(&place->call, memory_order_relaxed), place->target,
                     shard_here(), clock_circuit_ns());
    resolve(place, false);
}

void deferred_resolve_all(int status)
{
    if (!atomic_load_explicit(&holding, memory_order_acquire))
        return;
    for (uint32_t i = 0; i < HELD_MAX; i++)
        if (move(&places[i], PLACE_HOLDS, PLACE_BUSY))
            resolve_at_end(&places[i], status);
}
