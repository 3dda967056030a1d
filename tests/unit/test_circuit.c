/*
 * test_circuit.c - closed and open: counting, opening, refusing, and calls that come home late.
 */
#include "support_breaker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void fresh_circuit_is_closed_and_passes(void **state)
{
    struct breaker_bench *bench = *state;

    assert_int_equal(breaker_view(bench).state, CIRCUIT_CLOSED);
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    assert_int_equal(bench->transitions, 0);
}

static void failures_below_the_threshold_keep_it_closed(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_call(bench, breaker_failure);
    breaker_call(bench, breaker_failure);
    assert_int_equal(breaker_view(bench).failures, 2);
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    assert_int_equal(bench->transitions, 0);
}

static void the_failure_that_reaches_the_threshold_opens(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_call(bench, breaker_failure);
    breaker_call(bench, breaker_failure);
    breaker_call(bench, breaker_failure);
    breaker_assert_transition(bench, CIRCUIT_CLOSED, CIRCUIT_OPEN, REASON_FAILURE_THRESHOLD);
    assert_int_equal(bench->last.at[0].failures, 3);
    assert_int_equal(bench->last.at[0].pause_ns, 10 * SECOND);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(bench->transitions, 1);
}

static void a_success_sets_the_failures_to_zero(void **state)
{
    struct breaker_bench *bench = *state;

    for (int round = 0; round < 10; round++) {
        breaker_call(bench, breaker_failure);
        breaker_call(bench, breaker_failure);
        breaker_call(bench, breaker_success);
        assert_int_equal(breaker_view(bench).failures, 0);
    }
    assert_int_equal(bench->transitions, 0);
}

static void neutral_and_business_outcomes_neither_count_nor_reset(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_call(bench, breaker_failure);
    breaker_call(bench, breaker_failure);
    for (int round = 0; round < 10; round++) {
        breaker_call(bench, breaker_neutral);
        breaker_call(bench, breaker_business);
        assert_int_equal(breaker_view(bench).failures, 2);
    }
    assert_int_equal(bench->transitions, 0);
    breaker_call(bench, breaker_failure);
    assert_int_equal(bench->transitions, 1);
}

static void a_threshold_that_was_lowered_below_the_count_opens_at_the_next_failure(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.failure_threshold = 10;
    for (int i = 0; i < 7; i++)
        breaker_call(bench, breaker_failure);
    bench->settings.failure_threshold = 3;
    breaker_call(bench, breaker_failure);
    breaker_assert_transition(bench, CIRCUIT_CLOSED, CIRCUIT_OPEN, REASON_FAILURE_THRESHOLD);
    assert_int_equal(bench->last.at[0].failures, 8);
    assert_int_equal(bench->transitions, 1);
}

static void threshold_zero_never_opens_and_the_count_saturates(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.failure_threshold = 0;
    for (uint32_t i = 0; i < CIRCUIT_FAILURES_MAX + 10; i++)
        breaker_call(bench, breaker_failure);
    assert_int_equal(breaker_view(bench).failures, CIRCUIT_FAILURES_MAX);
    assert_int_equal(breaker_view(bench).state, CIRCUIT_CLOSED);
    assert_int_equal(bench->transitions, 0);
    bench->settings.failure_threshold = 5;
    breaker_call(bench, breaker_failure);
    assert_int_equal(bench->last.at[0].failures, CIRCUIT_FAILURES_MAX);
    assert_int_equal(bench->transitions, 1);
}

static void a_threshold_that_the_counter_cannot_reach_opens_at_its_end(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.failure_threshold = UINT32_MAX;
    for (uint32_t i = 1; i < CIRCUIT_FAILURES_MAX; i++)
        breaker_call(bench, breaker_failure);
    assert_int_equal(bench->transitions, 0);
    breaker_call(bench, breaker_failure);
    assert_int_equal(bench->transitions, 1);
}

