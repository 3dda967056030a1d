/*
 * test_retry.c - the budget of retries: a share of the calls of a while, over all who ask; and the waits between them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "breaker/retry.h"
#include "breaker/settings.h"

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)
#define START_NS (UINT64_C(7) * 24 * 3600 * S)
#define WINDOW (30 * S)
#define TENTH 100u
#define THREADS 8u

static struct retry_budget budget;
static struct latency latency;

static int empty(void **state)
{
    (void)state;
    memset(&budget, 0, sizeof budget);
    memset(&latency, 0, sizeof latency);
    return 0;
}

static void calls_end(uint32_t calls, uint64_t now_ns)
{
    const struct wait wait = {.kind = WAIT_ANSWER, .ends_call = true, .stands_for = 1, .waited_ns = MS};
    for (uint32_t i = 0; i < calls; i++)
        latency_note(&latency, &wait, now_ns);
}

/* How many are granted before one is not. */
static unsigned int granted(uint64_t window, uint32_t permille, uint64_t now_ns)
{
    unsigned int count = 0;
    while (count < 100000 && retry_budget_take(&budget, &latency, window, permille, now_ns))
        count++;
    return count;
}

static void a_destination_that_nobody_calls_is_tried_again_a_few_times(void **state)
{
    (void)state;
    assert_int_equal(granted(WINDOW, TENTH, START_NS), RETRIES_MINIMUM);
    assert_int_equal(granted(WINDOW, PERMILLE, START_NS), 0);
}

static void retries_are_a_share_of_the_other_calls(void **state)
{
    static const struct {
        uint32_t permille, calls, retries;
    } rows[] = {{100, 1100, 100}, {100, 39, 3}, {100, 44, 4}, {1000, 200, 100}, {1, 1000, 3}, {1, 10010, 10}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        empty(NULL);
        /* Of so many calls as many are retries in the end as were granted. */
        calls_end(rows[i].calls, START_NS);
        assert_int_equal(granted(WINDOW, rows[i].permille, START_NS), rows[i].retries);
    }
}

static void what_was_taken_comes_back_with_its_while(void **state)
{
    (void)state;
    assert_int_equal(granted(WINDOW, TENTH, START_NS), 3);
    assert_int_equal(granted(WINDOW, TENTH, START_NS + 39 * S), 0);
    assert_int_equal(granted(WINDOW, TENTH, START_NS + 40 * S), 3);
    assert_int_equal(granted(WINDOW, TENTH, START_NS + 80 * S), 3); /* the first one's word comes round */
    assert_int_equal(granted(WINDOW, TENTH, START_NS + 81 * S), 0);
}

static void calls_before_the_while_grant_nothing(void **state)
{
    (void)state;
    calls_end(1000, START_NS);
    assert_int_equal(granted(WINDOW, TENTH, START_NS + 40 * S), 3);
    empty(NULL);
    calls_end(1000, START_NS);
    assert_int_equal(granted(WINDOW, TENTH, START_NS + 39 * S), 90 + 1);
}

static void the_while_goes_by_the_window_up_to_a_minute(void **state)
{
    static const struct {
        uint64_t window, seconds;
    } rows[] = {
        {S, 20}, {10 * S, 20}, {11 * S, 30}, {60 * S, 70}, {61 * S, 70}, {3600 * S, 70}, {WINDOW_CALLS | 100, 70}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        empty(NULL);
        assert_int_equal(granted(rows[i].window, TENTH, START_NS), 3);
        assert_int_equal(granted(rows[i].window, TENTH, START_NS + rows[i].seconds * S - 1), 0);
        assert_int_equal(granted(rows[i].window, TENTH, START_NS + rows[i].seconds * S), 3);
    }
}

static void any_words_grant_no_more_than_a_bound_and_end(void **state)
{
    (void)state;
    memset(&budget, 0xff, sizeof budget);
    memset(&latency, 0xff, sizeof latency);
    assert_true(granted(WINDOW, PERMILLE, START_NS) <= 100000);
    retry_budget_clear(&budget);
    memset(&latency, 0, sizeof latency);
    assert_int_equal(granted(WINDOW, PERMILLE, START_NS), RETRIES_MINIMUM);
}

static pthread_barrier_t barrier;
static atomic_uint taken;

static void *take_all(void *unused)
{
    pthread_barrier_wait(&barrier);
    for (unsigned int i = 0; i < 500; i++)
        if (retry_budget_take(&budget, &latency, WINDOW, TENTH, START_NS))
            atomic_fetch_add(&taken, 1);
    return unused;
}

static void many_at_once_take_no_more_than_one_would(void **state)
{
    (void)state;
    for (unsigned int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        empty(NULL);
        calls_end(3300, START_NS);
        atomic_store(&taken, 0);
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (unsigned int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, take_all, NULL), 0);
        for (unsigned int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&barrier);
        assert_int_equal(atomic_load(&taken), 300);
    }
}

static void a_wait_is_within_half_and_all_of_its_step(void **state)
{
    (void)state;
    static const uint64_t times[] = {1, 2, 4, 8, 10, 10, 10};
    for (uint32_t made = 0; made < sizeof times / sizeof *times; made++) {
        uint64_t least = UINT64_MAX, most = 0;
        for (uint64_t chance = 0; chance < 10000; chance++) {
            uint64_t wait_ns = retry_wait_ns(100 * MS, made, chance);
            least = wait_ns < least ? wait_ns : least;
            most = wait_ns > most ? wait_ns : most;
        }
        assert_true(least >= 50 * MS * times[made] && most <= 100 * MS * times[made]);
        /* And nearly as wide: a herd is spread. */
        assert_true(least < 51 * MS * times[made] && most > 99 * MS * times[made]);
    }
}

static void absurd_waits_do_not_overflow(void **state)
{
    (void)state;
    assert_true(retry_wait_ns(0, 0, 1) == 0);
    assert_true(retry_wait_ns(1, UINT32_MAX, 1) <= 10);
    assert_true(retry_wait_ns(UINT64_MAX, 9, 1) >= UINT64_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_destination_that_nobody_calls_is_tried_again_a_few_times, empty),
        cmocka_unit_test_setup(retries_are_a_share_of_the_other_calls, empty),
        cmocka_unit_test_setup(what_was_taken_comes_back_with_its_while, empty),
        cmocka_unit_test_setup(calls_before_the_while_grant_nothing, empty),
        cmocka_unit_test_setup(the_while_goes_by_the_window_up_to_a_minute, empty),
        cmocka_unit_test_setup(any_words_grant_no_more_than_a_bound_and_end, empty),
        cmocka_unit_test_setup(many_at_once_take_no_more_than_one_would, empty),
        cmocka_unit_test(a_wait_is_within_half_and_all_of_its_step),
        cmocka_unit_test(absurd_waits_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
