/*
 * test_recent_kinds.c - the kinds of the last failures, twelve in a word.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "breaker/recent_kinds.h"

static uint64_t with(uint64_t kinds, enum failure_kind kind, unsigned int http_status)
{
    return recent_kinds_with(kinds, &(struct outcome){.kind = kind, .http_status = http_status});
}

static void a_circuit_without_failures_has_none(void **state)
{
    struct kind_count counts[RECENT_KINDS];
    (void)state;
    assert_int_equal(recent_kinds_counts(0, counts), 0);
}

static void failures_are_counted_by_kind_and_usual_status(void **state)
{
    static const struct {
        enum failure_kind kind;
        unsigned int http_status;
        const char *label;
    } all[] = {
        {FAILURE_CONNECT_TIMEOUT, 0, "connect-timeout"},
        {FAILURE_RESPONSE_TIMEOUT, 0, "response-timeout"},
        {FAILURE_REFUSED, 0, "refused"},
        {FAILURE_RESET, 0, "reset"},
        {FAILURE_UNREACHABLE, 0, "unreachable"},
        {FAILURE_EARLY_CLOSE, 0, "early-close"},
        {FAILURE_HTTP, 599, "http-other"},
        {FAILURE_HTTP, 503, "http-503"},
        {FAILURE_HTTP, 408, "http-408"},
    };
    struct kind_count counts[RECENT_KINDS];
    char label[FAILURE_LABEL_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const uint64_t kinds = with(with(0, all[i].kind, all[i].http_status), all[i].kind, all[i].http_status);
        assert_int_equal(recent_kinds_counts(kinds, counts), 1);
        assert_int_equal(counts[0].kind, all[i].kind);
        assert_int_equal(counts[0].failures, 2);
        assert_string_equal(kind_count_label(&counts[0], label), all[i].label);
    }
}

static void the_thirteenth_failure_is_forgotten(void **state)
{
    struct kind_count counts[RECENT_KINDS];
    uint64_t kinds = with(0, FAILURE_RESET, 0);
    (void)state;
    for (unsigned int i = 0; i < RECENT_KINDS; i++) {
        assert_int_equal(recent_kinds_counts(kinds, counts), i == 0 ? 1 : 2);
        kinds = with(kinds, FAILURE_REFUSED, 0);
    }
    assert_int_equal(recent_kinds_counts(kinds, counts), 1);
    assert_int_equal(counts[0].kind, FAILURE_REFUSED);
    assert_int_equal(counts[0].failures, RECENT_KINDS);
}

static void the_newest_are_the_last_ones(void **state)
{
    struct kind_count counts[RECENT_KINDS];
    uint64_t kinds = with(with(with(0, FAILURE_RESET, 0), FAILURE_REFUSED, 0), FAILURE_REFUSED, 0);
    (void)state;
    assert_int_equal(recent_kinds_counts(recent_kinds_newest(kinds, 2), counts), 1);
    assert_int_equal(counts[0].kind, FAILURE_REFUSED);
    assert_int_equal(recent_kinds_counts(recent_kinds_newest(kinds, 3), counts), 2);
    assert_int_equal(recent_kinds_counts(recent_kinds_newest(kinds, 0), counts), 0);
    assert_int_equal(recent_kinds_newest(kinds, UINT64_MAX), kinds);
}

/* It lies in shared memory. */
static void any_word_can_be_read(void **state)
{
    struct kind_count counts[RECENT_KINDS];
    uint64_t word = 1;
    (void)state;
    for (unsigned int i = 0; i < 10000; i++) {
        word = word * UINT64_C(6364136223846793005) + 1;
        const unsigned int count = recent_kinds_counts(word, counts);
        assert_true(count <= RECENT_KINDS);
        for (unsigned int j = 0; j < count; j++)
            assert_true(counts[j].kind > FAILURE_NONE && counts[j].kind < FAILURE_KINDS && counts[j].failures > 0);
    }
    assert_true(recent_kinds_counts(UINT64_MAX, counts) <= RECENT_KINDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_circuit_without_failures_has_none),
        cmocka_unit_test(failures_are_counted_by_kind_and_usual_status),
        cmocka_unit_test(the_thirteenth_failure_is_forgotten),
        cmocka_unit_test(the_newest_are_the_last_ones),
        cmocka_unit_test(any_word_can_be_read),
    };
    return cmocka_run_group_tests_name("recent_kinds", tests, NULL, NULL);
}
