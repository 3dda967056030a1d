/*
 * test_guard.c - whole lives of calls, from admission to outcome, in one process.
 */
#include "support_guard.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void an_answered_call_is_a_success_and_gives_its_record_back(void **state)
{
    struct guard_bench *bench = *state;
    bool settled;
    uint32_t call = bench_call(bench);

    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_CONNECTING);
    assert_false(settled);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 1);
    assert_int_equal(bench_settle(bench, call, SEEN_CONNECTED, 0, 0).verdict, VERDICT_NONE);
    bench_connected(bench, call);
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_CONNECTED);
    bench_requested(bench, call);
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_REQUESTED);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_ANSWERED);
    assert_true(settled);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
    bench_forget(bench, call);

    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 1);
    assert_int_equal(bench_call(bench), call);
    bench_forget(bench, call);
}

static void each_kind_of_end_is_counted_as_its_kind(void **state)
{
    static const struct {
        enum phase phase;
        enum seen seen;
        int error;
        uint64_t waited_ns;
        enum failure_kind kind;
    } ends[] = {
        {PHASE_CONNECTING, SEEN_ERROR, ECONNREFUSED, 0, FAILURE_REFUSED},
        {PHASE_CONNECTING, SEEN_ERROR, ETIMEDOUT, 0, FAILURE_CONNECT_TIMEOUT},
        {PHASE_CONNECTING, SEEN_WAIT_ENDED, 0, 0, FAILURE_CONNECT_TIMEOUT},
        {PHASE_CONNECTING, SEEN_GAVE_UP, 0, NS_PER_S, FAILURE_CONNECT_TIMEOUT},
        {PHASE_CONNECTING, SEEN_ERROR, EHOSTUNREACH, 0, FAILURE_UNREACHABLE},
        {PHASE_CONNECTED, SEEN_END, 0, 0, FAILURE_EARLY_CLOSE},
        {PHASE_CONNECTED, SEEN_GAVE_UP, 0, NS_PER_S, FAILURE_RESPONSE_TIMEOUT},
        {PHASE_REQUESTED, SEEN_ERROR, ECONNRESET, 0, FAILURE_RESET},
        {PHASE_REQUESTED, SEEN_WAIT_ENDED, 0, 0, FAILURE_RESPONSE_TIMEOUT},
    };
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.breaker.failure_threshold = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        uint64_t before = bench_sum(bench, COUNT_FAILURE_KIND + (unsigned int)ends[i].kind);
        uint32_t call = bench_call(bench);

        if (ends[i].phase >= PHASE_CONNECTED)
            bench_connected(bench, call);
        if (ends[i].phase >= PHASE_REQUESTED)
            bench_requested(bench, call);
        assert_int_equal(bench_settle(bench, call, ends[i].seen, ends[i].error, ends[i].waited_ns).kind, ends[i].kind);
        bench_forget(bench, call);
        assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + (unsigned int)ends[i].kind), before + 1);

        assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), i + 1);
        assert_int_equal(event.kind, ends[i].kind);
        assert_int_equal(event.error, ends[i].error);
        assert_int_equal(event.elapsed_ms, ends[i].waited_ns / NS_PER_MS);
        assert_int_equal(event.pid, getpid());
        assert_int_equal(event.mono_ns, bench->now_ns);
        assert_string_equal(event.program, "bench");
        assert_string_equal(event.target, BENCH_TARGET);
        assert_string_equal(event.destination, BENCH_DESTINATION);
        assert_false(event.overran || event.late);

        struct event frozen;
        assert_true(circuits_last_failure(&bench->segment, bench->circuit, &frozen));
        assert_memory_equal(&frozen, &event, sizeof frozen);
    }
}

static void a_neutral_end_leaves_no_failure(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call = bench_call(bench);

    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, EMFILE, 0).reason, NEUTRAL_LOCAL);
    bench_forget(bench, call);
    call = bench_call(bench);
    assert_int_equal(bench_settle(bench, call, SEEN_GAVE_UP, 0, 299 * NS_PER_MS).reason, NEUTRAL_CANCELLED);
    bench_forget(bench, call);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL), 2);
    assert_int_equal(bench_failures(bench), 0);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, NULL), 0);
    assert_false(circuits_last_failure(&bench->segment, bench->circuit, &event));
}

static void a_call_that_nobody_settled_is_forgotten_as_neutral_unknown(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_forget(bench, call);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), 1);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
}

static void a_call_has_one_outcome_however_often_it_is_settled(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_FAILURE);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_NONE);
    assert_int_equal(bench_settle(bench, call, SEEN_GAVE_UP, 0, NS_PER_S).verdict, VERDICT_NONE);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
    bench_forget(bench, call);
    bench_forget(bench, call);
    assert_int_equal(bench_late_or_counted(bench), 1);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE_ENDED), 0);
}

