/*
 * test_window.c - what a window holds: its edges to the nanosecond, its generation, its shards, and the last N calls.
 *
 * The window is called directly, on the bench's circuit; what circuits make of the rates is in test_circuit_rates.c.
 */
#include "support_breaker.h"

#include <stdatomic.h>
#include <string.h>

#include "breaker/window.h"
#include "breaker/word.h"

/* Longer ones follow shorter ones, so that each begins anew. */
static const uint64_t windows[] = {SECOND, 1500 * MILLISECOND, 10 * SECOND, 30 * SECOND, 33333333333, 3600 * SECOND};
#define WINDOWS (sizeof windows / sizeof *windows)

/* The width of a window's buckets: the largest power of two that is at most a sixteenth of it. */
static uint64_t bucket_of(uint64_t window_ns)
{
    uint64_t width = 1;

    while (32 * width <= window_ns)
        width *= 2;
    return width;
}

static uint64_t generation_of(const struct breaker_bench *bench)
{
    return word_unpack(atomic_load(&bench->circuit->word)).generation;
}

/* Closes the circuit under another generation. */
static void begin_generation(struct breaker_bench *bench, uint64_t generation)
{
    atomic_store(&bench->circuit->word, word_pack((struct word){.state = CIRCUIT_CLOSED, .generation = generation}));
}

static void add_at(struct breaker_bench *bench, enum window_class class, uint64_t now_ns)
{
    window_add(bench->circuit, &bench->settings, bench->caller.shard, generation_of(bench), class, now_ns);
}

static void add_many(struct breaker_bench *bench, enum window_class class, unsigned int count)
{
    while (count-- > 0)
        add_at(bench, class, bench->now_ns);
}

static struct window_counts counts_at(const struct breaker_bench *bench, uint64_t now_ns)
{
    return window_sum(bench->circuit, &bench->settings, generation_of(bench), now_ns);
}

static void assert_counts(const struct breaker_bench *bench, uint64_t calls, uint64_t failed, uint64_t slow)
{
    struct window_counts counts = counts_at(bench, bench->now_ns);

    assert_int_equal(counts.calls, calls);
    assert_int_equal(counts.failed, failed);
    assert_int_equal(counts.slow, slow);
}

/* --- a duration --- */

static void a_window_holds_successes_failures_and_slow_calls(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = 30 * SECOND;
    assert_counts(bench, 0, 0, 0);
    add_many(bench, WINDOW_SUCCEEDED, 5);
    add_many(bench, WINDOW_FAILED, 3);
    add_many(bench, WINDOW_SLOW, 2);
    assert_counts(bench, 10, 3, 2);
}

static void all_shards_are_summed(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = 30 * SECOND;
    for (bench->caller.shard = 0; bench->caller.shard < 2 * COUNTER_SHARDS; bench->caller.shard++) {
        add_many(bench, WINDOW_SUCCEEDED, 1);
        add_many(bench, WINDOW_FAILED, bench->caller.shard);
    }
    assert_counts(bench, 16 + 120, 120, 0);
    for (unsigned int shard = 0; shard < COUNTER_SHARDS; shard++) {
        uint64_t sum = 0;

        for (unsigned int i = 0; i < WINDOW_BUCKETS; i++)
            sum += (uint32_t)atomic_load(&bench->circuit->window.buckets[shard][WINDOW_FAILED][i]);
        assert_int_equal(sum, 2 * shard + COUNTER_SHARDS); /* nobody leaves his own shard */
    }
}

