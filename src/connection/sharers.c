/*
 * sharers.c - groups of numbers. See sharers.h.
 *
 * Who has a tag, and who changes the list, may be late: the use in the tag, and who asks afterwards, tell.
 */
#include "connection/sharers.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/hot.h"
#include "connection/pages.h"

#define GROUPS (1u << SHARERS_INDEX_BITS)
#define USE_MASK ((1u << SHARERS_USE_BITS) - 1)
#define GROUP_CHUNK 64u
#define GROUPS_AT_HAND 16u /* that need no mapping, as pool.h has it */
#define FORKS_UNKNOWN UINT32_MAX

struct group {
    _Atomic uint64_t state; /* use:32 | entries and holders:32 */
    _Atomic uint32_t forks;
    _Atomic uint32_t next;               /* in the list of free ones: index + 1 */
    _Atomic uint32_t at[SHARERS_LISTED]; /* number + 1; 0: a free place */
};

/* Roots of this file alone. The list of free groups: changes:32 | index + 1:32, as pool.c has it. */
static _Alignas(64) struct group at_hand[GROUPS_AT_HAND];
static _Alignas(64) pages_root chunks[GROUPS / GROUP_CHUNK];
static _Atomic uint32_t high = 1; /* group 0 is none */
static _Atomic uint64_t free_list;

static struct group *group_at(uint32_t index)
{
    if (index < GROUPS_AT_HAND)
        return &at_hand[index];
    struct group *chunk = pages_present(&chunks[index / GROUP_CHUNK]);
    return chunk ? &chunk[index % GROUP_CHUNK] : NULL;
}

static struct group *group_of(uint32_t tag)
{
    uint32_t index = tag & (GROUPS - 1);
    return index ? group_at(index) : NULL;
}

static uint32_t tag_of(uint32_t index, uint32_t use)
{
    return (use & USE_MASK) << SHARERS_INDEX_BITS | index;
}

static bool is_use(uint64_t state, uint32_t tag)
{
    return ((state >> 32) & USE_MASK) == tag >> SHARERS_INDEX_BITS;
}

/* --- free groups --- */

static uint32_t list_take(void)
{
    uint64_t head = atomic_load_explicit(&free_list, memory_order_acquire);
    while ((uint32_t)head) {
        struct group *group = group_at((uint32_t)head - 1);
        uint64_t next = group ? atomic_load_explicit(&group->next, memory_order_relaxed) : 0;
        if (atomic_compare_exchange_weak_explicit(&free_list, &head, ((head >> 32) + 1) << 32 | next,
                                                  memory_order_acq_rel, memory_order_acquire))
            return (uint32_t)head - 1;
    }
    return 0;
}

static uint32_t list_extend(void)
{
    uint32_t index = atomic_load_explicit(&high, memory_order_relaxed);
    do {
        if (index >= GROUPS || (index >= GROUPS_AT_HAND &&
                                !pages_needed(&chunks[index / GROUP_CHUNK], GROUP_CHUNK * sizeof(struct group))))
            return 0;
    } while (
        !atomic_compare_exchange_weak_explicit(&high, &index, index + 1, memory_order_relaxed, memory_order_relaxed));
    return index;
}

static void list_give(struct group *group, uint32_t index)
{
    uint64_t head = atomic_load_explicit(&free_list, memory_order_relaxed);
    do
        atomic_store_explicit(&group->next, (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&free_list, &head, ((head >> 32) + 1) << 32 | (index + 1),
                                                  memory_order_acq_rel, memory_order_relaxed));
}

/* --- the list of numbers --- */

static void list_number(struct group *group, int fd)
{
    for (unsigned int i = 0; i < SHARERS_LISTED; i++) {
        uint32_t none = 0;
        if (atomic_load_explicit(&group->at[i], memory_order_relaxed) == (uint32_t)fd + 1 ||
            atomic_compare_exchange_strong_explicit(&group->at[i], &none, (uint32_t)fd + 1, memory_order_relaxed,
                                                    memory_order_relaxed))
            return;
    }
}

static void unlist_number(struct group *group, int fd)
{
    for (unsigned int i = 0; i < SHARERS_LISTED; i++) {
        uint32_t mine = (uint32_t)fd + 1;
        atomic_compare_exchange_strong_explicit(&group->at[i], &mine, 0, memory_order_relaxed, memory_order_relaxed);
    }
}

/* --- groups --- */

uint32_t sharers_new(int fd, uint32_t forks)
{
    uint32_t index = list_take();
    if (!index)
        index = list_extend();
    struct group *group = index ? group_at(index) : NULL;
    if (!group)
        return 0;
    uint64_t use = (atomic_load_explicit(&group->state, memory_order_relaxed) >> 32) + 1;
    for (unsigned int i = 0; i < SHARERS_LISTED; i++)
        atomic_store_explicit(&group->at[i], i == 0 ? (uint32_t)fd + 1 : 0, memory_order_relaxed);
    atomic_store_explicit(&group->forks, forks, memory_order_relaxed);
    /* Release: whoever finds the use finds its list. */
    atomic_store_explicit(&group->state, use << 32 | 1, memory_order_release);
    return tag_of(index, (uint32_t)use);
}

bool sharers_join(uint32_t tag, int fd)
{
    struct group *group = group_of(tag);
    if (!group)
        return false;
    uint64_t state = atomic_load_explicit(&group->state, memory_order_relaxed);
    do {
        if (!is_use(state, tag) || (uint32_t)state == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&group->state, &state, state + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if (fd >= 0)
        list_number(group, fd);
    return true;
}

HOT void sharers_leave(uint32_t tag, int fd)
{
    struct group *group = group_of(tag);
    if (!group)
        return;
    uint64_t state = atomic_load_explicit(&group->state, memory_order_acquire);
    if (fd >= 0 && is_use(state, tag))
        unlist_number(group, fd);
    do {
        if (!is_use(state, tag) || (uint32_t)state == 0)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&group->state, &state, state - 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    if ((uint32_t)state == 1)
        list_give(group, tag & (GROUPS - 1));
}

uint32_t sharers_take(uint32_t tag)
{
    struct group *group = group_of(tag);
    if (!group)
        return 0;
    uint64_t state = atomic_load_explicit(&group->state, memory_order_relaxed), mine;
    do {
        if (!is_use(state, tag) || (uint32_t)state == 0)
            return 0;
        mine = ((state >> 32) + 1) << 32 | 1;
    } while (!atomic_compare_exchange_weak_explicit(&group->state, &state, mine, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return tag_of(tag & (GROUPS - 1), (uint32_t)(mine >> 32));
}

void sharers_list(uint32_t tag, int fd)
{
    struct group *group = group_of(tag);
    if (group && is_use(atomic_load_explicit(&group->state, memory_order_acquire), tag))
        list_number(group, fd);
}

void sharers_unlist(uint32_t tag, int fd)
{
    struct group *group = group_of(tag);
    if (group && is_use(atomic_load_explicit(&group->state, memory_order_acquire), tag))
        unlist_number(group, fd);
}

uint32_t sharers_forks(uint32_t tag)
{
    struct group *group = group_of(tag);
    if (!group || !is_use(atomic_load_explicit(&group->state, memory_order_acquire), tag))
        return FORKS_UNKNOWN;
    return atomic_load_explicit(&group->forks, memory_order_relaxed);
}

int sharers_at(uint32_t tag, unsigned int place)
{
    struct group *group = group_of(tag);
    if (!group || !is_use(atomic_load_explicit(&group->state, memory_order_acquire), tag))
        return -1;
    return (int)(atomic_load_explicit(&group->at[place], memory_order_relaxed) - 1);
}
