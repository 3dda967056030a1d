/*
 * test_seqlock.c - words that are read while they are written: whole ones, or none.
 *
 * What a writer leaves that dies or is jumped out of is what stands between two of its steps; so the steps are taken
 * here one by one. Under ThreadSanitizer the threads show that the order needs no fence.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/seqlock.h"
#include "base/shared.h"

#define COUNT 4u
#define ROUNDS 20000u

struct guarded {
    struct seqlock lock;
    _Atomic uint64_t words[COUNT];
};

static void store(struct guarded *guarded, uint64_t value)
{
    const uint64_t values[COUNT] = {value, value, value, value};
    words_store(guarded->words, values, COUNT);
}

/* False: there is nothing whole. */
static bool load(const struct guarded *guarded, uint64_t values[COUNT])
{
    uint32_t version;
    if (!seqlock_look(&guarded->lock, &version))
        return false;
    words_load(values, guarded->words, COUNT);
    return seqlock_stands(&guarded->lock, version);
}

static bool reads(const struct guarded *guarded, uint64_t expected)
{
    uint64_t values[COUNT];
    return load(guarded, values) && values[0] == expected && values[COUNT - 1] == expected;
}

static void what_is_written_is_read_when_it_is_whole(void **state)
{
    (void)state;
    struct guarded guarded = {0};
    uint64_t values[COUNT];
    assert_true(reads(&guarded, 0));
    const uint32_t mine = seqlock_begin(&guarded.lock, 0);
    assert_int_equal(mine, 1);
    assert_false(load(&guarded, values));
    store(&guarded, 7);
    assert_false(load(&guarded, values));
    seqlock_end(&guarded.lock, mine);
    assert_true(reads(&guarded, 7));
}

static void a_change_between_two_looks_is_seen(void **state)
{
    (void)state;
    struct guarded guarded = {0};
    uint32_t version;
    assert_true(seqlock_look(&guarded.lock, &version));
    const uint32_t mine = seqlock_begin(&guarded.lock, version);
    assert_false(seqlock_stands(&guarded.lock, version));
    seqlock_end(&guarded.lock, mine);
    assert_false(seqlock_stands(&guarded.lock, version));
}

static void of_two_writers_one_writes(void **state)
{
    (void)state;
    struct guarded guarded = {0};
    assert_int_equal(seqlock_begin(&guarded.lock, 0), 1);
    assert_int_equal(seqlock_begin(&guarded.lock, 0), 0);
}

static void what_was_left_behind_is_taken_over_once_and_its_writer_has_lost(void **state)
{
    (void)state;
    struct guarded guarded = {0};
    uint64_t values[COUNT];
    uint32_t version;
    const uint32_t left = seqlock_begin(&guarded.lock, 0);
    assert_false(seqlock_look(&guarded.lock, &version));
    assert_int_equal(version, left);
    const uint32_t mine = seqlock_begin(&guarded.lock, version);
    assert_int_equal(mine, left + 2);
    assert_int_equal(seqlock_begin(&guarded.lock, version), 0);
    seqlock_end(&guarded.lock, left); /* the first one was only late */
    assert_false(load(&guarded, values));
    store(&guarded, 9);
    seqlock_end(&guarded.lock, mine);
    assert_true(reads(&guarded, 9));
    seqlock_end(&guarded.lock, left);
    assert_true(reads(&guarded, 9));
}

static void who_seizes_it_gets_it_whatever_stands_there(void **state)
{
    (void)state;
    for (unsigned int before = 0; before < 2; before++) {
        struct guarded guarded = {0};
        uint64_t values[COUNT];
        const uint32_t left = before ? seqlock_begin(&guarded.lock, 0) : 0;
        const uint32_t mine = seqlock_seize(&guarded.lock);
        assert_false(load(&guarded, values));
        store(&guarded, 3);
        if (left != 0)
            seqlock_end(&guarded.lock, left);
        assert_false(load(&guarded, values));
        seqlock_end(&guarded.lock, mine);
        assert_true(reads(&guarded, 3));
    }
}

static void versions_go_round_the_end(void **state)
{
    (void)state;
    struct guarded guarded = {.lock.version = UINT32_MAX - 1};
    const uint32_t mine = seqlock_begin(&guarded.lock, UINT32_MAX - 1);
    assert_int_equal(mine, UINT32_MAX);
    assert_int_equal(seqlock_begin(&guarded.lock, UINT32_MAX), 1);
    seqlock_end(&guarded.lock, 1);
    assert_int_equal(guarded.lock.version, 2);
    atomic_store(&guarded.lock.version, UINT32_MAX);
    assert_int_equal(seqlock_seize(&guarded.lock), 1);
}

static struct guarded between_threads;
static _Atomic bool torn;

static void *write_on(void *own)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t version;
        const uint32_t mine =
            seqlock_look(&between_threads.lock, &version) ? seqlock_begin(&between_threads.lock, version) : 0;
        if (mine == 0)
            continue;
        store(&between_threads, round << 8 | (uintptr_t)own);
        seqlock_end(&between_threads.lock, mine);
    }
    return NULL;
}

static void *read_on(void *unused)
{
    uint64_t values[COUNT];
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (size_t i = 1; load(&between_threads, values) && i < COUNT; i++)
            if (values[i] != values[0])
                atomic_store(&torn, true);
    return unused;
}

static void no_reader_gets_words_of_two_writers(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? write_on : read_on, i < 2 ? (void *)i : NULL), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_false(torn);
    uint64_t values[COUNT];
    assert_true(load(&between_threads, values));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_when_it_is_whole),
        cmocka_unit_test(a_change_between_two_looks_is_seen),
        cmocka_unit_test(of_two_writers_one_writes),
        cmocka_unit_test(what_was_left_behind_is_taken_over_once_and_its_writer_has_lost),
        cmocka_unit_test(who_seizes_it_gets_it_whatever_stands_there),
        cmocka_unit_test(versions_go_round_the_end),
        cmocka_unit_test(no_reader_gets_words_of_two_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
