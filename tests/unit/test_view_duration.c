/*
 * test_view_duration.c - spans and points in time as people write them on the command line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/duration.c"

#define SECOND NS_PER_S
#define NOW (UINT64_C(1770000000) * SECOND)

static void spans_are_written_with_two_units_at_most(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0ms"},
        {999999, "0ms"},
        {NS_PER_MS, "1ms"},
        {SECOND - 1, "999ms"},
        {SECOND, "1.0s"},
        {7 * SECOND + 390 * NS_PER_MS, "7.3s"},
        {60 * SECOND - 1, "59.9s"},
        {60 * SECOND, "1m00s"},
        {125 * SECOND, "2m05s"},
        {3600 * SECOND, "1h00m"},
        {3900 * SECOND, "1h05m"},
        {86400 * SECOND, "1d00h"},
        {(86400 * 3 + 3600 * 4) * SECOND, "3d04h"},
        {UINT64_MAX, "213503d23h"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[SPAN_TEXT_MAX];
        assert_string_equal(span_format(rows[i].ns, text), rows[i].text);
    }
}

static void spans_are_read_with_their_units(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } rows[] = {
        {"0s", 0},
        {"5m", 300 * SECOND},
        {"250ms", 250 * NS_PER_MS},
        {"1.5h", 5400 * SECOND},
        {"1h30m", 5400 * SECOND},
        {"0.25d", 6 * 3600 * SECOND},
        {"2w", 14 * 86400 * SECOND},
        {"10us", 10000},
        {"7ns", 7},
        {"1.000000001s", SECOND + 1},
        {"1.0000000019s", SECOND + 1},
        {"0.1234567899999999999999w", UINT64_C(74666665987200)},
        {"18446744073s", UINT64_C(18446744073) * SECOND},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t ns = 1;
        assert_true(span_parse(rows[i].text, &ns));
        assert_int_equal(ns, rows[i].ns);
    }
}

static void what_is_no_span_is_not_taken_for_one(void **state)
{
    /* clang-format off */
    static const char *const texts[] = {
        "", "5", "m", "5 m", " 5m", "5m ", "-5m", "+5m", "5min", "5.m", ".5m", "5m30", "5M", "1e3s",
        "18446744074s", "99999999999999999999s", "30501w", "18446744073s18446744073s",
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t ns;
        assert_false(span_parse(texts[i], &ns));
    }
}

static void a_span_is_that_long_ago(void **state)
{
    uint64_t since;
    (void)state;
    assert_true(since_parse("90s", NOW, &since));
    assert_int_equal(since, NOW - 90 * SECOND);
    assert_true(since_parse("0s", NOW, &since));
    assert_int_equal(since, NOW);
    assert_true(since_parse("500w", NOW, &since));
    assert_true(since_parse("3000w", NOW, &since));
    assert_int_equal(since, 0);
}

static void times_are_read_as_rfc_3339_has_them(void **state)
{
    static const struct {
        const char *text;
        uint64_t seconds, ns;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, 0},
        {"2001-09-09T01:46:40Z", 1000000000, 0},
        {"2026-02-03T04:05:06.789Z", 1770091506, 789000000},
        {"2026-02-03t04:05:06.789z", 1770091506, 789000000},
        {"2026-02-03 04:05:06Z", 1770091506, 0},
        {"2026-02-03T04:05:06", 1770091506, 0},
        {"2026-02-03T05:35:06+01:30", 1770091506, 0},
        {"2026-02-02T20:05:06-08:00", 1770091506, 0},
        {"2026-02-03", 1770076800, 0},
        {"2024-02-29T00:00:00Z", 1709164800, 0},
        {"2000-02-29T12:00:00Z", 951825600, 0},
        {"2024-03-01T00:00:00Z", 1709251200, 0},
        {"2023-12-31T23:59:60Z", 1704067200, 0},
        {"2026-02-03T04:05:06.000000001Z", 1770091506, 1},
        {"2026-02-03T04:05:06.1234567899Z", 1770091506, 123456789},
        {"2554-07-21T23:34:32Z", UINT64_C(18446744072), 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t since = 0;
        assert_true(since_parse(rows[i].text, NOW, &since));
        assert_int_equal(since, rows[i].seconds * SECOND + rows[i].ns);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    /* clang-format off */
    static const char *const texts[] = {
        "yesterday", "2026", "2026-02", "2026-2-3", "2026-13-01", "2026-00-01", "2026-01-00", "2026-02-29",
        "2023-02-29", "1900-02-29", "2100-02-29", "2026-04-31", "2026-02-03T", "2026-02-03T04:05",
        "2026-02-03T24:00:00Z", "2026-02-03T04:60:00Z",
        "2026-02-03T04:05:61Z", "2026-02-03T04:05:06.Z", "2026-02-03T04:05:06ZZ", "2026-02-03T04:05:06+1:00",
        "2026-02-03T04:05:06+24:00", "2026-02-03Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00+00:01", "04:05:06",
        "9999-12-31T23:59:59Z",
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t since;
        assert_false(since_parse(texts[i], NOW, &since));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_written_with_two_units_at_most), cmocka_unit_test(spans_are_read_with_their_units),
        cmocka_unit_test(what_is_no_span_is_not_taken_for_one),     cmocka_unit_test(a_span_is_that_long_ago),
        cmocka_unit_test(times_are_read_as_rfc_3339_has_them),      cmocka_unit_test(what_is_no_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
