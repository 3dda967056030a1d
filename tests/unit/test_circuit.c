/*
 * test_circuit.c - closed and open: counting, opening, refusing, and calls that come home late.
 */
#include "support_breaker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/*
 * A circuit of which all but the counters lies on a page of its own, so that the page can be made read-only: whoever
 * writes there, if only the value that is there already, is killed by SIGSEGV.
 */
static struct circuit *circuit_on_pages(unsigned char **pages, size_t *page_size)
{
    *page_size = (size_t)sysconf(_SC_PAGESIZE);
    *pages = mmap(NULL, *page_size + sizeof(struct circuit), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0);
    assert_true(*pages != MAP_FAILED);
    return (struct circuit *)(void *)(*pages + *page_size - offsetof(struct circuit, counters));
}

static void healthy_calls_and_refusals_write_nothing_but_their_counters(void **state)
{
    struct breaker_bench *bench = *state;
    struct circuit *own = bench->circuit;
    unsigned char *pages;
    size_t page_size;

    bench->circuit = circuit_on_pages(&pages, &page_size);
    bench->caller.address = circuit_address_index(bench->circuit, 99);
    assert_int_equal(mprotect(pages, page_size, PROT_READ), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(circuit_address_index(bench->circuit, 99), bench->caller.address);
        breaker_call(bench, breaker_success);
        circuit_address_answered(bench->circuit, bench->caller.address);
        breaker_call(bench, breaker_neutral);
    }
    assert_int_equal(bench->transitions, 0);

    assert_int_equal(mprotect(pages, page_size, PROT_READ | PROT_WRITE), 0);
    breaker_open(bench);
    assert_int_equal(mprotect(pages, page_size, PROT_READ), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(mprotect(pages, page_size, PROT_READ | PROT_WRITE), 0);
    breaker_probe(bench);
    assert_int_equal(mprotect(pages, page_size, PROT_READ), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER + 1, ADDRESS_NONE, 0), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);

    memcpy(own, bench->circuit, sizeof *own); /* for the bench's last account */
    bench->circuit = own;
    assert_int_equal(munmap(pages, page_size + sizeof *own), 0);
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

static void every_outcome_is_counted_once_with_its_kind(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.failure_threshold = 0;
    for (unsigned int kind = FAILURE_CONNECT_TIMEOUT; kind < FAILURE_KINDS; kind++) {
        for (unsigned int i = 0; i < kind; i++)
            breaker_call(bench, (struct outcome){VERDICT_FAILURE, (enum failure_kind)kind, NEUTRAL_NONE});
    }
    for (unsigned int reason = NEUTRAL_LOCAL; reason < NEUTRAL_REASONS; reason++) {
        for (unsigned int i = 0; i < reason; i++)
            breaker_call(bench, (struct outcome){VERDICT_NEUTRAL, FAILURE_REFUSED, (enum neutral_reason)reason});
    }
    breaker_call(bench, breaker_success);
    breaker_call(bench, breaker_business);

    for (unsigned int kind = FAILURE_CONNECT_TIMEOUT; kind < FAILURE_KINDS; kind++)
        assert_int_equal(breaker_sum(bench, COUNT_FAILURE_KIND + kind), kind);
    for (unsigned int reason = NEUTRAL_LOCAL; reason < NEUTRAL_REASONS; reason++)
        assert_int_equal(breaker_sum(bench, COUNT_NEUTRAL_REASON + reason), reason);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), FAILURE_KINDS * (FAILURE_KINDS - 1) / 2);
    assert_int_equal(breaker_sum(bench, COUNT_NEUTRAL), NEUTRAL_REASONS * (NEUTRAL_REASONS - 1) / 2);
    assert_int_equal(breaker_sum(bench, COUNT_SUCCEEDED), 1);
    assert_int_equal(breaker_sum(bench, COUNT_BUSINESS), 1);
    assert_int_equal(breaker_sum(bench, COUNT_LATE), 0);
    assert_int_equal(breaker_sum(bench, COUNT_ADMITTED), bench->settled);
    assert_int_equal(bench->transitions, 0);
}

