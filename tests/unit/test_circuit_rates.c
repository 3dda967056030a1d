/*
 * test_circuit_rates.c - the failure rate and the slow-call rate beside the threshold of consecutive failures.
 */
#include "support_breaker.h"

#include <string.h>

static const struct outcome slow = {.verdict = VERDICT_SUCCESS, .slow = true};

/* Half of at least ten calls in half a minute; the threshold is out of the way. */
static void use_rates(struct breaker_bench *bench)
{
    bench->settings.failure_threshold = 0;
    bench->settings.window = 30 * SECOND;
    bench->settings.minimum_calls = 10;
    bench->settings.failure_rate_permille = 500;
    bench->settings.slow_call_rate_permille = 1000;
}

static void calls(struct breaker_bench *bench, struct outcome outcome, unsigned int count)
{
    while (count-- > 0)
        breaker_call(bench, outcome);
}

static void assert_opened(struct breaker_bench *bench, enum transition_reason reason, uint64_t made, uint64_t failed,
                          uint64_t slow_ones)
{
    breaker_assert_transition(bench, CIRCUIT_CLOSED, CIRCUIT_OPEN, reason);
    assert_int_equal(bench->last.at[0].window.calls, made);
    assert_int_equal(bench->last.at[0].window.failed, failed);
    assert_int_equal(bench->last.at[0].window.slow, slow_ones);
}

static void the_failure_that_reaches_the_rate_opens(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    calls(bench, breaker_success, 10);
    calls(bench, breaker_failure, 9);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(breaker_view(bench).window.calls, 19);
    assert_int_equal(breaker_view(bench).window.failed, 9);
    breaker_call(bench, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 20, 10, 0);
    assert_int_equal(bench->last.at[0].failures, 10);
    assert_int_equal(breaker_view(bench).window.calls, 0);
    assert_int_equal(breaker_view(bench).retry_in_ns, 10 * SECOND);
}

static void below_the_minimum_no_rate_opens(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    calls(bench, breaker_failure, 9);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    breaker_call(bench, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 10, 10, 0);
}

static void a_success_that_fills_the_minimum_is_no_time_to_judge(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    calls(bench, breaker_failure, 9);
    calls(bench, breaker_success, 1);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    breaker_call(bench, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 11, 10, 0);
}

static void calls_in_flight_are_not_in_the_window(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket tickets[20];

    use_rates(bench);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(breaker_admit(bench), ADMIT_PASS);
        tickets[i] = bench->ticket;
    }
    for (int i = 0; i < 9; i++)
        breaker_settle(bench, tickets[i], breaker_failure);
    assert_int_equal(breaker_view(bench).window.calls, 9);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    breaker_settle(bench, tickets[9], breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 10, 10, 0);
    for (int i = 10; i < 20; i++)
        assert_int_equal(breaker_settle(bench, tickets[i], breaker_failure), SETTLED_LATE);
}

static void whichever_rule_is_met_first_opens(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.failure_threshold = 3;
    calls(bench, breaker_success, 20);
    calls(bench, breaker_failure, 3);
    breaker_assert_transition(bench, CIRCUIT_CLOSED, CIRCUIT_OPEN, REASON_FAILURE_THRESHOLD);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    for (int i = 0; i < 5; i++) {
        breaker_call(bench, breaker_failure);
        assert_int_equal(bench->state, CIRCUIT_CLOSED);
        breaker_call(bench, i < 4 ? breaker_success : breaker_failure);
    }
    assert_opened(bench, REASON_FAILURE_RATE, 10, 6, 0);
    assert_int_equal(bench->last.at[0].failures, 2);
}

static void neutral_and_business_outcomes_are_not_in_the_window(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    calls(bench, breaker_neutral, 20);
    calls(bench, breaker_business, 20);
    assert_int_equal(breaker_view(bench).window.calls, 0);
    calls(bench, breaker_failure, 9);
    calls(bench, breaker_business, 20);
    breaker_call(bench, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 10, 10, 0);
}

static void failures_one_window_old_do_not_count_any_more(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    calls(bench, breaker_failure, 9);
    bench->now_ns += 30 * SECOND;
    assert_int_equal(breaker_view(bench).window.calls, 0);
    calls(bench, breaker_failure, 9);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    breaker_call(bench, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 10, 10, 0);
}

static void a_circuit_that_has_closed_again_begins_with_an_empty_window(void **state)
{
    struct breaker_bench *bench = *state;
    static const uint64_t windows[] = {3600 * SECOND, WINDOW_CALLS | 1000};

    use_rates(bench);
    for (int round = 0; round < 20; round++) {
        bench->settings.window = windows[round % 2];
        assert_int_equal(breaker_admit(bench), ADMIT_PASS);
        struct ticket early = bench->ticket;
        calls(bench, breaker_failure, 10);
        assert_opened(bench, REASON_FAILURE_RATE, 10, 10, 0);
        breaker_probe(bench);
        assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
        assert_int_equal(bench->state, CIRCUIT_CLOSED);
        assert_int_equal(breaker_view(bench).window.calls, 0); /* nor is the probe in it */
        assert_int_equal(breaker_settle(bench, early, breaker_failure), SETTLED_LATE);
        assert_int_equal(breaker_view(bench).window.calls, 0);
    }
}

