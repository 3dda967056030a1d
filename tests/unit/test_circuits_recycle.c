/*
 * test_circuits_recycle.c - a full table of circuits: whose place goes to a new destination, and when.
 */
#include "support_guard.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "guard/operator.h"
#include "segment/layout.h"

#define IDLE_NS (60 * NS_PER_S)

/* Makes numbered destinations until one finds no place; returns how many there are, the bench's own not among them. */
static unsigned int fill(struct guard_bench *bench, char refused[DESTINATION_MAX])
{
    for (unsigned int i = 0;; i++) {
        snprintf(refused, DESTINATION_MAX, "host-%u:80", i);
        if (bench_find(bench, refused) == CIRCUIT_INDEX_NONE)
            return i;
        assert_in_range(i, 0, CAPACITY_CIRCUITS);
    }
}

static void a_full_table_refuses_new_destinations_and_keeps_the_others(void **state)
{
    struct guard_bench *bench = *state;
    char refused[DESTINATION_MAX];
    unsigned int count = fill(bench, refused);

    assert_in_range(count, 100, CAPACITY_CIRCUITS);
    assert_int_equal(bench_find(bench, BENCH_DESTINATION), bench->circuit);
    assert_true(bench_stands(bench, "host-0:80"));
    assert_false(bench_stands(bench, refused));
}

static void an_idle_circuit_gives_its_place_after_a_minute_and_not_a_nanosecond_before(void **state)
{
    struct guard_bench *bench = *state;
    char refused[DESTINATION_MAX];

    fill(bench, refused);
    bench->now_ns += IDLE_NS - 1;
    assert_int_equal(bench_find(bench, refused), CIRCUIT_INDEX_NONE);
    bench->now_ns += 1;
    uint32_t index = bench_find(bench, refused);
    assert_int_not_equal(index, CIRCUIT_INDEX_NONE);
    assert_int_equal(bench_find(bench, refused), index);
    assert_true(bench_stands(bench, refused));
}

/* Makes all places but one an operator's, so that only the circuit in question could give its place. */
static void keep_all_but(struct guard_bench *bench, uint32_t index)
{
    uint32_t own = bench->circuit;

    for (bench->circuit = 0; bench->circuit < CAPACITY_CIRCUITS; bench->circuit++) {
        assert_int_not_equal(atomic_load(&circuits_entry(&bench->segment, bench->circuit)->hash), 0);
        if (bench->circuit != index)
            atomic_store(&circuits_entry(&bench->segment, bench->circuit)->forced, FORCED_CLOSED);
    }
    bench->circuit = own;
}

/* A destination that would take the bench's place if it could: no other place is to be had for it. */
static void find_rival(struct guard_bench *bench, char rival[DESTINATION_MAX])
{
    for (unsigned int i = 0; i < 20000; i++) { /* until every place is taken */
        snprintf(rival, DESTINATION_MAX, "host-%u:80", i);
        bench_find(bench, rival);
    }
    keep_all_but(bench, bench->circuit);
    /* Some number whose places include the bench's own. */
    for (unsigned int i = 1000; i < 3000; i++) {
        uint64_t later = bench->now_ns + IDLE_NS;
        uint64_t hash = atomic_load(&circuits_entry(&bench->segment, bench->circuit)->hash);

        snprintf(rival, DESTINATION_MAX, "rival-%u:80", i);
        atomic_store(&circuits_entry(&bench->segment, bench->circuit)->hash, 0);
        uint32_t index = circuits_find(&bench->segment, BENCH_TARGET, rival, later);
        atomic_store(&circuits_entry(&bench->segment, bench->circuit)->hash, hash);
        atomic_store(&circuits_entry(&bench->segment, bench->circuit)->ready, 0);
        atomic_store(&circuits_entry(&bench->segment, bench->circuit)->last_used_ns, 0);
        bench_find(bench, BENCH_DESTINATION); /* writes the texts again */
        if (index == bench->circuit)
            return;
    }
    fail();
}

/* Nothing is asked of the circuit that is to go; its place must come free all the same. */
static void assert_goes(struct guard_bench *bench, const char *rival)
{
    assert_int_equal(bench_find(bench, rival), bench->circuit);
    circuit_reset(circuits_at(&bench->segment, bench->circuit)); /* for the sums */
}

static void a_closed_circuit_gives_its_place_whatever_it_has_counted(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    bench_fail(bench);
    bench_fail(bench);
    assert_int_equal(bench_failures(bench), 2);
    bench->now_ns += IDLE_NS - 2 * NS_PER_S;
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
    bench->now_ns += 2 * NS_PER_S;
    assert_goes(bench, rival);
}

