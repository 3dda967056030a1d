/*
 * test_guard_short_way.c - the short way of a kept connection's calls: it leaves what the long way leaves, and where
 * anything is not as usual it does nothing.
 */
#include "support_guard.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guard/operator.h"
#include "segment/layout.h"

static bool begin_short(struct guard_bench *bench, uint32_t call)
{
    struct call_place place;

    return guard_call_place(&bench->guard, bench->circuit, call, &place) &&
           guard_begin_short(&place, &bench->target, ADDRESS_A, bench->now_ns);
}

static bool settle_short(struct guard_bench *bench, uint32_t call, uint64_t waited_ns)
{
    struct call_place place;

    return guard_call_place(&bench->guard, bench->circuit, call, &place) &&
           guard_settle_short(&place, &bench->target, waited_ns, bench->now_ns);
}

static enum admission begin(struct guard_bench *bench, uint32_t call)
{
    const struct attempt attempt = {
        .target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A, .shard = call};

    return guard_begin(&bench->guard, &attempt, call, bench->now_ns);
}

static struct outcome settle(struct guard_bench *bench, uint32_t call, uint64_t waited_ns)
{
    struct observation answer = {.seen = SEEN_BYTES, .answered_before = true, .waited_ns = waited_ns, .stands_for = 1};

    return guard_settle(&bench->guard, call, &bench->target, call, &answer, bench->now_ns);
}

/* A connection whose first call was answered. */
static uint32_t answered(struct guard_bench *bench)
{
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
    assert_int_equal(settle(bench, call, 0).verdict, VERDICT_SUCCESS);
    return call;
}

/* What the long way does for all, now and then, whatever the call. */
static void leave_out_tidying(const struct guard_bench *bench, char *copy)
{
    struct segment_header *header = (void *)copy;
    size_t processes = (size_t)((const char *)bench->segment.processes - (const char *)bench->segment.map);
    struct process_slot *slots = (void *)(copy + processes);

    header->owners_cursor = 0;
    header->burial = 0;
    for (uint32_t i = 0; i < bench->segment.capacity.processes; i++)
        slots[i].asked_ns = 0;
}

/* Everything that processes share, to be compared. */
static char *image(const struct guard_bench *bench)
{
    char *copy = malloc(bench->segment.size);

    assert_non_null(copy);
    memcpy(copy, bench->segment.map, bench->segment.size);
    leave_out_tidying(bench, copy);
    return copy;
}

static void assert_same(const struct guard_bench *bench, const char *other)
{
    char *now = image(bench);

    assert_memory_equal(now, other, bench->segment.size);
    free(now);
}

static void restore(const struct guard_bench *bench, char *from)
{
    memcpy(bench->segment.map, from, bench->segment.size);
    free(from);
}

static void assert_both_ways_go_on_to_the_same(struct guard_bench *bench, uint32_t call)
{
    char *before, *by_short[2];

    bench->now_ns += 7;
    before = image(bench);
    assert_true(begin_short(bench, call));
    by_short[0] = image(bench);
    bench->now_ns += 90;
    assert_true(settle_short(bench, call, 90));
    by_short[1] = image(bench);

    restore(bench, before);
    bench->now_ns -= 90;
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_same(bench, by_short[0]);
    bench->now_ns += 90;
    assert_int_equal(settle(bench, call, 90).verdict, VERDICT_SUCCESS);
    assert_same(bench, by_short[1]);
    free(by_short[0]);
    free(by_short[1]);
    bench_forget(bench, call);
}

static void assert_both_ways_leave_the_same(struct guard_bench *bench)
{
    assert_both_ways_go_on_to_the_same(bench, answered(bench));
}

static void both_ways_leave_the_same(void **state)
{
    assert_both_ways_leave_the_same(*state);
}

static void both_ways_leave_the_same_in_a_window_of_time(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_rate_permille = 500;
    bench->target.breaker.minimum_calls = 20;
    bench->target.breaker.window = 30 * NS_PER_S;
    assert_both_ways_leave_the_same(bench);
}

static void both_ways_leave_the_same_in_a_window_of_calls(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_rate_permille = 500;
    bench->target.breaker.minimum_calls = 20;
    bench->target.breaker.window = WINDOW_CALLS | 100;
    assert_both_ways_leave_the_same(bench);
}