static void the_first_call_of_a_bucket_is_in_until_the_nanosecond_before_it_is_one_window_old(void **state)
{
    struct breaker_bench *bench = *state;

    for (size_t i = 0; i < WINDOWS; i++) {
        uint64_t window = bench->settings.window = windows[i], width = bucket_of(window);
        uint64_t start = bench->now_ns += 4 * window;

        start -= start % width;
        add_at(bench, WINDOW_FAILED, start);
        for (uint64_t age = 0; age < window; age += width / 3)
            assert_int_equal(counts_at(bench, start + age).failed, 1);
        assert_int_equal(counts_at(bench, start + window - 1).failed, 1);
        assert_int_equal(counts_at(bench, start + window).failed, 0);
        assert_int_equal(counts_at(bench, start + window).calls, 0);
        assert_int_equal(counts_at(bench, start + 1000 * window).calls, 0);
    }
}

static void a_call_exactly_one_window_old_is_out_and_one_younger_by_a_bucket_is_in(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t random = 7;

    for (size_t i = 0; i < WINDOWS; i++) {
        uint64_t window = bench->settings.window = windows[i], width = bucket_of(window);

        assert_true(width <= window / 16 && width > window / 32);
        for (int round = 0; round < 200; round++) {
            bench->now_ns += 3 * window + breaker_random(&random) % window;
            add_at(bench, WINDOW_SLOW, bench->now_ns);
            assert_int_equal(counts_at(bench, bench->now_ns + window - width).slow, 1);
            assert_int_equal(counts_at(bench, bench->now_ns + window).slow, 0);
        }
    }
}

/* All of a bucket goes at one instant, which is its first one's. */
static void the_last_call_of_a_bucket_goes_with_its_first(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 30 * SECOND, width = bucket_of(window);
    uint64_t start = 1000 * width;

    add_at(bench, WINDOW_FAILED, start);
    add_at(bench, WINDOW_FAILED, start + width - 1);
    add_at(bench, WINDOW_FAILED, start + width);
    assert_int_equal(counts_at(bench, start + window - 1).failed, 3);
    assert_int_equal(counts_at(bench, start + window).failed, 1);
    assert_int_equal(counts_at(bench, start + window + width - 1).failed, 1);
    assert_int_equal(counts_at(bench, start + window + width).failed, 0);
}

static void a_window_that_rolls_for_long_always_holds_what_is_in_it(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 16 * SECOND, width = bucket_of(window);

    bench->now_ns -= bench->now_ns % width;
    for (uint64_t call = 0; call < 1000; call++) { /* one at the start of each bucket: those of one window are in */
        uint64_t full = (window + width - 1) / width;

        add_at(bench, call % 2 == 0 ? WINDOW_FAILED : WINDOW_SUCCEEDED, bench->now_ns);
        assert_int_equal(counts_at(bench, bench->now_ns).calls, call + 1 < full ? call + 1 : full);
        bench->now_ns += width;
    }
}

static void near_the_start_of_time_nothing_is_out_yet(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = 30 * SECOND;
    add_at(bench, WINDOW_FAILED, 0);
    assert_int_equal(counts_at(bench, 0).failed, 1);
    assert_int_equal(counts_at(bench, 29 * SECOND).failed, 1);
    assert_int_equal(counts_at(bench, 30 * SECOND - 1).failed, 1);
    assert_int_equal(counts_at(bench, 30 * SECOND).failed, 0);
}

static void an_outcome_of_an_earlier_time_goes_into_its_own_bucket(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 32 * SECOND, width = bucket_of(window);
    uint64_t start = bench->now_ns = 1000 * width;

    add_at(bench, WINDOW_SUCCEEDED, start + 20 * width);
    add_at(bench, WINDOW_FAILED, start); /* it became overdue then, and is found now */
    assert_int_equal(counts_at(bench, start + 20 * width).failed, 1);
    assert_int_equal(counts_at(bench, start + window - 1).failed, 1);
    assert_int_equal(counts_at(bench, start + window).failed, 0);
}

