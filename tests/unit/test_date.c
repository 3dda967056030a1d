/*
 * test_date.c - moments as RFC 3339, against the C library's own calendar.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/date.h"

static void check_time(uint64_t seconds)
{
    char expected[40], got[40];
    time_t time = (time_t)seconds;
    struct tm broken;
    assert_non_null(gmtime_r(&time, &broken));
    assert_int_equal(strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.005Z", &broken), 24);
    assert_int_equal(time_rfc3339(seconds * NS_PER_S + 5999999, got, sizeof got), 24);
    assert_string_equal(got, expected);
}

static void times_are_right_on_every_day_until_2554(void **state)
{
    (void)state;
    char text[32];
    for (uint64_t day = 0; day < UINT64_MAX / NS_PER_S / 86400; day++) {
        check_time(day * 86400);
        check_time(day * 86400 + 86399);
    }
    assert_int_equal(time_rfc3339(UINT64_C(951782400) * NS_PER_S, text, sizeof text), 24);
    assert_string_equal(text, "2000-02-29T00:00:00.000Z");
    assert_int_equal(time_rfc3339(UINT64_MAX, text, sizeof text), 24);
    assert_string_equal(text, "2554-07-21T23:34:33.709Z");
}

static void nothing_is_written_beyond_the_room_given(void **state)
{
    (void)state;
    char text[40];
    for (size_t size = 0; size < 30; size++) {
        memset(text, '#', sizeof text);
        assert_int_equal(time_rfc3339(NS_PER_S, text, size), size < 25 ? 0 : 24);
        assert_int_equal(text[size], '#');
    }
}

/* One after the other, none left out: what has no number is not there. */
static void each_day_of_two_thousand_years_has_its_number(void **state)
{
    (void)state;
    uint64_t days = 0;
    for (unsigned int year = 1970; year < 3970; year++) {
        for (unsigned int month = 0; month <= 13; month++) {
            for (unsigned int day = 0; day <= 32; day++) {
                if (!date_exists(year, month, day))
                    continue;
                struct tm broken = {.tm_year = (int)year - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)day};
                assert_int_equal(date_days(year, month, day), days);
                assert_int_equal(timegm(&broken), (time_t)days * 86400);
                assert_int_equal(broken.tm_mday, day);
                days++;
            }
        }
    }
    assert_int_equal(days, 730485);
    assert_int_equal(date_days(1969, 12, 31), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_right_on_every_day_until_2554),
        cmocka_unit_test(each_day_of_two_thousand_years_has_its_number),
        cmocka_unit_test(nothing_is_written_beyond_the_room_given),
    };
    return cmocka_run_group_tests_name("date", tests, NULL, NULL);
}
