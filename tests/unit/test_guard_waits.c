/*
 * test_guard_waits.c - what of a call's life is noted as a wait: its connection, its answer, and what came to nothing.
 */
#include "support_guard.h"

#include <errno.h>

#include "breaker/latency.h"
#include "segment/circuits.h"

static const struct latency_view *seen(const struct guard_bench *bench)
{
    static struct latency_view view;

    latency_read(circuits_latency(&bench->segment, bench->circuit), bench->now_ns, &view);
    return &view;
}

static void answer(struct guard_bench *bench, uint32_t call, uint64_t waited_ns, unsigned int http_status)
{
    struct observation observation = {
        .seen = SEEN_BYTES, .http_status = http_status, .waited_ns = waited_ns, .stands_for = 1};

    guard_settle(&bench->guard, call, &bench->target, call, &observation, bench->now_ns);
}

/* A call whose connection takes a millisecond. */
static uint32_t requested(struct guard_bench *bench)
{
    uint32_t call = bench_call(bench);

    bench->now_ns += NS_PER_MS;
    bench_connected(bench, call);
    bench_requested(bench, call);
    return call;
}

static bool is_about(uint64_t value, uint64_t expected)
{
    return value * 50 > expected * 49 && value * 50 < expected * 51;
}

static void a_call_leaves_the_wait_for_its_connection_and_the_one_for_its_answer(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = requested(bench);

    assert_true(seen(bench)->connects.total == 1 && seen(bench)->answers.total == 0 && seen(bench)->recent_calls == 0);
    answer(bench, call, 20 * NS_PER_MS, 0);
    assert_true(seen(bench)->connects.total == 1 && seen(bench)->answers.total == 1 && seen(bench)->recent_calls == 1);
    assert_true(is_about(distribution_quantile(&seen(bench)->connects, 500), NS_PER_MS));
    assert_true(is_about(distribution_quantile(&seen(bench)->recent, 500), 20 * NS_PER_MS));
    assert_true(seen(bench)->waited_us == 21000);
}

static void an_answer_that_is_a_failure_has_come_all_the_same(void **state)
{
    struct guard_bench *bench = *state;

    answer(bench, requested(bench), 20 * NS_PER_MS, 503);
    assert_true(seen(bench)->answers.total == 1 && seen(bench)->recent.total == 1);
}

static void a_failure_is_a_call_and_a_wait_and_no_answer(void **state)
{
    struct guard_bench *bench = *state;

    bench_settle(bench, requested(bench), SEEN_ERROR, ECONNRESET, 30 * NS_PER_MS);
    assert_true(seen(bench)->answers.total == 0 && seen(bench)->recent.total == 0 && seen(bench)->recent_calls == 1);
    assert_true(seen(bench)->recent_longest_ns == 30 * NS_PER_MS && seen(bench)->waited_us == 31000);
}

static void an_overdue_call_has_waited_until_its_limit_and_for_the_rest_when_that_is_over(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench), other;

    bench->target.response_timeout_ns = 2 * NS_PER_S;
    bench_connected(bench, call);
    bench_requested(bench, call);
    bench->now_ns += 5 * NS_PER_S;
    bench_admit(bench, &other);
    assert_true(seen(bench)->waited_us == 2000000 && seen(bench)->recent_calls == 1 && seen(bench)->answers.total == 0);
    answer(bench, call, 5 * NS_PER_S, 0);
    assert_true(seen(bench)->waited_us == 5000000 && seen(bench)->recent_calls == 1 && seen(bench)->answers.total == 1);
}

static void a_connection_that_is_enough_is_what_the_call_has_waited_for(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.rules.success = SUCCESS_CONNECT;
    bench_settle(bench, bench_call(bench), SEEN_CONNECTED, 0, 3 * NS_PER_MS);
    assert_true(seen(bench)->connects.total == 1 && seen(bench)->recent.total == 1 && seen(bench)->recent_calls == 1);
}

