/*
 * test_holding.c - what an agent has a circuit do: all calls refused, or no probe begun, until nobody says so any more.
 */
#include "support_guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/holding.h"
#include "guard/operator.h"
#include "segment/layout.h"

#define LASTS_NS (5 * NS_PER_S)

/* The agent: another process than the bench's guard, without a place among the processes. */
static struct guard *agent_of(struct guard_bench *bench)
{
    static struct guard agent;

    agent.segment = &bench->segment;
    agent.pid = 4711;
    snprintf(agent.program, sizeof agent.program, "sockfuse-agent");
    return &agent;
}

static const struct hold_cause check_failed = {.reason = HOLD_CHECK_FAILED, .error = ECONNREFUSED};
static const struct hold_cause check_passed = {.reason = HOLD_CHECK_PASSED};
static const struct hold_cause fleet_open = {.reason = HOLD_FLEET_OPEN};
static const struct hold_cause fleet_closed = {.reason = HOLD_FLEET_CLOSED};

static bool hold(struct guard_bench *bench, enum hold kind)
{
    return hold_set(agent_of(bench), bench->circuit, kind, LASTS_NS, kind == HOLD_FLEET ? &fleet_open : &check_failed,
                    bench->target.mode, bench->now_ns);
}

static bool let_go(struct guard_bench *bench, enum hold kind)
{
    return hold_end(agent_of(bench), bench->circuit, kind, kind == HOLD_FLEET ? &fleet_closed : &check_passed,
                    bench->target.mode, bench->now_ns);
}

static bool end_pause(struct guard_bench *bench)
{
    return hold_end_pause(agent_of(bench), bench->circuit, &bench->target, &check_passed, bench->now_ns);
}

static void assert_refused(struct guard_bench *bench, enum admission reason)
{
    uint64_t before = bench_sum(bench, counter_of_refusal(reason));
    uint32_t call = 0;

    assert_int_equal(bench_admit(bench, &call), reason);
    assert_int_equal(call, CALL_NONE);
    assert_int_equal(bench_sum(bench, counter_of_refusal(reason)), before + 1);
}

static enum prospect prospect(struct guard_bench *bench)
{
    return guard_prospect(&bench->guard, bench->circuit, &bench->target, bench->now_ns);
}

static void a_fleets_hold_refuses_every_call_and_changes_no_circuit(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench_succeed(bench);
    assert_true(hold(bench, HOLD_FLEET));
    for (unsigned int i = 0; i < 3; i++)
        assert_refused(bench, ADMIT_REFUSED_FLEET);
    assert_int_equal(prospect(bench), PROSPECT_REFUSED);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), 1);
    assert_int_equal(event.reason, ADMIT_REFUSED_FLEET);
    assert_true(let_go(bench, HOLD_FLEET));
    bench_succeed(bench);
}

static void a_hold_ends_at_its_time_by_everybodys_own_look_and_the_first_one_notes_it(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    hold(bench, HOLD_FLEET);
    bench->now_ns += LASTS_NS - 1;
    assert_refused(bench, ADMIT_REFUSED_FLEET);
    bench->now_ns += 1;
    assert_int_equal(hold_read(&bench->segment, bench->circuit, bench->now_ns).hold, HOLD_NONE);
    assert_int_equal(bench_events(bench, EVENT_HELD, NULL), 1);
    bench->now_ns += 2 * NS_PER_S;
    bench_succeed(bench);
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 2);
    assert_int_equal(event.reason, HOLD_RAN_OUT);
    assert_int_equal(event.kind, HOLD_NONE);
    assert_int_equal(event.pause_ns, 2 * NS_PER_S);
    assert_int_equal(event.pid, bench->guard.pid);
    assert_int_equal(event.from, CIRCUIT_OPEN);
    assert_int_equal(event.to, CIRCUIT_CLOSED);
}

static void a_hold_that_is_said_again_goes_on_and_only_its_beginning_and_end_are_told(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    for (unsigned int second = 0; second < 60; second++) {
        assert_true(hold(bench, HOLD_FLEET));
        assert_refused(bench, ADMIT_REFUSED_FLEET);
        bench->now_ns += NS_PER_S;
    }
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 1);
    assert_string_equal(event.program, "sockfuse-agent");
    assert_int_equal(event.pid, 4711);
    assert_int_equal(event.kind, HOLD_FLEET);
    assert_int_equal(event.reason, HOLD_FLEET_OPEN);
    assert_int_equal(event.from, CIRCUIT_CLOSED);
    assert_int_equal(event.to, CIRCUIT_OPEN);
    assert_true(let_go(bench, HOLD_FLEET));
    assert_false(let_go(bench, HOLD_FLEET));
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 2);
    assert_int_equal(event.reason, HOLD_FLEET_CLOSED);
    assert_int_equal(event.kind, HOLD_NONE);
}