static void an_outcome_that_is_out_already_is_not_counted_and_takes_nobody_s_place(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 32 * SECOND, width = bucket_of(window);
    uint64_t late = 1000 * width, now = late + WINDOW_BUCKETS * width; /* the same place of the ring */

    add_at(bench, WINDOW_FAILED, now);
    add_at(bench, WINDOW_FAILED, late);
    assert_int_equal(counts_at(bench, now).failed, 1);
    assert_int_equal(counts_at(bench, late).failed, 1); /* whoever asks with an old time gets the latest window */
    bench->caller.shard++;
    add_at(bench, WINDOW_FAILED, late); /* here it finds a place, and is out all the same */
    assert_int_equal(counts_at(bench, now).failed, 1);
    assert_int_equal(counts_at(bench, late).failed, 1);
}

static void with_an_early_time_the_window_ends_where_the_latest_bucket_begins(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 30 * SECOND, width = bucket_of(window);
    uint64_t start = 1000 * width, latest = (start + window) / width * width; /* the last that begins by then */

    add_at(bench, WINDOW_FAILED, start);
    add_at(bench, WINDOW_SUCCEEDED, latest + width - 1);
    assert_true(latest < start + window);
    assert_int_equal(counts_at(bench, latest - 1).calls, 2);
    add_at(bench, WINDOW_SUCCEEDED, latest + width);
    assert_int_equal(counts_at(bench, latest - 1).calls, 2);
    assert_int_equal(counts_at(bench, latest - 1).failed, 0);
}

/* --- generations --- */

static void a_new_generation_begins_with_an_empty_window_at_the_very_same_time(void **state)
{
    struct breaker_bench *bench = *state;
    static const uint64_t kinds[] = {30 * SECOND, WINDOW_CALLS | 1000};

    for (size_t kind = 0; kind < 2; kind++) {
        bench->settings.window = kinds[kind];
        for (uint64_t generation = 1; generation < 500; generation++) {
            begin_generation(bench, generation + kind * 1000);
            assert_counts(bench, 0, 0, 0);
            add_many(bench, WINDOW_FAILED, 1 + (unsigned int)generation % 50);
            assert_counts(bench, 1 + generation % 50, 1 + generation % 50, 0);
        }
    }
}

static void a_straggler_of_an_earlier_generation_leaves_the_window_as_it_is(void **state)
{
    struct breaker_bench *bench = *state;
    static const uint64_t kinds[] = {30 * SECOND, WINDOW_CALLS | 100};

    for (size_t kind = 0; kind < 2; kind++) {
        bench->settings.window = kinds[kind];
        begin_generation(bench, 5 + 10 * kind);
        add_many(bench, WINDOW_FAILED, 4);
        begin_generation(bench, 6 + 10 * kind);
        add_many(bench, WINDOW_SUCCEEDED, 3);
        static struct window before;
        memcpy(&before, &bench->circuit->window, sizeof before);
        window_add(bench->circuit, &bench->settings, 1, 5 + 10 * kind, WINDOW_FAILED, bench->now_ns);
        assert_memory_equal(&before, &bench->circuit->window, sizeof before);
        assert_counts(bench, 3, 0, 0);
        assert_int_equal(window_sum(bench->circuit, &bench->settings, 5 + 10 * kind, bench->now_ns).calls, 0);
    }
}

static void nothing_is_added_while_the_circuit_is_open(void **state)
{
    struct breaker_bench *bench = *state;
    static const uint64_t kinds[] = {30 * SECOND, WINDOW_CALLS | 100};

    for (size_t kind = 0; kind < 2; kind++) {
        bench->settings.window = kinds[kind];
        atomic_store(&bench->circuit->word, word_pack((struct word){.state = CIRCUIT_OPEN, .deadline = 1}));
        window_add(bench->circuit, &bench->settings, 1, 77, WINDOW_FAILED, bench->now_ns);
        assert_int_equal(window_sum(bench->circuit, &bench->settings, 77, bench->now_ns).calls, 0);
    }
}

