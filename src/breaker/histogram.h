/*
 * histogram.h - how long things took, counted in buckets that are as wide as the 32nd part of their octave.
 *
 * Log-linear: a value is told by the middle of its bucket, with an error below 1.6 % from 8 us to 4.8 hours; what is
 * shorter is told to 128 ns, and what is longer counts as 4.8 hours. A histogram lies in memory that processes share,
 * and has the same size and meaning in 32 and 64 bit; a distribution is a reader's own copy. Both merge by adding. Pure;
 * async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_HISTOGRAM_H
#define SOCKFUSE_BREAKER_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 1024u

struct histogram {
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* The bucket of a span, below HISTOGRAM_BUCKETS. */
uint32_t histogram_bucket(uint64_t span_ns);
/* The middle of a bucket, where it begins, and where the next one would; of one out of range, those of the last. */
uint64_t histogram_middle(uint32_t bucket);
uint64_t histogram_begin(uint32_t bucket);
uint64_t histogram_end(uint32_t bucket);

/* Wait-free: one relaxed add. */
void histogram_add(struct histogram *histogram, uint32_t bucket, uint64_t count);
/* Empties it, for who has its place to himself; what others add meanwhile may be lost or stay. */
void histogram_reset(struct histogram *histogram);

struct distribution {
    uint64_t total;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Adds to a distribution, which began as zeros. Sums stop at UINT64_MAX: the memory may hold anything. */
void distribution_add(struct distribution *distribution, uint32_t bucket, uint64_t count);
void distribution_add_histogram(struct distribution *distribution, const struct histogram *histogram);
void distribution_merge(struct distribution *distribution, const struct distribution *other);

/*
 * The value that so many of a thousand do not exceed: the middle of the bucket in which the one of that rank lies. 0: of
 * an empty one.
 */
uint64_t distribution_quantile(const struct distribution *distribution, uint32_t permille);

#endif