static void each_hold_has_its_first_refusal(void **state)
{
    struct guard_bench *bench = *state;

    for (unsigned int round = 1; round <= 3; round++) {
        hold(bench, HOLD_FLEET);
        assert_refused(bench, ADMIT_REFUSED_FLEET);
        assert_refused(bench, ADMIT_REFUSED_FLEET);
        assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), round);
        let_go(bench, HOLD_FLEET);
    }
}

static void an_unprobed_circuit_stays_open_beyond_its_pause(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call;

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S; /* the pause */
    assert_int_equal(prospect(bench), PROSPECT_PROBE);
    assert_true(hold(bench, HOLD_UNPROBED));
    assert_int_equal(prospect(bench), PROSPECT_REFUSED);
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_PROBES), 0);
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 1);
    assert_int_equal(event.kind, HOLD_UNPROBED);
    assert_int_equal(event.error, ECONNREFUSED);
    assert_int_equal(event.from, CIRCUIT_OPEN);
    assert_int_equal(event.to, CIRCUIT_OPEN);
    assert_true(let_go(bench, HOLD_UNPROBED));
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_forget(bench, call);
}

static void an_unprobed_circuit_lets_pass_what_its_own_state_does(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    hold(bench, HOLD_UNPROBED);
    bench_succeed(bench); /* closed */
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S; /* the hold is over, too */
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    hold(bench, HOLD_UNPROBED); /* too late for this probe */
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_forget(bench, call);
}

/* A lease that ran out re-opens the circuit, and nobody begins another probe in the same step. */
static void a_probe_that_ran_out_is_followed_by_none_while_unprobed(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench->now_ns += 3600 * NS_PER_S;
    hold(bench, HOLD_UNPROBED);
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_PROBES), 1);
    bench_forget(bench, call);
}

static void an_operators_word_goes_before_every_hold(void **state)
{
    struct guard_bench *bench = *state;
    const struct force closed = {FORCED_CLOSED, 0}, open = {FORCED_OPEN, 0};

    hold(bench, HOLD_FLEET);
    force_set(agent_of(bench), "alice", bench->circuit, closed, bench->target.mode, bench->now_ns);
    assert_int_equal(prospect(bench), PROSPECT_PASS);
    bench_succeed(bench);
    force_set(agent_of(bench), "alice", bench->circuit, open, bench->target.mode, bench->now_ns);
    assert_refused(bench, ADMIT_REFUSED_FORCED);
}

static void only_a_target_that_enforces_obeys_a_hold(void **state)
{
    struct guard_bench *bench = *state;

    hold(bench, HOLD_FLEET);
    bench->target.mode = MODE_OBSERVE;
    bench_succeed(bench);
    assert_int_equal(prospect(bench), PROSPECT_PASS);
    bench->target.mode = MODE_CLOSED;
    bench_succeed(bench);
    bench->target.mode = MODE_OPEN;
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    bench->target.mode = MODE_ENFORCE;
    assert_refused(bench, ADMIT_REFUSED_FLEET);
    /* What nobody obeys is taken away at its end all the same: the short ways begin again. */
    bench->target.mode = MODE_OBSERVE;
    bench->now_ns += LASTS_NS;
    bench_succeed(bench);
    assert_int_equal(atomic_load(&bench_entry(bench)->held), 0);
}

static void an_established_connection_is_refused_too_unless_the_policy_allows_it(void **state)
{
    struct guard_bench *bench = *state;
    struct attempt attempt = {.target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A};
    struct call_place place;
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    assert_true(guard_call_place(&bench->guard, bench->circuit, call, &place));
    hold(bench, HOLD_FLEET);
    assert_false(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_REFUSED_FLEET);
    bench->target.existing_allowed = true;
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_PASS);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    bench->target.existing_allowed = false;
    bench->now_ns += LASTS_NS;
    /* The first one goes the long way, and takes the hold away. */
    assert_false(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_PASS);
    assert_true(guard_settle_short(&place, &bench->target, 0, bench->now_ns));
    assert_true(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_true(guard_settle_short(&place, &bench->target, 0, bench->now_ns));
    bench_forget(bench, call);
}