static void the_most_that_waited_at_once_are_those_before_the_first_end(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t calls[7];

    for (unsigned int i = 0; i < 7; i++)
        calls[i] = requested(bench);
    for (unsigned int i = 0; i < 7; i++) {
        answer(bench, calls[i], NS_PER_MS, 0);
        bench->now_ns += NS_PER_S;
    }
    answer(bench, requested(bench), NS_PER_MS, 0);
    assert_int_equal(seen(bench)->most_in_flight, 7);
}

static void the_short_way_notes_what_it_measures(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = requested(bench);
    struct call_place place;

    answer(bench, call, NS_PER_MS, 0);
    assert_true(guard_call_place(&bench->guard, bench->circuit, call, &place));
    for (unsigned int i = 0; i < 3; i++) {
        bool is_first = i == 1;
        while (place_measures(&place, is_first) != (i == 0 ? MEASURED_OF_MANY : i == 1 ? 1 : 0))
            continue;
        assert_true(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
        assert_true(guard_settle_short(&place, &bench->target, 8 * NS_PER_MS, bench->now_ns));
    }
    assert_true(seen(bench)->answers.total == 1 + 64 + 1 && seen(bench)->recent_calls == 66);
    assert_true(is_about(distribution_quantile(&seen(bench)->recent, 500), 8 * NS_PER_MS));
}

/* The longest wait of a circuit is told, whichever calls are measured. */
static void nor_does_the_short_way_miss_a_long_wait_that_it_does_not_measure(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = requested(bench);
    struct call_place place;

    answer(bench, call, NS_PER_MS, 0);
    assert_true(guard_call_place(&bench->guard, bench->circuit, call, &place));
    while (place_measures(&place, false) != 0)
        continue;
    assert_true(guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns));
    assert_true(guard_settle_short(&place, &bench->target, 2 * NS_PER_S, bench->now_ns));
    assert_true(seen(bench)->longest_ns == 2 * NS_PER_S && seen(bench)->recent_calls == 2);
}

/* Two kinds of calls by turns, of which the drawing knows nothing. */
static void what_is_drawn_is_no_order_of_the_program(void **state)
{
    struct guard_bench *bench = *state;
    enum { CALLS = 64, TURNS = 64000 };
    struct call_place place;
    unsigned int sums[16] = {0}, all = 0;

    for (uint32_t call = 0; call < CALLS; call++) {
        guard_call_place(&bench->guard, bench->circuit, call, &place);
        for (unsigned int turn = 0; turn < TURNS; turn++) {
            uint32_t stands_for = place_measures(&place, false);
            sums[turn % 16] += stands_for;
            all += stands_for;
        }
    }
    assert_in_range(all, CALLS * TURNS / 100 * 97, CALLS * TURNS / 100 * 103);
    for (unsigned int i = 0; i < 16; i++)
        assert_in_range(sums[i], CALLS * TURNS / 1600 * 90, CALLS * TURNS / 1600 * 110);
}

static void a_circuit_that_is_forgotten_has_waited_for_nothing(void **state)
{
    struct guard_bench *bench = *state;

    answer(bench, requested(bench), 20 * NS_PER_MS, 0);
    assert_true(circuits_forget(&bench->segment, bench->circuit, true, bench->now_ns));
    assert_true(seen(bench)->answers.total == 0 && seen(bench)->recent.total == 0 && seen(bench)->waited_us == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_call_leaves_the_wait_for_its_connection_and_the_one_for_its_answer),
        GUARD_TEST(an_answer_that_is_a_failure_has_come_all_the_same),
        GUARD_TEST(a_failure_is_a_call_and_a_wait_and_no_answer),
        GUARD_TEST(an_overdue_call_has_waited_until_its_limit_and_for_the_rest_when_that_is_over),
        GUARD_TEST(a_connection_that_is_enough_is_what_the_call_has_waited_for),
        GUARD_TEST(the_most_that_waited_at_once_are_those_before_the_first_end),
        GUARD_TEST(the_short_way_notes_what_it_measures),
        GUARD_TEST(nor_does_the_short_way_miss_a_long_wait_that_it_does_not_measure),
        GUARD_TEST(what_is_drawn_is_no_order_of_the_program),
        GUARD_TEST(a_circuit_that_is_forgotten_has_waited_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
