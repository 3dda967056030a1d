/*
 * latency.c - noting waits, and reading them. See latency.h.
 *
 * The last minute is a ring of samples, each with its second, and of slots of ten seconds, each with its period. Nothing
 * is ever cleared: what bears an older time is skipped by readers, and written over by the next writer who comes there.
 * A second is stored in 18 bits; since the ring is read backwards until it gets old, one of three days ago is taken for
 * a present one only where next to nothing was noted in between.
 */
#include "breaker/latency.h"

#include "base/hot.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define NS_PER_US UINT64_C(1000)
#define SECOND_NS UINT64_C(1000000000)
#define RECENT_S 60u
#define RECENT_SLOTS 6u
#define LOOK_NS UINT64_C(10000000)
/* A slot's word loses only to others' progress; beyond so many a wait is left out of it. */
#define TRIES_MAX 16u
/* So many old ones one behind the other, and all that follow are older: writers finish out of order. */
#define OLD_MAX 16u

#define BUCKET_BITS 10u
#define WEIGHT_BITS 4u
#define AGE_MASK ((UINT32_C(1) << (32 - BUCKET_BITS - WEIGHT_BITS)) - 1)

_Static_assert(HISTOGRAM_BUCKETS == UINT32_C(1) << BUCKET_BITS, "a bucket fits into a sample");
_Static_assert(RECENT_SLOTS < LATENCY_SLOTS, "a slot is out of sight before it comes round");
_Static_assert(offsetof(struct latency, slots) == 64 && offsetof(struct latency, samples) == 256, "pinned");
_Static_assert(offsetof(struct latency, connects) == 4352 && sizeof(struct latency) == 20736, "pinned");

static uint32_t upper(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t lower(uint64_t word)
{
    return (uint32_t)word;
}

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static bool swap(_Atomic uint64_t *word, uint64_t *expected, uint64_t desired)
{
    return atomic_compare_exchange_weak_explicit(word, expected, desired, memory_order_relaxed, memory_order_relaxed);
}

/* Whoever comes first in a period takes the slot over; one that was held up since an earlier one may take it back. */
static void count_call(_Atomic uint64_t *word, uint32_t period, uint32_t calls)
{
    uint64_t seen = load(word);

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        if (upper(seen) == period) {
            atomic_fetch_add_explicit(word, calls, memory_order_relaxed);
            return;
        }
        if (swap(word, &seen, (uint64_t)period << 32 | calls))
            return;
    }
}

static void keep_longest(_Atomic uint64_t *word, uint32_t period, uint64_t waited_us)
{
    const uint32_t span = waited_us < UINT32_MAX ? (uint32_t)waited_us : UINT32_MAX;
    uint64_t seen = load(word);

    for (unsigned int try = 0; try < TRIES_MAX; try++)
        if ((upper(seen) == period && lower(seen) >= span) || swap(word, &seen, (uint64_t)period << 32 | span))
            return;
}

static void raise(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t seen = load(word);

    for (unsigned int try = 0; try < TRIES_MAX && seen < value; try++)
        if (swap(word, &seen, value))
            return;
}

static uint32_t second_at(uint64_t now_ns)
{
    return (uint32_t)(now_ns / SECOND_NS) & AGE_MASK;
}

static void add_sample(struct latency *latency, uint32_t bucket, uint32_t stands_for, uint64_t now_ns)
{
    uint32_t weight = 32u - (uint32_t)__builtin_clz(stands_for); /* 1 + log2 */
    uint32_t at = atomic_fetch_add_explicit(&latency->next, 1, memory_order_relaxed) % LATENCY_SAMPLES;

    weight &= (UINT32_C(1) << WEIGHT_BITS) - 1;
    atomic_store_explicit(&latency->samples[at],
                          second_at(now_ns) << (BUCKET_BITS + WEIGHT_BITS) | weight << BUCKET_BITS | bucket,
                          memory_order_relaxed);
}

HOT void latency_note(struct latency *latency, const struct wait *wait, uint64_t now_ns)
{
    const bool is_long = wait->waited_ns >= LATENCY_LONG_NS;
    const uint32_t stands_for = is_long ? 1 : wait->stands_for, bucket = histogram_bucket(wait->waited_ns);
    const uint64_t new_ns = wait->waited_ns > wait->noted_ns ? wait->waited_ns - wait->noted_ns : 0;
    struct latency_slot *slot = &latency->slots[latency_period_at(now_ns) % LATENCY_SLOTS];

    if (stands_for == 0)
        return;
    if (wait->kind == WAIT_CONNECT)
        histogram_add(&latency->connects, bucket, stands_for);
    else if (wait->kind == WAIT_ANSWER)
        histogram_add(&latency->answers, bucket, stands_for);
    if (wait->ends_call && wait->kind != WAIT_IN_VAIN)
        add_sample(latency, bucket, stands_for, now_ns);
    if (wait->ends_call)
        count_call(&slot->calls, latency_period_at(now_ns), stands_for);
    if (new_ns > 0)
        atomic_fetch_add_explicit(&latency->waited_us, (new_ns + NS_PER_US / 2) / NS_PER_US * stands_for,
                                  memory_order_relaxed);
    keep_longest(&slot->longest, latency_period_at(now_ns), wait->waited_ns / NS_PER_US);
    raise(&latency->longest_ns, wait->waited_ns);
}

