/*
 * test_force.c - an operator's word over a live circuit: open, closed, and back.
 */
#include "support_guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/operator.h"
#include "segment/layout.h"

/* The command: another process than the bench's guard. `for_ns` 0: without an end. */
static enum forced say_for(struct guard_bench *bench, enum forced forced, uint64_t for_ns)
{
    const struct force force = {forced, for_ns != 0 ? bench->now_ns + for_ns : 0};
    static struct guard command;

    command.segment = &bench->segment;
    command.pid = 4711;
    snprintf(command.program, sizeof command.program, "sockfuse");
    return force_set(&command, "alice", bench->circuit, force, bench->target.mode, bench->now_ns).word;
}

static enum forced say(struct guard_bench *bench, enum forced forced)
{
    return say_for(bench, forced, 0);
}

static void assert_refused(struct guard_bench *bench, enum admission reason)
{
    uint64_t before = bench_sum(bench, counter_of_refusal(reason));
    uint32_t call = 0;

    assert_int_equal(bench_admit(bench, &call), reason);
    assert_int_equal(call, CALL_NONE);
    assert_int_equal(bench_sum(bench, counter_of_refusal(reason)), before + 1);
}

static void forced_open_refuses_every_call_until_it_is_given_back(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench_succeed(bench);
    assert_int_equal(say(bench, FORCED_OPEN), FORCED_NONE);
    for (unsigned int i = 0; i < 3; i++)
        assert_refused(bench, ADMIT_REFUSED_FORCED);
    bench->now_ns += 3600 * NS_PER_S; /* there is no pause that could end, and no probe */
    assert_refused(bench, ADMIT_REFUSED_FORCED);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 4);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED); /* the circuit itself is as it was */
    assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), 1);
    assert_int_equal(event.reason, ADMIT_REFUSED_FORCED);
    assert_int_equal(say(bench, FORCED_NONE), FORCED_OPEN);
    bench_succeed(bench);
}

static void forced_open_goes_before_every_mode(void **state)
{
    struct guard_bench *bench = *state;
    static const enum target_mode modes[] = {MODE_ENFORCE, MODE_OBSERVE, MODE_OPEN, MODE_CLOSED};

    say(bench, FORCED_OPEN);
    for (unsigned int i = 0; i < sizeof modes / sizeof *modes; i++) {
        bench->target.mode = modes[i];
        assert_refused(bench, ADMIT_REFUSED_FORCED);
    }
}

static void forced_closed_closes_an_open_circuit_and_refuses_nothing(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench_open(bench);
    say(bench, FORCED_CLOSED);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_failures(bench), 0);
    assert_int_equal(bench_events(bench, EVENT_CLOSE, &event), 1);
    assert_int_equal(event.reason, REASON_FORCED);
    assert_int_equal(event.from, CIRCUIT_OPEN);
    assert_string_equal(event.program, "sockfuse");
    for (unsigned int i = 0; i < 20; i++)
        bench_fail(bench);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 1);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 0);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench->target.mode = MODE_OPEN;
    bench_succeed(bench);
    bench->target.mode = MODE_ENFORCE;
    /* Given back, it goes by its own rules again. */
    say(bench, FORCED_NONE);
    bench_open(bench);
    assert_refused(bench, ADMIT_REFUSED_OPEN);
}

static void forced_closed_also_forgets_failures_of_a_closed_circuit(void **state)
{
    struct guard_bench *bench = *state;

    bench_fail(bench);
    bench_fail(bench);
    say(bench, FORCED_CLOSED);
    assert_int_equal(bench_failures(bench), 0);
    assert_int_equal(bench_events(bench, EVENT_CLOSE, NULL), 0); /* it was closed before */
    say(bench, FORCED_NONE);
    bench_fail(bench);
    bench_fail(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

static void forced_closed_takes_the_floor_from_under_the_next_pause(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit *circuit = circuits_at(&bench->segment, bench->circuit);
    uint32_t call;

    circuit_hold_open(circuit, bench->now_ns + 300 * NS_PER_S);
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_refused(bench, ADMIT_REFUSED_OPEN); /* Retry-After */
    say(bench, FORCED_CLOSED);
    say(bench, FORCED_NONE);
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_forget(bench, call);
}

static void what_was_admitted_before_a_forced_close_changes_nothing_after_it(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench), probe;

    bench_open(bench);
    bench->now_ns += 9 * NS_PER_S; /* not overdue yet */
    bench->target.breaker.reset_timeout_ns = 1;
    bench->now_ns += NS_PER_S - 1;
    say(bench, FORCED_CLOSED);
    say(bench, FORCED_NONE);
    bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
    assert_int_equal(bench_failures(bench), 0);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 1);
    bench_forget(bench, call);

    /* A probe too; and its lease is free for the next one. */
    bench_open(bench);
    bench->now_ns += 60 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &probe), ADMIT_PROBE);
    say(bench, FORCED_CLOSED);
    say(bench, FORCED_NONE);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_settle(bench, probe, SEEN_ERROR, ECONNREFUSED, 0);
    bench_forget(bench, probe);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_failures(bench), 0);
    for (unsigned int i = 0; i < CIRCUIT_LEASES; i++)
        assert_int_equal(atomic_load(&circuits_at(&bench->segment, bench->circuit)->leases[i].token), 0);
}