/* A place that is used again has another generation, and perhaps another kind of window. */
static void a_circuit_that_was_reset_has_an_empty_window(void **state)
{
    struct breaker_bench *bench = *state;

    for (size_t i = 0; i < 2 * WINDOWS; i++) {
        bench->settings.window = windows[i * 5 % WINDOWS];
        add_many(bench, WINDOW_FAILED, 9);
        assert_counts(bench, 9, 9, 0);
        circuit_reset(bench->circuit);
        assert_counts(bench, 0, 0, 0);
        bench->settings.window = WINDOW_CALLS | 20;
        add_many(bench, WINDOW_FAILED, 7);
        assert_counts(bench, 7, 7, 0);
        circuit_reset(bench->circuit);
        assert_counts(bench, 0, 0, 0);
    }
}

/* --- windows of several lengths on one circuit --- */

static void the_longer_window_decides_on_the_buckets_and_both_count_on(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = 10 * SECOND;
    add_many(bench, WINDOW_FAILED, 5);
    bench->settings.window = 60 * SECOND;
    add_many(bench, WINDOW_FAILED, 1); /* begins anew, with wider buckets */
    assert_counts(bench, 1, 1, 0);
    bench->settings.window = 10 * SECOND;
    add_many(bench, WINDOW_FAILED, 1); /* and these stay */
    bench->settings.window = 60 * SECOND;
    assert_counts(bench, 2, 2, 0);
    bench->now_ns += 10 * SECOND;
    assert_counts(bench, 2, 2, 0);
    bench->settings.window = 10 * SECOND;
    assert_counts(bench, 0, 0, 0);
}

static void a_duration_and_a_number_of_calls_do_not_see_each_other(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = 10 * SECOND;
    add_many(bench, WINDOW_FAILED, 5);
    bench->settings.window = WINDOW_CALLS | 10;
    add_many(bench, WINDOW_SUCCEEDED, 3);
    assert_counts(bench, 3, 0, 0);
    bench->settings.window = 10 * SECOND;
    assert_counts(bench, 5, 5, 0);
}

/* --- ends of the numbers --- */

static void ticks_may_go_round(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 16 * SECOND, width = bucket_of(window);
    _Atomic uint64_t *epoch = &bench->circuit->window.epoch;

    bench->now_ns -= bench->now_ns % width;
    add_many(bench, WINDOW_FAILED, 1);
    /* An offset with which the tick becomes 0 in ten buckets from now. */
    uint32_t tick = (uint32_t)(bench->now_ns / width);
    uint64_t raw = atomic_load(epoch);
    memset(&bench->circuit->window, 0, sizeof bench->circuit->window);
    atomic_store(epoch, (raw & ~UINT64_C(0xffffffff)) | (uint32_t)(0u - tick - 10));
    for (unsigned int i = 1; i <= 100; i++) {
        bench->now_ns += width;
        add_many(bench, WINDOW_FAILED, 1);
        assert_int_equal(counts_at(bench, bench->now_ns).failed, i < 30 ? i : (window + width - 1) / width);
    }
}

static void an_ancient_bucket_that_seems_to_be_ahead_gives_way(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 16 * SECOND, width = bucket_of(window);

    add_many(bench, WINDOW_FAILED, 1);
    uint32_t tick = (uint32_t)(bench->now_ns / width) + (uint32_t)atomic_load(&bench->circuit->window.epoch);
    _Atomic uint64_t *ring = bench->circuit->window.buckets[bench->caller.shard][WINDOW_FAILED];
    for (unsigned int i = 0; i < WINDOW_BUCKETS; i++) /* as far ahead as nobody's clock is, in the same places */
        atomic_store(&ring[(tick + i) % WINDOW_BUCKETS], (uint64_t)(tick + i + (1u << 24)) << 32 | 1000);
    assert_counts(bench, 0, 0, 0);
    add_many(bench, WINDOW_FAILED, 2);
    assert_counts(bench, 2, 2, 0);
}