bool latency_is_look_due(struct latency *latency, uint64_t now_ns)
{
    uint64_t looked_ns = load(&latency->looked_ns);

    return (now_ns < looked_ns || now_ns - looked_ns >= LOOK_NS) && swap(&latency->looked_ns, &looked_ns, now_ns);
}

void latency_note_in_flight(struct latency *latency, uint32_t calls)
{
    uint32_t seen = atomic_load_explicit(&latency->most, memory_order_relaxed);

    for (unsigned int try = 0; try < TRIES_MAX && seen < calls; try++)
        if (atomic_compare_exchange_weak_explicit(&latency->most, &seen, calls, memory_order_relaxed,
                                                  memory_order_relaxed))
            return;
}

void latency_reset(struct latency *latency)
{
    atomic_store_explicit(&latency->waited_us, 0, memory_order_relaxed);
    atomic_store_explicit(&latency->longest_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&latency->looked_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&latency->most, 0, memory_order_relaxed);
    for (unsigned int slot = 0; slot < LATENCY_SLOTS; slot++) {
        atomic_store_explicit(&latency->slots[slot].calls, 0, memory_order_relaxed);
        atomic_store_explicit(&latency->slots[slot].longest, 0, memory_order_relaxed);
    }
    for (unsigned int sample = 0; sample < LATENCY_SAMPLES; sample++)
        atomic_store_explicit(&latency->samples[sample], 0, memory_order_relaxed);
    histogram_reset(&latency->connects);
    histogram_reset(&latency->answers);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Seconds since a sample was written; one that a writer with a later time has written is of now. */
static uint32_t age_of(uint32_t sample, uint32_t second)
{
    uint32_t age = (second - (sample >> (BUCKET_BITS + WEIGHT_BITS))) & AGE_MASK;

    return age > AGE_MASK - RECENT_S ? 0 : age;
}

static void read_samples(const struct latency *latency, uint64_t now_ns, struct distribution *recent)
{
    const uint32_t second = second_at(now_ns), next = atomic_load_explicit(&latency->next, memory_order_relaxed);
    unsigned int old = 0;

    for (uint32_t i = 1; i <= LATENCY_SAMPLES && old < OLD_MAX; i++) {
        uint32_t sample = atomic_load_explicit(&latency->samples[(next - i) % LATENCY_SAMPLES], memory_order_relaxed);
        uint32_t weight = sample >> BUCKET_BITS & ((UINT32_C(1) << WEIGHT_BITS) - 1);

        if (weight == 0 || age_of(sample, second) > RECENT_S) {
            old++;
            continue;
        }
        old = 0;
        distribution_add(recent, sample & (HISTOGRAM_BUCKETS - 1), UINT64_C(1) << (weight - 1));
    }
}

static void read_slots(const struct latency *latency, uint64_t now_ns, struct latency_view *view)
{
    const uint32_t present = latency_period_at(now_ns);

    for (unsigned int slot = 0; slot < LATENCY_SLOTS; slot++) {
        uint64_t longest = load(&latency->slots[slot].longest);

        if (present - upper(longest) < RECENT_SLOTS && lower(longest) * NS_PER_US > view->recent_longest_ns)
            view->recent_longest_ns = lower(longest) * NS_PER_US;
    }
    view->recent_calls = latency_calls(latency, RECENT_SLOTS, now_ns);
    view->recent_span_ns = (RECENT_SLOTS - 1) * LATENCY_SLOT_NS + now_ns % LATENCY_SLOT_NS;
}

uint64_t latency_calls(const struct latency *latency, uint32_t periods, uint64_t now_ns)
{
    const uint32_t present = latency_period_at(now_ns);
    uint64_t sum = 0;

    for (unsigned int slot = 0; slot < LATENCY_SLOTS; slot++) {
        uint64_t calls = load(&latency->slots[slot].calls);

        if (present - upper(calls) < periods)
            sum += lower(calls);
    }
    return sum;
}

void latency_read(const struct latency *latency, uint64_t now_ns, struct latency_view *view)
{
    memset(view, 0, sizeof *view);
    view->waited_us = load(&latency->waited_us);
    view->longest_ns = load(&latency->longest_ns);
    view->most_in_flight = atomic_load_explicit(&latency->most, memory_order_relaxed);
    distribution_add_histogram(&view->connects, &latency->connects);
    distribution_add_histogram(&view->answers, &latency->answers);
    read_samples(latency, now_ns, &view->recent);
    read_slots(latency, now_ns, view);
}

bool latency_last_seconds(const struct latency *latency, uint64_t now_ns, uint32_t *seconds)
{
    const uint32_t second = second_at(now_ns), next = atomic_load_explicit(&latency->next, memory_order_relaxed);

    /* Of the last few, for one may be on its way. */
    *seconds = UINT32_MAX;
    for (uint32_t i = 1; i <= OLD_MAX; i++) {
        uint32_t sample = atomic_load_explicit(&latency->samples[(next - i) % LATENCY_SAMPLES], memory_order_relaxed);

        if (sample != 0 && age_of(sample, second) < *seconds)
            *seconds = age_of(sample, second);
    }
    return *seconds != UINT32_MAX;
}
