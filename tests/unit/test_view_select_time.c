/*
 * test_view_select_time.c - how long a command may be busy with another user's circuits.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static uint64_t used_s;

static int used_time(clockid_t clock, struct timespec *used)
{
    (void)clock;
    *used = (struct timespec){.tv_sec = (time_t)used_s};
    return 0;
}

/* The command's parts are no library: a test that needs one brings it in as it is. */
#define clock_gettime(clock, used) used_time(clock, used)
#include "view/select_use.c"
#undef clock_gettime
#include "view/output.c"
#include "view/truncation.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

int home_open(const struct home *home)
{
    (void)home;
    return -1;
}

static const struct selected own = {.user = (char *)"me"}, other = {.uid = 5, .user = (char *)"x", .is_foreign = true},
                             third = {.uid = 6, .user = (char *)"y", .is_foreign = true};

static void another_users_circuits_have_ten_seconds_and_ones_own_have_all(void **state)
{
    (void)state;
    used_s = 100;
    select_time_begins();
    assert_true(select_has_time(&other));
    used_s += 9;
    assert_true(select_has_time(&other));
    used_s += 1;
    assert_false(select_has_time(&other));
    assert_true(select_has_time(&own));
    assert_true(select_has_time(&third));
}

/* Who follows for a day has used ten seconds at some time, of which no look took long. */
static void each_look_of_a_command_that_goes_on_has_its_own_time(void **state)
{
    (void)state;
    for (unsigned int look = 0; look < 50; look++) {
        select_time_begins();
        assert_true(select_has_time(&other));
        used_s += 1;
        assert_true(select_has_time(&other));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_users_circuits_have_ten_seconds_and_ones_own_have_all),
        cmocka_unit_test(each_look_of_a_command_that_goes_on_has_its_own_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
