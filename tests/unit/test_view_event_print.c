/*
 * test_view_event_print.c - events as lines for people: local time, columns, and where a line goes on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/output.c"
#include "view/event_print.c"
#include "view/fold.c"
#include "view/local_time.c"
#include "view/table.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

/* 2026-02-03T04:05:06.789Z */
#define SOME_TIME_NS (UINT64_C(1770091506789) * NS_PER_MS)

static void in_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
}

static const char *told(uint64_t wall_ns)
{
    static char text[LOCAL_TIME_MAX];
    return local_time(wall_ns, text);
}

static void a_time_has_its_zones_distance_from_utc(void **state)
{
    (void)state;
    in_zone("UTC");
    assert_string_equal(told(SOME_TIME_NS), "2026-02-03T04:05:06.789Z");
    in_zone("XXX-5:30");
    assert_string_equal(told(SOME_TIME_NS), "2026-02-03T09:35:06.789+05:30");
    in_zone("XXX+9:30");
    assert_string_equal(told(SOME_TIME_NS), "2026-02-02T18:35:06.789-09:30");
    in_zone("XXX-0:01");
    assert_string_equal(told(SOME_TIME_NS), "2026-02-03T04:06:06.789+00:01");
    in_zone("XXX+0:01");
    assert_string_equal(told(SOME_TIME_NS), "2026-02-03T04:04:06.789-00:01");
    in_zone("XXX+0:44:30");
    assert_string_equal(told(SOME_TIME_NS), "2026-02-03T04:05:06.789Z");
}

/* Central Europe's clocks go back from 3 to 2 at 01:00 UTC. */
static void the_hour_that_comes_twice_is_told_apart(void **state)
{
    const uint64_t change_ns = UINT64_C(1792890000) * NS_PER_S;
    (void)state;
    in_zone("CET-1CEST,M3.5.0,M10.5.0/3");
    assert_string_equal(told(change_ns - NS_PER_S), "2026-10-25T02:59:59.000+02:00");
    assert_string_equal(told(change_ns), "2026-10-25T02:00:00.000+01:00");
}

static char *printed;
static size_t printed_size;

static struct event event_of(const char *destination, uint32_t pid)
{
    struct event event = {.type = EVENT_FAILURE,
                          .kind = FAILURE_REFUSED,
                          .error = ECONNREFUSED,
                          .elapsed_ms = 7,
                          .time_ns = SOME_TIME_NS,
                          .pid = pid,
                          .program = "curl",
                          .target = "payments"};
    snprintf(event.destination, sizeof event.destination, "%s", destination);
    return event;
}

/* What two events come to on a terminal of that width, or in a file. */
static const char *print_two_in(const char *zone, const struct event *one, const struct event *other, size_t room)
{
    struct event_columns columns;
    FILE *out;
    free(printed);
    out = open_memstream(&printed, &printed_size);
    assert_non_null(out);
    in_zone(zone);
    event_columns_start(&columns, out, 0, false);
    columns.room = room;
    event_columns_fit(&columns, one);
    event_columns_fit(&columns, other);
    event_columns_print(&columns, one, ", behind");
    event_columns_print(&columns, other, "");
    fclose(out);
    return printed;
}

static const char *print_two(const struct event *one, const struct event *other, size_t room)
{
    return print_two_in("UTC", one, other, room);
}

static void what_happened_stands_in_one_column_whatever_the_names(void **state)
{
    const struct event one = event_of("127.0.0.1:8080", 4711), other = event_of("a.longer.name:80", 1);
    (void)state;
    assert_string_equal(print_two(&one, &other, SIZE_MAX),
                        "2026-02-03T04:05:06.789Z  failure    127.0.0.1:8080 (payments)    curl[4711]  refused "
                        "(ECONNREFUSED) after 7ms, "
                        "behind\n"
                        "2026-02-03T04:05:06.789Z  failure    a.longer.name:80 (payments)  curl[1]     refused "
                        "(ECONNREFUSED) after 7ms\n");
}

