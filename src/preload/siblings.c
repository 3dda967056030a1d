/*
 * siblings.c - who won the race to a destination. See siblings.h.
 */
#include "preload/siblings.h"

#include <stdatomic.h>
#include <stddef.h>

#include "preload/pages.h"

#define RACES 512u /* circuits that are told apart; two that share a place may hide a loser, never make one */

/* number:32 | address:32, the address by a part of its hash. */
struct race {
    _Atomic uint64_t last, before; /* `before` is of another address than `last` */
    _Atomic uint32_t circuit;
};

static pages_root table; /* of RACES races */
static _Atomic uint32_t connections;

uint32_t siblings_now(void)
{
    return atomic_load_explicit(&connections, memory_order_relaxed);
}

void siblings_connected(uint32_t circuit, uint64_t address_key)
{
    struct race *races = pages_needed(&table, RACES * sizeof *races);
    if (!races)
        return;
    struct race *race = &races[circuit % RACES];
    uint64_t number = atomic_fetch_add_explicit(&connections, 1, memory_order_relaxed) + UINT64_C(1);
    uint64_t mine = (number & UINT32_MAX) << 32 | (uint32_t)address_key;
    if (atomic_exchange_explicit(&race->circuit, circuit, memory_order_relaxed) != circuit) {
        atomic_store_explicit(&race->last, 0, memory_order_relaxed);
        atomic_store_explicit(&race->before, 0, memory_order_relaxed);
    }
    uint64_t last = atomic_exchange_explicit(&race->last, mine, memory_order_acq_rel);
    if (last && (uint32_t)last != (uint32_t)address_key)
        atomic_store_explicit(&race->before, last, memory_order_release);
}

static bool is_other_since(uint64_t mark, uint64_t address_key, uint32_t since)
{
    return mark && (uint32_t)mark != (uint32_t)address_key && (int32_t)((uint32_t)(mark >> 32) - since) > 0;
}

bool siblings_won(uint32_t circuit, uint64_t address_key, uint32_t since)
{
    struct race *races = pages_present(&table);
    if (!races)
        return false;
    struct race *race = &races[circuit % RACES];
    return atomic_load_explicit(&race->circuit, memory_order_relaxed) == circuit &&
           (is_other_since(atomic_load_explicit(&race->last, memory_order_acquire), address_key, since) ||
            is_other_since(atomic_load_explicit(&race->before, memory_order_acquire), address_key, since));
}
