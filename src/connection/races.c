/*
 * races.c - who won the race to a destination. See races.h.
 */
#include "connection/races.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/hot.h"
#include "connection/pages.h"

#define RACES 512u /* circuits that are told apart; two that share a place may hide a loser, never make one */

/* number:32 | address:32, the address by a part of its hash. */
struct race {
    _Atomic uint64_t last, before; /* `before` is of another address than `last` */
    _Atomic uint32_t circuit;
};

/* The latest attempts to an address of a circuit: the next one takes the place of the oldest. */
#define RECENT_PLACES 512u
struct recent {
    _Atomic uint64_t at[SIBLINGS_RECENT];
    _Atomic uint32_t next;
};

static pages_root table;        /* of RACES races */
static pages_root recent_table; /* of RECENT_PLACES addresses */
static _Atomic uint32_t connections;

uint32_t races_now(void)
{
    return atomic_load_explicit(&connections, memory_order_relaxed);
}

HOT void races_connected(uint32_t circuit, uint64_t address_key)
{
    struct race *races = pages_needed(&table, RACES * sizeof *races);
    if (UNLIKELY(!races))
        return;
    struct race *race = &races[circuit % RACES];
    uint64_t number = atomic_fetch_add_explicit(&connections, 1, memory_order_relaxed) + UINT64_C(1);
    uint64_t mine = (number & UINT32_MAX) << 32 | (uint32_t)address_key;
    if (UNLIKELY(atomic_load_explicit(&race->circuit, memory_order_relaxed) != circuit) &&
        atomic_exchange_explicit(&race->circuit, circuit, memory_order_relaxed) != circuit) {
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

bool races_won(uint32_t circuit, uint64_t address_key, uint32_t since)
{
    struct race *races = pages_present(&table);
    if (!races)
        return false;
    struct race *race = &races[circuit % RACES];
    return atomic_load_explicit(&race->circuit, memory_order_relaxed) == circuit &&
           (is_other_since(atomic_load_explicit(&race->last, memory_order_acquire), address_key, since) ||
            is_other_since(atomic_load_explicit(&race->before, memory_order_acquire), address_key, since));
}

/* Two addresses that share a place hide each other's attempts at times. */
static struct recent *place_of(struct recent *recents, uint32_t circuit, uint64_t address_key)
{
    return &recents[(address_key ^ address_key >> 32 ^ circuit) % RECENT_PLACES];
}

static void remember(struct recent *recent, uint64_t attempt)
{
    uint32_t next = atomic_fetch_add_explicit(&recent->next, 1, memory_order_relaxed) % SIBLINGS_RECENT;
    atomic_store_explicit(&recent->at[next], attempt, memory_order_release);
}

HOT void races_began(uint32_t circuit, uint64_t address_key, uint64_t attempt)
{
    struct recent *recents = pages_needed(&recent_table, RECENT_PLACES * sizeof *recents);
    if (!recents)
        return;
    remember(place_of(recents, circuit, address_key), attempt);
    remember(place_of(recents, circuit, SIBLINGS_OF_ALL), attempt);
}

void races_recent(uint32_t circuit, uint64_t address_key, uint64_t attempts[SIBLINGS_RECENT])
{
    struct recent *recents = pages_present(&recent_table);
    for (uint32_t i = 0; i < SIBLINGS_RECENT; i++)
        attempts[i] =
            recents ? atomic_load_explicit(&place_of(recents, circuit, address_key)->at[i], memory_order_acquire) : 0;
}
