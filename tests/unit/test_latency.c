/*
 * test_latency.c - what is kept of a circuit's waits: sums since it was made, and the last minute, which goes by.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "breaker/latency.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define START_NS (UINT64_C(7) * 24 * 3600 * NS_PER_S)

static struct latency latency;
static struct latency_view view;

static int empty(void **state)
{
    (void)state;
    memset(&latency, 0, sizeof latency);
    return 0;
}

static void answered(uint64_t waited_ns, uint32_t stands_for, uint64_t now_ns)
{
    const struct wait wait = {.kind = WAIT_ANSWER, .ends_call = true, .stands_for = stands_for, .waited_ns = waited_ns};
    latency_note(&latency, &wait, now_ns);
}

static void assert_near(uint64_t value, uint64_t expected)
{
    assert_true(value * 50 > expected * 49 && value * 50 < expected * 51);
}

static void a_wait_is_in_the_sums_and_in_the_last_minute(void **state)
{
    (void)state;
    for (unsigned int i = 0; i < 90; i++)
        answered(2 * NS_PER_MS, 1, START_NS + i * NS_PER_MS);
    for (unsigned int i = 0; i < 10; i++)
        answered(300 * NS_PER_MS, 1, START_NS + i * NS_PER_MS);
    latency_read(&latency, START_NS + NS_PER_S, &view);
    assert_true(view.answers.total == 100 && view.recent.total == 100 && view.recent_calls == 100);
    assert_true(view.connects.total == 0);
    assert_near(distribution_quantile(&view.recent, 500), 2 * NS_PER_MS);
    assert_near(distribution_quantile(&view.recent, 950), 300 * NS_PER_MS);
    assert_true(view.recent_longest_ns == 300 * NS_PER_MS && view.longest_ns == 300 * NS_PER_MS);
    assert_true(view.waited_us == 90 * 2000 + 10 * 300000);
    assert_true(view.recent_span_ns >= 50 * NS_PER_S && view.recent_span_ns <= 60 * NS_PER_S);
}

static void after_a_minute_it_is_in_the_sums_alone(void **state)
{
    (void)state;
    answered(5 * NS_PER_MS, 1, START_NS);
    latency_read(&latency, START_NS + 49 * NS_PER_S, &view);
    assert_true(view.recent.total == 1 && view.recent_calls == 1 && view.recent_longest_ns == 5 * NS_PER_MS);
    latency_read(&latency, START_NS + 62 * NS_PER_S, &view);
    assert_true(view.recent.total == 0 && view.recent_calls == 0 && view.recent_longest_ns == 0);
    assert_true(view.answers.total == 1 && view.longest_ns == 5 * NS_PER_MS);
}

/* A slot comes round every 80 seconds. */
static void a_slot_is_taken_over_by_the_next_who_comes_round(void **state)
{
    (void)state;
    answered(500 * NS_PER_MS, 1, START_NS);
    answered(NS_PER_MS, 1, START_NS + 80 * NS_PER_S);
    answered(2 * NS_PER_MS, 1, START_NS + 80 * NS_PER_S);
    latency_read(&latency, START_NS + 80 * NS_PER_S, &view);
    assert_true(view.recent_calls == 2 && view.recent.total == 2 && view.recent_longest_ns == 2 * NS_PER_MS);
    assert_true(view.longest_ns == 500 * NS_PER_MS);
}

static void a_sample_of_three_days_ago_is_not_taken_for_a_present_one(void **state)
{
    const uint64_t round_ns = (UINT64_C(1) << 18) * NS_PER_S;
    (void)state;
    for (unsigned int i = 0; i < 100; i++)
        answered(NS_PER_MS, 1, START_NS);
    for (unsigned int i = 0; i < 20; i++)
        answered(3 * NS_PER_MS, 1, START_NS + round_ns - 3600 * NS_PER_S);
    answered(2 * NS_PER_MS, 1, START_NS + round_ns);
    latency_read(&latency, START_NS + round_ns, &view);
    assert_true(view.recent.total == 1 && view.recent_calls == 1);
}

/* Who writes and who reads have looked at the clock one after the other. */
static void a_sample_that_is_newer_than_its_reader_is_of_the_last_minute(void **state)
{
    (void)state;
    answered(NS_PER_MS, 1, START_NS + NS_PER_S);
    latency_read(&latency, START_NS + NS_PER_S - 1, &view);
    assert_true(view.recent.total == 1 && view.recent_calls == 1);
}

static void of_many_the_last_ones_tell_the_minute(void **state)
{
    (void)state;
    for (unsigned int i = 0; i < 3 * LATENCY_SAMPLES; i++)
        answered(i < 2 * LATENCY_SAMPLES ? NS_PER_MS : 9 * NS_PER_MS, 1, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.recent.total == LATENCY_SAMPLES);
    assert_near(distribution_quantile(&view.recent, 10), 9 * NS_PER_MS);
    assert_true(view.recent_calls == 3 * LATENCY_SAMPLES && view.answers.total == 3 * LATENCY_SAMPLES);
}

static void some_of_many_stand_for_all_of_them(void **state)
{
    (void)state;
    answered(NS_PER_MS, 16, START_NS);
    answered(2 * NS_PER_MS, 0, START_NS);
    answered(4 * NS_PER_MS, 1, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.answers.total == 17 && view.recent.total == 17 && view.recent_calls == 17);
    assert_true(view.waited_us == 16 * 1000 + 4000);
}

