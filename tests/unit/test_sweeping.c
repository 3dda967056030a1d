/*
 * test_sweeping.c - what somebody who makes no calls does for those who do, while nobody calls.
 */
#include "support_guard.h"

#include <string.h>

#include "guard/operator.h"
#include "guard/sweeping.h"
#include "segment/processes.h"

#define TIMEOUT_NS (10 * NS_PER_S)

static const struct target *target_of_bench(const char *name, void *context)
{
    struct guard_bench *bench = context;
    return strcmp(name, BENCH_TARGET) == 0 ? &bench->target : NULL;
}

static struct guard sweeper(struct guard_bench *bench)
{
    return (struct guard){.segment = &bench->segment,
                          .pid = 4711,
                          .program = "sweeper",
                          .target_named = target_of_bench,
                          .context = bench};
}

static void sweep(struct guard_bench *bench)
{
    struct guard guard = sweeper(bench);
    bench_let_ask(bench);
    sweeping_charge(&guard, bench->now_ns);
}

static void calls_that_hang_open_their_circuit_though_nobody_calls(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    for (unsigned int i = 0; i < 20; i++)
        bench_child(bench, live_connecting);
    bench->now_ns += TIMEOUT_NS - NS_PER_S;
    sweep(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 0);
    bench->now_ns += NS_PER_S;
    sweep(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 20);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 20);
    assert_string_not_equal(event.program, "sweeper"); /* who hangs is told, and not who noticed */
    assert_int_equal(bench_events(bench, EVENT_OPEN, NULL), 1);
    sweep(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 20);
}

static void a_call_of_a_target_that_the_policy_does_not_have_is_left_to_who_knows_it(void **state)
{
    struct guard_bench *bench = *state;
    struct guard guard = sweeper(bench);
    bench_child(bench, live_connecting);
    bench->now_ns += TIMEOUT_NS;
    guard.target_named = NULL;
    sweeping_charge(&guard, bench->now_ns);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    bench->now_ns += 2 * NS_PER_S;
    sweep(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
}

static void what_killed_processes_left_is_given_back(void **state)
{
    struct guard_bench *bench = *state;
    bench->target.max_connections = 40;
    pid_t children[20];
    for (unsigned int i = 0; i < 20; i++)
        children[i] = bench_child(bench, live_connected);
    assert_int_equal(bench_connections(bench), 20);
    for (unsigned int i = 0; i < 20; i++)
        bench_kill(bench, children[i]);
    for (unsigned int i = 0; i < 4; i++)
        sweep(bench);
    assert_int_equal(bench_connections(bench), 0);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), 20);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 0);
}

static void a_dead_probes_lease_is_free(void **state)
{
    struct guard_bench *bench = *state;
    struct guard guard = sweeper(bench);
    struct circuit_view view;
    bench_open(bench);
    pid_t child = bench_child(bench, live_probing);
    bench->now_ns += 10 * NS_PER_S;
    assert_true(sweeping_tend(&guard, bench->now_ns)); /* it is in flight */
    circuit_observe(circuits_at(&bench->segment, bench->circuit), &bench->target.breaker, bench->now_ns, &view);
    assert_int_equal(view.probes, 1);
    bench_kill(bench, child);
    bench_let_ask(bench);
    assert_false(sweeping_tend(&guard, bench->now_ns));
    circuit_observe(circuits_at(&bench->segment, bench->circuit), &bench->target.breaker, bench->now_ns, &view);
    assert_int_equal(view.probes, 0);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_FAILED), 0);
    sweep(bench);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 1); /* its call, which nobody saw the end of */
}

static void a_probe_that_overruns_has_failed_and_the_journal_says_so(void **state)
{
    struct guard_bench *bench = *state;
    struct guard guard = sweeper(bench);
    struct event event;
    bench_open(bench);
    bench_child(bench, live_probing);
    bench->now_ns += 10 * NS_PER_S + bench->target.breaker.probe_timeout_ns - 1;
    assert_true(sweeping_tend(&guard, bench->now_ns));
    assert_int_equal(bench_events(bench, EVENT_OPEN, NULL), 1);
    bench->now_ns++;
    assert_false(sweeping_tend(&guard, bench->now_ns));
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 2);
    assert_int_equal(event.reason, REASON_PROBE_TIMEOUT);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_FAILED), 1);
    sweep(bench);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 1); /* its call was overdue too, and its circuit has opened since */
}

static void the_end_of_an_operators_word_is_noted_when_it_comes(void **state)
{
    struct guard_bench *bench = *state;
    struct guard guard = sweeper(bench);
    bench_succeed(bench);
    assert_false(sweeping_tend(&guard, bench->now_ns));
    force_set(&guard, "root", bench->circuit, (struct force){FORCED_OPEN, bench->now_ns + NS_PER_S}, MODE_ENFORCE,
              bench->now_ns);
    assert_true(sweeping_tend(&guard, bench->now_ns));
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 1);
    bench->now_ns += NS_PER_S;
    assert_false(sweeping_tend(&guard, bench->now_ns));
    assert_int_equal(bench_events(bench, EVENT_FORCED, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(calls_that_hang_open_their_circuit_though_nobody_calls),
        GUARD_TEST(a_call_of_a_target_that_the_policy_does_not_have_is_left_to_who_knows_it),
        GUARD_TEST(what_killed_processes_left_is_given_back),
        GUARD_TEST(a_dead_probes_lease_is_free),
        GUARD_TEST(a_probe_that_overruns_has_failed_and_the_journal_says_so),
        GUARD_TEST(the_end_of_an_operators_word_is_noted_when_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
