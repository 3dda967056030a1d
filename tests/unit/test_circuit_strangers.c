/*
 * test_circuit_strangers.c - times that another clock has written (of a time name space 115 days ahead), or nobody: no
 * such time blocks a circuit for longer than its own policy would.
 */
#include "support_breaker.h"

#define AHEAD_NS (UINT64_C(9936000) * SECOND) /* 115 days */

/* An offset of a clock, or rubbish. */
static const uint64_t far_ns[] = {SECOND * 3600, SECOND * 86400, AHEAD_NS, UINT64_C(1) << 55};
#define FARS (sizeof far_ns / sizeof *far_ns)

/* The next call must be the probe, and closes the circuit. */
static void probe_and_close(struct breaker_bench *bench)
{
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
}

static void a_pause_by_a_clock_that_is_far_ahead_is_over(void **state)
{
    struct breaker_bench *bench = *state;

    for (unsigned int i = 0; i < FARS; i++) {
        bench->now_ns += far_ns[i];
        breaker_open(bench);
        bench->now_ns -= far_ns[i];
        assert_true(breaker_view(bench).probe_due);
        probe_and_close(bench);
    }
}

static void the_own_longest_pause_is_believed_to_its_last_nanosecond(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.reset_timeout_ns = bench->settings.reset_timeout_max_ns = 30 * SECOND;
    bench->settings.jitter_permille = 1000;
    breaker_open(bench);
    uint64_t left = breaker_view(bench).retry_in_ns;
    assert_in_range(left, 30 * SECOND, 60 * SECOND);
    bench->now_ns += left - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
}

static void a_pause_that_began_under_a_longer_policy_lasts(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.reset_timeout_ns = bench->settings.reset_timeout_max_ns = 3600 * SECOND;
    breaker_open(bench);
    bench->settings.reset_timeout_ns = bench->settings.reset_timeout_max_ns = SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns += 3600 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
}

static void a_floor_is_believed_as_far_as_the_policy_lets_it_be(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.retry_after_max_ns = 300 * SECOND;
    circuit_hold_open(bench->circuit, bench->now_ns + 300 * SECOND);
    breaker_open(bench);
    assert_int_equal(breaker_view(bench).retry_in_ns, 300 * SECOND);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
}

static void a_floor_that_lies_far_ahead_lengthens_no_pause(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.retry_after_max_ns = 300 * SECOND;
    for (unsigned int i = 0; i < FARS; i++) {
        circuit_hold_open(bench->circuit, bench->now_ns + far_ns[i]);
        breaker_open(bench);
        assert_true(breaker_view(bench).retry_in_ns <= circuit_pause_ns(&bench->settings, 0));
        bench->now_ns += circuit_pause_ns(&bench->settings, 0);
        probe_and_close(bench);
    }
    /* And one that nobody of this clock can have set makes room for a real one. */
    circuit_hold_open(bench->circuit, bench->now_ns + AHEAD_NS);
    circuit_hold_open(bench->circuit, bench->now_ns + 200 * SECOND);
    breaker_open(bench);
    assert_int_equal(breaker_view(bench).retry_in_ns, 200 * SECOND);
}

static void a_lease_by_a_clock_that_is_far_ahead_runs_out_at_once(void **state)
{
    struct breaker_bench *bench = *state;

    for (unsigned int i = 0; i < FARS; i++) {
        breaker_open(bench);
        bench->now_ns += circuit_pause_ns(&bench->settings, 0);
        bench->now_ns += far_ns[i];
        assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER + 1, ADDRESS_NONE, 0), ADMIT_PROBE);
        bench->now_ns -= far_ns[i];
        /* Its holder lives and never comes back; the probe has failed, with a pause from now on. */
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
        assert_true(breaker_view(bench).retry_in_ns <= circuit_pause_ns(&bench->settings, 1));
        bench->now_ns += circuit_pause_ns(&bench->settings, 1);
        probe_and_close(bench);
    }
}

static void a_lease_that_was_taken_under_a_longer_policy_lasts(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.probe_timeout_ns = 100 * SECOND;
    breaker_open(bench);
    bench->now_ns += circuit_pause_ns(&bench->settings, 0);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER + 1, ADDRESS_NONE, 0), ADMIT_PROBE);
    bench->settings.probe_timeout_ns = SECOND;
    bench->now_ns += 100 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
    bench->now_ns += 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
}

static void who_read_its_clock_a_moment_before_believes_what_was_set_since(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.reset_timeout_ns = bench->settings.reset_timeout_max_ns = 30 * SECOND;
    bench->settings.jitter_permille = 0;
    breaker_open(bench);
    for (uint64_t ago_ns = 1; ago_ns <= 10 * SECOND; ago_ns *= 10) {
        bench->now_ns -= ago_ns;
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
        bench->now_ns += ago_ns;
    }
    bench->now_ns += 30 * SECOND;
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER + 1, ADDRESS_NONE, 0), ADMIT_PROBE);
    for (uint64_t ago_ns = 1; ago_ns <= 10 * SECOND; ago_ns *= 10) {
        bench->now_ns -= ago_ns;
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
        bench->now_ns += ago_ns;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(a_pause_by_a_clock_that_is_far_ahead_is_over),
        breaker_test(the_own_longest_pause_is_believed_to_its_last_nanosecond),
        breaker_test(a_pause_that_began_under_a_longer_policy_lasts),
        breaker_test(a_floor_is_believed_as_far_as_the_policy_lets_it_be),
        breaker_test(a_floor_that_lies_far_ahead_lengthens_no_pause),
        breaker_test(a_lease_by_a_clock_that_is_far_ahead_runs_out_at_once),
        breaker_test(who_read_its_clock_a_moment_before_believes_what_was_set_since),
        breaker_test(a_lease_that_was_taken_under_a_longer_policy_lasts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
