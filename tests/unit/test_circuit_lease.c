/*
 * test_circuit_lease.c - the leases of probes: their deadlines, and what becomes of them when a holder dies or forgets.
 */
#include "support_breaker.h"

#include <stdatomic.h>

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
    assert_int_equal(breaker_settle(bench, lost, breaker_failure), SETTLED_LATE);
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
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_neutral), SETTLED_LATE);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_TIMEOUT);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench->transitions, 6);
}

/* --- a probe that is answered after its deadline: it has failed, but the peer is slow and not dead --- */

static void an_answer_after_the_deadline_closes_the_circuit_whether_or_not_anybody_looked(void **state)
{
    struct breaker_bench *bench = *state;
    static const uint64_t after[] = {0, 1, 2 * SECOND, 19 * SECOND, 3600 * SECOND}; /* with a pause of 20 s */

    for (unsigned int looked = 0; looked < 2; looked++) {
        for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
            breaker_open(bench);
            breaker_probe(bench);
            struct ticket slow = bench->ticket;
            bench->now_ns += 5 * SECOND;
            if (looked)
                assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
            bench->now_ns += after[i];
            uint64_t succeeded = breaker_sum(bench, COUNT_PROBES_SUCCEEDED);
            assert_int_equal(breaker_settle(bench, slow, i % 2 ? breaker_success : breaker_business), SETTLED_COUNTED);
            assert_int_equal(bench->last.count, looked ? 1 : 2);
            const struct transition *last = &bench->last.at[looked ? 0 : 1];
            assert_int_equal(last->from, CIRCUIT_OPEN);
            assert_int_equal(last->to, CIRCUIT_CLOSED);
            assert_int_equal(last->reason, REASON_PROBE_SUCCEEDED);
            assert_int_equal(breaker_view(bench).state, CIRCUIT_CLOSED);
            assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), succeeded + 1);
        }
    }
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 10);
}

static void an_answer_after_the_deadline_is_late_once_a_later_probe_was_admitted(void **state)
{
    struct breaker_bench *bench = *state;
    static const struct outcome *const ends[] = {NULL, &breaker_failure};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        breaker_open(bench);
        breaker_probe(bench);
        struct ticket slow = bench->ticket;
        bench->now_ns += 26 * SECOND; /* the probe's time and the pause */
        assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
        struct ticket later = bench->ticket;
        if (ends[i] != NULL)
            assert_int_equal(breaker_settle(bench, later, *ends[i]), SETTLED_COUNTED);
        assert_int_equal(breaker_settle(bench, slow, breaker_success), SETTLED_LATE);
        assert_int_equal(bench->last.count, 0);
        if (ends[i] == NULL)
            assert_int_equal(breaker_settle(bench, later, breaker_success), SETTLED_COUNTED);
    }
    assert_int_equal(breaker_view(bench).state, CIRCUIT_OPEN);
}

static void close_by_force(struct breaker_bench *bench)
{
    struct transitions transitions;

    circuit_close(bench->circuit, bench->now_ns, &transitions);
    bench->state = CIRCUIT_CLOSED;
    bench->transitions += transitions.count;
    bench->made[CIRCUIT_CLOSED] += transitions.count;
}

static void an_answer_after_the_deadline_changes_nothing_of_a_circuit_that_was_closed_and_opened_since(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    struct ticket slow = bench->ticket;
    bench->now_ns += 5 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    close_by_force(bench);
    assert_int_equal(breaker_settle(bench, slow, breaker_success), SETTLED_LATE);

    breaker_open(bench);
    breaker_probe(bench);
    slow = bench->ticket;
    bench->now_ns += 5 * SECOND;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    close_by_force(bench);
    breaker_open(bench);
    assert_int_equal(breaker_settle(bench, slow, breaker_success), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).state, CIRCUIT_OPEN);
}

static void a_failure_after_the_deadline_costs_no_further_pause(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    struct ticket slow = bench->ticket;
    bench->now_ns += 9 * SECOND;
    assert_int_equal(breaker_settle(bench, slow, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).retry_in_ns, 16 * SECOND);
    assert_int_equal(breaker_view(bench).step, 1);
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
        breaker_test(a_lost_probe_fails_at_its_deadline),
        breaker_test(the_new_pause_runs_from_the_deadline_and_not_from_when_it_was_noticed),
        breaker_test(an_hour_after_a_lost_probe_the_next_call_is_a_probe_at_once),
        breaker_test(of_several_lost_probes_the_earliest_deadline_decides),
        breaker_test(an_outcome_counts_one_nanosecond_before_the_deadline_and_is_late_at_it),
        breaker_test(an_answer_after_the_deadline_closes_the_circuit_whether_or_not_anybody_looked),
        breaker_test(an_answer_after_the_deadline_is_late_once_a_later_probe_was_admitted),
        breaker_test(an_answer_after_the_deadline_changes_nothing_of_a_circuit_that_was_closed_and_opened_since),
        breaker_test(a_failure_after_the_deadline_costs_no_further_pause),
        breaker_test(a_dead_holder_frees_its_lease_at_once_and_costs_no_step),
        breaker_test(a_dead_holder_is_freed_also_where_permits_are_left),
        breaker_test(nobody_is_asked_about_the_callers_own_life),
        breaker_test(without_somebody_to_ask_everybody_lives),
        breaker_test(slots_that_dead_processes_left_claimed_are_taken_back),
        breaker_test(slots_that_a_living_process_left_behind_are_taken_back_after_their_deadline),
        breaker_test(a_standing_lease_without_a_token_is_freed),
        breaker_test(what_happens_while_a_holder_is_asked_about_is_seen),
        breaker_test(no_slot_is_left_claimed_behind_any_ending),
    };

    return cmocka_run_group_tests_name("leases", tests, NULL, NULL);
}
