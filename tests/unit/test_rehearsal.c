/*
 * test_rehearsal.c - injected faults in the segment: how attempts are numbered, and what their outcomes bear.
 */
#include "support_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/layout.h"
#include "guard/fault_numbers.h"

#define RUN UINT32_C(0xcafe0001)
#define THREADS 4u
#define EACH 5000u

static uint32_t next_of(struct guard_bench *bench, uint32_t run)
{
    return rehearsal_number(&bench->segment, bench->circuit, run);
}

static void attempts_of_a_run_are_numbered_from_zero(void **state)
{
    struct guard_bench *bench = *state;

    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(next_of(bench, RUN), i);
}

static void circuits_are_numbered_apart(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t own = bench->circuit;

    next_of(bench, RUN);
    bench->circuit = bench_find(bench, "other.internal:443");
    assert_int_equal(next_of(bench, RUN), 0);
    bench->circuit = own;
    assert_int_equal(next_of(bench, RUN), 1);
}

static void another_run_begins_anew_and_a_few_at_a_time_do_not_disturb_each_other(void **state)
{
    struct guard_bench *bench = *state;

    /* All of them want the same place first. */
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t run = 0; run < REHEARSALS; run++)
            assert_int_equal(next_of(bench, RUN + run * REHEARSALS), round);
    }
}

static void more_runs_than_there_are_places_push_out_former_ones(void **state)
{
    struct guard_bench *bench = *state;

    for (uint32_t run = 1; run <= 50; run++) {
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(next_of(bench, run), i);
    }
}

static void numbers_end_and_begin_again_without_touching_the_run(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);

    next_of(bench, RUN);
    atomic_store(&entry->rehearsals[RUN % REHEARSALS], (uint64_t)RUN << 32 | UINT32_MAX);
    assert_int_equal(next_of(bench, RUN), UINT32_MAX);
    assert_int_equal(next_of(bench, RUN), 0);
    assert_int_equal(next_of(bench, RUN), 1);
}

static void no_circuit_has_no_numbers(void **state)
{
    struct guard_bench *bench = *state;

    assert_int_equal(rehearsal_number(&bench->segment, CIRCUIT_INDEX_NONE, RUN), 0);
    rehearsal_mark(&bench->segment, CIRCUIT_INDEX_NONE, CALL_NONE, 0);
}

struct worker {
    struct guard_bench *bench;
    _Atomic uint8_t *taken;
};

static void *take_numbers(void *context)
{
    struct worker *worker = context;

    for (uint32_t i = 0; i < EACH; i++)
        atomic_fetch_add(&worker->taken[next_of(worker->bench, RUN)], 1);
    return NULL;
}

static void each_of_many_threads_gets_another_number(void **state)
{
    struct guard_bench *bench = *state;
    struct worker worker = {bench, calloc(THREADS * EACH, 1)};
    pthread_t threads[THREADS];

    assert_non_null(worker.taken);
    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_numbers, &worker), 0);
    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint32_t i = 0; i < THREADS * EACH; i++)
        assert_int_equal(worker.taken[i], 1);
    assert_int_equal(next_of(bench, RUN), THREADS * EACH);
    free((void *)worker.taken);
}

static void processes_share_the_numbers(void **state)
{
    struct guard_bench *bench = *state;
    pid_t child = fork();
    int status;

    if (child == 0) {
        for (uint32_t i = 0; i < 1000; i++)
            next_of(bench, RUN);
        _exit(0);
    }
    for (uint32_t i = 0; i < 1000; i++)
        next_of(bench, RUN);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(next_of(bench, RUN), 2000);
}

static void marked_failure_and_the_opening_it_brings_say_injected(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    for (unsigned int i = 0; i < 3; i++) {
        uint32_t call = bench_call(bench);
        rehearsal_mark(&bench->segment, bench->circuit, call, 3);
        bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, NS_PER_MS);
        bench_forget(bench, call);
        assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), i + 1);
        assert_int_equal(event.injected, 1);
    }
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.injected, 1);
    assert_int_equal(bench_sum(bench, COUNT_INJECTED), 3);
}

static void mark_goes_with_the_record(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call = bench_call(bench);

    rehearsal_mark(&bench->segment, bench->circuit, call, 3);
    bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, NS_PER_MS);
    bench_forget(bench, call);
    uint32_t again = bench_call(bench);
    assert_int_equal(again, call);
    bench_settle(bench, again, SEEN_ERROR, ECONNREFUSED, NS_PER_MS);
    bench_forget(bench, again);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 2);
    assert_int_equal(event.injected, 0);
    assert_int_equal(bench_sum(bench, COUNT_INJECTED), 1);
}

static void mark_stays_with_an_overdue_call_whoever_charges_it(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call = bench_call(bench);

    rehearsal_mark(&bench->segment, bench->circuit, call, 3);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, &event), 1);
    assert_int_equal(event.overran, OVERRAN_HANGS);
    assert_int_equal(event.injected, 1);
    bench_forget(bench, call);
}

static void recycled_circuit_forgets_its_runs(void **state)
{
    struct guard_bench *bench = *state;
    char name[64] = "";
    uint32_t index = bench_find(bench, "idle.internal:1"), own = bench->circuit;

    bench->circuit = index;
    for (unsigned int i = 0; i < 5; i++)
        next_of(bench, RUN);
    bench->circuit = own;
    bench->now_ns += 61 * NS_PER_S;
    /* Others come until one gets that place. */
    for (unsigned int i = 0; bench_stands(bench, "idle.internal:1"); i++) {
        assert_in_range(i, 0, 100000);
        snprintf(name, sizeof name, "host-%u:80", i);
        bench_find(bench, name);
    }
    assert_int_equal(bench_find(bench, name), index);
    bench->circuit = index;
    assert_int_equal(next_of(bench, RUN), 0);
    bench->circuit = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(attempts_of_a_run_are_numbered_from_zero),
        GUARD_TEST(circuits_are_numbered_apart),
        GUARD_TEST(another_run_begins_anew_and_a_few_at_a_time_do_not_disturb_each_other),
        GUARD_TEST(more_runs_than_there_are_places_push_out_former_ones),
        GUARD_TEST(numbers_end_and_begin_again_without_touching_the_run),
        GUARD_TEST(no_circuit_has_no_numbers),
        GUARD_TEST(each_of_many_threads_gets_another_number),
        GUARD_TEST(processes_share_the_numbers),
        GUARD_TEST(marked_failure_and_the_opening_it_brings_say_injected),
        GUARD_TEST(mark_goes_with_the_record),
        GUARD_TEST(mark_stays_with_an_overdue_call_whoever_charges_it),
        GUARD_TEST(recycled_circuit_forgets_its_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
