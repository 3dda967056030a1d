/* Heads of HTTP answers: what Retry-After says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support_http.h"

#define DAY_S 86400

/* Bytes that are final with the last of them, and not before. */
static struct http_head known(const char *bytes)
{
    struct http_head head;
    if (read_at_edge(bytes, strlen(bytes), &head) != HTTP_KNOWN)
        fail_msg("not known: %s", bytes);
    return head;
}

static void assert_retry_after(const char *bytes, int kind, uint64_t seconds)
{
    struct http_head head = known(bytes);
    if (head.retry_after != (unsigned int)kind || head.retry_after_s != seconds)
        fail_msg("%s: kind %d, %llu s", bytes, (int)head.retry_after, (unsigned long long)head.retry_after_s);
}

/* The same for the value of a Retry-After, as it stands behind the colon. */
static void assert_value(const char *value, int kind, uint64_t seconds)
{
    char bytes[256];
    snprintf(bytes, sizeof bytes, "HTTP/1.1 503 \r\nRetry-After:%s\r\n\r\n", value);
    assert_retry_after(bytes, kind, seconds);
}

/* --- headers --- */

static void retry_after_is_found_among_other_headers_however_it_is_written(void **state)
{
    static const char *const seven[] = {
        "HTTP/1.1 503 \r\nRetry-After: 7\r\n\r\n",
        "HTTP/1.1 429 \r\nRetry-After: 7\r\n\r\n",
        "HTTP/1.0 503\nretry-after:7\n\n",
        "HTTP/1.1 503 \r\nRETRY-AFTER: \t 7 \t \r\n\r\n",
        "HTTP/1.1 503 \r\nRetry-After : 7\r\n\r\n",
        "HTTP/1.1 503 \r\nRetry-After\t:\t7\t\r\n\n",
        "HTTP/1.1 503 \r\nServer: x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: 7\r\nX: y\r\n\r\n",
        "HTTP/1.1 503 \r\nRetry-Afte: 3\r\nRetry-Afters: 4\r\nX-Retry-After: 5\r\nretry_after: 6\r\nRetry-After: "
        "7\r\n\r\n",
        "HTTP/1.1 503 \r\nR\r\nRetry-After\r\nRetry-After \rRetry-After: 8\r\n\rRetry-After: 9\r\nRetry-After: "
        "7\r\n\r\n",
        "HTTP/1.1 503 \r\nX: y\r\n Retry-After: 9\r\n\tRetry-After: 9\r\nRetry-After: 7\r\n 9\r\n\r\n",
        "HTTP/1.1 503 Retry-After: 9\r\nRetry-After: 0000000000000000000000000000007\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof seven / sizeof *seven; i++)
        assert_retry_after(seven[i], RETRY_AFTER_SECONDS, 7);
}

static void retry_after_of_interim_answers_is_not_the_answers(void **state)
{
    (void)state;
    assert_retry_after("HTTP/1.1 103 \r\nRetry-After: 9\r\n\r\nHTTP/1.1 503 \r\n\r\n", RETRY_AFTER_NONE, 0);
    assert_retry_after("HTTP/1.1 103 \r\nRetry-After: 9\r\n\r\nHTTP/1.1 503 \r\nRetry-After: 5\r\n\r\n",
                       RETRY_AFTER_SECONDS, 5);
}

static void retry_after_of_several_is_the_largest_number_or_else_the_latest_date(void **state)
{
#define HEADERS(first, second) "HTTP/1.1 503 \r\nRetry-After: " first "\r\nRetry-After: " second "\r\n\r\n"
#define EARLY "Sun, 06 Nov 1994 08:49:37 GMT"
#define LATE "Sun Nov  6 08:49:38 1994"
#define SHORT "Sunday, 06-Nov-94 08:49:37 GMT"
    (void)state;
    assert_retry_after(HEADERS("7", "5"), RETRY_AFTER_SECONDS, 7);
    assert_retry_after(HEADERS("5", "7"), RETRY_AFTER_SECONDS, 7);
    assert_retry_after(HEADERS("5", "soon"), RETRY_AFTER_SECONDS, 5);
    assert_retry_after(HEADERS("soon", "5"), RETRY_AFTER_SECONDS, 5);
    assert_retry_after(HEADERS("0", EARLY), RETRY_AFTER_SECONDS, 0);
    assert_retry_after(HEADERS(LATE, "5"), RETRY_AFTER_SECONDS, 5);
    assert_retry_after(HEADERS(LATE, EARLY), RETRY_AFTER_DATE, 784111778);
    assert_retry_after(HEADERS(EARLY, LATE), RETRY_AFTER_DATE, 784111778);
    assert_retry_after(HEADERS(SHORT, EARLY), RETRY_AFTER_DATE, 784111777);
    assert_retry_after(HEADERS(EARLY, SHORT), RETRY_AFTER_DATE, 784111777);
    assert_retry_after(HEADERS(SHORT, "Sun, 32 Nov 1994 08:49:37 GMT"), RETRY_AFTER_DATE, 3939871777);
}

static void seconds_saturate_and_whatever_is_no_number_is_none(void **state)
{
    static const char *const absurd[] = {"",      " ",   "-1",   " -0", "+1",    "7.5",       "7,5",
                                         "7s",    "7 s", "7 8",  "7;",  "0x7",   "1e3",       "now",
                                         "\"7\"", "7\r", "7\r ", "\r7", "7\x80", "\302\2407", "7\v"};
    (void)state;
    assert_value("0", RETRY_AFTER_SECONDS, 0);
    assert_value(" 4294967294", RETRY_AFTER_SECONDS, UINT32_MAX - 1);
    assert_value(" 4294967295", RETRY_AFTER_SECONDS, UINT32_MAX);
    assert_value(" 4294967296", RETRY_AFTER_SECONDS, UINT32_MAX);
    assert_value(" 42949672950", RETRY_AFTER_SECONDS, UINT32_MAX);
    assert_value(" 18446744073709551623", RETRY_AFTER_SECONDS, UINT32_MAX);
    assert_value(" 99999999999999999999999999999999999999999999999999", RETRY_AFTER_SECONDS, UINT32_MAX);
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
        assert_value(absurd[i], RETRY_AFTER_NONE, 0);
}

/* --- dates --- */

static void every_day_until_2099_is_read_in_all_three_forms(void **state)
{
    char text[64];
    (void)state;
    for (time_t time = 4711; time < INT64_C(4102444800); time += DAY_S + 61) {
        struct tm tm;
        assert_non_null(gmtime_r(&time, &tm));
        strftime(text, sizeof text, " %a, %d %b %Y %T GMT", &tm);
        assert_value(text, RETRY_AFTER_DATE, (uint64_t)time);
        strftime(text, sizeof text, " %a %b %e %T %Y", &tm);
        assert_value(text, RETRY_AFTER_DATE, (uint64_t)time);
        strftime(text, sizeof text, " %A, %d-%b-%y %T GMT", &tm);
        if (tm.tm_year >= 100)
            assert_value(text, RETRY_AFTER_DATE, (uint64_t)time);
    }
}

static void dates_at_the_ends_are_read(void **state)
{
    (void)state;
    assert_value(" Thu, 01 Jan 1970 00:00:00 GMT", RETRY_AFTER_DATE, 0);
    assert_value(" Wed, 31 Dec 1969 23:59:59 GMT", RETRY_AFTER_DATE, 0);
    assert_value(" Sat, 01 Jan 0000 00:00:00 GMT", RETRY_AFTER_DATE, 0);
    assert_value(" Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_DATE, UINT64_C(253402300799));
    assert_value(" Sat, 31 Dec 2016 23:59:60 GMT", RETRY_AFTER_DATE, 1483228800);
    assert_value(" Tue, 29 Feb 2000 00:00:00 GMT", RETRY_AFTER_DATE, 951782400);
    assert_value(" Mon Jan 01 00:00:00 2024", RETRY_AFTER_DATE, 1704067200);
    /* The day's name is not held against the date. */
    assert_value(" Mon, 06 Nov 1994 08:49:37 GMT", RETRY_AFTER_DATE, 784111777);
}

static void what_is_no_date_is_none(void **state)
{
    static const char *const bad[] = {
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Mon, 29 Feb 2100 00:00:00 GMT",
        "Sun, 29 Feb 2023 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,  6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT+1",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday 06-Nov-94 08:49:37 GMT",
        "Sundays, 06-Nov-94 08:49:37 GMT",
        "Sunda, 06-Nov-94 08:49:37 GMT",
        "Monday, 31-Feb-94 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "SUN, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 NOV 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Okt 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  0 08:49:37 1994",
        "Sun Nov 31 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, Nov  6 08:49:37 1994",
        "Sun Nov  6 08:49:37 19940",
        "Sun Nov  6 08:49:37 199",
        "Sunday Nov  6 08:49:37 1994",
        "1994-11-06T08:49:37Z",
        "Nov  6 08:49:37 1994",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sun, 06 Nov 1994  08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT,",
        "Sun, 06 Nov 1994\r 08:49:37 GMT",
    };
    char value[96];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(value, sizeof value, " %s ", bad[i]);
        assert_value(value, RETRY_AFTER_NONE, 0);
    }
}

static void dates_become_seconds_from_now_and_past_ones_none(void **state)
{
    const uint64_t now = 1700000000, fifty_years = 50 * UINT64_C(31556952);
    struct http_head head = {.status = 503, .retry_after = RETRY_AFTER_NONE, .retry_after_s = 5};
    (void)state;
    assert_int_equal(http_retry_after_s(&head, now), 0);
    head.retry_after = RETRY_AFTER_SECONDS;
    assert_int_equal(http_retry_after_s(&head, now), 5);
    head.retry_after = RETRY_AFTER_DATE;
    assert_int_equal(http_retry_after_s(&head, now), 0);
    head.retry_after_s = now;
    assert_int_equal(http_retry_after_s(&head, now), 0);
    head.retry_after_s = now + 7;
    assert_int_equal(http_retry_after_s(&head, now), 7);
    head.retry_after_s = now + fifty_years + 1;
    assert_int_equal(http_retry_after_s(&head, now), fifty_years + 1);
    /* "06-Nov-94" is 1994, as long as 2094 is more than 50 years ahead. */
    head.two_digit_year = true;
    assert_int_equal(http_retry_after_s(&head, now), 0);
    head.retry_after_s = now + fifty_years;
    assert_int_equal(http_retry_after_s(&head, now), fifty_years);
    assert_true(known("HTTP/1.1 503 \r\nRetry-After: Sunday, 06-Nov-94 08:49:37 GMT\r\n\r\n").two_digit_year);
    assert_false(known("HTTP/1.1 503 \r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n").two_digit_year);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_after_is_found_among_other_headers_however_it_is_written),
        cmocka_unit_test(retry_after_of_interim_answers_is_not_the_answers),
        cmocka_unit_test(retry_after_of_several_is_the_largest_number_or_else_the_latest_date),
        cmocka_unit_test(seconds_saturate_and_whatever_is_no_number_is_none),
        cmocka_unit_test(every_day_until_2099_is_read_in_all_three_forms),
        cmocka_unit_test(dates_at_the_ends_are_read),
        cmocka_unit_test(what_is_no_date_is_none),
        cmocka_unit_test(dates_become_seconds_from_now_and_past_ones_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
