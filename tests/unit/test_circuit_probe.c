/*
 * test_circuit_probe.c - half-open: permits, and what the outcome of a probe leads to.
 */
#include "support_breaker.h"

#include <stdatomic.h>

static void one_probe_at_a_time_is_admitted(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    for (uint32_t holder = 1; holder <= 50; holder++)
        assert_int_equal(breaker_admit_as(bench, holder, ADDRESS_NONE, 0), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(bench->transitions, 2);
}

static void half_open_max_calls_probes_are_admitted_and_no_more(void **state)
{
    struct breaker_bench *bench = *state;

    for (uint32_t permits = 1; permits <= CIRCUIT_LEASES; permits++) {
        bench->settings.half_open_max_calls = permits;
        breaker_open(bench);
        breaker_probe(bench);
        struct ticket first = bench->ticket;
        for (uint32_t i = 1; i < permits; i++) {
            assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
            assert_int_not_equal(bench->ticket.token, first.token);
        }
        assert_int_equal(breaker_view(bench).probes, permits);
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
        assert_int_equal(breaker_settle(bench, first, breaker_success), SETTLED_COUNTED);
        assert_int_equal(bench->state, CIRCUIT_CLOSED);
    }
    assert_int_equal(bench->transitions, 3 * CIRCUIT_LEASES);
}

static void a_permit_count_out_of_range_means_the_nearest_that_works(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.half_open_max_calls = 0;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    bench->settings.half_open_max_calls = UINT32_MAX;
    for (uint32_t i = 1; i < CIRCUIT_LEASES; i++)
        assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
    /* fewer permits than probes in flight, after a policy was reloaded */
    bench->settings.half_open_max_calls = 2;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void a_successful_probe_closes_with_all_counts_at_zero(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED);
    assert_int_equal(breaker_view(bench).failures, 0);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 0);
    breaker_call(bench, breaker_failure);
    breaker_call(bench, breaker_failure);
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    assert_int_equal(bench->transitions, 3);
}

static void a_business_answer_is_a_successful_probe(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_business), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED);
    assert_int_equal(breaker_sum(bench, COUNT_BUSINESS), 1);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(bench->transitions, 3);
}

static void success_threshold_probes_in_a_row_close(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.success_threshold = 3;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_view(bench).successes, 1);
    assert_int_equal(breaker_view(bench).probes, 0);
    breaker_call(bench, breaker_success);
    assert_int_equal(breaker_view(bench).successes, 2);
    breaker_call(bench, breaker_neutral); /* gives its permit back and takes no success away */
    assert_int_equal(breaker_view(bench).successes, 2);
    assert_int_equal(bench->transitions, 2);
    breaker_call(bench, breaker_success);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(bench->transitions, 3);
}

static void a_success_threshold_out_of_range_can_still_be_reached(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.success_threshold = 0;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    bench->settings.success_threshold = UINT32_MAX;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    for (uint32_t i = 1; i < CIRCUIT_SUCCESSES_MAX; i++) {
        assert_int_equal(bench->state, CIRCUIT_HALF_OPEN);
        breaker_call(bench, breaker_success);
    }
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    assert_int_equal(bench->transitions, 6);
}

static void the_first_failed_probe_reopens_for_a_full_new_pause(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    bench->now_ns += 3 * SECOND; /* the probe comes later than it could */
    breaker_probe(bench);
    bench->now_ns += 2 * SECOND;
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_failure), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(bench->last.at[0].pause_ns, 20 * SECOND);
    assert_int_equal(breaker_view(bench).step, 1);
    bench->now_ns += 20 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench->transitions, 4);
}

static void a_failed_probe_reopens_whatever_the_others_say(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket tickets[3];

    bench->settings.half_open_max_calls = 3;
    bench->settings.success_threshold = 3;
    breaker_open(bench);
    breaker_probe(bench);
    tickets[0] = bench->ticket;
    for (int i = 1; i < 3; i++) {
        assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
        tickets[i] = bench->ticket;
    }
    assert_int_equal(breaker_settle(bench, tickets[0], breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_settle(bench, tickets[1], breaker_failure), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(breaker_settle(bench, tickets[2], breaker_success), SETTLED_LATE);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    /* and the next half-open begins without the successes of this one */
    breaker_probe(bench);
    assert_int_equal(breaker_view(bench).successes, 0);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(bench->transitions, 4);
}

static void a_neutral_probe_gives_its_permit_back(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_neutral), SETTLED_COUNTED);
    for (int round = 0; round < 1000; round++) {
        assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
        assert_int_equal(breaker_view(bench).probes, 1);
        assert_int_equal(breaker_view(bench).step, 0);
        assert_int_equal(breaker_settle(bench, bench->ticket, breaker_neutral), SETTLED_COUNTED);
        assert_int_equal(breaker_view(bench).probes, 0);
    }
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED) + breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 0);
    assert_int_equal(bench->transitions, 2);
}