/* The day stands above; the target's name gives way. */
static void a_line_that_does_not_fit_goes_on_below(void **state)
{
    const struct event one = event_of("127.0.0.1:8080", 4711);
    (void)state;
    assert_string_equal(print_two(&one, &one, 80),
                        "2026-02-03 UTC\n"
                        "04:05:06.789  failure    127.0.0.1:8080  curl[4711]  refused (ECONNREFUSED)\n"
                        "                                                     after 7ms, behind\n"
                        "04:05:06.789  failure    127.0.0.1:8080  curl[4711]  refused (ECONNREFUSED)\n"
                        "                                                     after 7ms\n");
    assert_string_equal(print_two(&one, &one, 70), "2026-02-03 UTC\n"
                                                   "04:05:06.789  failure    127.0.0.1:8080  curl[4711]\n"
                                                   "    refused (ECONNREFUSED) after 7ms, behind\n"
                                                   "04:05:06.789  failure    127.0.0.1:8080  curl[4711]\n"
                                                   "    refused (ECONNREFUSED) after 7ms\n");
    assert_string_equal(
        print_two(&one, &one, 101),
        "2026-02-03 UTC\n"
        "04:05:06.789  failure    127.0.0.1:8080 (payments)  curl[4711]  refused (ECONNREFUSED) after 7ms,\n"
        "                                                                behind\n"
        "04:05:06.789  failure    127.0.0.1:8080 (payments)  curl[4711]  refused (ECONNREFUSED) after "
        "7ms\n");
}

static void a_day_is_said_where_it_begins_and_where_the_clocks_change(void **state)
{
    struct event one = event_of("a:1", 1), other = one;
    (void)state;
    other.time_ns += UINT64_C(86400) * NS_PER_S;
    print_two(&one, &other, 200);
    assert_ptr_equal(strstr(printed, "2026-02-03 UTC\n04:05:06.789  "), printed);
    assert_non_null(strstr(printed, "\n2026-02-04 UTC\n04:05:06.789  "));
    one.time_ns = UINT64_C(1792890000) * NS_PER_S - NS_PER_S;
    other.time_ns = one.time_ns + 2 * NS_PER_S;
    print_two_in("CET-1CEST,M3.5.0,M10.5.0/3", &one, &other, 200);
    assert_ptr_equal(strstr(printed, "2026-10-25 +02:00\n02:59:59.000  "), printed);
    assert_non_null(strstr(printed, "\n2026-10-25 +01:00\n02:00:01.000  "));
}

static void a_target_that_is_its_destination_is_said_once(void **state)
{
    struct event event = event_of("payments", 1);
    (void)state;
    assert_null(strstr(print_two(&event, &event, SIZE_MAX), "(payments)"));
}

static void names_can_not_break_a_line(void **state)
{
    struct event event = event_of("unix:/tmp/\xff", 1);
    (void)state;
    strcpy(event.program, "a\nb");
    strcpy(event.target, "\x1b[2J");
    print_two(&event, &event, SIZE_MAX);
    assert_non_null(strstr(printed, "unix:/tmp/\\xff (\\x1b[2J)"));
    assert_non_null(strstr(printed, "a\\x0ab[1]"));
    assert_null(strchr(printed, '\x1b'));
    assert_ptr_equal(strchr(strchr(printed, '\n') + 1, '\n'), printed + strlen(printed) - 1);
}

static void what_a_user_did_is_the_commands(void **state)
{
    struct event event = event_of("127.0.0.1:8080", 4711);
    (void)state;
    event.type = EVENT_RELOAD;
    strcpy(event.program, "alice");
    assert_non_null(strstr(print_two(&event, &event, SIZE_MAX), " sockfuse[4711] "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_has_its_zones_distance_from_utc),
        cmocka_unit_test(the_hour_that_comes_twice_is_told_apart),
        cmocka_unit_test(what_happened_stands_in_one_column_whatever_the_names),
        cmocka_unit_test(a_line_that_does_not_fit_goes_on_below),
        cmocka_unit_test(a_day_is_said_where_it_begins_and_where_the_clocks_change),
        cmocka_unit_test(a_target_that_is_its_destination_is_said_once),
        cmocka_unit_test(names_can_not_break_a_line),
        cmocka_unit_test(what_a_user_did_is_the_commands),
    };
    return cmocka_run_group_tests_name("cli_event_print", tests, NULL, NULL);
}
