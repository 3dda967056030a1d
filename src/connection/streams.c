/*
 * streams.c - see streams.h.
 */
#define _GNU_SOURCE
#include "connection/streams.h"

#include "connection/pages.h"

#define STREAMS_CHUNK 64u
#define STREAMS_CHUNKS 64u
#define CONNECTIONS_MAX (STREAMS_CHUNK * STREAMS_CHUNKS) /* that speak HTTP/2 at a time; of others one call is seen */

static pages_root chunks[STREAMS_CHUNKS];
static _Atomic uint32_t used; /* numbers below were taken once */
/* The list of free ones, as pool.c has it: changes:32 | number:32. */
static _Atomic uint64_t free_list;

struct streams *streams_at(uint32_t number)
{
    if (number == 0 || number > CONNECTIONS_MAX)
        return NULL;
    struct streams *chunk = pages_present(&chunks[(number - 1) / STREAMS_CHUNK]);
    return chunk ? &chunk[(number - 1) % STREAMS_CHUNK] : NULL;
}

static uint32_t list_take(void)
{
    uint64_t head = atomic_load_explicit(&free_list, memory_order_acquire);
    while ((uint32_t)head) {
        struct streams *streams = streams_at((uint32_t)head);
        if (!streams)
            return 0; /* it can't be */
        const uint64_t next = atomic_load_explicit(&streams->next, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&free_list, &head, ((head >> 32) + 1) << 32 | next,
                                                  memory_order_acq_rel, memory_order_acquire))
            return (uint32_t)head;
    }
    return 0;
}

static uint32_t list_extend(void)
{
    uint32_t number = atomic_load_explicit(&used, memory_order_relaxed);
    do {
        if (number >= CONNECTIONS_MAX ||
            !pages_needed(&chunks[number / STREAMS_CHUNK], STREAMS_CHUNK * sizeof(struct streams)))
            return 0;
    } while (
        !atomic_compare_exchange_weak_explicit(&used, &number, number + 1, memory_order_relaxed, memory_order_relaxed));
    return number + 1;
}

uint32_t streams_take(descriptor entry)
{
    uint32_t number = list_take();
    if (number == 0)
        number = list_extend();
    struct streams *streams = streams_at(number);
    if (!streams)
        return 0;
    for (uint32_t place = 0; place < atomic_load_explicit(&streams->high, memory_order_relaxed); place++)
        atomic_store_explicit(&streams->ids[place], 0, memory_order_relaxed);
    atomic_store_explicit(&streams->high, 0, memory_order_relaxed);
    atomic_store_explicit(&streams->begun, 0, memory_order_relaxed);
    atomic_store_explicit(&streams->own, OWN_ATTEMPT, memory_order_relaxed);
    atomic_store_explicit(&streams->beside, 0, memory_order_relaxed);
    http2_start_client(&streams->sent);
    streams->came = (struct http2_reader){0};
    hpack_start(&streams->hpack);
    atomic_store_explicit(&streams->entry, entry, memory_order_release);
    return number;
}

void streams_give(uint32_t number, descriptor entry)
{
    struct streams *streams = streams_at(number);
    if (!streams ||
        !atomic_compare_exchange_strong_explicit(&streams->entry, &entry, 0, memory_order_acq_rel,
                                                 memory_order_relaxed) ||
        atomic_load_explicit(&streams->sending, memory_order_acquire) ||
        atomic_load_explicit(&streams->receiving, memory_order_acquire))
        return;
    uint64_t head = atomic_load_explicit(&free_list, memory_order_relaxed);
    do
        atomic_store_explicit(&streams->next, (uint32_t)head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&free_list, &head, ((head >> 32) + 1) << 32 | number,
                                                  memory_order_acq_rel, memory_order_relaxed));
}

uint32_t stream_claim(struct streams *streams)
{
    for (uint32_t place = 0; place < STREAMS_MAX; place++) {
        uint32_t expected = 0;
        if (atomic_load_explicit(&streams->ids[place], memory_order_relaxed) != 0 ||
            !atomic_compare_exchange_strong_explicit(&streams->ids[place], &expected, STREAM_BUSY, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        uint32_t high = atomic_load_explicit(&streams->high, memory_order_relaxed);
        while (high <= place && !atomic_compare_exchange_weak_explicit(&streams->high, &high, place + 1,
                                                                       memory_order_relaxed, memory_order_relaxed))
            ;
        return place;
    }
    return STREAM_NONE;
}

void stream_publish(struct streams *streams, uint32_t place, uint32_t id)
{
    /* Release: who finds the id finds what was filled. */
    atomic_store_explicit(&streams->ids[place], id, memory_order_release);
}

uint32_t stream_find(const struct streams *streams, uint32_t id)
{
    const uint32_t high = atomic_load_explicit(&streams->high, memory_order_relaxed);
    for (uint32_t place = 0; place < high && place < STREAMS_MAX; place++) {
        if (atomic_load_explicit(&streams->ids[place], memory_order_acquire) == id)
            return place;
    }
    return STREAM_NONE;
}

bool stream_end(struct streams *streams, uint32_t place, uint32_t id)
{
    return atomic_compare_exchange_strong_explicit(&streams->ids[place], &id, 0, memory_order_acq_rel,
                                                   memory_order_relaxed);
}