static void an_outcome_without_a_verdict_does_not_keep_the_permit(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    breaker_settle(bench, bench->ticket, (struct outcome){.verdict = VERDICT_NONE});
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 2);
}

static void the_token_of_an_ended_lease_decides_nothing(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    struct ticket old = bench->ticket;
    assert_int_equal(breaker_settle(bench, old, breaker_failure), SETTLED_COUNTED);
    breaker_probe(bench); /* the same slot, another token */
    struct ticket present = bench->ticket;
    assert_int_not_equal(old.token, present.token);
    assert_int_equal(breaker_settle(bench, old, breaker_success), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, old, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, old, breaker_neutral), SETTLED_LATE);
    assert_int_equal(bench->state, CIRCUIT_HALF_OPEN);
    assert_int_equal(breaker_settle(bench, present, breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_settle(bench, present, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).failures, 0);
    assert_int_equal(bench->transitions, 5);
}

static void the_right_generation_without_a_token_is_late_in_half_open(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    struct ticket forged = {.generation = bench->ticket.generation, .token = 0, .address = ADDRESS_NONE};
    bench->admitted++; /* to keep the bench's account */
    counters_add(&bench->circuit->counters, 0, COUNT_ADMITTED);
    assert_int_equal(breaker_settle(bench, forged, breaker_failure), SETTLED_LATE);
    assert_int_equal(bench->state, CIRCUIT_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void other_probes_are_late_once_the_circuit_has_closed(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.half_open_max_calls = 2;
    breaker_open(bench);
    breaker_probe(bench);
    struct ticket first = bench->ticket;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    struct ticket second = bench->ticket;
    assert_int_equal(breaker_settle(bench, first, breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_settle(bench, second, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).failures, 0);
    assert_int_equal(bench->transitions, 3);
}

static void a_probe_can_be_settled_by_another_process(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    bench->caller.holder = BREAKER_HOLDER + 1;
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->state, CIRCUIT_OPEN);
    assert_int_equal(bench->transitions, 3);
}

static void a_half_open_word_does_not_come_back_while_its_leases_do(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t seen[200];

    /* a thread that was held up must not take a later word for the one it saw */
    breaker_open(bench);
    breaker_probe(bench);
    for (int i = 0; i < 200; i += 2) {
        seen[i] = atomic_load(&bench->circuit->word);
        assert_int_equal(breaker_settle(bench, bench->ticket, breaker_neutral), SETTLED_COUNTED);
        seen[i + 1] = atomic_load(&bench->circuit->word);
        assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
        for (int before = 0; before < i; before++)
            assert_true(seen[before] != seen[i] && seen[before] != seen[i + 1]);
    }
    assert_int_equal(bench->transitions, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(one_probe_at_a_time_is_admitted),
        breaker_test(half_open_max_calls_probes_are_admitted_and_no_more),
        breaker_test(a_permit_count_out_of_range_means_the_nearest_that_works),
        breaker_test(a_successful_probe_closes_with_all_counts_at_zero),
        breaker_test(a_business_answer_is_a_successful_probe),
        breaker_test(success_threshold_probes_in_a_row_close),
        breaker_test(a_success_threshold_out_of_range_can_still_be_reached),
        breaker_test(the_first_failed_probe_reopens_for_a_full_new_pause),
        breaker_test(a_failed_probe_reopens_whatever_the_others_say),
        breaker_test(a_neutral_probe_gives_its_permit_back),
        breaker_test(an_outcome_without_a_verdict_does_not_keep_the_permit),
        breaker_test(the_token_of_an_ended_lease_decides_nothing),
        breaker_test(the_right_generation_without_a_token_is_late_in_half_open),
        breaker_test(other_probes_are_late_once_the_circuit_has_closed),
        breaker_test(a_probe_can_be_settled_by_another_process),
        breaker_test(a_half_open_word_does_not_come_back_while_its_leases_do),
    };

    return cmocka_run_group_tests_name("probes", tests, NULL, NULL);
}
