/*
 * test_circuit_probe.c - half-open: permits, leases, their deadlines, and what becomes of them when a holder dies.
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
    breaker_settle(bench, bench->ticket, (struct outcome){VERDICT_NONE, FAILURE_NONE, NEUTRAL_NONE});
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 2);
}

static void a_lost_probe_fails_at_its_deadline(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    struct ticket lost = bench->ticket;
    uint64_t probed = bench->now_ns;
    bench->now_ns = probed + 5 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->last.count, 0);
    bench->now_ns = probed + 5 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_TIMEOUT);
    assert_int_equal(bench->last.at[0].pause_ns, 20 * SECOND);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(breaker_settle(bench, lost, breaker_success), SETTLED_LATE);
    bench->now_ns = probed + 25 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns = probed + 25 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 4);
}

static void the_new_pause_runs_from_the_deadline_and_not_from_when_it_was_noticed(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    uint64_t deadline = bench->now_ns + 5 * SECOND;
    bench->now_ns = deadline + 15 * SECOND;
    struct circuit_view view = breaker_view(bench);
    assert_int_equal(view.state, CIRCUIT_OPEN);
    assert_int_equal(view.retry_in_ns, 5 * SECOND);
    assert_int_equal(view.since_ns, deadline);
    assert_int_equal(view.step, 1);
    assert_int_equal(view.probes, 0);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(breaker_view(bench).retry_in_ns, 5 * SECOND);
    assert_int_equal(breaker_view(bench).since_ns, deadline);
    assert_int_equal(bench->transitions, 3);
}

static void an_hour_after_a_lost_probe_the_next_call_is_a_probe_at_once(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    bench->now_ns += 3600 * SECOND;
    assert_true(breaker_view(bench).probe_due);
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->last.count, 2);
    assert_int_equal(bench->last.at[0].reason, REASON_PROBE_TIMEOUT);
    assert_int_equal(bench->last.at[1].reason, REASON_PAUSE_OVER);
    assert_int_equal(breaker_view(bench).step, 1);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench->transitions, 4);
}

static void of_several_lost_probes_the_earliest_deadline_decides(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.half_open_max_calls = 2;
    breaker_open(bench);
    breaker_probe(bench);
    uint64_t first = bench->now_ns;
    bench->now_ns += 2 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    bench->now_ns = first + 8 * SECOND;
    assert_int_equal(breaker_view(bench).retry_in_ns, 17 * SECOND);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(breaker_view(bench).retry_in_ns, 17 * SECOND);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench->transitions, 3);
}

static void an_outcome_counts_one_nanosecond_before_the_deadline_and_is_late_at_it(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    bench->now_ns += 5 * SECOND - 1;
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 3);

    breaker_open(bench);
    breaker_probe(bench);
    bench->now_ns += 5 * SECOND;
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_LATE);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_TIMEOUT);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench->transitions, 6);
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

static void a_dead_holder_frees_its_lease_at_once_and_costs_no_step(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    struct ticket orphan = bench->ticket;
    assert_int_equal(breaker_admit_as(bench, 8, ADDRESS_NONE, 0), ADMIT_REFUSED_HALF_OPEN);
    bench->dead_holder = BREAKER_HOLDER;
    assert_int_equal(breaker_admit_as(bench, 8, ADDRESS_NONE, 0), ADMIT_PROBE);
    assert_int_equal(bench->last.count, 0);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(breaker_view(bench).step, 0);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 0);
    assert_int_equal(breaker_sum(bench, COUNT_NEUTRAL), 0);
    struct ticket present = bench->ticket;
    assert_int_equal(breaker_settle(bench, orphan, breaker_neutral), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, present, breaker_success), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 3);
}

static void a_dead_holder_is_freed_also_where_permits_are_left(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.half_open_max_calls = 3;
    breaker_open(bench);
    breaker_probe(bench);
    bench->dead_holder = BREAKER_HOLDER;
    assert_int_equal(breaker_admit_as(bench, 8, ADDRESS_NONE, 0), ADMIT_PROBE);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(bench->transitions, 2);
}

static void nobody_is_asked_about_the_callers_own_life(void **state)
{
    struct breaker_bench *bench = *state;

    bench->dead_holder = BREAKER_HOLDER;
    breaker_open(bench);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    breaker_probe(bench);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->asked, 0);
    assert_int_equal(breaker_admit_as(bench, 8, ADDRESS_NONE, 0), ADMIT_PROBE);
    assert_int_equal(bench->asked, 1);
    assert_int_equal(bench->asked_holder, BREAKER_HOLDER);
    assert_int_equal(bench->transitions, 2);
}

static void without_somebody_to_ask_everybody_lives(void **state)
{
    struct breaker_bench *bench = *state;

    bench->caller.alive = NULL;
    bench->dead_holder = BREAKER_HOLDER;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_admit_as(bench, 8, ADDRESS_NONE, 0), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void slots_that_dead_processes_left_claimed_are_taken_back(void **state)
{
    struct breaker_bench *bench = *state;

    /* eight processes died between their claim and the CAS of the word */
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++)
        atomic_store(&bench->circuit->leases[slot].token, UINT64_C(66) << 32 | (slot + 1));
    breaker_open(bench);
    bench->now_ns += 10 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN); /* they might still live */
    bench->dead_holder = 66;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 3);
}

