/*
 * test_guard_corrupt.c - a segment full of rubbish: the guard may say anything, but it returns, and touches nothing
 * else.
 *
 * Best under AddressSanitizer and UndefinedBehaviorSanitizer. Each case is named by its seed.
 */
#include "support_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/layout.h"
#include "guard/overdue.h"

enum { CASES = 60 };

static uint64_t random_state;

static uint64_t draw(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

static void fill_with_noise(void *memory, size_t size)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
        uint64_t word = draw();

        memcpy((char *)memory + at, &word, sizeof word);
    }
}

/* Everything an engine or an observer can ask for, at a time near the bench's or anywhere. */
static void ask_for_everything(struct guard_bench *bench)
{
    static const enum target_mode modes[] = {MODE_ENFORCE, MODE_OBSERVE, MODE_OPEN, MODE_CLOSED};
    const uint64_t siblings[] = {draw(), draw(), ADDRESS_A};
    struct circuit_texts texts;
    struct event event;
    uint32_t cursor = 0, index;

    for (unsigned int i = 0; i < 24; i++) {
        char destination[32];
        uint32_t call;
        bool settled;

        bench->now_ns = i % 3 == 0 ? draw() : BENCH_START_NS + i * NS_PER_S;
        bench->target.mode = modes[draw() % 4];
        snprintf(destination, sizeof destination, "host-%u:80", (unsigned int)(draw() % 8));
        bench->circuit = i % 2 == 0 ? (uint32_t)draw() % (CAPACITY_CIRCUITS + 8)
                                    : circuits_find(&bench->segment, BENCH_TARGET, destination, bench->now_ns);
        bench_admit_to(bench, ADDRESS_A, siblings, 3, &call);
        if (i % 4 == 0)
            call = (uint32_t)draw() % (CAPACITY_CALLS + 8);
        bench_connected(bench, call);
        bench_requested(bench, call);
        guard_phase(&bench->guard, call, &settled);
        bench_settle(bench, call, SEEN_ERROR, ECONNRESET, draw());
        bench_settle(bench, call, SEEN_BYTES, 0, draw());
        bench_forget(bench, call);
    }
    bench_let_ask(bench);
    while ((index = circuits_next(&bench->segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE) {
        assert_true(memchr(texts.target, '\0', sizeof texts.target) != NULL);
        assert_true(memchr(texts.destination, '\0', sizeof texts.destination) != NULL);
        circuits_last_failure(&bench->segment, index, &event);
        circuits_last_transition(&bench->segment, index, &event);
    }
    for (index = 0; index < CAPACITY_CIRCUITS + 2; index += 37)
        calls_in_flight(&bench->segment, index);
}

static void start_over(struct guard_bench *bench)
{
    memset(bench->segment.map, 0, bench->segment.size);
    bench->target.mode = MODE_ENFORCE;
    bench->now_ns = BENCH_START_NS;
    bench->circuit = circuits_find(&bench->segment, BENCH_TARGET, BENCH_DESTINATION, bench->now_ns);
}

static void noise_everywhere_does_no_harm(void **state)
{
    struct guard_bench *bench = *state;

    for (unsigned int i = 1; i <= CASES; i++) {
        random_state = i * UINT64_C(0x9e3779b97f4a7c15);
        fill_with_noise(bench->segment.map, bench->segment.size);
        ask_for_everything(bench);
    }
    start_over(bench);
}

static void one_value_everywhere_does_no_harm(void **state)
{
    static const int values[] = {0xff, 0x00, 0x01, 0x80, 0x7f, 0xaa};
    struct guard_bench *bench = *state;

    random_state = 4711;
    for (unsigned int i = 0; i < sizeof values / sizeof *values; i++) {
        memset(bench->segment.map, values[i], bench->segment.size);
        ask_for_everything(bench);
    }
    start_over(bench);
}

static void noise_in_a_segment_in_use_does_no_harm(void **state)
{
    struct guard_bench *bench = *state;

    for (unsigned int i = 1; i <= CASES; i++) {
        random_state = (CASES + i) * UINT64_C(0x9e3779b97f4a7c15);
        start_over(bench);
        for (unsigned int call = 0; call < 20; call++)
            bench_call(bench);
        for (unsigned int spot = 0; spot < 400; spot++) {
            struct segment_header *map = bench->segment.map;
            char *spots[] = {(char *)&map->no_room[0], (char *)bench->segment.calls,
                             (char *)circuits_entry(&bench->segment, bench->circuit)};
            size_t sizes[] = {64, 32 * sizeof(struct call), sizeof(struct circuit_entry)};
            unsigned int part = (unsigned int)(draw() % 3);

            spots[part][draw() % sizes[part]] ^= (char)(1u << draw() % 8);
        }
        ask_for_everything(bench);
    }
    start_over(bench);
}

static void a_segment_that_is_not_there_guards_nothing(void **state)
{
    struct guard_bench *bench = *state;
    struct segment own = bench->segment;
    uint32_t call;

    bench->segment = (struct segment){.map = NULL};
    assert_int_equal(circuits_find(&bench->segment, "a", "b", bench->now_ns), CIRCUIT_INDEX_NONE);
    assert_int_equal(bench_admit(bench, &call), ADMIT_PASS);
    assert_int_equal(call, CALL_NONE);
    bench_connected(bench, 0);
    assert_int_equal(bench_settle(bench, 0, SEEN_BYTES, 0, 0).verdict, VERDICT_NONE);
    bench_forget(bench, 0);
    assert_int_equal(calls_in_flight(&bench->segment, 0), 0);
    bench->segment = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(noise_everywhere_does_no_harm),
        GUARD_TEST(one_value_everywhere_does_no_harm),
        GUARD_TEST(noise_in_a_segment_in_use_does_no_harm),
        GUARD_TEST(a_segment_that_is_not_there_guards_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