static void open_circuit_refuses_until_the_pause_is_over(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    uint64_t opened = bench->now_ns;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns = opened + 10 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(bench->transitions, 1);
    bench->now_ns = opened + 10 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    breaker_assert_transition(bench, CIRCUIT_OPEN, CIRCUIT_HALF_OPEN, REASON_PAUSE_OVER);
    assert_int_equal(bench->last.at[0].refused, 2);
    assert_int_equal(bench->transitions, 2);
}

static void the_pause_is_counted_from_the_failure_that_opened_and_not_from_the_first(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_call(bench, breaker_failure);
    bench->now_ns += 9 * SECOND;
    breaker_call(bench, breaker_failure);
    breaker_call(bench, breaker_failure);
    bench->now_ns += 10 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(bench->transitions, 1);
}

static void refusals_are_no_outcomes(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    uint64_t word = atomic_load(&bench->circuit->word);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(atomic_load(&bench->circuit->word), word);
    assert_int_equal(breaker_sum(bench, COUNT_REFUSED), 1000);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), 3);
    assert_int_equal(breaker_sum(bench, COUNT_ADMITTED), 3);
    assert_int_equal(bench->transitions, 1);
}

static void outcomes_of_calls_from_before_the_opening_are_late(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket early[8];

    for (int i = 0; i < 8; i++) {
        assert_int_equal(breaker_admit(bench), ADMIT_PASS);
        early[i] = bench->ticket;
    }
    breaker_open(bench);
    /* while open: no longer pause, no closing */
    bench->now_ns += 9 * SECOND;
    uint64_t word = atomic_load(&bench->circuit->word);
    assert_int_equal(breaker_settle(bench, early[0], breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, early[1], breaker_success), SETTLED_LATE);
    assert_int_equal(atomic_load(&bench->circuit->word), word);
    /* while half-open: only the lease's token decides */
    breaker_probe(bench);
    struct ticket probe = bench->ticket;
    word = atomic_load(&bench->circuit->word);
    assert_int_equal(breaker_settle(bench, early[2], breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, early[3], breaker_success), SETTLED_LATE);
    assert_int_equal(atomic_load(&bench->circuit->word), word);
    /* closed again, under another generation: neither counted nor reset */
    assert_int_equal(breaker_settle(bench, probe, breaker_success), SETTLED_COUNTED);
    breaker_call(bench, breaker_failure);
    for (int i = 4; i < 6; i++)
        assert_int_equal(breaker_settle(bench, early[i], breaker_failure), SETTLED_LATE);
    for (int i = 6; i < 8; i++)
        assert_int_equal(breaker_settle(bench, early[i], breaker_success), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).failures, 1);
    assert_int_equal(breaker_sum(bench, COUNT_LATE), 8);
    assert_int_equal(bench->transitions, 3);
}

static void each_opening_gives_another_generation(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t seen[50];

    for (int round = 0; round < 50; round++) {
        seen[round] = breaker_view(bench).generation;
        for (int before = 0; before < round; before++)
            assert_int_not_equal(seen[before], seen[round]);
        breaker_open(bench);
        assert_int_equal(breaker_view(bench).generation, 0);
        breaker_probe(bench);
        uint64_t probing = breaker_view(bench).generation;
        assert_int_equal(bench->ticket.generation, probing);
        assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
        assert_int_equal(breaker_view(bench).generation, probing);
    }
    assert_int_equal(bench->transitions, 150);
}

static void observing_changes_nothing_and_shows_a_probe_that_is_due(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    uint64_t opened = bench->now_ns;
    struct circuit *before = aligned_alloc(64, sizeof *before);
    assert_non_null(before);
    memcpy(before, bench->circuit, sizeof *before);

    bench->now_ns = opened + 10 * SECOND - 1;
    struct circuit_view view = breaker_view(bench);
    assert_int_equal(view.state, CIRCUIT_OPEN);
    assert_false(view.probe_due);
    assert_int_equal(view.retry_in_ns, 1);
    assert_int_equal(view.since_ns, opened);
    bench->now_ns = opened + 10 * SECOND;
    view = breaker_view(bench);
    assert_int_equal(view.state, CIRCUIT_OPEN);
    assert_true(view.probe_due);
    assert_int_equal(view.retry_in_ns, 0);
    bench->now_ns = opened + 3600 * SECOND;
    assert_true(breaker_view(bench).probe_due);

    assert_memory_equal(before, bench->circuit, sizeof *before);
    free(before);
    assert_int_equal(bench->transitions, 1);
}

