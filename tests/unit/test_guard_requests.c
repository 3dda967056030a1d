/*
 * test_guard_requests.c - further requests on a connection that has answered: each is a call of its own.
 */
#include "support_guard.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "segment/layout.h"

static enum admission begin(struct guard_bench *bench, uint32_t call)
{
    struct attempt attempt = {
        .target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A, .shard = 2};

    return guard_begin(&bench->guard, &attempt, call, bench->now_ns);
}

/* A connection whose first call was answered. */
static uint32_t answered(struct guard_bench *bench)
{
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    return call;
}

static void each_request_after_an_answer_has_an_outcome_of_its_own(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);
    bool settled;

    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_int_equal(guard_phase(&bench->guard, call, &settled), PHASE_REQUESTED);
    assert_false(settled);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_GAVE_UP, 0, NS_PER_S).kind, FAILURE_RESPONSE_TIMEOUT);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 3);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 2);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 1);
    bench_forget(bench, call);
}

static void an_open_circuit_refuses_the_next_request_and_leaves_the_connection_as_it_was(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);
    bool settled;

    bench_open(bench);
    assert_int_equal(begin(bench, call), ADMIT_REFUSED_OPEN);
    guard_phase(&bench->guard, call, &settled);
    assert_true(settled);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_NONE);
    /* In half-open it may be the probe. */
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(begin(bench, call), ADMIT_PROBE);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_forget(bench, call);
}

static void where_existing_connections_are_allowed_the_next_request_passes_and_is_counted(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench), unused;

    bench->target.existing_allowed = true;
    bench_open(bench);
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 0);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_admit(bench, &unused), ADMIT_REFUSED_OPEN);
    bench_forget(bench, call);
}

static void the_next_request_is_overdue_in_its_own_time(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    uint32_t call = answered(bench);
    bench->now_ns += 3600 * NS_PER_S;
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    bench_requested(bench, call);
    bench->now_ns += 5 * NS_PER_S - 1;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    bench->now_ns += 1;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    /* Charged, and yet the connection goes on: the next request is a call again. */
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
}

static void a_call_is_over_with_its_real_end(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    uint32_t call = bench_call(bench);
    assert_false(guard_is_over(&bench->guard, call));
    bench_requested(bench, call);
    assert_false(guard_is_over(&bench->guard, call));
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    assert_true(guard_is_over(&bench->guard, call));
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_false(guard_is_over(&bench->guard, call));
    bench->now_ns += 5 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_false(guard_is_over(&bench->guard, call));
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    assert_true(guard_is_over(&bench->guard, call));
    bench->guard.holder ^= 1u << 20;
    assert_false(guard_is_over(&bench->guard, call));
    bench->guard.holder ^= 1u << 20;
    bench_forget(bench, call);
    assert_false(guard_is_over(&bench->guard, call));
    assert_false(guard_is_over(&bench->guard, CALL_NONE));
}

static void a_request_in_flight_is_not_begun_again(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);

    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 2);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
}

/* As by a signal's handler that jumps out of guard_begin. */
static void what_is_received_after_a_begin_that_never_came_to_its_end_frees_the_connection_for_the_next(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);
    struct call_view view;

    assert_true(calls_read(&bench->segment, call, &view));
    assert_true(calls_reserve(&bench->segment, call, &view));
    calls_set_times(&bench->segment, call, bench->now_ns, DUE_NEVER);
    bench->now_ns += NS_PER_S - 1;
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
    bench->now_ns += 1;
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 1);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 2);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 2);
    bench_forget(bench, call);
}

static void another_ones_connection_begins_nothing(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);
    bool settled;

    bench->guard.holder ^= 1u << 20;
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_int_equal(begin(bench, CALL_NONE), ADMIT_PASS);
    bench->guard.holder ^= 1u << 20;
    guard_phase(&bench->guard, call, &settled);
    assert_true(settled);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 1);
    assert_int_equal(atomic_load(&bench->segment.map->no_room[NO_ROOM_CONNECTIONS]), 2);
    bench_forget(bench, call);
}

enum { ROUNDS = 3000 };
static _Atomic unsigned int round_begun, round_ended;
static uint32_t shared_call;

static void *begin_each_round(void *context)
{
    for (unsigned int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&round_begun) < round)
            sched_yield();
        begin(context, shared_call);
        atomic_store(&round_ended, round);
    }
    return NULL;
}

static void two_threads_that_send_at_once_make_one_call(void **state)
{
    struct guard_bench *bench = *state;
    pthread_t thread;

    shared_call = answered(bench);
    assert_int_equal(pthread_create(&thread, NULL, begin_each_round, bench), 0);
    for (unsigned int round = 1; round <= ROUNDS; round++) {
        atomic_store(&round_begun, round);
        for (volatile unsigned int pause = 0; pause < round % 200; pause++) {
        }
        begin(bench, shared_call);
        while (atomic_load(&round_ended) < round)
            sched_yield();
        assert_int_equal(bench_sum(bench, COUNT_ADMITTED), round + 1);
        assert_int_equal(bench_settle(bench, shared_call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    }
    pthread_join(thread, NULL);
    bench_forget(bench, shared_call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(each_request_after_an_answer_has_an_outcome_of_its_own),
        GUARD_TEST(an_open_circuit_refuses_the_next_request_and_leaves_the_connection_as_it_was),
        GUARD_TEST(where_existing_connections_are_allowed_the_next_request_passes_and_is_counted),
        GUARD_TEST(the_next_request_is_overdue_in_its_own_time),
        GUARD_TEST(a_call_is_over_with_its_real_end),
        GUARD_TEST(a_request_in_flight_is_not_begun_again),
        GUARD_TEST(what_is_received_after_a_begin_that_never_came_to_its_end_frees_the_connection_for_the_next),
        GUARD_TEST(another_ones_connection_begins_nothing),
        GUARD_TEST(two_threads_that_send_at_once_make_one_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