static void a_fleets_hold_takes_the_place_of_a_checks_and_gives_way_to_none(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench_open(bench);
    assert_true(hold(bench, HOLD_UNPROBED));
    assert_true(hold(bench, HOLD_FLEET));
    assert_false(hold(bench, HOLD_UNPROBED));
    assert_false(let_go(bench, HOLD_UNPROBED));
    assert_refused(bench, ADMIT_REFUSED_FLEET);
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 2);
    assert_int_equal(event.kind, HOLD_FLEET);
}

static void a_pause_that_is_ended_makes_the_next_call_the_probe(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call;

    bench_open(bench);
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    hold(bench, HOLD_UNPROBED);
    assert_true(end_pause(bench));
    assert_false(end_pause(bench));
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 2); /* one for pause and hold */
    assert_int_equal(event.reason, HOLD_CHECK_PASSED);
    assert_int_equal(event.kind, HOLD_NONE);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
    bench_forget(bench, call);
    /* The back-off goes on: 20 s. */
    bench->now_ns += 20 * NS_PER_S - 1;
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    assert_true(end_pause(bench)); /* without a hold */
    assert_int_equal(bench_events(bench, EVENT_HELD, &event), 3);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    bench_forget(bench, call);
    assert_false(end_pause(bench)); /* closed */
    assert_int_equal(bench_events(bench, EVENT_HELD, NULL), 3);
}

static void what_the_destination_asked_for_stays_of_a_pause(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call;

    bench->target.breaker.retry_after_max_ns = 300 * NS_PER_S;
    circuit_hold_open(circuits_at(&bench->segment, bench->circuit), bench->now_ns + 40 * NS_PER_S);
    bench_open(bench);
    hold(bench, HOLD_UNPROBED);
    assert_true(end_pause(bench)); /* the hold is over */
    bench_events(bench, EVENT_HELD, &event);
    assert_int_equal(event.pause_ns, 40 * NS_PER_S);
    bench->now_ns += 40 * NS_PER_S - 1;
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_forget(bench, call);
}

static void an_end_that_lies_too_far_ahead_is_not_believed(void **state)
{
    struct guard_bench *bench = *state;
    _Atomic uint64_t *held = &bench_entry(bench)->held;
    const uint64_t far = bench->now_ns + HOLD_AHEAD_MAX_NS;

    atomic_store(held, held_pack((struct held){HOLD_FLEET, far}));
    assert_refused(bench, ADMIT_REFUSED_FLEET);
    atomic_store(held, held_pack((struct held){HOLD_FLEET, far + 1}));
    bench_succeed(bench);
    assert_int_equal(atomic_load(held), 0); /* and taken away, without a word */
    assert_int_equal(bench_events(bench, EVENT_HELD, NULL), 0);
    hold_set(agent_of(bench), bench->circuit, HOLD_FLEET, UINT64_MAX, &fleet_open, MODE_ENFORCE, bench->now_ns);
    assert_int_equal(hold_read(&bench->segment, bench->circuit, bench->now_ns).end_ns, far);
}

static void any_word_of_shared_memory_is_a_hold_or_none(void **state)
{
    struct guard_bench *bench = *state;
    static const uint64_t words[] = {1, 2, 3, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, UINT64_C(3) << 62 | 2};

    for (unsigned int i = 0; i < sizeof words / sizeof *words; i++) {
        atomic_store(&bench_entry(bench)->held, words[i]);
        bench_succeed(bench);
        assert_int_equal(atomic_load(&bench_entry(bench)->held), 0);
    }
    atomic_store(&bench_entry(bench)->held, (bench->now_ns + NS_PER_S) << 2 | 3);
    bench_succeed(bench);
    assert_false(hold_set(agent_of(bench), UINT32_MAX, HOLD_FLEET, LASTS_NS, &fleet_open, MODE_ENFORCE, bench->now_ns));
    assert_false(hold_end(agent_of(bench), UINT32_MAX, HOLD_FLEET, &fleet_open, MODE_ENFORCE, bench->now_ns));
    assert_int_equal(hold_read(&bench->segment, UINT32_MAX, bench->now_ns).hold, HOLD_NONE);
}

