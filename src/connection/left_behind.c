/*
 * left_behind.c - see left_behind.h.
 *
 * A record of the pool goes free, taken, published (it has aliases, and its descriptor's entry names it), ended (no
 * alias left), free. One that is taken and not published, or published and not what its descriptor's entry names, is on
 * its way, in a thread that is inside a wrapper, or was left so. It is marked with the round that found it; if a later
 * round, a second on or more, finds the mark still there, it is given back, under another serial number, so that
 * whoever has its old entry finds nothing. Its call is then one that no connection keeps.
 */
#define _GNU_SOURCE
#include "connection/left_behind.h"

#include "base/clock.h"
#include "base/hot.h"
#include "connection/deferred.h"
#include "connection/judgement.h"
#include "connection/lineage.h"
#include "connection/pool.h"

#define ROUND_NS NS_PER_S
/* Records that one attempt looks at. */
#define LOOKED_AT 256u
#define MARKED (UINT32_C(1) << 31)

static _Atomic uint64_t after_ns; /* roots of this file alone: when the next round may begin (real clock), */
static _Atomic uint64_t present;  /* and the present one:32, with how far it has come:32 */

static bool is_in_order(struct connection *connection)
{
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    return pool_is_live(connection) &&
           descriptor_get(fd) == atomic_load_explicit(&connection->entry, memory_order_relaxed);
}

static void look_at(uint32_t number, uint32_t round)
{
    struct connection *connection = pool_at(number);
    if (!connection)
        return;
    uint32_t keeping = atomic_load_explicit(&connection->keeping, memory_order_acquire);
    if (keeping == POOL_FREE || keeping == round)
        return;
    bool in_order = is_in_order(connection);
    if (keeping == POOL_TAKEN ? in_order : !(keeping & MARKED))
        return;
    uint32_t next = in_order ? (uint32_t)POOL_TAKEN : round;
    if (!atomic_compare_exchange_strong_explicit(&connection->keeping, &keeping, next, memory_order_relaxed,
                                                 memory_order_relaxed) ||
        in_order || keeping == POOL_TAKEN)
        return;
    descriptor entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
    atomic_store_explicit(&connection->entry, descriptor_of_connection(number, descriptor_serial(entry) + 1),
                          memory_order_relaxed);
    atomic_store_explicit(&connection->aliases, 0, memory_order_release);
    pool_give(number);
}

HOT void left_behind_look(uint64_t real_ns)
{
    uint64_t round = atomic_load_explicit(&present, memory_order_relaxed);
    uint32_t high = pool_high();
    if (round >> 32 == 0 || (uint32_t)round >= high) {
        uint64_t after = atomic_load_explicit(&after_ns, memory_order_relaxed);
        if (real_ns < after || !atomic_compare_exchange_strong_explicit(&after_ns, &after, real_ns + ROUND_NS,
                                                                        memory_order_relaxed, memory_order_relaxed))
            return;
        uint64_t next = (uint64_t)((uint32_t)((round >> 32) + 1) | MARKED) << 32;
        if (!atomic_compare_exchange_strong_explicit(&present, &round, next, memory_order_relaxed,
                                                     memory_order_relaxed))
            return;
        round = next;
        deferred_look((uint32_t)(round >> 32));
    }
    uint32_t first = (uint32_t)round, end = high - first > LOOKED_AT ? first + LOOKED_AT : high;
    for (uint32_t number = first; number < end; number++)
        look_at(number, (uint32_t)(round >> 32));
    /* Of several who do the same part one moves on. */
    atomic_compare_exchange_strong_explicit(&present, &round, (round & ~(uint64_t)UINT32_MAX) | end,
                                            memory_order_relaxed, memory_order_relaxed);
}

bool left_behind_keeps(uint32_t call, uint32_t number, void *context)
{
    return number & HELD_NUMBER ? deferred_keeps(call, number) : judgement_of_call(call, number, context) != NULL;
}