static void a_full_count_stays_full(void **state)
{
    struct breaker_bench *bench = *state;
    uint64_t window = bench->settings.window = 16 * SECOND, width = bucket_of(window);

    add_many(bench, WINDOW_FAILED, 1);
    uint32_t tick = (uint32_t)(bench->now_ns / width) + (uint32_t)atomic_load(&bench->circuit->window.epoch);
    atomic_store(&bench->circuit->window.buckets[bench->caller.shard][WINDOW_FAILED][tick % WINDOW_BUCKETS],
                 (uint64_t)tick << 32 | 0xfffffffe);
    add_many(bench, WINDOW_FAILED, 3);
    assert_counts(bench, 0xffffffff, 0xffffffff, 0);
    add_many(bench, WINDOW_SUCCEEDED, 1);
    assert_counts(bench, 0x100000000, 0xffffffff, 0);
}

/* --- N calls --- */

static void a_window_of_n_calls_holds_exactly_the_last_n(void **state)
{
    struct breaker_bench *bench = *state;
    static enum window_class made[3000];
    uint64_t random = 99;

    for (unsigned int call = 0; call < 3000; call++) {
        made[call] = (enum window_class)(breaker_random(&random) >> 33) % WINDOW_CLASSES;
        bench->settings.window = WINDOW_CALLS | 1;
        add_at(bench, made[call], bench->now_ns + call * 3600 * SECOND); /* time does not matter */
        struct window_counts counts = {0};
        for (unsigned int last = 1; last <= WINDOW_CALLS_MAX; last++) {
            if (last <= call + 1) {
                counts.calls++;
                counts.failed += made[call + 1 - last] == WINDOW_FAILED;
                counts.slow += made[call + 1 - last] == WINDOW_SLOW;
            }
            if (call % 97 != 0 && last % 31 != call % 31 && last != WINDOW_CALLS_MAX)
                continue;
            bench->settings.window = WINDOW_CALLS | last;
            assert_counts(bench, counts.calls, counts.failed, counts.slow);
        }
    }
}

static void a_chunk_that_was_begun_and_left_is_filled_by_the_next(void **state)
{
    struct breaker_bench *bench = *state;
    _Atomic uint64_t *head = &bench->circuit->window.head;

    bench->settings.window = WINDOW_CALLS | 100;
    add_many(bench, WINDOW_FAILED, 16);
    assert_counts(bench, 16, 16, 0);
    atomic_fetch_add(head, 1); /* a process was killed right after that */
    assert_counts(bench, 16, 16, 0);
    add_many(bench, WINDOW_SLOW, 1);
    assert_counts(bench, 17, 16, 1);
}

static void chunk_numbers_may_go_round(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = WINDOW_CALLS | 500;
    begin_generation(bench, 3);
    atomic_store(&bench->circuit->window.head, UINT64_C(2) << 32 | (0u - 128u - 5u));
    for (unsigned int i = 1; i <= 1000; i++) {
        add_many(bench, WINDOW_FAILED, 1);
        assert_counts(bench, i < 500 ? i : 500, i < 500 ? i : 500, 0);
    }
}

static void a_chunk_of_corrupt_memory_that_seems_to_be_ahead_gives_way(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.window = WINDOW_CALLS | 100;
    for (unsigned int i = 0; i < WINDOW_CHUNKS; i++)
        atomic_store(&bench->circuit->window.chunks[i], (uint64_t)(i + 1000 * WINDOW_CHUNKS) << 32 | 0xffffffff);
    add_many(bench, WINDOW_FAILED, 40);
    assert_counts(bench, 40, 40, 0);
}

/* --- rates --- */

