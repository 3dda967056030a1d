/*
 * test_histogram.c - what a bucket tells of a value, how histograms merge, and what lies at their ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "breaker/histogram.h"

#define FROM_NS UINT64_C(8192)
#define TO_NS (UINT64_C(1) << 44)
#define NS_PER_MS UINT64_C(1000000)

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Spread over the octaves as evenly as over the values. */
static uint64_t random_span(uint64_t *seed)
{
    uint64_t bits = hash_spread(*seed += HASH_STEP), octave = hash_spread(*seed += HASH_STEP) % 31;
    return FROM_NS << octave | (bits & ((FROM_NS << octave) - 1));
}

static void a_value_is_told_with_an_error_below_two_percent(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (unsigned int i = 0; i < 1000000; i++) {
        uint64_t span = random_span(&seed), middle = histogram_middle(histogram_bucket(span));
        assert_true(span >= FROM_NS && span < TO_NS);
        assert_true(distance(middle, span) * 50 < span);
    }
}

static void a_short_value_is_told_to_128_nanoseconds(void **state)
{
    (void)state;
    for (uint64_t span = 0; span < FROM_NS; span++)
        assert_true(distance(histogram_middle(histogram_bucket(span)), span) <= 128);
}

static void buckets_follow_each_other_without_a_gap(void **state)
{
    (void)state;
    assert_true(histogram_begin(0) == 0);
    for (uint32_t bucket = 1; bucket < HISTOGRAM_BUCKETS; bucket++) {
        assert_int_equal(histogram_bucket(histogram_begin(bucket)), bucket);
        assert_int_equal(histogram_bucket(histogram_begin(bucket) - 1), bucket - 1);
        assert_true(histogram_end(bucket - 1) == histogram_begin(bucket));
        assert_int_equal(histogram_bucket(histogram_middle(bucket)), bucket);
    }
}

static void what_is_too_long_counts_as_the_longest(void **state)
{
    (void)state;
    assert_int_equal(histogram_bucket(TO_NS), HISTOGRAM_BUCKETS - 1);
    assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
    assert_true(histogram_middle(UINT32_MAX) == histogram_middle(HISTOGRAM_BUCKETS - 1));
    assert_true(histogram_middle(HISTOGRAM_BUCKETS - 1) > UINT64_C(4) * 3600 * 1000 * NS_PER_MS);
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void quantiles_are_those_of_the_sorted_values(void **state)
{
    enum { VALUES = 1237 };
    static uint64_t values[VALUES];
    static struct distribution distribution;
    uint64_t seed = 7;
    (void)state;
    for (unsigned int i = 0; i < VALUES; i++) {
        values[i] = random_span(&seed);
        distribution_add(&distribution, histogram_bucket(values[i]), 1);
    }
    qsort(values, VALUES, sizeof *values, ascending);
    for (uint32_t permille = 1; permille <= 1000; permille++) {
        uint64_t value = values[(VALUES * permille + 999) / 1000 - 1];
        assert_true(distance(distribution_quantile(&distribution, permille), value) * 50 < value);
    }
}

static void merged_they_are_one_that_has_seen_all(void **state)
{
    static struct histogram first, second, all;
    static struct distribution merged, other, whole;
    uint64_t seed = 3;
    (void)state;
    for (unsigned int i = 0; i < 5000; i++) {
        uint32_t bucket = histogram_bucket(random_span(&seed));
        histogram_add(i % 3 == 0 ? &first : &second, bucket, 1 + i % 2);
        histogram_add(&all, bucket, 1 + i % 2);
    }
    distribution_add_histogram(&merged, &first);
    distribution_add_histogram(&other, &second);
    distribution_merge(&merged, &other);
    distribution_add_histogram(&whole, &all);
    assert_memory_equal(&merged, &whole, sizeof merged);
    assert_true(merged.total == 7500);
}

static void of_none_there_is_no_quantile_and_of_one_all_are_the_same(void **state)
{
    static struct distribution distribution;
    (void)state;
    assert_true(distribution_quantile(&distribution, 500) == 0);
    distribution_add(&distribution, histogram_bucket(5 * NS_PER_MS), 1);
    for (uint32_t permille = 0; permille <= 1000; permille += 100)
        assert_true(distribution_quantile(&distribution, permille) ==
                    histogram_middle(histogram_bucket(5 * NS_PER_MS)));
}

static void sums_of_any_bytes_stop_at_the_top(void **state)
{
    static struct histogram histogram;
    static struct distribution distribution;
    (void)state;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        atomic_store(&histogram.buckets[bucket], UINT64_MAX - bucket);
    distribution_add_histogram(&distribution, &histogram);
    distribution_merge(&distribution, &distribution);
    assert_true(distribution.total == UINT64_MAX);
    for (uint32_t permille = 0; permille <= 1000; permille++)
        assert_true(distribution_quantile(&distribution, permille) <= histogram_middle(HISTOGRAM_BUCKETS - 1));
    histogram_add(&histogram, HISTOGRAM_BUCKETS, 1); /* and no bucket is none */
    distribution_add(&distribution, UINT32_MAX, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_told_with_an_error_below_two_percent),
        cmocka_unit_test(a_short_value_is_told_to_128_nanoseconds),
        cmocka_unit_test(buckets_follow_each_other_without_a_gap),
        cmocka_unit_test(what_is_too_long_counts_as_the_longest),
        cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
        cmocka_unit_test(merged_they_are_one_that_has_seen_all),
        cmocka_unit_test(of_none_there_is_no_quantile_and_of_one_all_are_the_same),
        cmocka_unit_test(sums_of_any_bytes_stop_at_the_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
