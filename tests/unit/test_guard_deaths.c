/*
 * test_guard_deaths.c - owners that were killed, and a table of calls that is full.
 */
#include "support_guard.h"

#include <stdatomic.h>

#include "segment/layout.h"
#include "segment/processes.h"

#define TIMEOUT_NS (10 * NS_PER_S)

static void a_call_of_a_killed_process_is_neutral_and_not_in_flight(void **state)
{
    static void (*const lives[])(struct guard_bench *) = {live_connecting, live_connected, live_requested};
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    for (unsigned int i = 0; i < 3; i++) {
        pid_t child = bench_child(bench, lives[i]);

        assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 1);
        bench_kill(bench, child);
        assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
        bench->now_ns += TIMEOUT_NS;
        bench_succeed(bench);
        assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), i + 1);
        assert_int_equal(bench_sum(bench, COUNT_FAILED), 0);
    }
}

/* Which it had lost by a jump, say: its engine gives back all that it knows of. */
static void a_record_that_is_left_at_an_orderly_end_comes_back(void **state)
{
    struct guard_bench *bench = *state;
    const uint32_t own = bench->guard.holder, other = process_join(&bench->segment, "other", 1);

    bench->target.max_connections = 5;
    bench->guard.holder = other;
    bench_call(bench);
    assert_int_equal(bench_connections(bench), 1);
    process_leave(&bench->segment, other);
    bench->guard.holder = own;
    bench_succeed(bench);
    assert_int_equal(bench_connections(bench), 0);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), 1);
}

/* Or each of many short programs would send the others through the whole table. */
static void who_leaves_nothing_behind_is_looked_for_by_nobody(void **state)
{
    struct guard_bench *bench = *state;
    const uint32_t deaths = atomic_load(&bench->segment.map->deaths);

    process_leave(&bench->segment, process_join(&bench->segment, "other", 1));
    assert_int_equal(atomic_load(&bench->segment.map->deaths), deaths);
}

static void a_probe_of_a_killed_process_makes_room_for_the_next_call(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    bench_open(bench);
    pid_t child = bench_child(bench, live_probing);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_HALF_OPEN);
    bench_kill(bench, child);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    /* The dead one's call is found in its time: it is late, for its lease is over. */
    bench->now_ns += TIMEOUT_NS;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 1);
}

static void a_killed_probe_that_is_found_after_its_deadline_has_failed_at_it(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    bench_open(bench);
    bench_kill(bench, bench_child(bench, live_probing));
    bench->now_ns += 10 * NS_PER_S + bench->target.breaker.probe_timeout_ns;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 2);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), 0);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 1);
}

static unsigned int fill_table(struct guard_bench *bench, uint32_t *calls)
{
    unsigned int count = 0;
    uint32_t call;

    while (bench_admit(bench, &call) == ADMIT_PASS && call != CALL_NONE)
        calls[count++] = call;
    return count;
}

static void a_full_table_lets_calls_pass_unguarded_and_counts_them(void **state)
{
    static uint32_t calls[CAPACITY_CALLS];
    struct guard_bench *bench = *state;
    uint32_t call;

    assert_int_equal(fill_table(bench, calls), CAPACITY_CALLS);
    assert_int_equal(atomic_load(&bench->segment.map->no_room[NO_ROOM_CONNECTIONS]), 1);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PASS);
    assert_int_equal(call, CALL_NONE);
    assert_int_equal(atomic_load(&bench->segment.map->no_room[NO_ROOM_CONNECTIONS]), 2);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), 2);
    bench_forget(bench, calls[4000]);
    assert_int_equal(bench_call(bench), calls[4000]);
    for (unsigned int i = 0; i < CAPACITY_CALLS; i++)
        bench_forget(bench, calls[i]);
}

static void a_probe_without_a_record_gives_its_permit_back(void **state)
{
    static uint32_t calls[CAPACITY_CALLS];
    struct guard_bench *bench = *state;
    uint32_t call;

    bench->target.connect_timeout_ns = 0; /* never overdue */
    uint32_t some = bench_call(bench);
    bench_open(bench);
    bench->target.mode = MODE_OBSERVE;
    unsigned int count = fill_table(bench, calls);
    bench->target.mode = MODE_ENFORCE;
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PASS);
    assert_int_equal(call, CALL_NONE);
    assert_int_equal(bench_state(bench), CIRCUIT_HALF_OPEN);
    bench_forget(bench, some);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    bench_forget(bench, call);
    for (unsigned int i = 0; i < count; i++)
        bench_forget(bench, calls[i]);
}

static void live_in_a_thousand_calls(struct guard_bench *bench)
{
    for (unsigned int i = 0; i < 500; i++)
        live_requested(bench);
    for (unsigned int i = 0; i < 500; i++)
        live_answered(bench);
}

static void a_full_table_takes_back_the_records_of_the_dead(void **state)
{
    static uint32_t calls[CAPACITY_CALLS];
    struct guard_bench *bench = *state;
    pid_t child = bench_child(bench, live_in_a_thousand_calls);
    unsigned int count = fill_table(bench, calls);

    assert_int_equal(count, CAPACITY_CALLS - 1000);
    bench_kill(bench, child);
    for (unsigned int i = 0; i < 1000; i++)
        calls[count++] = bench_call(bench);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN), 500 + 1);
    for (unsigned int i = 0; i < count; i++)
        bench_forget(bench, calls[i]);
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_call_of_a_killed_process_is_neutral_and_not_in_flight),
        GUARD_TEST(a_record_that_is_left_at_an_orderly_end_comes_back),
        GUARD_TEST(who_leaves_nothing_behind_is_looked_for_by_nobody),
        GUARD_TEST(a_probe_of_a_killed_process_makes_room_for_the_next_call),
        GUARD_TEST(a_killed_probe_that_is_found_after_its_deadline_has_failed_at_it),
        GUARD_TEST(a_full_table_lets_calls_pass_unguarded_and_counts_them),
        GUARD_TEST(a_probe_without_a_record_gives_its_permit_back),
        GUARD_TEST(a_full_table_takes_back_the_records_of_the_dead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