static void a_rate_opens_at_it_and_not_below_and_not_on_fewer_calls(void **state)
{
    struct settings settings = {
        .minimum_calls = 8, .failure_rate_permille = 500, .slow_call_ns = 1, .slow_call_rate_permille = 333};

    (void)state;
    assert_true(window_fails(&settings, &(struct window_counts){.calls = 8, .failed = 4}));
    assert_false(window_fails(&settings, &(struct window_counts){.calls = 9, .failed = 4}));
    assert_true(window_fails(&settings, &(struct window_counts){.calls = 9, .failed = 5}));
    assert_false(window_fails(&settings, &(struct window_counts){.calls = 7, .failed = 7}));
    assert_true(window_is_slow(&settings, &(struct window_counts){.calls = 1000, .slow = 333}));
    assert_false(window_is_slow(&settings, &(struct window_counts){.calls = 1000, .slow = 332}));
    assert_false(window_is_slow(&settings, &(struct window_counts){.calls = 7, .slow = 7}));
    settings.failure_rate_permille = 1000;
    assert_true(window_fails(&settings, &(struct window_counts){.calls = 8, .failed = 8}));
    assert_false(window_fails(&settings, &(struct window_counts){.calls = 1000000, .failed = 999999}));
    settings.failure_rate_permille = 1;
    assert_true(window_fails(&settings, &(struct window_counts){.calls = 1000, .failed = 1}));
    assert_false(window_fails(&settings, &(struct window_counts){.calls = 1001, .failed = 1}));
}

static void a_rate_that_is_off_never_opens(void **state)
{
    struct settings settings = {.minimum_calls = 1};
    const struct window_counts bad = {.calls = 10, .failed = 10, .slow = 10};

    (void)state;
    assert_false(window_is_used(&settings));
    assert_false(window_fails(&settings, &bad));
    settings.slow_call_rate_permille = 1000;
    assert_false(window_is_used(&settings)); /* without slow_call none is slow */
    assert_false(window_is_slow(&settings, &bad));
    settings.slow_call_ns = 1;
    assert_true(window_is_used(&settings));
    assert_true(window_is_slow(&settings, &bad));
    settings.slow_call_rate_permille = 0;
    assert_false(window_is_used(&settings));
    assert_false(window_is_slow(&settings, &bad));
    settings.failure_rate_permille = 1;
    assert_true(window_is_used(&settings));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(a_window_holds_successes_failures_and_slow_calls),
        breaker_test(all_shards_are_summed),
        breaker_test(the_first_call_of_a_bucket_is_in_until_the_nanosecond_before_it_is_one_window_old),
        breaker_test(a_call_exactly_one_window_old_is_out_and_one_younger_by_a_bucket_is_in),
        breaker_test(the_last_call_of_a_bucket_goes_with_its_first),
        breaker_test(a_window_that_rolls_for_long_always_holds_what_is_in_it),
        breaker_test(near_the_start_of_time_nothing_is_out_yet),
        breaker_test(an_outcome_of_an_earlier_time_goes_into_its_own_bucket),
        breaker_test(an_outcome_that_is_out_already_is_not_counted_and_takes_nobody_s_place),
        breaker_test(with_an_early_time_the_window_ends_where_the_latest_bucket_begins),
        breaker_test(a_new_generation_begins_with_an_empty_window_at_the_very_same_time),
        breaker_test(a_straggler_of_an_earlier_generation_leaves_the_window_as_it_is),
        breaker_test(nothing_is_added_while_the_circuit_is_open),
        breaker_test(a_circuit_that_was_reset_has_an_empty_window),
        breaker_test(the_longer_window_decides_on_the_buckets_and_both_count_on),
        breaker_test(a_duration_and_a_number_of_calls_do_not_see_each_other),
        breaker_test(ticks_may_go_round),
        breaker_test(an_ancient_bucket_that_seems_to_be_ahead_gives_way),
        breaker_test(a_full_count_stays_full),
        breaker_test(a_window_of_n_calls_holds_exactly_the_last_n),
        breaker_test(a_chunk_that_was_begun_and_left_is_filled_by_the_next),
        breaker_test(chunk_numbers_may_go_round),
        breaker_test(a_chunk_of_corrupt_memory_that_seems_to_be_ahead_gives_way),
        breaker_test(a_rate_opens_at_it_and_not_below_and_not_on_fewer_calls),
        breaker_test(a_rate_that_is_off_never_opens),
    };

    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
