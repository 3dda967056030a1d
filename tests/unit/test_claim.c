/*
 * test_claim.c - finding a free record by hints, whatever became of these.
 */
#include "support_guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "segment/layout.h"
#include "guard/lost_calls.h"
#include "segment/segment.h"

enum { THREADS = 4, ROUNDS = 50000 };
#define HOLDER 0x100001u

static bool keeps_all(uint32_t call, uint32_t number, void *context)
{
    (void)call, (void)number, (void)context;
    return true;
}

static void each_record_is_claimed_once_and_all_can_be(void **state)
{
    static bool seen[CAPACITY_CALLS];
    struct segment *segment = *state;

    memset(seen, 0, sizeof seen);
    for (unsigned int i = 0; i < CAPACITY_CALLS; i++) {
        uint32_t call = calls_claim(segment, HOLDER);

        assert_true(call < CAPACITY_CALLS && !seen[call]);
        seen[call] = true;
    }
    assert_int_equal(calls_claim(segment, HOLDER), CALL_NONE);
    assert_true(calls_release(segment, 5000, HOLDER));
    atomic_store(&segment->map->calls_hint, 17);
    assert_int_equal(calls_claim(segment, HOLDER), 5000);
}

/* Another thread of the claimer's looks for what was lost before the claimer has come to the record's number. */
static void a_mark_of_what_was_lost_is_not_taken_for_one_on_the_next_claim(void **state)
{
    struct guard guard = {.segment = *state, .holder = HOLDER, .keeps = keeps_all};
    uint32_t call = calls_claim(guard.segment, HOLDER);

    for (unsigned int second = 0; second < 3; second++) {
        atomic_store(&guard.lost_after_ns, 0);
        lost_calls_look(&guard, 0, NS_PER_S, NS_PER_S);
    }
    assert_int_equal(atomic_load(&guard.segment->call_owner[call]), 0);
    atomic_store(&guard.segment->call_owner[call], HOLDER); /* as far as the claimer has come */
    atomic_store(&guard.lost_after_ns, 0);
    lost_calls_look(&guard, 0, NS_PER_S, NS_PER_S);
    assert_int_equal(atomic_load(&guard.segment->call_owner[call]), HOLDER);
}

/* Each is right again after one claim or one look: a kill may come between a change and the hint that tells of it. */
static void hints_that_a_kill_left_wrong_are_put_right(void **state)
{
    struct segment *segment = *state;
    const uint32_t lost = 3 * CALL_GROUP + 5;

    for (uint32_t i = 0; i < segment->capacity.calls; i++)
        assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    /* Taken, and the hints say free. */
    atomic_store(&segment->call_group[7].taken, 0);
    atomic_store(&segment->call_full[0], 0);
    atomic_store(&segment->map->calls_hint, 0);
    for (unsigned int tries = 0; tries < 4; tries++)
        assert_int_equal(calls_claim(segment, HOLDER), CALL_NONE);
    /* Free, and the hints say taken. */
    atomic_store(&segment->call_owner[lost], 0);
    assert_int_equal(calls_claim(segment, HOLDER), CALL_NONE);
    claim_hint(segment, lost);
    assert_int_equal(calls_claim(segment, HOLDER), lost);
}

/* Counted in what is written: a claim that walked over the table would try all those that are taken. */
static void a_nearly_full_table_is_not_walked_over(void **state)
{
    struct segment *segment = *state;
    const uint32_t last = segment->capacity.calls - 1;

    for (uint32_t i = 0; i < segment->capacity.calls; i++)
        assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    assert_true(calls_release(segment, last, HOLDER));
    /* No hint but the bits: what they do not name is not even looked at. */
    atomic_store(&segment->map->calls_hint, 0);
    atomic_store(&segment->call_owner[last / 2], 0);
    assert_int_equal(calls_claim(segment, HOLDER), last);
}

/* Without any death: a process's own look for what it has lost passes all records by. */
static void a_hint_that_a_jump_left_wrong_is_put_right_by_the_process_itself(void **state)
{
    struct segment *segment = *state;
    struct guard guard = {.segment = segment, .holder = HOLDER, .keeps = keeps_all};

    for (uint32_t i = 0; i < segment->capacity.calls; i++)
        assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    atomic_store(&segment->call_owner[1], 0);
    assert_int_equal(calls_claim(segment, HOLDER), CALL_NONE);
    for (uint32_t looks = 0; looks < segment->capacity.calls; looks++)
        lost_calls_look(&guard, 0, BENCH_START_NS, BENCH_START_NS);
    assert_int_equal(calls_claim(segment, HOLDER), 1);
}

static void *claim_and_give_back(void *context)
{
    struct segment *segment = context;

    for (unsigned int round = 0; round < ROUNDS; round++) {
        uint32_t call = calls_claim(segment, HOLDER);

        if (call != CALL_NONE)
            calls_release(segment, call, HOLDER);
    }
    return NULL;
}

/* One thread's claim of a record that another has just given back must not leave it marked as taken for ever. */
static void no_record_is_lost_to_those_who_claim_and_give_back_at_once(void **state)
{
    struct segment *segment = *state;
    pthread_t threads[THREADS];

    for (uint32_t i = 0; i < segment->capacity.calls - 2; i++)
        assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_give_back, segment), 0);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    assert_int_equal(calls_claim(segment, HOLDER), CALL_NONE);
}

#define CLAIM_TEST(name) cmocka_unit_test_setup_teardown(name, private_segment_setup, private_segment_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM_TEST(each_record_is_claimed_once_and_all_can_be),
        CLAIM_TEST(hints_that_a_kill_left_wrong_are_put_right),
        CLAIM_TEST(a_mark_of_what_was_lost_is_not_taken_for_one_on_the_next_claim),
        CLAIM_TEST(a_hint_that_a_jump_left_wrong_is_put_right_by_the_process_itself),
        CLAIM_TEST(a_nearly_full_table_is_not_walked_over),
        CLAIM_TEST(no_record_is_lost_to_those_who_claim_and_give_back_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