/* Its taker wrote a tombstone, saw that a connection refers to it, and was killed before it could give it back. */
static void a_place_whose_taker_was_killed_goes_to_nobody_while_a_connection_refers_to_it(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    bench->target.max_connections = 5;
    uint32_t call = bench_call(bench);
    atomic_store(&bench_entry(bench)->hash, bench->now_ns | 1);
    for (unsigned int i = 0; i < 3; i++) {
        bench->now_ns += 2 * IDLE_NS;
        assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
        assert_int_equal(bench_connections(bench), 1);
        atomic_store(&bench_entry(bench)->sought_ns, 0);
    }
    bench_forget(bench, call);
    bench->now_ns += 2 * IDLE_NS;
    assert_goes(bench, rival);
}

static void an_open_circuit_keeps_its_place_while_its_pause_lasts(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    bench->target.breaker.reset_timeout_ns = bench->target.breaker.reset_timeout_max_ns = 20 * IDLE_NS;
    bench_open(bench);
    bench->now_ns += 20 * IDLE_NS - 1;
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
    bench->now_ns += 1;
    assert_goes(bench, rival);
}

static void an_open_circuit_whose_pause_is_over_keeps_its_place_for_ten_minutes(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    bench_open(bench);
    bench->now_ns += 10 * IDLE_NS - 1;
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
    bench->now_ns += 1;
    assert_goes(bench, rival);
}

static void a_table_full_of_what_failed_once_takes_new_ones_after_a_minute(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t own = bench->circuit, found = 0;
    char refused[DESTINATION_MAX], name[DESTINATION_MAX];
    unsigned int count = fill(bench, refused);

    for (bench->circuit = 0; bench->circuit < CAPACITY_CIRCUITS; bench->circuit++) {
        if (atomic_load(&circuits_entry(&bench->segment, bench->circuit)->hash) != 0)
            bench_fail(bench);
    }
    bench->circuit = own;
    bench->now_ns += IDLE_NS;
    for (unsigned int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "new-%u:80", i);
        found += bench_find(bench, name) != CIRCUIT_INDEX_NONE;
    }
    assert_in_range(found, count * 3 / 4, count);
    circuit_reset(circuits_at(&bench->segment, bench->circuit)); /* for the sums */
}

/* A use that another time name space noted, or a corrupt word. */
static void a_use_that_lies_ahead_keeps_a_place_no_longer_than_any_other(void **state)
{
    static const uint64_t ahead_ns[] = {1, IDLE_NS, UINT64_C(9936000) * NS_PER_S, UINT64_MAX / 2};
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    for (unsigned int i = 0; i < sizeof ahead_ns / sizeof *ahead_ns; i++) {
        uint64_t hash = atomic_load(&entry->hash);

        atomic_store(&entry->last_used_ns, bench->now_ns + ahead_ns[i]);
        assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
        bench->now_ns += IDLE_NS;
        assert_goes(bench, rival);
        atomic_store(&entry->hash, hash);
    }
}

static void a_handover_that_began_far_ahead_is_finished_at_once(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    atomic_store(&circuits_entry(&bench->segment, bench->circuit)->hash, (bench->now_ns + IDLE_NS) | 1);
    assert_int_equal(bench_find(bench, rival), bench->circuit);
}

static void of_many_who_find_no_place_one_looks_for_one(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
    bench->now_ns += IDLE_NS;
    /* By the real clock a second has not passed; and from a time that lies ahead any has. */
    for (uint32_t i = 0; i < CAPACITY_CIRCUITS; i++)
        atomic_store(&bench->segment.circuits[i].sought_ns, clock_real_ns());
    assert_int_equal(circuits_find(&bench->segment, BENCH_TARGET, rival, bench->now_ns), CIRCUIT_INDEX_NONE);
    for (uint32_t i = 0; i < CAPACITY_CIRCUITS; i++)
        atomic_store(&bench->segment.circuits[i].sought_ns, clock_real_ns() + 1000 * NS_PER_S);
    assert_int_equal(circuits_find(&bench->segment, BENCH_TARGET, rival, bench->now_ns), bench->circuit);
}

static void a_connection_keeps_its_circuit_and_a_dead_processes_does_not(void **state)
{
    struct guard_bench *bench = *state;
    char rival[DESTINATION_MAX];

    bench->target.connect_timeout_ns = 0; /* it may connect for as long as it likes */
    find_rival(bench, rival);
    uint32_t call = bench_call(bench);
    bench->now_ns += IDLE_NS;
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE); /* in flight */
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    bench->now_ns += IDLE_NS;
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE); /* answered, and open */
    bench->guard.holder ^= 1;                                       /* as if its owner were dead */
    atomic_store(&bench->segment.call_owner[call], bench->guard.holder);
    bench->guard.holder ^= 1;
    bench->now_ns += IDLE_NS;
    assert_int_equal(bench_find(bench, rival), bench->circuit);
    assert_int_equal(atomic_load(&bench->segment.call_owner[call]), 0);
}