static void a_clock_that_passes_2_to_the_57_keeps_every_pause(void **state)
{
    struct breaker_bench *bench = *state;
    const uint64_t wrap = UINT64_C(1) << 57;

    for (uint64_t turn = 1; turn <= 3; turn++) {
        bench->now_ns = turn * wrap - 5 * SECOND;
        breaker_open(bench);
        bench->now_ns += 10 * SECOND - 1;
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
        assert_int_equal(breaker_view(bench).retry_in_ns, 1);
        bench->now_ns += 1;
        breaker_call(bench, breaker_success);
        assert_int_equal(bench->state, CIRCUIT_CLOSED);
    }
    assert_int_equal(bench->transitions, 9);
}

static void a_caller_whose_clock_reading_is_older_than_the_opening_is_refused(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    bench->now_ns -= 3 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(breaker_view(bench).retry_in_ns, 13 * SECOND);
    assert_int_equal(bench->transitions, 1);
}

static void states_and_reasons_have_names(void **state)
{
    (void)state;
    assert_string_equal(circuit_state_name(CIRCUIT_CLOSED), "closed");
    assert_string_equal(circuit_state_name(CIRCUIT_OPEN), "open");
    assert_string_equal(circuit_state_name(CIRCUIT_HALF_OPEN), "half-open");
    assert_string_equal(circuit_state_name(3), "unknown");
    assert_string_equal(transition_reason_name(REASON_FAILURE_THRESHOLD), "failure-threshold");
    assert_string_equal(transition_reason_name(REASON_PAUSE_OVER), "pause-over");
    assert_string_equal(transition_reason_name(REASON_PROBE_FAILED), "probe-failed");
    assert_string_equal(transition_reason_name(REASON_PROBE_TIMEOUT), "probe-timeout");
    assert_string_equal(transition_reason_name(REASON_PROBE_SUCCEEDED), "probe-succeeded");
    assert_string_equal(transition_reason_name(REASON_FORCED), "forced");
    assert_string_equal(transition_reason_name(REASON_FLEET), "fleet");
    assert_string_equal(transition_reason_name(TRANSITION_REASONS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(fresh_circuit_is_closed_and_passes),
        breaker_test(failures_below_the_threshold_keep_it_closed),
        breaker_test(the_failure_that_reaches_the_threshold_opens),
        breaker_test(a_success_sets_the_failures_to_zero),
        breaker_test(neutral_and_business_outcomes_neither_count_nor_reset),
        breaker_test(a_threshold_that_was_lowered_below_the_count_opens_at_the_next_failure),
        breaker_test(threshold_zero_never_opens_and_the_count_saturates),
        breaker_test(a_threshold_that_the_counter_cannot_reach_opens_at_its_end),
        breaker_test(open_circuit_refuses_until_the_pause_is_over),
        breaker_test(the_pause_is_counted_from_the_failure_that_opened_and_not_from_the_first),
        breaker_test(refusals_are_no_outcomes),
        breaker_test(outcomes_of_calls_from_before_the_opening_are_late),
        breaker_test(each_opening_gives_another_generation),
        breaker_test(observing_changes_nothing_and_shows_a_probe_that_is_due),
        breaker_test(a_clock_that_passes_2_to_the_57_keeps_every_pause),
        breaker_test(a_caller_whose_clock_reading_is_older_than_the_opening_is_refused),
        breaker_test(states_and_reasons_have_names),
    };

    return cmocka_run_group_tests_name("circuit", tests, NULL, NULL);
}