static void a_held_circuit_keeps_its_place_and_the_next_destination_there_is_not_held(void **state)
{
    struct guard_bench *bench = *state;
    char destination[32];

    for (unsigned int i = 0; i < 2 * CAPACITY_CIRCUITS; i++) {
        snprintf(destination, sizeof destination, "10.0.0.1:%u", i + 1);
        bench->now_ns += 2 * 60 * NS_PER_S;
        hold(bench, HOLD_FLEET);
        bench_find(bench, destination);
    }
    assert_true(bench_stands(bench, BENCH_DESTINATION));
    bench->now_ns += HOLD_AHEAD_MAX_NS;
    for (unsigned int i = 0; i < 2 * CAPACITY_CIRCUITS && bench_stands(bench, BENCH_DESTINATION); i++) {
        snprintf(destination, sizeof destination, "10.0.0.2:%u", i + 1);
        bench->now_ns += 2 * 60 * NS_PER_S;
        bench_find(bench, destination);
    }
    assert_false(bench_stands(bench, BENCH_DESTINATION));
    assert_int_equal(atomic_load(&bench_entry(bench)->held), 0);
}

static void of_many_processes_that_call_after_the_end_one_notes_it(void **state)
{
    struct guard_bench *bench = *state;

    hold(bench, HOLD_FLEET);
    bench->now_ns += LASTS_NS;
    for (unsigned int i = 0; i < 8; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (unsigned int round = 0; round < 100; round++)
                hold_obey(&bench->guard, bench->circuit, FORCED_NONE, MODE_ENFORCE, bench->now_ns);
            _exit(0);
        }
        bench->children[bench->child_count++] = child;
    }
    for (unsigned int i = 0; i < bench->child_count; i++)
        waitpid(bench->children[i], NULL, 0);
    bench->child_count = 0;
    assert_int_equal(bench_events(bench, EVENT_HELD, NULL), 2);
}

/* Of two agents that hold, renew and let go at once, no step leaves a hold that does not end. */
static void two_agents_at_once_leave_nothing_that_lasts(void **state)
{
    struct guard_bench *bench = *state;

    for (unsigned int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (unsigned int round = 0; round < 2000; round++) {
                hold(bench, (round + i) % 3 == 0 ? HOLD_FLEET : HOLD_UNPROBED);
                if (round % 2 == 0)
                    let_go(bench, round % 4 == 0 ? HOLD_FLEET : HOLD_UNPROBED);
            }
            raise(SIGKILL);
        }
        bench->children[bench->child_count++] = child;
    }
    for (unsigned int i = 0; i < bench->child_count; i++)
        waitpid(bench->children[i], NULL, 0);
    bench->child_count = 0;
    bench->now_ns += LASTS_NS;
    bench_succeed(bench);
    assert_int_equal(atomic_load(&bench_entry(bench)->held), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_fleets_hold_refuses_every_call_and_changes_no_circuit),
        GUARD_TEST(a_hold_ends_at_its_time_by_everybodys_own_look_and_the_first_one_notes_it),
        GUARD_TEST(a_hold_that_is_said_again_goes_on_and_only_its_beginning_and_end_are_told),
        GUARD_TEST(each_hold_has_its_first_refusal),
        GUARD_TEST(an_unprobed_circuit_stays_open_beyond_its_pause),
        GUARD_TEST(an_unprobed_circuit_lets_pass_what_its_own_state_does),
        GUARD_TEST(a_probe_that_ran_out_is_followed_by_none_while_unprobed),
        GUARD_TEST(an_operators_word_goes_before_every_hold),
        GUARD_TEST(only_a_target_that_enforces_obeys_a_hold),
        GUARD_TEST(an_established_connection_is_refused_too_unless_the_policy_allows_it),
        GUARD_TEST(a_fleets_hold_takes_the_place_of_a_checks_and_gives_way_to_none),
        GUARD_TEST(a_pause_that_is_ended_makes_the_next_call_the_probe),
        GUARD_TEST(what_the_destination_asked_for_stays_of_a_pause),
        GUARD_TEST(an_end_that_lies_too_far_ahead_is_not_believed),
        GUARD_TEST(any_word_of_shared_memory_is_a_hold_or_none),
        GUARD_TEST(a_held_circuit_keeps_its_place_and_the_next_destination_there_is_not_held),
        GUARD_TEST(of_many_processes_that_call_after_the_end_one_notes_it),
        GUARD_TEST(two_agents_at_once_leave_nothing_that_lasts),
    };

    return cmocka_run_group_tests_name("holding", tests, NULL, NULL);
}
