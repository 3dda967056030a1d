/*
 * test_overdue.c - calls that hang longer than allowed, and how the next admission finds them.
 */
#include "support_guard.h"

#include <errno.h>
#include <string.h>

#define TIMEOUT_NS (10 * NS_PER_S)

static void an_attempt_is_overdue_at_connect_timeout_and_not_a_nanosecond_before(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call = bench_call(bench);

    bench->now_ns += TIMEOUT_NS - 1;
    bench_forget(bench, bench_call(bench));
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 0);
    bench->now_ns += 1;
    bench_forget(bench, bench_call(bench));
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 1);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_CONNECT_TIMEOUT), 1);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 1);
    assert_int_equal(event.overran, OVERRAN_HANGS);
    assert_int_equal(event.elapsed_ms, 10000);
    assert_int_equal(event.kind, FAILURE_CONNECT_TIMEOUT);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
    bench_forget(bench, call);
}

static void the_real_end_of_a_charged_call_is_counted_once_and_apart(void **state)
{
    struct guard_bench *bench = *state;
    bool settled;
    uint32_t call = bench_call(bench);

    bench->now_ns += TIMEOUT_NS;
    bench_forget(bench, bench_call(bench));
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_ANSWERED);
    assert_true(settled);
    bench_connected(bench, call);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_CONNECTED, 0, 0).verdict, VERDICT_NONE);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE_ENDED), 0);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE_ENDED), 1);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_NONE);
    bench_forget(bench, call);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE_ENDED), 1);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 0);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 1);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 0);
}

static void thirty_two_hanging_processes_open_the_circuit_while_they_hang(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call;

    for (unsigned int i = 0; i < 32; i++)
        bench_child(bench, live_connecting);
    pid_t last = bench->children[31];
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 32);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);

    bench->now_ns += TIMEOUT_NS;
    /* The first admission charges what it takes to open the circuit; the others are charged few by few, as late. */
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    assert_in_range(bench_sum(bench, COUNT_OVERDUE), 3, 16);
    for (unsigned int i = 0; i < 32; i++) {
        bench_let_ask(bench);
        assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    }
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 32);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 3);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 29);
    assert_int_equal(bench_events(bench, EVENT_OPEN, NULL), 1);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 32);
    assert_int_equal(event.pid, last);
    assert_string_equal(event.program, "child");
    assert_true(event.late && event.overran == OVERRAN_HANGS);
    assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
    assert_false(event.late);
}

static void an_opening_counts_from_when_the_calls_became_overdue(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    for (unsigned int i = 0; i < 3; i++)
        bench_child(bench, live_connecting);
    /* Nobody came by for an hour: the pause is over, and the next call is a probe, not refused. */
    bench->now_ns += 3600 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 1);
    bench_forget(bench, call);
}

static void a_hanging_probe_fails_at_its_due_time(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    bench->target.connect_timeout_ns = 4 * NS_PER_S;
    bench_open(bench);
    bench_child(bench, live_probing);
    bench->now_ns += 10 * NS_PER_S + 4 * NS_PER_S - 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_HALF_OPEN);
    bench->now_ns += 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_FAILED), 1);
    bench->now_ns += 20 * NS_PER_S - 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_forget(bench, call);
}

static void a_response_is_overdue_only_if_the_target_says_so(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench->now_ns += 3600 * NS_PER_S;
    bench_succeed(bench);
    bench_requested(bench, call);
    bench->now_ns += 3600 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 1);
    bench_forget(bench, call);
}

static void a_server_that_should_speak_first_is_overdue_from_the_connection_on(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    uint32_t call = bench_call(bench);
    bench->now_ns += NS_PER_S;
    bench_connected(bench, call);
    bench->now_ns += NS_PER_S;
    bench_connected(bench, call); /* again: the wait does not begin anew */
    bench->now_ns += 4 * NS_PER_S - 1;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    bench->now_ns += 1;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_RESPONSE_TIMEOUT), 1);
    bench_forget(bench, call);
}

static void more_of_a_request_starts_the_wait_for_its_answer_anew(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    uint32_t call = bench_call(bench);
    bench_connected(bench, call);
    bench_requested(bench, call);
    for (unsigned int i = 0; i < 4; i++) {
        bench->now_ns += 5 * NS_PER_S - 1;
        bench_requested(bench, call);
        bench_succeed(bench);
    }
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    bench->now_ns += 5 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_RESPONSE_TIMEOUT), 1);
    bench_forget(bench, call);
}

static void where_a_connection_is_enough_no_connection_is_overdue(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.rules.success = SUCCESS_CONNECT;
    bench->target.response_timeout_ns = 5 * NS_PER_S;
    uint32_t call = bench_call(bench);
    bench_connected(bench, call);
    bench->now_ns += 3600 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    bench_forget(bench, call);
}

/* --- what comes after the limit, and nobody has looked --- */

static void an_answer_at_the_limit_is_the_failure_that_it_was_late_for_and_one_before_is_none(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    for (uint64_t early_ns = 0; early_ns < 2; early_ns++) {
        uint32_t call = bench_call(bench);
        bench_connected(bench, call);
        bench_requested(bench, call);
        bench->now_ns += 5 * NS_PER_S - early_ns;
        struct outcome outcome = bench_settle(bench, call, SEEN_BYTES, 0, 0);
        assert_int_equal(outcome.verdict, early_ns ? VERDICT_SUCCESS : VERDICT_FAILURE);
        bench_forget(bench, call);
    }
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 1);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_RESPONSE_TIMEOUT), 1);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0); /* it does not hang */
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 1);
    assert_int_equal(event.overran, OVERRAN_CAME);
    assert_int_equal(event.elapsed_ms, 5000);
}