static void a_long_wait_stands_for_itself_whether_or_not_it_was_drawn(void **state)
{
    (void)state;
    answered(3 * NS_PER_S, 16, START_NS);
    answered(2 * NS_PER_S, 0, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.answers.total == 2 && view.recent_calls == 2 && view.longest_ns == 3 * NS_PER_S);
}

static void what_came_to_nothing_is_in_the_sum_and_no_answer(void **state)
{
    const struct wait charged = {.kind = WAIT_IN_VAIN, .ends_call = true, .stands_for = 1, .waited_ns = 10 * NS_PER_S};
    const struct wait ended = {
        .kind = WAIT_ANSWER, .stands_for = 1, .waited_ns = 25 * NS_PER_S, .noted_ns = 10 * NS_PER_S};
    (void)state;
    latency_note(&latency, &charged, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.answers.total == 0 && view.recent.total == 0 && view.recent_calls == 1);
    assert_true(view.waited_us == 10000000 && view.recent_longest_ns == 10 * NS_PER_S);
    /* It was charged while it hung, and its answer came later. */
    latency_note(&latency, &ended, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.answers.total == 1 && view.recent.total == 0 && view.recent_calls == 1);
    assert_true(view.waited_us == 25000000 && view.recent_longest_ns == 25 * NS_PER_S);
}

static void a_connection_is_apart_from_answers(void **state)
{
    const struct wait connected = {.kind = WAIT_CONNECT, .stands_for = 1, .waited_ns = NS_PER_MS};
    const struct wait enough = {.kind = WAIT_CONNECT, .ends_call = true, .stands_for = 1, .waited_ns = NS_PER_MS};
    (void)state;
    latency_note(&latency, &connected, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.connects.total == 1 && view.answers.total == 0 && view.recent.total == 0);
    assert_true(view.recent_calls == 0);
    latency_note(&latency, &enough, START_NS);
    latency_read(&latency, START_NS, &view);
    assert_true(view.connects.total == 2 && view.recent.total == 1 && view.recent_calls == 1);
}

static void the_calls_in_flight_are_counted_once_in_ten_milliseconds(void **state)
{
    (void)state;
    assert_true(latency_is_look_due(&latency, START_NS));
    assert_false(latency_is_look_due(&latency, START_NS + 10 * NS_PER_MS - 1));
    assert_true(latency_is_look_due(&latency, START_NS + 10 * NS_PER_MS));
    assert_true(latency_is_look_due(&latency, 5)); /* the clock was another one */
    latency_note_in_flight(&latency, 7);
    latency_note_in_flight(&latency, 3);
    latency_read(&latency, START_NS, &view);
    assert_int_equal(view.most_in_flight, 7);
}

static void any_bytes_can_be_read_and_noted_upon(void **state)
{
    uint64_t seed = 11;
    (void)state;
    for (unsigned int round = 0; round < 200; round++) {
        unsigned char *bytes = (unsigned char *)&latency;
        for (size_t i = 0; i < sizeof latency; i++)
            bytes[i] = round == 0 ? 0xff : (unsigned char)hash_spread(seed += HASH_STEP);
        const uint64_t now_ns = round % 2 == 0 ? hash_spread(seed += HASH_STEP) : 0;
        latency_read(&latency, now_ns, &view);
        answered(hash_spread(seed += HASH_STEP), 1u << round % 15, now_ns);
        latency_is_look_due(&latency, now_ns);
        latency_note_in_flight(&latency, round);
    }
}

static void it_begins_anew_with_nothing(void **state)
{
    static const struct latency nothing;
    const struct wait connected = {.kind = WAIT_CONNECT, .stands_for = 1, .waited_ns = NS_PER_MS};
    (void)state;
    answered(NS_PER_MS, 1, START_NS);
    latency_note(&latency, &connected, START_NS);
    latency_note_in_flight(&latency, 7);
    assert_true(latency_is_look_due(&latency, START_NS));
    latency_reset(&latency);
    atomic_store(&latency.next, 0); /* which goes on: readers look backwards from there */
    assert_memory_equal(&latency, &nothing, sizeof latency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_wait_is_in_the_sums_and_in_the_last_minute, empty),
        cmocka_unit_test_setup(after_a_minute_it_is_in_the_sums_alone, empty),
        cmocka_unit_test_setup(a_slot_is_taken_over_by_the_next_who_comes_round, empty),
        cmocka_unit_test_setup(a_sample_of_three_days_ago_is_not_taken_for_a_present_one, empty),
        cmocka_unit_test_setup(a_sample_that_is_newer_than_its_reader_is_of_the_last_minute, empty),
        cmocka_unit_test_setup(of_many_the_last_ones_tell_the_minute, empty),
        cmocka_unit_test_setup(some_of_many_stand_for_all_of_them, empty),
        cmocka_unit_test_setup(a_long_wait_stands_for_itself_whether_or_not_it_was_drawn, empty),
        cmocka_unit_test_setup(what_came_to_nothing_is_in_the_sum_and_no_answer, empty),
        cmocka_unit_test_setup(a_connection_is_apart_from_answers, empty),
        cmocka_unit_test_setup(the_calls_in_flight_are_counted_once_in_ten_milliseconds, empty),
        cmocka_unit_test_setup(any_bytes_can_be_read_and_noted_upon, empty),
        cmocka_unit_test_setup(it_begins_anew_with_nothing, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
