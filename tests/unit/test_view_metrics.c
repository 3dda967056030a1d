/*
 * test_view_metrics.c - what circuits count, as metrics: buckets that say no more than was counted, one series each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/output.c"
#include "view/metrics_model.c"
#include "view/metrics_text.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

static uint64_t seed = 1;

static uint64_t random_below(uint64_t end)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 11) % end;
}

static void bounds_ascend_and_each_stands_where_a_bucket_begins(void **state)
{
    (void)state;
    for (unsigned int bound = 0; bound < WAIT_BOUNDS; bound++) {
        const uint64_t at_ns = metrics_bound_ns(bound), wanted_ns = wanted_us[bound] * NS_PER_US;
        assert_true(histogram_begin(histogram_bucket(at_ns)) == at_ns);
        assert_true(bound == 0 || at_ns > metrics_bound_ns(bound - 1));
        assert_true((at_ns > wanted_ns ? at_ns - wanted_ns : wanted_ns - at_ns) <= wanted_ns / 64);
    }
}

static void each_wait_is_counted_below_those_bounds_that_it_is_below(void **state)
{
    static struct distribution distribution;
    struct metered_waits waits = {.count = 0};
    uint64_t below[WAIT_BOUNDS] = {0}, sum_ns = 0, count = 0;
    (void)state;
    memset(&distribution, 0, sizeof distribution);
    for (unsigned int i = 0; i < 20000; i++) {
        const uint64_t span_ns = random_below(UINT64_C(1) << (10 + random_below(27)));
        distribution_add(&distribution, histogram_bucket(span_ns), 3);
        for (unsigned int bound = 0; bound < WAIT_BOUNDS; bound++)
            below[bound] += span_ns < metrics_bound_ns(bound) ? 3 : 0;
        sum_ns += 3 * span_ns;
        count += 3;
    }
    metered_waits_add(&waits, &distribution);
    assert_int_equal(waits.count, count);
    assert_memory_equal(waits.below, below, sizeof below);
    const uint64_t sum_us = sum_ns / NS_PER_US;
    assert_in_range(waits.sum_us, sum_us - sum_us / 60 - count, sum_us + sum_us / 60);
}

static void buckets_of_damaged_memory_still_ascend(void **state)
{
    static struct distribution distribution;
    struct metered_waits waits = {.count = 0};
    (void)state;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
        distribution.counts[bucket] = bucket % 3 == 0 ? UINT64_MAX : bucket;
    metered_waits_add(&waits, &distribution);
    for (unsigned int bound = 1; bound < WAIT_BOUNDS; bound++)
        assert_true(waits.below[bound] >= waits.below[bound - 1]);
    assert_true(waits.count == UINT64_MAX && waits.sum_us == UINT64_MAX);
}

static struct metered_circuit *told(struct metrics *metrics, const char *labels, enum circuit_state of)
{
    struct metered_circuit *circuit = metrics_add_circuit(metrics);
    circuit->labels = copy_text(labels);
    circuit->state = of;
    circuit->counts[COUNT_SUCCEEDED] = 7;
    circuit->waiting = 1;
    circuit->connects.count = circuit->connects.below[0] = 2;
    return circuit;
}

static void circuits_that_have_the_same_labels_are_one_and_the_worse_state_is_theirs(void **state)
{
    struct metrics metrics = {.circuits = NULL};
    (void)state;
    told(&metrics, "b", CIRCUIT_HALF_OPEN);
    told(&metrics, "a", CIRCUIT_CLOSED);
    told(&metrics, "b", CIRCUIT_OPEN)->oldest_ns = 5;
    told(&metrics, "b", CIRCUIT_CLOSED);
    metrics_merge(&metrics);
    assert_int_equal(metrics.circuit_count, 2);
    assert_string_equal(metrics.circuits[0].labels, "a");
    assert_int_equal(metrics.circuits[0].counts[COUNT_SUCCEEDED], 7);
    const struct metered_circuit *both = &metrics.circuits[1];
    assert_int_equal(both->state, CIRCUIT_OPEN);
    assert_int_equal(both->counts[COUNT_SUCCEEDED], 21);
    assert_int_equal(both->waiting, 3);
    assert_int_equal(both->oldest_ns, 5);
    assert_int_equal(both->connects.below[0], 6);
    metrics_free(&metrics);
}

static void faults_on_this_side_are_counted_by_error_and_those_without_a_place_together(void **state)
{
    struct metrics metrics = {.circuits = NULL};
    uint64_t sum = 0;
    (void)state;
    told(&metrics, "a", CIRCUIT_CLOSED);
    for (int other = 0; other < 3; other++) {
        struct metered_circuit *more = told(&metrics, "a", CIRCUIT_CLOSED);
        for (int i = 0; i < (int)LOCAL_FAULTS; i++)
            metered_fault_add(more, i == 0 ? 0 : other * (int)LOCAL_FAULTS + i, 10);
    }
    metrics_merge(&metrics);
    const struct metered_circuit *circuit = &metrics.circuits[0];
    assert_in_range(circuit->fault_count, 2, METERED_FAULTS);
    for (unsigned int i = 0; i < circuit->fault_count; i++) {
        sum += circuit->faults[i].count;
        for (unsigned int j = 0; j < i; j++)
            assert_int_not_equal(circuit->faults[i].error, circuit->faults[j].error);
    }
    assert_int_equal(sum, 3 * 10 * LOCAL_FAULTS);
    metrics_free(&metrics);
}

/* The text in one format; to be freed. */
static char *text_of(const struct metrics *metrics, enum metrics_format format)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    metrics_write(metrics, format, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void a_label_can_neither_end_itself_nor_drive_a_terminal(void **state)
{
    char *labels = metrics_labels("u", "/a\"b\\c\n\x1b[31m\xff", "t\"", "d");
    (void)state;
    assert_string_equal(labels, "user=\"u\",policy=\"/a\\\"b\\\\c\\\\x0a\\\\x1b[31m\\\\xff\",target=\"t\\\"\","
                                "destination=\"d\"");
    free(labels);
}

static void a_counter_is_named_by_its_family_in_one_format_and_by_its_sample_in_the_other(void **state)
{
    struct metrics metrics = {.circuits = NULL};
    (void)state;
    told(&metrics, "x=\"y\"", CIRCUIT_OPEN);
    char *open = text_of(&metrics, METRICS_OPENMETRICS), *prometheus = text_of(&metrics, METRICS_PROMETHEUS);
    assert_non_null(strstr(open, "# TYPE sockfuse_calls counter\n"));
    assert_non_null(strstr(prometheus, "# TYPE sockfuse_calls_total counter\n"));
    for (int i = 0; i <= 1; i++) {
        const char *text = i == 0 ? open : prometheus;
        assert_non_null(strstr(text, "\nsockfuse_calls_total{x=\"y\",outcome=\"success\",kind=\"none\"} 7\n"));
        assert_non_null(strstr(text, "\nsockfuse_circuit_state{x=\"y\",state=\"open\"} 1\n"));
        assert_non_null(strstr(text, "\nsockfuse_connect_duration_seconds_bucket{x=\"y\",le=\"+Inf\"} 2\n"));
        assert_non_null(strstr(text, "{x=\"y\",le=\"0.000999424\"} 0\n"));
    }
    assert_string_equal(strrchr(open, '#'), "# EOF\n");
    assert_null(strstr(prometheus, "# EOF"));
    assert_null(strstr(prometheus, "# UNIT"));
    free(open);
    free(prometheus);
    metrics_free(&metrics);
}

static void faults_are_told_by_their_errors_names_and_the_rest_as_other(void **state)
{
    struct metrics metrics = {.circuits = NULL};
    struct metered_circuit *circuit = told(&metrics, "x=\"y\"", CIRCUIT_CLOSED);
    (void)state;
    metered_fault_add(circuit, EMFILE, 3);
    metered_fault_add(circuit, 0, 2);
    metered_fault_add(circuit, 4095, 1);
    char *text = text_of(&metrics, METRICS_OPENMETRICS);
    assert_non_null(strstr(text, "{x=\"y\",error=\"EMFILE\"} 3\n"));
    assert_non_null(strstr(text, "{x=\"y\",error=\"other\"} 2\n"));
    assert_non_null(strstr(text, "4095\"} 1\n"));
    free(text);
    metrics_free(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_ascend_and_each_stands_where_a_bucket_begins),
        cmocka_unit_test(each_wait_is_counted_below_those_bounds_that_it_is_below),
        cmocka_unit_test(buckets_of_damaged_memory_still_ascend),
        cmocka_unit_test(circuits_that_have_the_same_labels_are_one_and_the_worse_state_is_theirs),
        cmocka_unit_test(faults_on_this_side_are_counted_by_error_and_those_without_a_place_together),
        cmocka_unit_test(faults_are_told_by_their_errors_names_and_the_rest_as_other),
        cmocka_unit_test(a_label_can_neither_end_itself_nor_drive_a_terminal),
        cmocka_unit_test(a_counter_is_named_by_its_family_in_one_format_and_by_its_sample_in_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
