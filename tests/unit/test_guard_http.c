/*
 * test_guard_http.c - answers of HTTP on their way to the circuit: statuses, Retry-After, and what is told of them.
 */
#include "support_guard.h"

#include <errno.h>

/* A whole call that ends with such an answer. */
static struct outcome answer(struct guard_bench *bench, unsigned int status, uint64_t retry_after_ns)
{
    struct observation observation = {
        .seen = SEEN_BYTES, .http_status = status, .retry_after_ns = retry_after_ns, .waited_ns = 5 * NS_PER_MS};
    uint32_t call;
    enum admission admission = bench_admit(bench, &call);

    assert_true(admission == ADMIT_PASS || admission == ADMIT_PROBE);
    bench_connected(bench, call);
    bench_requested(bench, call);
    struct outcome outcome = guard_settle(&bench->guard, call, &bench->target, 2, &observation, bench->now_ns);
    bench_forget(bench, call);
    return outcome;
}

static int setup(void **state)
{
    int result = guard_bench_setup(state);
    struct guard_bench *bench = *state;

    bench->target.breaker.retry_after_max_ns = 300 * NS_PER_S;
    bench->target.rules.http_failure_count = 1;
    bench->target.rules.http_failures[0] = (struct status_range){502, 504};
    return result;
}
#define HTTP_TEST(name) cmocka_unit_test_setup_teardown(name, setup, guard_bench_teardown)

static void assert_next_probe_after(struct guard_bench *bench, uint64_t wait_ns)
{
    struct circuit_view view;
    uint32_t call;

    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    bench->now_ns += wait_ns - 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    circuit_observe(circuits_at(&bench->segment, bench->circuit), &bench->target.breaker, bench->now_ns, &view);
    assert_true(view.probe_due);
}

static void live_refused(struct guard_bench *bench)
{
    uint32_t call;

    bench_admit(bench, &call);
}

static void after_503_with_retry_after_7_under_a_pause_of_1_s_no_probe_comes_for_7_s_in_any_process(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.reset_timeout_ns = NS_PER_S;
    answer(bench, 503, 0);
    answer(bench, 503, 7 * NS_PER_S);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    answer(bench, 503, 0);
    assert_next_probe_after(bench, 7 * NS_PER_S);

    bench->now_ns -= 1;
    bench_kill(bench, bench_child(bench, live_refused));
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 2);
    bench->now_ns += 1;

    /* The probe is told to wait again. */
    assert_int_equal(answer(bench, 503, 9 * NS_PER_S).verdict, VERDICT_FAILURE);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_next_probe_after(bench, 9 * NS_PER_S);
    assert_int_equal(answer(bench, 200, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

static void the_failure_that_opens_the_circuit_brings_its_own_floor(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.breaker.failure_threshold = 1;
    answer(bench, 503, 25 * NS_PER_S);
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.pause_ns, 25 * NS_PER_S);
    assert_next_probe_after(bench, 25 * NS_PER_S);
}

static void retry_after_is_cut_at_its_maximum(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_threshold = 1;
    bench->target.breaker.retry_after_max_ns = 15 * NS_PER_S;
    answer(bench, 503, UINT64_MAX);
    assert_next_probe_after(bench, 15 * NS_PER_S);
    bench->target.breaker.retry_after_max_ns = UINT64_MAX; /* more than any clock can tell */
    answer(bench, 503, UINT64_MAX);
    assert_next_probe_after(bench, (UINT64_C(1) << 56) - 1);
}

static void the_journal_has_for_how_long_an_answer_asked(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    answer(bench, 503, 7 * NS_PER_S);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 1);
    assert_int_equal(event.pause_ns, 7 * NS_PER_S);
    answer(bench, 503, 0);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 2);
    assert_int_equal(event.pause_ns, 0);
}

static void retry_after_of_an_answer_that_is_no_failure_holds_the_next_opening(void **state)
{
    struct guard_bench *bench = *state;

    assert_int_equal(answer(bench, 429, 40 * NS_PER_S).verdict, VERDICT_BUSINESS);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_open(bench);
    assert_next_probe_after(bench, 40 * NS_PER_S);
}

static void an_answer_without_retry_after_holds_nothing(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_threshold = 1;
    answer(bench, 503, 0);
    assert_next_probe_after(bench, 10 * NS_PER_S);
}

static void business_neither_counts_nor_resets_and_closes_a_half_open_circuit(void **state)
{
    struct guard_bench *bench = *state;

    answer(bench, 503, 0);
    answer(bench, 503, 0);
    assert_int_equal(answer(bench, 404, 0).verdict, VERDICT_BUSINESS);
    assert_int_equal(answer(bench, 500, 0).verdict, VERDICT_BUSINESS);
    assert_int_equal(bench_failures(bench), 2);
    assert_int_equal(answer(bench, 302, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_failures(bench), 0);
    assert_int_equal(bench_sum(bench, COUNT_BUSINESS), 2);

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    answer(bench, 404, 0);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

static void a_failure_is_told_with_its_status(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.breaker.failure_threshold = 0;
    answer(bench, 503, 0);
    answer(bench, 504, 0);
    bench_fail(bench);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 3);
    assert_int_equal(event.kind, FAILURE_REFUSED);
    assert_int_equal(event.http_status, 0);
    answer(bench, 200, 0);
    answer(bench, 502, 0);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 4);
    assert_int_equal(event.kind, FAILURE_HTTP);
    assert_int_equal(event.http_status, 502);
    assert_int_equal(event.error, 0);
    assert_int_equal(event.elapsed_ms, 5);
    assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
    assert_int_equal(event.http_status, 502);
    for (unsigned int status = 502; status <= 504; status++)
        assert_int_equal(bench_sum(bench, counter_of_status(status)), 1);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_HTTP), 3);
}

static void an_address_that_tells_of_a_failure_has_answered(void **state)
{
    struct guard_bench *bench = *state;
    static const uint64_t both[] = {ADDRESS_A, ADDRESS_B};
    uint32_t call;

    bench->target.breaker.failure_threshold = 0;
    bench_admit_to(bench, ADDRESS_B, both, 2, &call);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0).verdict, VERDICT_FAILURE);
    bench_forget(bench, call);
    answer(bench, 503, 0); /* by ADDRESS_A */
    bench_admit_to(bench, ADDRESS_B, both, 2, &call);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0).reason, NEUTRAL_ADDRESS);
    bench_forget(bench, call);
    /* And the neighbour's word is no excuse for it. */
    assert_int_equal(answer(bench, 503, 0).verdict, VERDICT_FAILURE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_TEST(the_journal_has_for_how_long_an_answer_asked),
        HTTP_TEST(after_503_with_retry_after_7_under_a_pause_of_1_s_no_probe_comes_for_7_s_in_any_process),
        HTTP_TEST(the_failure_that_opens_the_circuit_brings_its_own_floor),
        HTTP_TEST(retry_after_is_cut_at_its_maximum),
        HTTP_TEST(retry_after_of_an_answer_that_is_no_failure_holds_the_next_opening),
        HTTP_TEST(an_answer_without_retry_after_holds_nothing),
        HTTP_TEST(business_neither_counts_nor_resets_and_closes_a_half_open_circuit),
        HTTP_TEST(a_failure_is_told_with_its_status),
        HTTP_TEST(an_address_that_tells_of_a_failure_has_answered),
    };

    return cmocka_run_group_tests_name("HTTP answers of guarded calls", tests, NULL, NULL);
}