static void the_last_n_calls_open_too(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.window = WINDOW_CALLS | 20;
    calls(bench, breaker_failure, 9);
    calls(bench, breaker_success, 15);
    assert_int_equal(breaker_view(bench).window.calls, 20);
    assert_int_equal(breaker_view(bench).window.failed, 5);
    bench->now_ns += 24 * 3600 * SECOND;
    calls(bench, breaker_failure, 9); /* and the first five fall out */
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    breaker_call(bench, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 20, 10, 0);
}

static void slow_calls_open_by_their_own_rate_and_succeed(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.slow_call_ns = SECOND;
    bench->settings.slow_call_rate_permille = 800;
    calls(bench, breaker_success, 2);
    calls(bench, slow, 7);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(breaker_view(bench).window.slow, 7);
    assert_int_equal(breaker_sum(bench, COUNT_SLOW), 7);
    breaker_call(bench, slow);
    assert_opened(bench, REASON_SLOW_CALL_RATE, 10, 0, 8);
    assert_int_equal(bench->last.at[0].failures, 0);
    assert_int_equal(breaker_sum(bench, COUNT_SLOW), 8);
    assert_int_equal(breaker_sum(bench, COUNT_SUCCEEDED), 10);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), 0);
}

static void a_slow_call_ends_the_failures_in_a_row(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.failure_threshold = 3;
    bench->settings.slow_call_ns = SECOND;
    calls(bench, breaker_failure, 2);
    breaker_call(bench, slow);
    calls(bench, breaker_failure, 2);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(breaker_view(bench).failures, 2);
    assert_int_equal(breaker_view(bench).window.calls, 5);
}

static void each_rate_is_judged_when_what_it_counts_is_added(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.slow_call_ns = SECOND;
    bench->settings.slow_call_rate_permille = 500;
    calls(bench, slow, 9);
    breaker_call(bench, breaker_failure); /* nine of ten are slow, but this one is not */
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    breaker_call(bench, slow);
    assert_opened(bench, REASON_SLOW_CALL_RATE, 11, 1, 10);
}

static void a_slow_probe_closes_the_circuit_and_is_counted_as_slow(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.slow_call_ns = SECOND;
    calls(bench, breaker_failure, 10);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, slow), SETTLED_COUNTED);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(breaker_sum(bench, COUNT_SLOW), 1);
    assert_int_equal(breaker_view(bench).window.slow, 0);
}

static void a_late_slow_call_is_not_counted_as_slow(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    bench->settings.slow_call_ns = SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    struct ticket early = bench->ticket;
    calls(bench, breaker_failure, 10);
    assert_int_equal(breaker_settle(bench, early, slow), SETTLED_LATE);
    assert_int_equal(breaker_sum(bench, COUNT_SLOW), 0);
}

static void with_all_rates_off_the_window_is_never_touched(void **state)
{
    struct breaker_bench *bench = *state;
    static struct window untouched;

    use_rates(bench);
    bench->settings.failure_rate_permille = 0; /* and slow_call is off, whatever its rate */
    memset(&bench->circuit->window, 0x5a, sizeof untouched);
    memset(&untouched, 0x5a, sizeof untouched);
    calls(bench, breaker_failure, 30);
    calls(bench, slow, 30);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(breaker_view(bench).window.calls, 0);
    assert_memory_equal(&bench->circuit->window, &untouched, sizeof untouched);
    assert_int_equal(breaker_sum(bench, COUNT_SLOW), 30);
}

/* A failure found late, as of the time when the call became overdue, is judged with what was known by then. */
static void an_overdue_failure_opens_as_of_its_own_time(void **state)
{
    struct breaker_bench *bench = *state;

    use_rates(bench);
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    struct ticket hanging = bench->ticket;
    calls(bench, breaker_failure, 9);
    bench->now_ns += 10 * SECOND;
    breaker_settle(bench, hanging, breaker_failure);
    assert_opened(bench, REASON_FAILURE_RATE, 10, 10, 0);
    bench->now_ns += 10 * SECOND;
    assert_true(breaker_view(bench).probe_due);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(the_failure_that_reaches_the_rate_opens),
        breaker_test(below_the_minimum_no_rate_opens),
        breaker_test(a_success_that_fills_the_minimum_is_no_time_to_judge),
        breaker_test(calls_in_flight_are_not_in_the_window),
        breaker_test(whichever_rule_is_met_first_opens),
        breaker_test(neutral_and_business_outcomes_are_not_in_the_window),
        breaker_test(failures_one_window_old_do_not_count_any_more),
        breaker_test(a_circuit_that_has_closed_again_begins_with_an_empty_window),
        breaker_test(the_last_n_calls_open_too),
        breaker_test(slow_calls_open_by_their_own_rate_and_succeed),
        breaker_test(a_slow_call_ends_the_failures_in_a_row),
        breaker_test(each_rate_is_judged_when_what_it_counts_is_added),
        breaker_test(a_slow_probe_closes_the_circuit_and_is_counted_as_slow),
        breaker_test(a_late_slow_call_is_not_counted_as_slow),
        breaker_test(with_all_rates_off_the_window_is_never_touched),
        breaker_test(an_overdue_failure_opens_as_of_its_own_time),
    };

    return cmocka_run_group_tests_name("circuit rates", tests, NULL, NULL);
}