static void both_ways_leave_the_same_where_a_neighbour_has_failed(void **state)
{
    struct guard_bench *bench = *state;
    const uint64_t addresses[] = {ADDRESS_A, ADDRESS_B};
    uint32_t first = answered(bench), call;

    for (unsigned int i = 0; i < 2; i++) {
        assert_int_equal(bench_admit_to(bench, ADDRESS_B, addresses, 2, &call), ADMIT_PASS);
        bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
        bench_forget(bench, call);
        bench_succeed(bench);
    }
    assert_int_equal(bench_admit_to(bench, ADDRESS_B, addresses, 2, &call), ADMIT_PASS);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0).reason, NEUTRAL_ADDRESS);
    bench_forget(bench, call);
    /* Now the answer is news. */
    assert_both_ways_go_on_to_the_same(bench, first);
}

static void both_ways_leave_the_same_with_a_response_timeout_and_in_mode_observe(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    bench->target.breaker.slow_call_ns = 90;
    bench->target.breaker.slow_call_rate_permille = 1000;
    bench->target.breaker.window = 30 * NS_PER_S;
    bench->target.mode = MODE_OBSERVE;
    assert_both_ways_leave_the_same(bench);
}

/* --- what it leaves to the long way --- */

static void assert_nothing_is_begun(struct guard_bench *bench, uint32_t call)
{
    char *before = image(bench);

    assert_false(begin_short(bench, call));
    assert_same(bench, before);
    free(before);
}

static void assert_nothing_is_settled(struct guard_bench *bench, uint32_t call, uint64_t waited_ns)
{
    char *before = image(bench);

    assert_false(settle_short(bench, call, waited_ns));
    assert_same(bench, before);
    free(before);
}

/* Between two calls, and with one in flight that is then settled on the long way. */
static void assert_neither(struct guard_bench *bench, uint32_t between, uint32_t in_flight)
{
    assert_nothing_is_begun(bench, between);
    assert_nothing_is_settled(bench, in_flight, 0);
}

static uint32_t in_flight(struct guard_bench *bench)
{
    uint32_t call = answered(bench);

    assert_true(begin_short(bench, call));
    return call;
}

static void end(struct guard_bench *bench, uint32_t between, uint32_t in_flight)
{
    settle(bench, in_flight, 0);
    bench_forget(bench, between);
    bench_forget(bench, in_flight);
}

static void a_counted_failure_takes_both_to_the_long_way_which_forgets_it(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench), flying = in_flight(bench);

    bench_fail(bench);
    assert_neither(bench, between, flying);
    assert_int_equal(settle(bench, flying, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_failures(bench), 0);
    assert_true(begin_short(bench, between));
    assert_true(settle_short(bench, between, 0));
    end(bench, between, flying);
}

static void an_open_a_half_open_and_a_corrupt_circuit_do_so_too(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench), flying = in_flight(bench), probe;
    struct circuit *circuit = circuits_at(&bench->segment, bench->circuit);

    bench_open(bench);
    assert_neither(bench, between, flying);
    assert_int_equal(begin(bench, between), ADMIT_REFUSED_OPEN);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &probe), ADMIT_PROBE);
    assert_neither(bench, between, flying);
    bench_settle(bench, probe, SEEN_BYTES, 0, 0);
    bench_forget(bench, probe);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    uint64_t word = atomic_load(&circuit->word);
    atomic_store(&circuit->word, UINT64_MAX);
    assert_neither(bench, between, flying);
    atomic_store(&circuit->word, word);
    end(bench, between, flying);
}

static void a_ticket_of_a_former_generation_is_no_good(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench), flying = in_flight(bench);

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_neither(bench, between, flying);
    assert_int_equal(settle(bench, flying, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 1);
    /* The long way brings the record into the present generation. */
    assert_int_equal(begin(bench, between), ADMIT_PASS);
    assert_true(settle_short(bench, between, 0));
    assert_true(begin_short(bench, between));
    assert_true(settle_short(bench, between, 0));
    end(bench, between, flying);
}

