/*
 * histogram.c - log-linear buckets. See histogram.h.
 *
 * The first 32 buckets are 256 ns wide each, and reach to 2^13 ns; each octave from there on has 32 of its own.
 */
#include "breaker/histogram.h"

#include <stdatomic.h>

#define OCTAVE_BITS 5u /* 32 buckets for each octave */
#define FIRST_BITS 13u /* where the octaves begin */
#define OCTAVE (UINT32_C(1) << OCTAVE_BITS)
#define FIRST_SHIFT (FIRST_BITS - OCTAVE_BITS)
#define PERMILLE 1000u

_Static_assert(HISTOGRAM_BUCKETS % OCTAVE == 0, "whole octaves");
_Static_assert(sizeof(struct histogram) == 8192, "pinned: processes of another word size share it");

uint32_t histogram_bucket(uint64_t span_ns)
{
    if (span_ns >> FIRST_BITS == 0)
        return (uint32_t)(span_ns >> FIRST_SHIFT);
    uint32_t exponent = 63u - (uint32_t)__builtin_clzll(span_ns);
    uint32_t part = (uint32_t)(span_ns >> (exponent - OCTAVE_BITS)) & (OCTAVE - 1);
    uint32_t bucket = (exponent - FIRST_BITS + 1) * OCTAVE + part;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Two to this power is a bucket's width. */
static uint32_t shift_of(uint32_t bucket)
{
    return bucket < OCTAVE ? FIRST_SHIFT : bucket / OCTAVE - 1 + FIRST_SHIFT;
}

uint64_t histogram_begin(uint32_t bucket)
{
    if (bucket >= HISTOGRAM_BUCKETS)
        bucket = HISTOGRAM_BUCKETS - 1;
    uint64_t part = bucket < OCTAVE ? bucket : OCTAVE + bucket % OCTAVE;
    return part << shift_of(bucket);
}

uint64_t histogram_end(uint32_t bucket)
{
    if (bucket >= HISTOGRAM_BUCKETS)
        bucket = HISTOGRAM_BUCKETS - 1;
    return histogram_begin(bucket) + (UINT64_C(1) << shift_of(bucket));
}

uint64_t histogram_middle(uint32_t bucket)
{
    if (bucket >= HISTOGRAM_BUCKETS)
        bucket = HISTOGRAM_BUCKETS - 1;
    return histogram_begin(bucket) + (UINT64_C(1) << shift_of(bucket) >> 1);
}

void histogram_add(struct histogram *histogram, uint32_t bucket, uint64_t count)
{
    /* Relaxed: a count orders nothing and decides nothing. */
    if (bucket < HISTOGRAM_BUCKETS)
        atomic_fetch_add_explicit(&histogram->buckets[bucket], count, memory_order_relaxed);
}

void histogram_reset(struct histogram *histogram)
{
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        atomic_store_explicit(&histogram->buckets[bucket], 0, memory_order_relaxed);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

void distribution_add(struct distribution *distribution, uint32_t bucket, uint64_t count)
{
    if (bucket >= HISTOGRAM_BUCKETS)
        return;
    distribution->counts[bucket] = sum(distribution->counts[bucket], count);
    distribution->total = sum(distribution->total, count);
}

void distribution_add_histogram(struct distribution *distribution, const struct histogram *histogram)
{
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        distribution_add(distribution, bucket, atomic_load_explicit(&histogram->buckets[bucket], memory_order_relaxed));
}

void distribution_merge(struct distribution *distribution, const struct distribution *other)
{
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        distribution_add(distribution, bucket, other->counts[bucket]);
}

uint64_t distribution_quantile(const struct distribution *distribution, uint32_t permille)
{
    const uint64_t total = distribution->total;
    uint64_t below = 0;
    uint32_t last = 0;

    if (total == 0)
        return 0;
    /* Rounded up, in parts that do not overflow: at least one lies at or below. */
    uint64_t rank = total / PERMILLE * permille + (total % PERMILLE * permille + PERMILLE - 1) / PERMILLE;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        if (distribution->counts[bucket] == 0)
            continue;
        last = bucket;
        below = sum(below, distribution->counts[bucket]);
        if (below >= rank)
            break;
    }
    return histogram_middle(last);
}
