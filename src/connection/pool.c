/*
 * pool.c - records of connections. See pool.h.
 */
#define _GNU_SOURCE
#include "connection/pool.h"

#include "base/hot.h"

#include <stddef.h>

struct connection pool_first[POOL_AT_HAND];
pages_root pool_chunks[POOL_CHUNKS];

static _Atomic uint32_t high;
/* The list of free records: changes:32 | number + 1:32. The count of changes keeps a slow CAS from taking an old head.
 */
static _Atomic uint64_t free_list;

uint32_t pool_high(void)
{
    uint32_t count = atomic_load_explicit(&high, memory_order_acquire);
    return count < POOL_MAX ? count : POOL_MAX;
}

/* A record that was given back, or CONNECTION_NONE. */
static uint32_t list_take(void)
{
    uint64_t head = atomic_load_explicit(&free_list, memory_order_acquire);
    while ((uint32_t)head) {
        uint32_t number = (uint32_t)head - 1;
        uint64_t next = atomic_load_explicit(&pool_at(number)->next, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&free_list, &head, ((head >> 32) + 1) << 32 | next,
                                                  memory_order_acq_rel, memory_order_acquire))
            return number;
    }
    return CONNECTION_NONE;
}

/* A record that was never used, or CONNECTION_NONE. Its chunk is mapped before the number is taken, so that none is
 * lost while there is no memory. */
static uint32_t list_extend(void)
{
    uint32_t number = atomic_load_explicit(&high, memory_order_relaxed);
    do {
        if (number >= POOL_MAX || (number >= POOL_AT_HAND && !pages_needed(&pool_chunks[number / POOL_CHUNK],
                                                                           POOL_CHUNK * sizeof(struct connection))))
            return CONNECTION_NONE;
    } while (
        !atomic_compare_exchange_weak_explicit(&high, &number, number + 1, memory_order_relaxed, memory_order_relaxed));
    return number;
}

HOT uint32_t pool_take(void)
{
    uint32_t number = list_take();
    if (number == CONNECTION_NONE)
        number = list_extend();
    if (number == CONNECTION_NONE)
        return number;
    struct connection *connection = pool_at(number);
    if (!connection)
        return CONNECTION_NONE; /* it can't be: list_extend has mapped it */
    atomic_store_explicit(&connection->keeping, POOL_TAKEN, memory_order_relaxed);
    connection->place.call = CALL_NONE;
    uint32_t serial = descriptor_serial(atomic_load_explicit(&connection->entry, memory_order_relaxed)) + 1;
    atomic_store_explicit(&connection->entry, descriptor_of_connection(number, serial), memory_order_relaxed);
    /* Given back with it, but for what a late thread has said of it since (connection_moves_on). */
    atomic_store_explicit(&connection->state, STATE_NONE, memory_order_relaxed);
    atomic_store_explicit(&connection->properties, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->fault, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->shut_write_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->sharers, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->waited_before_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->heard, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->is_childs, false, memory_order_relaxed);
    connection_reset_http(connection);
    connection_set_request(connection, (struct http_request){0});
    atomic_store_explicit(&connection->first_sent, 0, memory_order_relaxed);
    return number;
}

void pool_publish(struct connection *connection)
{
    /* Release: whoever sees the alias sees the record filled. */
    atomic_store_explicit(&connection->aliases, 1, memory_order_release);
}

bool pool_add_alias(struct connection *connection)
{
    uint32_t aliases = atomic_load_explicit(&connection->aliases, memory_order_relaxed);
    do {
        if (aliases == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&connection->aliases, &aliases, aliases + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

bool pool_is_live(const struct connection *connection)
{
    return atomic_load_explicit(&connection->aliases, memory_order_acquire) != 0;
}

HOT void pool_give(uint32_t number)
{
    struct connection *connection = pool_at(number);
    if (!connection || atomic_exchange_explicit(&connection->keeping, POOL_FREE, memory_order_acq_rel) == POOL_FREE)
        return;
    connection_moves_on(connection, STATE_NONE, ON_RETURN); /* wherever it stands, and whoever is late */
    atomic_store_explicit(&connection->is_stationed, false, memory_order_release);
    uint64_t head = atomic_load_explicit(&free_list, memory_order_relaxed);
    do
        atomic_store_explicit(&connection->next, (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&free_list, &head, ((head >> 32) + 1) << 32 | (number + 1),
                                                  memory_order_acq_rel, memory_order_relaxed));
}