static void a_probes_ticket_is_no_good(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench);

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(begin(bench, between), ADMIT_PROBE);
    assert_nothing_is_settled(bench, between, 0);
    assert_int_equal(settle(bench, between, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_nothing_is_begun(bench, between);
    bench_forget(bench, between);
}

static void an_operators_word_and_every_mode_but_enforce_and_observe_do_so_too(void **state)
{
    static const enum target_mode modes[] = {MODE_OFF, MODE_OPEN, MODE_CLOSED};
    static const enum forced words[] = {FORCED_OPEN, FORCED_CLOSED};
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench), flying = in_flight(bench);
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        bench->target.mode = modes[i];
        assert_neither(bench, between, flying);
    }
    bench->target.mode = MODE_ENFORCE;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        atomic_store(&entry->forced, (uint32_t)words[i]);
        assert_neither(bench, between, flying);
    }
    atomic_store(&entry->forced, (uint32_t)FORCED_NONE);
    assert_true(settle_short(bench, flying, 0));
    end(bench, between, flying);
}

static void nothing_is_begun_while_a_call_may_be_overdue(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench), hanging = bench_call(bench);

    bench->now_ns += 10 * NS_PER_S - 2 * NS_PER_MS; /* due times are kept to a millisecond */
    assert_true(begin_short(bench, between));
    assert_true(settle_short(bench, between, 0));
    bench->now_ns += 2 * NS_PER_MS;
    assert_nothing_is_begun(bench, between);
    assert_int_equal(begin(bench, between), ADMIT_PASS);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    end(bench, hanging, between);
}

static void a_short_request_is_overdue_in_its_time_and_its_answer_then_comes_late(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench), other = answered(bench);

    /* From now on: what was noted before is the attempts' connect_timeout, which is later. */
    bench->target.response_timeout_ns = 5 * NS_PER_S;
    assert_true(begin_short(bench, call));
    bench->now_ns += 5 * NS_PER_S;
    assert_int_equal(begin(bench, other), ADMIT_PASS);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_nothing_is_settled(bench, call, 5 * NS_PER_S);
    assert_int_equal(settle(bench, call, 5 * NS_PER_S).verdict, VERDICT_NONE);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE_ENDED), 1);
    end(bench, call, other);
}

static void a_short_request_whose_answer_comes_at_its_limit_takes_the_long_way(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    assert_true(begin_short(bench, call));
    bench->now_ns += 5 * NS_PER_S;
    assert_nothing_is_settled(bench, call, 5 * NS_PER_S);
    assert_int_equal(settle(bench, call, 5 * NS_PER_S).kind, FAILURE_RESPONSE_TIMEOUT);
    assert_true(begin(bench, call) == ADMIT_PASS);
    bench->now_ns += 5 * NS_PER_S - 1;
    bench_forget(bench, call);
}

static void slow_answers_and_recorded_ones_take_the_long_way(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = in_flight(bench);

    bench->target.breaker.slow_call_ns = 100;
    assert_nothing_is_settled(bench, call, 101);
    bench->target.all_recorded = true;
    assert_nothing_is_settled(bench, call, 100);
    bench->target.all_recorded = false;
    assert_true(settle_short(bench, call, 100));
    bench_forget(bench, call);
}

static void only_a_settled_call_is_followed_and_only_one_in_flight_is_settled(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t connecting = bench_call(bench), between = answered(bench), flying = in_flight(bench);

    assert_nothing_is_begun(bench, connecting);
    assert_nothing_is_settled(bench, connecting, 0);
    bench_connected(bench, connecting);
    assert_nothing_is_settled(bench, connecting, 0);
    assert_nothing_is_begun(bench, flying);
    assert_nothing_is_settled(bench, between, 0);
    assert_true(settle_short(bench, flying, 0));
    assert_nothing_is_settled(bench, flying, 0);
    end(bench, connecting, between);
    bench_forget(bench, flying);
}

static void somebody_elses_record_and_none_at_all_are_left_alone(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench), flying = in_flight(bench);

    bench->guard.holder ^= 1u << 20;
    assert_neither(bench, between, flying);
    bench->guard.holder ^= 1u << 20;
    assert_neither(bench, CALL_NONE, CALL_NONE);
    assert_neither(bench, CAPACITY_CALLS, CAPACITY_CALLS);
    uint32_t other = bench_find(bench, "elsewhere.internal:443"), circuit = bench->circuit;
    bench->circuit = other;
    assert_neither(bench, between, flying);
    bench->circuit = CIRCUIT_INDEX_NONE;
    assert_neither(bench, between, flying);
    bench->circuit = circuit;
    end(bench, between, flying);
}