static void a_request_on_an_established_connection_is_refused_too_unless_it_is_allowed(void **state)
{
    struct guard_bench *bench = *state;
    struct attempt attempt = {.target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A};
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    say(bench, FORCED_OPEN);
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_REFUSED_FORCED);
    bench->target.existing_allowed = true;
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_PASS);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
}

static void forced_closed_goes_before_the_bulkhead(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 1;
    say(bench, FORCED_CLOSED);
    uint32_t first = bench_call(bench), second = bench_call(bench);
    say(bench, FORCED_NONE);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_forget(bench, first);
    bench_forget(bench, second);
    bench_forget(bench, bench_call(bench));
}

static void the_journal_says_who_forced_what(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench_open(bench);
    say(bench, FORCED_CLOSED);
    assert_int_equal(bench_events(bench, EVENT_FORCED, &event), 1);
    assert_string_equal(event.program, "alice");
    assert_int_equal(event.pid, 4711);
    assert_string_equal(event.destination, BENCH_DESTINATION);
    assert_int_equal(event.kind, FORCED_CLOSED);
    assert_int_equal(event.from, CIRCUIT_OPEN);
    assert_int_equal(event.to, CIRCUIT_CLOSED);
    say(bench, FORCED_OPEN);
    assert_int_equal(bench_events(bench, EVENT_FORCED, &event), 2);
    assert_int_equal(event.from, CIRCUIT_CLOSED);
    assert_int_equal(event.to, CIRCUIT_OPEN);
    say(bench, FORCED_NONE);
    assert_int_equal(bench_events(bench, EVENT_FORCED, &event), 3);
    assert_int_equal(event.kind, FORCED_NONE);
    assert_int_equal(event.from, CIRCUIT_OPEN);
    assert_int_equal(event.to, CIRCUIT_CLOSED);
}

static void each_time_it_is_forced_open_the_first_refusal_is_told(void **state)
{
    struct guard_bench *bench = *state;

    for (unsigned int round = 1; round <= 3; round++) {
        say(bench, FORCED_OPEN);
        assert_refused(bench, ADMIT_REFUSED_FORCED);
        assert_refused(bench, ADMIT_REFUSED_FORCED);
        assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), round);
    }
}

static void a_forced_circuit_keeps_its_place(void **state)
{
    struct guard_bench *bench = *state;
    char destination[32];
    uint32_t own = bench->circuit;

    say(bench, FORCED_OPEN);
    bench->now_ns += 3600 * NS_PER_S;
    for (unsigned int i = 0; i < 2 * CAPACITY_CIRCUITS; i++) {
        snprintf(destination, sizeof destination, "10.0.0.1:%u", i + 1);
        bench->now_ns += 2 * 60 * NS_PER_S;
        bench_find(bench, destination);
    }
    assert_true(bench_stands(bench, BENCH_DESTINATION));
    bench->circuit = own;
    assert_refused(bench, ADMIT_REFUSED_FORCED);
    /* Given back and idle, it goes as others do, and its place starts anew. */
    say(bench, FORCED_NONE);
    for (unsigned int i = 0; i < 2 * CAPACITY_CIRCUITS && bench_stands(bench, BENCH_DESTINATION); i++) {
        snprintf(destination, sizeof destination, "10.0.0.2:%u", i + 1);
        bench->now_ns += 2 * 60 * NS_PER_S;
        bench_find(bench, destination);
    }
    assert_false(bench_stands(bench, BENCH_DESTINATION));
    bench->circuit = own; /* for the sums at the end: another destination's by now */
    assert_int_equal(force_get(&bench->segment, own, bench->now_ns), FORCED_NONE);
}