static void slots_that_a_living_process_left_behind_are_taken_back_after_their_deadline(void **state)
{
    struct breaker_bench *bench = *state;

    /* filled, and then their CAS never came: a signal handler jumped away */
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        atomic_store(&bench->circuit->leases[slot].token, UINT64_C(66) << 32 | (slot + 1));
        atomic_store(&bench->circuit->leases[slot].attempts, (uint64_t)(slot + 1) << 32);
        atomic_store(&bench->circuit->leases[slot].deadline_ns, bench->now_ns + 12 * SECOND);
    }
    breaker_open(bench);
    bench->now_ns += 12 * SECOND - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 2);
}

static void a_standing_lease_without_a_token_is_freed(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++)
        atomic_store(&bench->circuit->leases[slot].token, 0);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_LATE);
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(bench->transitions, 2);
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

/* What another process does at the very moment when somebody's life is asked for. */
struct meanwhile {
    struct breaker_bench *bench;
    struct ticket ticket;
    struct outcome outcome;
    bool answer;
    unsigned int asked;
};

static bool settle_meanwhile(uint32_t holder, void *context)
{
    struct meanwhile *meanwhile = context;
    struct breaker_bench *bench = meanwhile->bench;

    (void)holder;
    if (meanwhile->asked++ == 0)
        assert_int_equal(breaker_settle(bench, meanwhile->ticket, meanwhile->outcome), SETTLED_COUNTED);
    return meanwhile->answer;
}

static void what_happens_while_a_holder_is_asked_about_is_seen(void **state)
{
    static const struct {
        const struct outcome *outcome;
        enum admission expected;
    } cases[] = {
        {&breaker_success, ADMIT_PASS},
        {&breaker_failure, ADMIT_REFUSED_OPEN},
        {&breaker_neutral, ADMIT_PROBE},
    };
    struct breaker_bench *bench = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        breaker_open(bench);
        breaker_probe(bench);
        struct meanwhile meanwhile = {.bench = bench, .ticket = bench->ticket, .outcome = *cases[i].outcome};
        struct caller caller = {.holder = 8, .address = ADDRESS_NONE, .alive = settle_meanwhile, .context = &meanwhile};
        struct transitions transitions;
        struct ticket ticket;

        /* the holder's outcome came, and then it died */
        assert_int_equal(circuit_admit(bench->circuit, &bench->settings, &caller, bench->now_ns, &ticket, &transitions),
                         cases[i].expected);
        assert_int_equal(transitions.count, 0);
        assert_int_equal(meanwhile.asked, 1);
        if (cases[i].expected == ADMIT_REFUSED_OPEN) {
            bench->refused++;
            breaker_probe(bench);
            ticket = bench->ticket;
        } else {
            bench->admitted++;
        }
        assert_int_equal(breaker_settle(bench, ticket, breaker_success), SETTLED_COUNTED);
        assert_int_equal(bench->state, CIRCUIT_CLOSED);
    }
    assert_int_equal(bench->transitions, 3 + 5 + 3);
}

static void no_slot_is_left_claimed_behind_any_ending(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.half_open_max_calls = 3;
    const struct outcome endings[] = {breaker_success, breaker_failure, breaker_neutral};
    for (int round = 0; round < 30; round++) {
        if (bench->state == CIRCUIT_CLOSED)
            breaker_open(bench);
        if (bench->state == CIRCUIT_OPEN)
            breaker_probe(bench);
        while (breaker_admit(bench) == ADMIT_PROBE)
            ;
        breaker_settle(bench, bench->ticket, endings[round % 3]);
        if (round % 5 == 0)
            bench->now_ns += 6 * SECOND;
        breaker_admit(bench);
        unsigned int claimed = 0;
        for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++)
            claimed += atomic_load(&bench->circuit->leases[slot].token) != 0;
        assert_int_equal(claimed, breaker_view(bench).probes);
    }
    assert_true(bench->transitions > 30);
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
        breaker_test(a_lost_probe_fails_at_its_deadline),
        breaker_test(the_new_pause_runs_from_the_deadline_and_not_from_when_it_was_noticed),
        breaker_test(an_hour_after_a_lost_probe_the_next_call_is_a_probe_at_once),
        breaker_test(of_several_lost_probes_the_earliest_deadline_decides),
        breaker_test(an_outcome_counts_one_nanosecond_before_the_deadline_and_is_late_at_it),
        breaker_test(the_token_of_an_ended_lease_decides_nothing),
        breaker_test(the_right_generation_without_a_token_is_late_in_half_open),
        breaker_test(other_probes_are_late_once_the_circuit_has_closed),
        breaker_test(a_probe_can_be_settled_by_another_process),
        breaker_test(a_dead_holder_frees_its_lease_at_once_and_costs_no_step),
        breaker_test(a_dead_holder_is_freed_also_where_permits_are_left),
        breaker_test(nobody_is_asked_about_the_callers_own_life),
        breaker_test(without_somebody_to_ask_everybody_lives),
        breaker_test(slots_that_dead_processes_left_claimed_are_taken_back),
        breaker_test(slots_that_a_living_process_left_behind_are_taken_back_after_their_deadline),
        breaker_test(a_standing_lease_without_a_token_is_freed),
        breaker_test(a_half_open_word_does_not_come_back_while_its_leases_do),
        breaker_test(what_happens_while_a_holder_is_asked_about_is_seen),
        breaker_test(no_slot_is_left_claimed_behind_any_ending),
    };

    return cmocka_run_group_tests_name("probes", tests, NULL, NULL);
}
