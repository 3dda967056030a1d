/*
 * test_circuits.c - the table of circuits: finding, claiming, observing.
 */
#include "support_guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "segment/circuit_evidence.h"
#include "segment/layout.h"

static void a_destination_is_made_once_and_found_again(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t one = bench_find(bench, "one:1"), two = bench_find(bench, "two:2");

    assert_int_not_equal(one, two);
    assert_int_equal(bench_find(bench, "one:1"), one);
    assert_int_equal(bench_find(bench, "two:2"), two);
    assert_int_equal(bench_find(bench, BENCH_DESTINATION), bench->circuit);
    assert_int_not_equal(circuits_find(&bench->segment, "other", "one:1", bench->now_ns), one);
}

static void target_and_destination_do_not_run_together(void **state)
{
    struct guard_bench *bench = *state;

    assert_int_not_equal(circuits_find(&bench->segment, "ab", "c", bench->now_ns),
                         circuits_find(&bench->segment, "a", "bc", bench->now_ns));
}

static void observers_see_each_circuit_once_with_its_texts(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_texts texts;
    uint32_t cursor = 0, index, count = 0;

    bench_find(bench, "one:1");
    bench_find(bench, "two:2");
    while ((index = circuits_next(&bench->segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE) {
        assert_string_equal(texts.target, BENCH_TARGET);
        assert_int_equal(bench_find(bench, texts.destination), index);
        count++;
    }
    assert_int_equal(count, 3);
    assert_int_equal(circuits_next(&bench->segment, &cursor, &texts), CIRCUIT_INDEX_NONE);
}

static void the_longest_names_are_kept_whole(void **state)
{
    struct guard_bench *bench = *state;
    char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];
    struct circuit_texts texts;

    memset(target, 't', sizeof target);
    memset(destination, 'd', sizeof destination);
    target[sizeof target - 1] = destination[sizeof destination - 1] = '\0';
    uint32_t index = circuits_find(&bench->segment, target, destination, bench->now_ns);
    assert_true(circuits_texts(&bench->segment, index, &texts));
    assert_string_equal(texts.target, target);
    assert_string_equal(texts.destination, destination);
    destination[sizeof destination - 2] = 'e';
    assert_int_not_equal(circuits_find(&bench->segment, target, destination, bench->now_ns), index);
}

static void who_finds_a_place_of_a_killed_claimer_writes_its_texts(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);

    atomic_store(&entry->ready, 0);
    memset(entry->target, 0, sizeof entry->target);
    memset(entry->destination, 0, sizeof entry->destination);
    assert_false(bench_stands(bench, BENCH_DESTINATION));
    assert_int_equal(bench_find(bench, BENCH_DESTINATION), bench->circuit);
    assert_true(bench_stands(bench, BENCH_DESTINATION));
}

static void the_time_of_the_last_use_is_written_at_most_once_a_second(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);
    uint64_t made = bench->now_ns;

    bench->now_ns += NS_PER_S - 1;
    bench_find(bench, BENCH_DESTINATION);
    assert_int_equal(atomic_load(&entry->last_used_ns), made);
    bench->now_ns += 1;
    bench_find(bench, BENCH_DESTINATION);
    assert_int_equal(atomic_load(&entry->last_used_ns), made + NS_PER_S);
}

/* --- evidence --- */

/* The place of the piece of evidence with that serial number; where it is torn nobody finds it. */
static struct evidence_slot *slot_of(struct circuit_entry *entry, uint32_t serial)
{
    for (unsigned int i = 0; i < EVIDENCE_SLOTS; i++)
        if (atomic_load(&entry->evidence.slots[i].stamp) == serial)
            return &entry->evidence.slots[i];
    fail_msg("there is no evidence with the number %u", serial);
    return NULL;
}

static void the_last_failure_that_is_whole_is_shown_also_when_later_ones_are_torn(void **state)
{
    static const uint32_t counts[] = {0, INT32_MAX - 1, INT32_MAX, UINT32_MAX - 1, UINT32_MAX};
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);
    struct event event;

    bench->target.breaker.failure_threshold = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) { /* the count may wrap between the two */
        evidence_clear(&entry->evidence);
        atomic_store(&entry->failure_writes, counts[i]);
        bench_fail(bench);
        const uint32_t first = atomic_load(&entry->failure_writes);
        bench->now_ns += 7;
        bench_fail(bench);
        const uint32_t second = atomic_load(&entry->failure_writes);
        assert_true(first != 0 && second != 0);
        assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
        assert_int_equal(event.mono_ns, bench->now_ns);
        slot_of(entry, second)->evidence.mono_ns ^= 1; /* torn */
        assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
        assert_int_equal(event.mono_ns, bench->now_ns - 7);
        slot_of(entry, first)->evidence.mono_ns ^= 1;
        assert_false(circuits_last_failure(&bench->segment, bench->circuit, &event));
    }
}

/* --- many at once --- */

enum { THREADS = 8, DESTINATIONS = 60 };
static uint32_t found[THREADS][DESTINATIONS];
static pthread_barrier_t starting_line;

struct starter {
    struct guard_bench *bench;
    unsigned int number;
};

static void *find_all(void *context)
{
    struct starter *starter = context;

    for (unsigned int i = 0; i < DESTINATIONS; i++) {
        char destination[32];

        snprintf(destination, sizeof destination, "host-%u:80", i);
        if (i % 10 == 0)
            pthread_barrier_wait(&starting_line);
        found[starter->number][i] = bench_find(starter->bench, destination);
    }
    return NULL;
}

static void many_threads_make_each_destination_once(void **state)
{
    struct starter starters[THREADS];
    pthread_t threads[THREADS];

    pthread_barrier_init(&starting_line, NULL, THREADS);
    for (unsigned int i = 0; i < THREADS; i++) {
        starters[i] = (struct starter){*state, i};
        assert_int_equal(pthread_create(&threads[i], NULL, find_all, &starters[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&starting_line);
    for (unsigned int i = 0; i < DESTINATIONS; i++) {
        assert_int_not_equal(found[0][i], CIRCUIT_INDEX_NONE);
        for (unsigned int thread = 1; thread < THREADS; thread++)
            assert_int_equal(found[thread][i], found[0][i]);
        for (unsigned int other = 0; other < i; other++)
            assert_int_not_equal(found[0][i], found[0][other]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_destination_is_made_once_and_found_again),
        GUARD_TEST(target_and_destination_do_not_run_together),
        GUARD_TEST(observers_see_each_circuit_once_with_its_texts),
        GUARD_TEST(the_longest_names_are_kept_whole),
        GUARD_TEST(who_finds_a_place_of_a_killed_claimer_writes_its_texts),
        GUARD_TEST(the_time_of_the_last_use_is_written_at_most_once_a_second),
        GUARD_TEST(the_last_failure_that_is_whole_is_shown_also_when_later_ones_are_torn),
        GUARD_TEST(many_threads_make_each_destination_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
