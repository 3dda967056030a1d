/*
 * test_guard_rates.c - which calls are slow, and what the modes and the journal make of the rates.
 */
#include "support_guard.h"

#include <errno.h>
#include <string.h>

#define SLOW_NS (2 * NS_PER_S)

static void use_rates(struct guard_bench *bench)
{
    bench->target.breaker.failure_threshold = 0;
    bench->target.breaker.window = 30 * NS_PER_S;
    bench->target.breaker.minimum_calls = 4;
    bench->target.breaker.failure_rate_permille = 500;
    bench->target.breaker.slow_call_ns = SLOW_NS;
    bench->target.breaker.slow_call_rate_permille = 1000;
}

static struct outcome answer(struct guard_bench *bench, unsigned int http_status, uint64_t waited_ns)
{
    struct observation observation = {.seen = SEEN_BYTES, .http_status = http_status, .waited_ns = waited_ns};
    uint32_t call = bench_call(bench);

    bench_requested(bench, call);
    struct outcome outcome = guard_settle(&bench->guard, call, &bench->target, 5, &observation, bench->now_ns);
    bench_forget(bench, call);
    return outcome;
}

static struct circuit_view view_of(const struct guard_bench *bench)
{
    struct circuit_view view;

    circuit_observe(circuits_at(&bench->segment, bench->circuit), &bench->target.breaker, bench->now_ns, &view);
    return view;
}

static void an_answer_that_takes_longer_than_slow_call_is_slow(void **state)
{
    struct guard_bench *bench = *state;

    use_rates(bench);
    assert_false(answer(bench, 0, SLOW_NS).slow);
    assert_true(answer(bench, 0, SLOW_NS + 1).slow);
    assert_true(answer(bench, 200, 3600 * NS_PER_S).slow);
    assert_int_equal(bench_sum(bench, COUNT_SLOW), 2);
    assert_int_equal(view_of(bench).window.slow, 2);
    assert_int_equal(view_of(bench).window.calls, 3);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

static void only_a_success_is_slow(void **state)
{
    struct guard_bench *bench = *state;

    use_rates(bench);
    bench->target.rules.http_failure_count = 1;
    bench->target.rules.http_failures[0] = (struct status_range){503, 503};
    struct outcome outcome = answer(bench, 404, 10 * SLOW_NS);
    assert_true(outcome.verdict == VERDICT_BUSINESS && !outcome.slow);
    outcome = answer(bench, 503, 10 * SLOW_NS);
    assert_true(outcome.verdict == VERDICT_FAILURE && !outcome.slow);
    uint32_t call = bench_call(bench);
    bench_requested(bench, call);
    outcome = bench_settle(bench, call, SEEN_GAVE_UP, 0, 10 * SLOW_NS);
    assert_true(outcome.verdict == VERDICT_FAILURE && !outcome.slow);
    bench_forget(bench, call);
    assert_int_equal(bench_sum(bench, COUNT_SLOW), 0);
    assert_int_equal(view_of(bench).window.calls, 2);
    assert_int_equal(view_of(bench).window.failed, 2);
}

static void a_slow_connection_is_no_slow_answer(void **state)
{
    struct guard_bench *bench = *state;

    use_rates(bench);
    bench->target.rules.success = SUCCESS_CONNECT;
    uint32_t call = bench_call(bench);
    struct outcome outcome = bench_settle(bench, call, SEEN_CONNECTED, 0, 10 * SLOW_NS);
    assert_true(outcome.verdict == VERDICT_SUCCESS && !outcome.slow);
    bench_forget(bench, call);
}

static void without_slow_call_nothing_is_slow(void **state)
{
    struct guard_bench *bench = *state;

    use_rates(bench);
    bench->target.breaker.slow_call_ns = 0;
    assert_false(answer(bench, 0, 3600 * NS_PER_S).slow);
    assert_int_equal(bench_sum(bench, COUNT_SLOW), 0);
}

static void an_opening_by_a_rate_tells_what_the_window_held(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    use_rates(bench);
    bench_succeed(bench);
    bench_fail(bench);
    bench_succeed(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_fail(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.reason, REASON_FAILURE_RATE);
    assert_int_equal(event.window_calls, 4);
    assert_int_equal(event.window_failed, 2);
    assert_int_equal(event.window_slow, 0);
    assert_int_equal(event.failures, 1);
}

static void slow_answers_open_and_each_of_them_has_succeeded(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    use_rates(bench);
    for (int i = 0; i < 4; i++)
        answer(bench, 200, SLOW_NS + 1);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 4);
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.reason, REASON_SLOW_CALL_RATE);
    assert_int_equal(event.window_slow, 4);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, NULL), 0);
}

static void calls_that_hang_are_in_the_window_when_they_are_charged(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t calls[4];

    use_rates(bench);
    for (int i = 0; i < 4; i++)
        calls[i] = bench_call(bench);
    bench->now_ns += 10 * NS_PER_S - 1;
    bench_succeed(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench->now_ns += 1;
    uint32_t call;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    struct event event;
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.reason, REASON_FAILURE_RATE);
    assert_int_equal(event.window_calls, 4); /* the fourth outcome opens; the last of the four is late */
    assert_int_equal(event.window_failed, 3);
    for (int i = 0; i < 4; i++)
        bench_forget(bench, calls[i]);
}

static void mode_closed_has_no_rates(void **state)
{
    struct guard_bench *bench = *state;
    struct window *window = &circuits_at(&bench->segment, bench->circuit)->window;
    static struct window before;

    use_rates(bench);
    bench->target.mode = MODE_CLOSED;
    memcpy(&before, window, sizeof before);
    for (int i = 0; i < 50; i++)
        bench_fail(bench);
    for (int i = 0; i < 50; i++)
        answer(bench, 0, SLOW_NS + 1);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 0);
    assert_int_equal(bench_sum(bench, COUNT_SLOW), 50);
    assert_memory_equal(&before, window, sizeof before);
}

static void mode_observe_opens_by_a_rate_and_lets_pass(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    use_rates(bench);
    bench->target.mode = MODE_OBSERVE;
    for (int i = 0; i < 4; i++)
        bench_fail(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PASS);
    bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
    bench_forget(bench, call);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
}

/* The children's calls and ours are in one window. */
static void fail_once(struct guard_bench *bench)
{
    bench_fail(bench);
}

static void all_processes_share_one_window(void **state)
{
    struct guard_bench *bench = *state;

    use_rates(bench);
    for (int i = 0; i < 3; i++) {
        bench_child(bench, fail_once);
        assert_int_equal(view_of(bench).window.failed, i + 1);
    }
    bench_fail(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(an_answer_that_takes_longer_than_slow_call_is_slow),
        GUARD_TEST(only_a_success_is_slow),
        GUARD_TEST(a_slow_connection_is_no_slow_answer),
        GUARD_TEST(without_slow_call_nothing_is_slow),
        GUARD_TEST(an_opening_by_a_rate_tells_what_the_window_held),
        GUARD_TEST(slow_answers_open_and_each_of_them_has_succeeded),
        GUARD_TEST(calls_that_hang_are_in_the_window_when_they_are_charged),
        GUARD_TEST(mode_closed_has_no_rates),
        GUARD_TEST(mode_observe_opens_by_a_rate_and_lets_pass),
        GUARD_TEST(all_processes_share_one_window),
    };

    return cmocka_run_group_tests_name("guard rates", tests, NULL, NULL);
}