static void a_recycled_circuit_has_nothing_of_the_former_one(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit *circuit = circuits_at(&bench->segment, bench->circuit);
    char rival[DESTINATION_MAX];
    struct event event;

    find_rival(bench, rival);
    bench_open(bench);
    bench->now_ns += IDLE_NS;
    bench_succeed(bench);
    assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
    bench->now_ns += IDLE_NS;
    assert_int_equal(bench_find(bench, rival), bench->circuit);
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        assert_int_equal(bench_sum(bench, counter), 0);
    assert_false(circuits_last_failure(&bench->segment, bench->circuit, &event));
    assert_false(circuits_last_transition(&bench->segment, bench->circuit, &event));
    assert_int_equal(circuit_address_index(circuit, 12345), 0);
    assert_false(bench_stands(bench, BENCH_DESTINATION));
    /* And it works. */
    bench_open(bench);
    assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
    assert_string_equal(event.destination, rival);
}

static void a_ticket_of_the_former_circuit_is_late_in_the_new_one(void **state)
{
    const struct outcome failure = {.verdict = VERDICT_FAILURE, .kind = FAILURE_RESET};
    struct guard_bench *bench = *state;
    struct circuit *circuit = circuits_at(&bench->segment, bench->circuit);
    struct caller caller = {.holder = 1, .address = ADDRESS_NONE};
    struct transitions transitions;
    char rival[DESTINATION_MAX];
    struct ticket ticket;

    find_rival(bench, rival);
    assert_int_equal(circuit_admit(circuit, &bench->target.breaker, &caller, bench->now_ns, &ticket, &transitions),
                     ADMIT_PASS);
    bench->now_ns += IDLE_NS;
    assert_int_equal(bench_find(bench, rival), bench->circuit);
    assert_int_equal(
        circuit_settle(circuit, &bench->target.breaker, &caller, &ticket, failure, bench->now_ns, &transitions),
        SETTLED_LATE);
    assert_int_equal(bench_failures(bench), 0);
    circuit_reset(circuit); /* for the sums: that call was admitted by the former one */
}

static void a_handover_that_was_cut_short_is_finished_by_another_after_a_minute(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);
    char rival[DESTINATION_MAX];

    find_rival(bench, rival);
    atomic_store(&entry->hash, bench->now_ns | 1); /* a tombstone */
    assert_false(bench_stands(bench, BENCH_DESTINATION));
    bench->now_ns += IDLE_NS - 1;
    assert_int_equal(bench_find(bench, rival), CIRCUIT_INDEX_NONE);
    bench->now_ns += 1;
    assert_int_equal(bench_find(bench, rival), bench->circuit);
    assert_true(bench_stands(bench, rival));
}

/* --- many at once --- */

struct starter {
    struct guard_bench *bench;
    unsigned int number;
};

enum { THREADS = 8 };

/* Two threads that start each round at the same instant, as nearly as two cores can. */
static _Atomic unsigned int round_begun, round_ended;

static void wait_for_round(unsigned int round)
{
    while (atomic_load(&round_begun) < round)
        sched_yield();
}

enum { RACES = 12000, WINDOW = 32 };
static char rival_name[DESTINATION_MAX];

static void *claim_as_rival(void *context)
{
    struct guard_bench *bench = context;

    for (unsigned int round = 1; round <= RACES; round++) {
        wait_for_round(round);
        bench_find(bench, rival_name);
        atomic_store(&round_ended, round);
    }
    return NULL;
}

static void a_place_that_is_asked_for_is_not_handed_over_at_the_same_moment(void **state)
{
    static struct circuit_entry before[WINDOW];
    struct guard_bench *bench = *state;
    struct circuit_entry *entries = circuits_entry(&bench->segment, 0);
    char name[DESTINATION_MAX];
    struct circuit_texts texts;
    uint32_t first = CIRCUIT_INDEX_NONE;
    pthread_t thread;

    /* A destination and a rival that look at the same places, in the same order, all taken by idle circuits. */
    for (unsigned int i = 0; first >= CAPACITY_CIRCUITS - WINDOW; i++) {
        snprintf(name, sizeof name, "host-%u:80", i);
        first = bench_find(bench, name);
    }
    for (unsigned int i = 0, index = CIRCUIT_INDEX_NONE; index != first; i++) {
        uint64_t hash = atomic_exchange(&entries[first].hash, 0);

        snprintf(rival_name, sizeof rival_name, "rival-%u:80", i);
        index = bench_find(bench, rival_name);
        atomic_store(&entries[index].hash, 0);
        atomic_store(&entries[first].hash, hash);
    }
    atomic_store(&entries[first].ready, 0);
    assert_int_equal(bench_find(bench, name), first);
    for (unsigned int i = 0; i < 20000; i++) {
        char other[DESTINATION_MAX];

        snprintf(other, sizeof other, "other-%u:80", i);
        bench_find(bench, other);
    }
    memcpy(before, &entries[first], sizeof before);

    atomic_store(&round_begun, 0);
    atomic_store(&round_ended, 0);
    assert_int_equal(pthread_create(&thread, NULL, claim_as_rival, bench), 0);
    bench->now_ns += IDLE_NS;
    for (unsigned int round = 1; round <= RACES; round++) {
        memcpy(&entries[first], before, sizeof before);
        atomic_store(&round_begun, round);
        for (volatile unsigned int pause = 0; pause < round % 3000; pause++) {
        }
        uint32_t index = bench_find(bench, name);
        while (atomic_load(&round_ended) < round)
            sched_yield();
        assert_true(circuits_texts(&bench->segment, index, &texts));
        assert_string_equal(texts.destination, name);
    }
    pthread_join(thread, NULL);
    bench->circuit = bench_find(bench, "for the sums");
}