static void an_address_that_lost_its_place_is_looked_up_anew(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t between = answered(bench);
    struct circuit *circuit = circuits_at(&bench->segment, bench->circuit);

    for (uint64_t key = 1; key <= CIRCUIT_ADDRESSES; key++) {
        int place = circuit_address_index(circuit, key);
        assert_true(place >= 0);
        circuit_address_failed(circuit, place);
    }
    atomic_store(&circuit->addresses[0].key, 99);
    assert_nothing_is_begun(bench, between);
    assert_int_equal(begin(bench, between), ADMIT_PASS);
    settle(bench, between, 0);
    bench_forget(bench, between);
}

static void a_number_that_has_gone_round_takes_the_long_way(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);
    struct call *record = &bench->segment.calls[call];

    atomic_fetch_or(&record->state, UINT32_MAX);
    assert_nothing_is_begun(bench, call);
    assert_int_equal(begin(bench, call), ADMIT_PASS);
    assert_true((uint32_t)atomic_load(&record->state) != 0);
    settle(bench, call, 0);
    bench_forget(bench, call);
}

static void live_short(struct guard_bench *bench)
{
    in_flight(bench);
}

static void a_killed_process_leaves_its_short_call_neutral(void **state)
{
    struct guard_bench *bench = *state;
    pid_t child = bench_child(bench, live_short);

    bench_kill(bench, child);
    bench->now_ns += 3600 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 3);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 2);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL), 1);
}

/* --- threads --- */

enum { THREADS = 4, TURNS = 20000 };

struct worker {
    struct guard_bench *bench;
    uint32_t call;
    unsigned int number;
};

/* Some go the short way, some the long one, on the same records and with failures in between. */
static void *work(void *context)
{
    struct worker *worker = context;
    struct guard_bench *bench = worker->bench;

    for (unsigned int turn = 0; turn < TURNS; turn++) {
        if ((turn + worker->number) % 3 == 0 || !begin_short(bench, worker->call))
            begin(bench, worker->call);
        if (turn % 64 == worker->number)
            bench_settle(bench, worker->call, SEEN_END, 0, 0);
        if ((turn + worker->number) % 5 == 0 || !settle_short(bench, worker->call, 0))
            settle(bench, worker->call, 0);
    }
    return NULL;
}

static void threads_on_one_connection_settle_each_call_once(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = answered(bench);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    bench->target.breaker.failure_threshold = 0;
    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){bench, call, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    settle(bench, call, 0);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), bench_late_or_counted(bench));
    assert_true(bench_sum(bench, COUNT_FAILED) > 0);
    assert_true(bench_sum(bench, COUNT_SUCCEEDED) > TURNS / 2);
    bench_forget(bench, call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(both_ways_leave_the_same),
        GUARD_TEST(both_ways_leave_the_same_in_a_window_of_time),
        GUARD_TEST(both_ways_leave_the_same_in_a_window_of_calls),
        GUARD_TEST(both_ways_leave_the_same_where_a_neighbour_has_failed),
        GUARD_TEST(both_ways_leave_the_same_with_a_response_timeout_and_in_mode_observe),
        GUARD_TEST(a_counted_failure_takes_both_to_the_long_way_which_forgets_it),
        GUARD_TEST(an_open_a_half_open_and_a_corrupt_circuit_do_so_too),
        GUARD_TEST(a_ticket_of_a_former_generation_is_no_good),
        GUARD_TEST(a_probes_ticket_is_no_good),
        GUARD_TEST(an_operators_word_and_every_mode_but_enforce_and_observe_do_so_too),
        GUARD_TEST(nothing_is_begun_while_a_call_may_be_overdue),
        GUARD_TEST(a_short_request_is_overdue_in_its_time_and_its_answer_then_comes_late),
        GUARD_TEST(a_short_request_whose_answer_comes_at_its_limit_takes_the_long_way),
        GUARD_TEST(slow_answers_and_recorded_ones_take_the_long_way),
        GUARD_TEST(only_a_settled_call_is_followed_and_only_one_in_flight_is_settled),
        GUARD_TEST(somebody_elses_record_and_none_at_all_are_left_alone),
        GUARD_TEST(an_address_that_lost_its_place_is_looked_up_anew),
        GUARD_TEST(a_number_that_has_gone_round_takes_the_long_way),
        GUARD_TEST(a_killed_process_leaves_its_short_call_neutral),
        GUARD_TEST(threads_on_one_connection_settle_each_call_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
