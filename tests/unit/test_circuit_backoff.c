/*
 * test_circuit_backoff.c - how long an opening lasts: reset timeout, back-off, its maximum, and jitter.
 */
#include "support_breaker.h"

#include "breaker/backoff.h"

static void each_failed_probe_multiplies_the_pause_up_to_the_maximum(void **state)
{
    struct breaker_bench *bench = *state;
    const uint64_t expected[] = {20 * SECOND, 40 * SECOND, 60 * SECOND, 60 * SECOND, 60 * SECOND};

    breaker_open(bench);
    assert_int_equal(bench->last.at[0].pause_ns, 10 * SECOND);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        breaker_probe(bench);
        assert_int_equal(breaker_settle(bench, bench->ticket, breaker_failure), SETTLED_COUNTED);
        assert_int_equal(bench->last.at[0].pause_ns, expected[i]);
        assert_int_equal(breaker_view(bench).retry_in_ns, expected[i]);
    }
    assert_int_equal(bench->transitions, 11);
}

static void a_close_begins_the_backoff_anew(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    breaker_settle(bench, bench->ticket, breaker_failure);
    breaker_probe(bench);
    breaker_settle(bench, bench->ticket, breaker_success);
    breaker_open(bench);
    assert_int_equal(bench->last.at[0].pause_ns, 10 * SECOND);
    assert_int_equal(breaker_view(bench).step, 0);
    assert_int_equal(bench->transitions, 6);
}

static void the_step_stays_at_the_last_after_a_hundred_failed_probes(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    for (int i = 0; i < 100; i++) {
        breaker_probe(bench);
        breaker_settle(bench, bench->ticket, breaker_failure);
        assert_int_equal(breaker_view(bench).state, CIRCUIT_OPEN);
    }
    assert_int_equal(breaker_view(bench).step, 31);
    assert_int_equal(breaker_view(bench).retry_in_ns, 60 * SECOND);
    assert_int_equal(bench->transitions, 201);
}

static void pauses_are_exact_and_rounded_down(void **state)
{
    struct breaker_bench *bench = *state;
    struct settings *settings = &bench->settings;

    settings->backoff_permille = 1500;
    assert_int_equal(circuit_pause_ns(settings, 1), 15 * SECOND);
    assert_int_equal(circuit_pause_ns(settings, 2), 22500 * MILLISECOND);
    settings->reset_timeout_ns = 3;
    assert_int_equal(circuit_pause_ns(settings, 1), 4);
    assert_int_equal(circuit_pause_ns(settings, 2), 6);
    settings->reset_timeout_ns = 1;
    assert_int_equal(circuit_pause_ns(settings, 31), 1); /* 1.5 rounds down to 1, and ends there */
}

static void without_backoff_all_pauses_are_equal(void **state)
{
    struct breaker_bench *bench = *state;
    const uint32_t none[] = {1000, 999, 500, 0};

    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        bench->settings.backoff_permille = none[i];
        for (unsigned int step = 0; step < 40; step++)
            assert_int_equal(circuit_pause_ns(&bench->settings, step), 10 * SECOND);
    }
}

static void no_pause_is_longer_than_the_maximum_not_even_the_first(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.reset_timeout_max_ns = 7 * SECOND;
    assert_int_equal(circuit_pause_ns(&bench->settings, 0), 7 * SECOND);
    assert_int_equal(circuit_pause_ns(&bench->settings, 9), 7 * SECOND);
}