static void *churn(void *context)
{
    struct starter *starter = context;
    struct guard_bench *bench = starter->bench;
    struct attempt attempt = {.target = &bench->target, .address_key = ADDRESS_A, .shard = starter->number};

    /* Each thread's clock runs: each visit finds most circuits idle, so places change hands all the time. */
    for (unsigned int i = 0; i < 3000; i++) {
        struct observation observation = {.seen = SEEN_BYTES};
        char destination[32];
        uint64_t now_ns = bench->now_ns + i * IDLE_NS;
        uint32_t call;

        snprintf(destination, sizeof destination, "host-%u:80", (i * 7 + starter->number * 501) % 2000);
        attempt.circuit = circuits_find(&bench->segment, BENCH_TARGET, destination, now_ns);
        if (attempt.circuit == CIRCUIT_INDEX_NONE || guard_admit(&bench->guard, &attempt, now_ns, &call) != ADMIT_PASS)
            continue;
        guard_settle(&bench->guard, call, &bench->target, 0, &observation, now_ns);
        guard_forget(&bench->guard, call, &bench->target, 0, now_ns);
    }
    return NULL;
}

static void places_that_change_hands_all_the_time_stay_sound(void **state)
{
    struct guard_bench *bench = *state;
    struct starter starters[THREADS];
    pthread_t threads[THREADS];
    uint32_t cursor = 0, count = 0, index;
    struct circuit_texts texts;

    for (unsigned int i = 0; i < THREADS; i++) {
        starters[i] = (struct starter){*state, i};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &starters[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while ((index = circuits_next(&bench->segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE) {
        unsigned int number;
        char whole[DESTINATION_MAX];

        count++;
        if (strcmp(texts.destination, BENCH_DESTINATION) == 0)
            continue;
        assert_int_equal(sscanf(texts.destination, "host-%u:80", &number), 1);
        snprintf(whole, sizeof whole, "host-%u:80", number);
        assert_string_equal(texts.destination, whole);
    }
    assert_in_range(count, 200, CAPACITY_CIRCUITS);
    /* Somebody's place, with its counters, may have gone to another while it called: not the bench's. */
    circuit_reset(circuits_at(&bench->segment, bench->circuit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_full_table_refuses_new_destinations_and_keeps_the_others),
        GUARD_TEST(an_idle_circuit_gives_its_place_after_a_minute_and_not_a_nanosecond_before),
        GUARD_TEST(a_closed_circuit_gives_its_place_whatever_it_has_counted),
        GUARD_TEST(a_place_whose_taker_was_killed_goes_to_nobody_while_a_connection_refers_to_it),
        GUARD_TEST(an_open_circuit_keeps_its_place_while_its_pause_lasts),
        GUARD_TEST(an_open_circuit_whose_pause_is_over_keeps_its_place_for_ten_minutes),
        GUARD_TEST(a_table_full_of_what_failed_once_takes_new_ones_after_a_minute),
        GUARD_TEST(a_use_that_lies_ahead_keeps_a_place_no_longer_than_any_other),
        GUARD_TEST(a_handover_that_began_far_ahead_is_finished_at_once),
        GUARD_TEST(of_many_who_find_no_place_one_looks_for_one),
        GUARD_TEST(a_connection_keeps_its_circuit_and_a_dead_processes_does_not),
        GUARD_TEST(a_recycled_circuit_has_nothing_of_the_former_one),
        GUARD_TEST(a_ticket_of_the_former_circuit_is_late_in_the_new_one),
        GUARD_TEST(a_handover_that_was_cut_short_is_finished_by_another_after_a_minute),
        GUARD_TEST(a_place_that_is_asked_for_is_not_handed_over_at_the_same_moment),
        GUARD_TEST(places_that_change_hands_all_the_time_stay_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