static void a_force_with_an_end_holds_until_then_and_not_a_nanosecond_longer(void **state)
{
    struct guard_bench *bench = *state;

    say_for(bench, FORCED_OPEN, 600 * NS_PER_S);
    bench->now_ns += 600 * NS_PER_S - 1;
    assert_refused(bench, ADMIT_REFUSED_FORCED);
    assert_int_equal(force_read(&bench->segment, bench->circuit, bench->now_ns).end_ns, bench->now_ns + 1);
    bench->now_ns += 1;
    assert_int_equal(force_get(&bench->segment, bench->circuit, bench->now_ns), FORCED_NONE);
    bench_succeed(bench);
    bench_open(bench); /* it goes by its own rules */
}

static void a_forced_close_with_an_end_lets_failures_count_again(void **state)
{
    struct guard_bench *bench = *state;

    bench_open(bench);
    say_for(bench, FORCED_CLOSED, 60 * NS_PER_S);
    for (unsigned int i = 0; i < 10; i++)
        bench_fail(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench->now_ns += 60 * NS_PER_S;
    bench_fail(bench); /* in a row with the others */
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_refused(bench, ADMIT_REFUSED_OPEN);
}

static void the_first_call_after_the_end_notes_it_and_no_other(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
    assert_int_equal(bench_events(bench, EVENT_FORCED, &event), 1);
    assert_int_equal(event.pause_ns, 60 * NS_PER_S);
    bench->now_ns += 90 * NS_PER_S;
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 1);
    for (unsigned int i = 0; i < 3; i++)
        bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_FORCED, &event), 2);
    assert_int_equal(event.reason, REASON_FORCE_ENDED);
    assert_int_equal(event.kind, FORCED_NONE);
    assert_int_equal(event.from, CIRCUIT_OPEN);
    assert_int_equal(event.to, CIRCUIT_CLOSED);
    assert_int_equal(event.pause_ns, 30 * NS_PER_S);
    assert_int_equal(event.pid, bench->guard.pid);
    assert_string_equal(event.program, bench->guard.program);
}

static void of_many_processes_that_call_after_the_end_one_notes_it(void **state)
{
    struct guard_bench *bench = *state;

    say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
    bench->now_ns += 60 * NS_PER_S;
    for (unsigned int i = 0; i < 8; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (unsigned int round = 0; round < 100; round++)
                force_obey(&bench->guard, bench->circuit, MODE_ENFORCE, bench->now_ns);
            _exit(0);
        }
        bench->children[bench->child_count++] = child;
    }
    for (unsigned int i = 0; i < bench->child_count; i++)
        waitpid(bench->children[i], NULL, 0);
    bench->child_count = 0;
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 2);
}

static void another_word_before_the_end_takes_the_place_of_the_first(void **state)
{
    struct guard_bench *bench = *state;

    say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
    assert_int_equal(say(bench, FORCED_OPEN), FORCED_OPEN); /* for good */
    bench->now_ns += 3600 * NS_PER_S;
    assert_refused(bench, ADMIT_REFUSED_FORCED);
    say_for(bench, FORCED_OPEN, 60 * NS_PER_S); /* and shorter again */
    bench->now_ns += 30 * NS_PER_S;
    say_for(bench, FORCED_CLOSED, 10 * NS_PER_S);
    bench_succeed(bench);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 5); /* four words, and the end of the last */
    say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
    assert_int_equal(say(bench, FORCED_NONE), FORCED_OPEN);
    bench_succeed(bench);
    bench->now_ns += 60 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 7); /* what was given back before does not end */
}

static void a_word_that_comes_after_an_end_nobody_noticed_finds_it_noted_first(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
    bench->now_ns += 3600 * NS_PER_S;
    assert_int_equal(say(bench, FORCED_CLOSED), FORCED_NONE);
    assert_int_equal(bench_events(bench, EVENT_FORCED, &event), 3);
    assert_int_equal(event.kind, FORCED_CLOSED);
    assert_int_equal(event.from, CIRCUIT_CLOSED);
}

