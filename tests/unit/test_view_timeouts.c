/*
 * test_view_timeouts.c - how often programs gave up, and since when, as people read it.
 *
 * links: command
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/units.h"
#include "view/timeouts.h"

#define HOUR_NS (3600 * NS_PER_S)
#define MIDNIGHT_NS (UINT64_C(1796083200) * NS_PER_S) /* 2026-12-01 00:00:00 UTC */

static struct learnt learnt;
static struct learnt_view view;

static void use_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
}

static int setup(void **state)
{
    (void)state;
    memset(&learnt, 0, sizeof learnt);
    use_zone("UTC");
    return 0;
}

static void give_up(unsigned int times, uint64_t wall_ns)
{
    for (unsigned int i = 0; i < times; i++)
        learnt_note_wait(&learnt, "nginx", LEARNT_ANSWER, LEARNT_GIVEN_UP, 5 * NS_PER_S, wall_ns + i);
}

static void assert_told(uint64_t now_ns, const char *expected)
{
    learnt_read(&learnt, 0, &view);
    char *text = given_up_text(&view.programs[0].waits[LEARNT_ANSWER], now_ns);
    assert_string_equal(text, expected);
    free(text);
}

static void once_is_told_by_when(void **state)
{
    (void)state;
    give_up(1, MIDNIGHT_NS + 9 * HOUR_NS);
    assert_told(MIDNIGHT_NS + 10 * HOUR_NS, "once, at 09:00:00");
    assert_told(MIDNIGHT_NS + 30 * HOUR_NS, "once, at 2026-12-01 09:00:00");
}

static void what_began_today_is_all_of_today(void **state)
{
    (void)state;
    give_up(40, MIDNIGHT_NS + 9 * HOUR_NS + 723 * NS_PER_S);
    give_up(1, MIDNIGHT_NS + 10 * HOUR_NS);
    assert_told(MIDNIGHT_NS + 23 * HOUR_NS, "41 times today, since 09:12:03");
}

static void what_began_on_a_day_before_is_told_of_today_apart(void **state)
{
    (void)state;
    give_up(302, MIDNIGHT_NS - NS_PER_S);
    give_up(41, MIDNIGHT_NS);
    assert_told(MIDNIGHT_NS + HOUR_NS, "41 times today, 343 since 2026-11-30 23:59:59");
    assert_told(MIDNIGHT_NS + 24 * HOUR_NS, "343 times since 2026-11-30 23:59:59, last at 2026-12-01 00:00:00");
}

static void a_day_begins_where_its_reader_lives(void **state)
{
    (void)state;
    give_up(2, MIDNIGHT_NS - 2 * HOUR_NS);
    give_up(3, MIDNIGHT_NS - HOUR_NS);
    use_zone("XXX-1"); /* its day began an hour before */
    assert_told(MIDNIGHT_NS + HOUR_NS, "3 times today, 5 since 2026-11-30 23:00:00");
    use_zone("XXX-5:30"); /* at half past an hour */
    give_up(4, MIDNIGHT_NS + 19 * HOUR_NS);
    assert_told(MIDNIGHT_NS + 20 * HOUR_NS, "4 times since 00:30:00, 9 since 2026-12-01 03:30:00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(once_is_told_by_when, setup),
        cmocka_unit_test_setup(what_began_today_is_all_of_today, setup),
        cmocka_unit_test_setup(what_began_on_a_day_before_is_told_of_today_apart, setup),
        cmocka_unit_test_setup(a_day_begins_where_its_reader_lives, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