static void absurd_settings_saturate(void **state)
{
    struct breaker_bench *bench = *state;
    struct settings *settings = &bench->settings;

    settings->reset_timeout_max_ns = UINT64_MAX;
    settings->backoff_permille = UINT32_MAX;
    settings->jitter_permille = UINT32_MAX;
    for (unsigned int step = 0; step < 64; step++) {
        uint64_t plain = circuit_pause_ns(settings, step), pause = backoff_pause_ns(settings, step, step, ~step);
        assert_true(plain <= BACKOFF_PAUSE_MAX_NS);
        assert_true(pause >= plain && pause <= BACKOFF_PAUSE_MAX_NS);
    }
    assert_int_equal(circuit_pause_ns(settings, 2), BACKOFF_PAUSE_MAX_NS);
    assert_int_equal(circuit_pause_ns(settings, 31), BACKOFF_PAUSE_MAX_NS);
    settings->reset_timeout_ns = (UINT64_C(1) << 33) * 1000; /* the product is 2^64, which 64 bits take for 0 */
    settings->backoff_permille = UINT32_C(1) << 31;
    assert_int_equal(circuit_pause_ns(settings, 1), BACKOFF_PAUSE_MAX_NS);
    settings->reset_timeout_ns = UINT64_MAX;
    assert_int_equal(circuit_pause_ns(settings, 0), BACKOFF_PAUSE_MAX_NS);
    /* the longest pause of all is still one: nobody passes before its end */
    settings->jitter_permille = 0;
    breaker_open(bench);
    assert_int_equal(breaker_view(bench).retry_in_ns, BACKOFF_PAUSE_MAX_NS);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns += BACKOFF_PAUSE_MAX_NS - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 2);
}

static void jitter_only_lengthens_and_is_bounded(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t shortest = UINT64_MAX, longest = 0;

    bench->settings.jitter_permille = 100;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t pause = backoff_pause_ns(&bench->settings, 0, BREAKER_START_NS + i, i);

        assert_in_range(pause, 10 * SECOND, 11 * SECOND);
        shortest = pause < shortest ? pause : shortest;
        longest = pause > longest ? pause : longest;
    }
    /* it is spread over the whole of the tenth */
    assert_true(shortest < 10 * SECOND + 5 * MILLISECOND);
    assert_true(longest > 11 * SECOND - 5 * MILLISECOND);
}

static void jitter_reaches_both_of_its_ends(void **state)
{
    struct breaker_bench *bench = *state;
    unsigned int seen[3] = {0, 0, 0};

    bench->settings.reset_timeout_ns = 20;
    bench->settings.jitter_permille = 100;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t pause = backoff_pause_ns(&bench->settings, 0, i, 0);
        assert_in_range(pause, 20, 22);
        seen[pause - 20]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(seen[i], 200, 500);
}

static void circuits_that_open_at_one_moment_do_not_probe_at_one_moment(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.jitter_permille = 100;
    uint64_t one = backoff_pause_ns(&bench->settings, 0, BREAKER_START_NS, 0x11);
    uint64_t two = backoff_pause_ns(&bench->settings, 0, BREAKER_START_NS, 0x12);
    assert_int_not_equal(one, two);
}

static void an_opening_lasts_as_long_as_it_reports(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.jitter_permille = 500;
    for (int round = 0; round < 50; round++) {
        bench->now_ns += 12345;
        breaker_open(bench);
        uint64_t pause = bench->last.at[0].pause_ns;
        assert_in_range(pause, 10 * SECOND, 15 * SECOND);
        bench->now_ns += pause - 1;
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
        bench->now_ns += 1;
        breaker_call(bench, breaker_success);
    }
    assert_int_equal(bench->transitions, 150);
}

static void an_observer_foretells_the_jitter_of_a_lost_probe(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.jitter_permille = 1000;
    breaker_open(bench);
    breaker_probe(bench);
    bench->now_ns += 6 * SECOND;
    uint64_t foretold = breaker_view(bench).retry_in_ns;
    assert_in_range(foretold, 19 * SECOND, 39 * SECOND);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(breaker_view(bench).retry_in_ns, foretold);
    assert_int_equal(bench->transitions, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(each_failed_probe_multiplies_the_pause_up_to_the_maximum),
        breaker_test(a_close_begins_the_backoff_anew),
        breaker_test(the_step_stays_at_the_last_after_a_hundred_failed_probes),
        breaker_test(pauses_are_exact_and_rounded_down),
        breaker_test(without_backoff_all_pauses_are_equal),
        breaker_test(no_pause_is_longer_than_the_maximum_not_even_the_first),
        breaker_test(absurd_settings_saturate),
        breaker_test(jitter_only_lengthens_and_is_bounded),
        breaker_test(jitter_reaches_both_of_its_ends),
        breaker_test(circuits_that_open_at_one_moment_do_not_probe_at_one_moment),
        breaker_test(an_opening_lasts_as_long_as_it_reports),
        breaker_test(an_observer_foretells_the_jitter_of_a_lost_probe),
    };

    return cmocka_run_group_tests_name("pauses", tests, NULL, NULL);
}