static void late_answers_one_after_another_open_the_circuit_as_of_the_last_ones_limit(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    for (unsigned int i = 0; i < 3; i++) {
        uint32_t call = bench_call(bench);
        bench_connected(bench, call);
        bench_requested(bench, call);
        bench->now_ns += 9 * NS_PER_S; /* the next attempt is made only after this answer */
        assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).kind, FAILURE_RESPONSE_TIMEOUT);
        bench_forget(bench, call);
    }
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 3);
    assert_int_equal(event.elapsed_ms, 9000);
    uint32_t call;
    bench->now_ns += 6 * NS_PER_S - 1; /* of its ten seconds four were over when the answer came */
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    bench->now_ns += 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_forget(bench, call);
}

static void a_connection_at_its_limit_is_a_connect_timeout_and_its_answer_comes_too_late(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call = bench_call(bench);

    bench->now_ns += TIMEOUT_NS + NS_PER_S;
    bench_connected(bench, call);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_CONNECT_TIMEOUT), 1);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 1);
    assert_int_equal(event.overran, OVERRAN_CAME);
    assert_int_equal(event.elapsed_ms, 11000);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE_ENDED), 1);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 0);
    bench_forget(bench, call);
}

static void where_a_connection_is_enough_a_late_one_is_a_connect_timeout(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.rules.success = SUCCESS_CONNECT;
    uint32_t call = bench_call(bench);
    bench->now_ns += TIMEOUT_NS;
    assert_int_equal(bench_settle(bench, call, SEEN_CONNECTED, 0, 0).kind, FAILURE_CONNECT_TIMEOUT);
    bench_forget(bench, call);
}

static void what_came_in_time_and_was_seen_late_is_judged_by_when_it_came(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    for (uint64_t late_ns = 0; late_ns < 2; late_ns++) {
        uint32_t call = bench_call(bench);
        bench_connected(bench, call);
        bench_requested(bench, call);
        struct observation observation = {.seen = SEEN_BYTES, .came_ns = bench->now_ns + 5 * NS_PER_S - 1 + late_ns};
        bench->now_ns += 60 * NS_PER_S;
        struct outcome outcome = guard_settle(&bench->guard, call, &bench->target, 0, &observation, bench->now_ns);
        assert_int_equal(outcome.verdict, late_ns ? VERDICT_FAILURE : VERDICT_SUCCESS);
        bench_forget(bench, call);
    }
}

/* Had somebody looked, it would have been overdue: what the program found in the end makes no difference. */
static void whatever_ends_a_call_after_its_limit_is_that_failure_unless_it_says_nothing_of_the_peer(void **state)
{
    struct guard_bench *bench = *state;
    static const struct {
        enum seen seen;
        int error;
        enum verdict verdict;
    } ends[] = {
        {SEEN_END, 0, VERDICT_FAILURE},         {SEEN_ERROR, ECONNRESET, VERDICT_FAILURE},
        {SEEN_GAVE_UP, 0, VERDICT_FAILURE},     {SEEN_WAIT_ENDED, 0, VERDICT_FAILURE},
        {SEEN_ERROR, ENOBUFS, VERDICT_NEUTRAL},
    };

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    bench->target.breaker.failure_threshold = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        uint32_t call = bench_call(bench);
        bench_connected(bench, call);
        bench_requested(bench, call);
        bench->now_ns += 7 * NS_PER_S;
        struct outcome outcome = bench_settle(bench, call, ends[i].seen, ends[i].error, 0);
        assert_int_equal(outcome.verdict, ends[i].verdict);
        if (outcome.verdict == VERDICT_FAILURE)
            assert_int_equal(outcome.kind, FAILURE_RESPONSE_TIMEOUT);
        bench_forget(bench, call);
    }
}

static void an_answer_without_a_limit_may_take_any_time(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
    bench->now_ns += 86400 * NS_PER_S;
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(an_attempt_is_overdue_at_connect_timeout_and_not_a_nanosecond_before),
        GUARD_TEST(the_real_end_of_a_charged_call_is_counted_once_and_apart),
        GUARD_TEST(thirty_two_hanging_processes_open_the_circuit_while_they_hang),
        GUARD_TEST(an_opening_counts_from_when_the_calls_became_overdue),
        GUARD_TEST(a_hanging_probe_fails_at_its_due_time),
        GUARD_TEST(a_response_is_overdue_only_if_the_target_says_so),
        GUARD_TEST(a_server_that_should_speak_first_is_overdue_from_the_connection_on),
        GUARD_TEST(more_of_a_request_starts_the_wait_for_its_answer_anew),
        GUARD_TEST(where_a_connection_is_enough_no_connection_is_overdue),
        GUARD_TEST(an_answer_at_the_limit_is_the_failure_that_it_was_late_for_and_one_before_is_none),
        GUARD_TEST(late_answers_one_after_another_open_the_circuit_as_of_the_last_ones_limit),
        GUARD_TEST(a_connection_at_its_limit_is_a_connect_timeout_and_its_answer_comes_too_late),
        GUARD_TEST(where_a_connection_is_enough_a_late_one_is_a_connect_timeout),
        GUARD_TEST(what_came_in_time_and_was_seen_late_is_judged_by_when_it_came),
        GUARD_TEST(whatever_ends_a_call_after_its_limit_is_that_failure_unless_it_says_nothing_of_the_peer),
        GUARD_TEST(an_answer_without_a_limit_may_take_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