static void another_ones_record_is_left_alone(void **state)
{
    struct guard_bench *bench = *state;
    struct guard own = bench->guard;
    bool settled;
    uint32_t call = bench_call(bench);

    bench->guard.holder ^= 1u << 20; /* a fork's child before and after it has joined */
    bench_connected(bench, call);
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_ANSWERED);
    assert_true(settled);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_NONE);
    bench_forget(bench, call);
    bench->guard = own;
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_CONNECTING);
    assert_false(settled);
    bench_forget(bench, call);
}

static void no_call_is_no_harm(void **state)
{
    static const uint32_t none[] = {CALL_NONE, 8192, 4711};
    struct guard_bench *bench = *state;
    bool settled;

    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        bench_connected(bench, none[i]);
        bench_requested(bench, none[i]);
        assert_int_equal(bench_settle(bench, none[i], SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
        bench_forget(bench, none[i]);
        guard_phase(&bench->guard, none[i], &settled);
        assert_true(settled);
    }
    assert_int_equal(bench_late_or_counted(bench), 0);
}

static void success_may_be_a_connection(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.rules.success = SUCCESS_CONNECT;
    bench_fail(bench);
    uint32_t call = bench_call(bench);
    assert_int_equal(bench_settle(bench, call, SEEN_CONNECTED, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
    assert_int_equal(bench_failures(bench), 0);
}

static void three_failures_open_and_the_next_is_refused_until_the_pause_is_over(void **state)
{
    struct guard_bench *bench = *state;
    struct event event, frozen;
    uint32_t call;

    bench_open(bench);
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.from, CIRCUIT_CLOSED);
    assert_int_equal(event.to, CIRCUIT_OPEN);
    assert_int_equal(event.reason, REASON_FAILURE_THRESHOLD);
    assert_int_equal(event.failures, 3);
    assert_int_equal(event.pause_ns, 10 * NS_PER_S);
    assert_true(circuits_last_transition(&bench->segment, bench->circuit, &frozen));
    assert_memory_equal(&frozen, &event, sizeof frozen);

    bench->now_ns += 10 * NS_PER_S - 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    assert_int_equal(call, CALL_NONE);
    bench->now_ns += 1;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    assert_int_equal(bench_events(bench, EVENT_HALF_OPEN, &event), 1);
    assert_int_equal(event.refused, 1);
    assert_int_equal(event.reason, REASON_PAUSE_OVER);
    assert_int_equal(bench_events(bench, EVENT_PROBE, &event), 1);

    uint32_t refused;
    assert_int_equal(bench_admit(bench, &refused), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0).verdict, VERDICT_FAILURE);
    bench_forget(bench, call);
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 2);
    assert_int_equal(event.reason, REASON_PROBE_FAILED);
    assert_int_equal(event.pause_ns, 20 * NS_PER_S);

    bench->now_ns += 20 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_connected(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_events(bench, EVENT_CLOSE, &event), 1);
    assert_int_equal(event.refused, 2);
    assert_true(circuits_last_transition(&bench->segment, bench->circuit, &frozen));
    assert_int_equal(frozen.type, EVENT_CLOSE);
    bench_succeed(bench);
}

static void a_call_from_before_the_trip_is_late_and_its_failure_is_marked_so(void **state)
{
    struct guard_bench *bench = *state;
    struct event event, frozen;
    uint32_t early = bench_call(bench), lucky = bench_call(bench);

    bench_open(bench);
    bench->now_ns += NS_PER_S;
    assert_int_equal(bench_settle(bench, early, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_FAILURE);
    assert_int_equal(bench_settle(bench, lucky, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, early);
    bench_forget(bench, lucky);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 2);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 3);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);

    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 4);
    assert_true(event.late);
    assert_true(circuits_last_failure(&bench->segment, bench->circuit, &frozen));
    assert_false(frozen.late);
    assert_int_equal(frozen.kind, FAILURE_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(an_answered_call_is_a_success_and_gives_its_record_back),
        GUARD_TEST(each_kind_of_end_is_counted_as_its_kind),
        GUARD_TEST(a_neutral_end_leaves_no_failure),
        GUARD_TEST(a_call_that_nobody_settled_is_forgotten_as_neutral_unknown),
        GUARD_TEST(a_call_has_one_outcome_however_often_it_is_settled),
        GUARD_TEST(another_ones_record_is_left_alone),
        GUARD_TEST(no_call_is_no_harm),
        GUARD_TEST(success_may_be_a_connection),
        GUARD_TEST(three_failures_open_and_the_next_is_refused_until_the_pause_is_over),
        GUARD_TEST(a_call_from_before_the_trip_is_late_and_its_failure_is_marked_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