static void a_late_outcome_is_counted_as_late_and_as_nothing_else(void **state)
{
    struct breaker_bench *bench = *state;

    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    struct ticket early = bench->ticket;
    breaker_open(bench);
    assert_int_equal(breaker_settle(bench, early, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_sum(bench, COUNT_LATE), 1);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), 3);
    assert_int_equal(breaker_sum(bench, COUNT_FAILURE_KIND + FAILURE_REFUSED), 3);
    assert_int_equal(bench->transitions, 1);
}

static void counters_sum_their_shards_and_ignore_what_is_no_counter(void **state)
{
    struct breaker_bench *bench = *state;
    struct counters *counters = &bench->circuit->counters;

    for (unsigned int shard = 0; shard < 3 * COUNTER_SHARDS; shard++)
        counters_add(counters, shard, COUNT_SLOW);
    counters_add(counters, UINT32_MAX, COUNT_SLOW);
    assert_int_equal(counters_sum(counters, COUNT_SLOW), 3 * COUNTER_SHARDS + 1);
    for (unsigned int shard = 0; shard < COUNTER_SHARDS - 1; shard++)
        assert_int_equal(atomic_load(&counters->shard[shard][COUNT_SLOW]), 3);
    counters_add(counters, 0, COUNTERS);
    counters_add(counters, COUNTER_SHARDS - 1, UINT32_MAX);
    assert_int_equal(counters_sum(counters, COUNTERS), 0);
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        assert_int_equal(counters_sum(counters, counter), counter == COUNT_SLOW ? 3 * COUNTER_SHARDS + 1 : 0);
}

static void closed_and_quiet_tell_what_they_say(void **state)
{
    struct breaker_bench *bench = *state;
    const struct circuit *circuit = bench->circuit;

    assert_true(circuit_is_closed(circuit) && circuit_is_quiet(circuit));
    breaker_call(bench, breaker_failure);
    assert_true(circuit_is_closed(circuit) && !circuit_is_quiet(circuit));
    breaker_open(bench);
    assert_true(!circuit_is_closed(circuit) && !circuit_is_quiet(circuit));
    breaker_probe(bench);
    assert_true(!circuit_is_closed(circuit) && !circuit_is_quiet(circuit));
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_true(circuit_is_closed(circuit) && circuit_is_quiet(circuit));
    assert_int_equal(bench->transitions, 3);
}

static void a_circuit_that_is_reset_forgets_all_and_its_old_calls_are_late(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket before_opening, before_reset;

    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    before_opening = bench->ticket;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    before_reset = bench->ticket;
    circuit_address_failed(bench->circuit, circuit_address_index(bench->circuit, 5));

    circuit_reset(bench->circuit);
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        assert_int_equal(breaker_sum(bench, counter), 0);
    assert_int_equal(circuit_address_index(bench->circuit, 6), 0);
    assert_true(circuit_is_quiet(bench->circuit));
    assert_int_equal(breaker_view(bench).since_ns, 0);
    bench->openings = bench->admitted = bench->refused = bench->settled = 0;
    assert_int_equal(breaker_settle(bench, before_opening, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, before_reset, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).failures, 0);
    assert_int_equal(bench->transitions, 3);
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
        breaker_test(healthy_calls_and_refusals_write_nothing_but_their_counters),
        breaker_test(observing_changes_nothing_and_shows_a_probe_that_is_due),
        breaker_test(a_clock_that_passes_2_to_the_57_keeps_every_pause),
        breaker_test(a_caller_whose_clock_reading_is_older_than_the_opening_is_refused),
        breaker_test(every_outcome_is_counted_once_with_its_kind),
        breaker_test(a_late_outcome_is_counted_as_late_and_as_nothing_else),
        breaker_test(counters_sum_their_shards_and_ignore_what_is_no_counter),
        breaker_test(closed_and_quiet_tell_what_they_say),
        breaker_test(a_circuit_that_is_reset_forgets_all_and_its_old_calls_are_late),
        breaker_test(states_and_reasons_have_names),
    };

    return cmocka_run_group_tests_name("circuit", tests, NULL, NULL);
}