static void each_time_the_first_refusal_is_told_also_after_an_end(void **state)
{
    struct guard_bench *bench = *state;

    for (unsigned int round = 1; round <= 3; round++) {
        say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
        assert_refused(bench, ADMIT_REFUSED_FORCED);
        assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), round);
        bench->now_ns += 60 * NS_PER_S;
        bench_succeed(bench);
    }
}

static void the_short_ways_end_with_a_force_and_begin_again_after_its_end(void **state)
{
    struct guard_bench *bench = *state;
    struct attempt attempt = {.target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A};
    struct call_place place;
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    assert_true(guard_call_place(&bench->guard, bench->circuit, call, &place));
    say_for(bench, FORCED_OPEN, 60 * NS_PER_S);
    assert_false(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_REFUSED_FORCED);
    bench->now_ns += 60 * NS_PER_S;
    /* The first one goes the long way, and takes the word away. */
    assert_false(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_int_equal(guard_begin(&bench->guard, &attempt, call, bench->now_ns), ADMIT_PASS);
    assert_true(guard_settle_short(&place, &bench->target, 0, bench->now_ns));
    assert_true(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_true(guard_settle_short(&place, &bench->target, 0, bench->now_ns));
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 2);
    bench_forget(bench, call);
}

static void an_end_that_can_not_be_kept_is_none(void **state)
{
    struct guard_bench *bench = *state;

    say_for(bench, FORCED_OPEN, FORCE_END_MAX);
    assert_refused(bench, ADMIT_REFUSED_FORCED);
    bench->now_ns += UINT64_C(1) << 62;
    assert_refused(bench, ADMIT_REFUSED_FORCED);
    say(bench, FORCED_NONE);
}

static void a_corrupt_word_is_none(void **state)
{
    struct guard_bench *bench = *state;

    atomic_store(&circuits_entry(&bench->segment, bench->circuit)->forced, FORCED_WORDS);
    assert_int_equal(force_get(&bench->segment, bench->circuit, bench->now_ns), FORCED_NONE);
    bench_succeed(bench);
    atomic_store(&circuits_entry(&bench->segment, bench->circuit)->forced, UINT32_MAX);
    bench_succeed(bench);
    assert_int_equal(force_get(&bench->segment, CIRCUIT_INDEX_NONE, 0), FORCED_NONE);
    bench->circuit = CIRCUIT_INDEX_NONE;
    say(bench, FORCED_OPEN); /* nothing to force */
    bench->circuit = bench_find(bench, BENCH_DESTINATION);
    /* A circuit whose word is broken can be closed too. */
    atomic_store(&circuits_at(&bench->segment, bench->circuit)->word, UINT64_MAX);
    say(bench, FORCED_CLOSED);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_succeed(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(forced_open_refuses_every_call_until_it_is_given_back),
        GUARD_TEST(forced_open_goes_before_every_mode),
        GUARD_TEST(forced_closed_closes_an_open_circuit_and_refuses_nothing),
        GUARD_TEST(forced_closed_also_forgets_failures_of_a_closed_circuit),
        GUARD_TEST(forced_closed_takes_the_floor_from_under_the_next_pause),
        GUARD_TEST(what_was_admitted_before_a_forced_close_changes_nothing_after_it),
        GUARD_TEST(a_request_on_an_established_connection_is_refused_too_unless_it_is_allowed),
        GUARD_TEST(forced_closed_goes_before_the_bulkhead),
        GUARD_TEST(the_journal_says_who_forced_what),
        GUARD_TEST(each_time_it_is_forced_open_the_first_refusal_is_told),
        GUARD_TEST(a_forced_circuit_keeps_its_place),
        GUARD_TEST(a_force_with_an_end_holds_until_then_and_not_a_nanosecond_longer),
        GUARD_TEST(a_forced_close_with_an_end_lets_failures_count_again),
        GUARD_TEST(the_first_call_after_the_end_notes_it_and_no_other),
        GUARD_TEST(of_many_processes_that_call_after_the_end_one_notes_it),
        GUARD_TEST(another_word_before_the_end_takes_the_place_of_the_first),
        GUARD_TEST(a_word_that_comes_after_an_end_nobody_noticed_finds_it_noted_first),
        GUARD_TEST(each_time_the_first_refusal_is_told_also_after_an_end),
        GUARD_TEST(the_short_ways_end_with_a_force_and_begin_again_after_its_end),
        GUARD_TEST(an_end_that_can_not_be_kept_is_none),
        GUARD_TEST(a_corrupt_word_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
