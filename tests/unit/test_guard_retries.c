/*
 * test_guard_retries.c - when a failed attempt may be made again, as far as its circuit and its target go.
 */
#include "support_guard.h"

#include <errno.h>

#include "breaker/retry.h"
#include "guard/holding.h"
#include "guard/operator.h"
#include "guard/retries.h"

static bool may(const struct guard_bench *bench)
{
    return guard_may_retry(&bench->guard, bench->circuit, &bench->target, bench->now_ns);
}

static bool takes(const struct guard_bench *bench)
{
    return guard_take_retry(&bench->guard, bench->circuit, &bench->target, 0, bench->now_ns);
}

static void only_a_closed_circuit_may_be_tried_again(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    assert_true(may(bench));
    bench_open(bench);
    assert_false(may(bench));
    bench->now_ns += 10 * NS_PER_S; /* its probe is due */
    assert_false(may(bench));
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    assert_false(may(bench));
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    bench_forget(bench, call);
    assert_true(may(bench));
}

static void only_what_is_enforced_is_tried_again(void **state)
{
    static const struct {
        enum target_mode mode;
        enum forced forced;
        bool may;
    } rows[] = {{MODE_ENFORCE, FORCED_NONE, true},   {MODE_OBSERVE, FORCED_NONE, false},
                {MODE_OPEN, FORCED_NONE, false},     {MODE_CLOSED, FORCED_NONE, false},
                {MODE_OFF, FORCED_NONE, false},      {MODE_ENFORCE, FORCED_OPEN, false},
                {MODE_ENFORCE, FORCED_CLOSED, false}};
    struct guard_bench *bench = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench->target.mode = rows[i].mode;
        force_set(&bench->guard, "alice", bench->circuit, (struct force){rows[i].forced, 0}, rows[i].mode,
                  bench->now_ns);
        assert_int_equal(may(bench), rows[i].may);
    }
}

static void nothing_is_tried_again_that_the_agent_holds(void **state)
{
    static const struct hold_cause cause = {0};
    struct guard_bench *bench = *state;

    assert_true(may(bench));
    hold_set(&bench->guard, bench->circuit, HOLD_FLEET, NS_PER_S, &cause, MODE_ENFORCE, bench->now_ns);
    assert_false(may(bench));
    bench->now_ns += NS_PER_S;
    assert_true(may(bench));
}

static void a_retry_is_no_probe_whatever_is_due(void **state)
{
    struct guard_bench *bench = *state;
    struct attempt attempt = {
        .target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A, .is_retry = true};
    const uint64_t both[] = {ADDRESS_A, ADDRESS_B};
    uint32_t call, probe;

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(guard_admit(&bench->guard, &attempt, bench->now_ns, &call), ADMIT_REFUSED_OPEN);
    assert_int_equal(call, CALL_NONE);
    assert_int_equal(bench_sum(bench, COUNT_PROBES), 0);
    assert_int_equal(bench_admit_to(bench, ADDRESS_A, both, 2, &probe), ADMIT_PROBE);
    attempt.address_key = ADDRESS_B; /* which the probe would cover */
    attempt.siblings = both;
    attempt.sibling_count = 2;
    assert_int_equal(guard_admit(&bench->guard, &attempt, bench->now_ns, &call), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_PROBES), 1);
    bench_forget(bench, probe);
}

static void what_is_granted_and_what_is_not_is_counted(void **state)
{
    struct guard_bench *bench = *state;
    const struct retry_report report = {
        .kind = FAILURE_REFUSED, .error = ECONNREFUSED, .number = 1, .most = 2, .waited_ns = 70 * NS_PER_MS};
    struct event event;

    bench->target.retry_budget_permille = 100;
    for (unsigned int i = 0; i < RETRIES_MINIMUM; i++)
        assert_true(takes(bench));
    assert_false(takes(bench));
    assert_false(takes(bench));
    assert_int_equal(bench_sum(bench, COUNT_RETRIES_DENIED), 2);
    assert_int_equal(bench_sum(bench, COUNT_RETRIES), 0);
    guard_note_retry(&bench->guard, bench->circuit, 0, &report, bench->now_ns);
    assert_int_equal(bench_sum(bench, COUNT_RETRIES), 1);
    assert_int_equal(bench_events(bench, EVENT_RETRY, &event), 1);
    assert_int_equal(event.kind, FAILURE_REFUSED);
    assert_int_equal(event.error, ECONNREFUSED);
    assert_int_equal(event.failures, 1);
    assert_int_equal(event.retries_most, 2);
    assert_int_equal(event.elapsed_ms, 70);
}

static void its_share_is_of_all_calls_of_the_circuit(void **state)
{
    struct guard_bench *bench = *state;
    unsigned int granted = 0;

    bench->target.retry_budget_permille = 200;
    bench->target.breaker.failure_threshold = bench->target.breaker.failure_rate_permille = 0;
    for (unsigned int i = 0; i < 60; i++)
        bench_fail(bench);
    while (takes(bench))
        granted++;
    assert_int_equal(granted, 10); /* of 60 calls, were these among them, 50 are others */
}

static void a_circuit_that_is_not_there_is_not_tried_again(void **state)
{
    struct guard_bench *bench = *state;
    const uint32_t circuit = bench->circuit;

    bench->circuit = CIRCUIT_INDEX_NONE;
    assert_false(may(bench));
    assert_false(takes(bench));
    guard_note_retry(&bench->guard, bench->circuit, 0, &(struct retry_report){0}, bench->now_ns);
    bench->circuit = circuit;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(only_a_closed_circuit_may_be_tried_again),
        GUARD_TEST(only_what_is_enforced_is_tried_again),
        GUARD_TEST(nothing_is_tried_again_that_the_agent_holds),
        GUARD_TEST(a_retry_is_no_probe_whatever_is_due),
        GUARD_TEST(what_is_granted_and_what_is_not_is_counted),
        GUARD_TEST(its_share_is_of_all_calls_of_the_circuit),
        GUARD_TEST(a_circuit_that_is_not_there_is_not_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
