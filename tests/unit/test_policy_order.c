/* Patterns and targets that never take anything, because an earlier one takes all of it. */
#include "support_policy.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Loads a policy in which all is well but its order, and looks at that. */
static void order_of(struct loaded *loaded, const char *text)
{
    load_text(loaded, text, NULL);
    assert_non_null(loaded->policy);
    assert_int_equal(loaded->problems.count, 0);
    policy_check_order(loaded->policy, &loaded->problems);
    assert_int_equal(loaded->problems.errors, 0);
}

static void expect_shadow(const char *text, unsigned int line, const char *fragments)
{
    struct loaded loaded;
    order_of(&loaded, text);
    if (loaded.problems.count != 1)
        print_message("of: %s\n", text);
    expect_problem_of(&loaded, false, line, fragments);
    unload(&loaded);
}

static void expect_no_shadow(const char *text)
{
    struct loaded loaded;
    order_of(&loaded, text);
    if (loaded.problems.count != 0)
        fail_msg("%s: %s", text, loaded.problems.at[0].text);
    unload(&loaded);
}

/* `narrow` behind `wide`, and the other way round. */
static void expect_covers(const char *wide, const char *narrow, bool covers)
{
    char text[512];
    snprintf(text, sizeof text, "[a]\nmatch = %s\n[b]\nmatch = %s\n", wide, narrow);
    if (covers)
        expect_shadow(text, 3, "target `[b]` takes nothing|of `[a]` (line 2)");
    else
        expect_no_shadow(text);
}

static void a_pattern_covers_what_takes_no_more_than_itself(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        /* wide, narrow */
        {"10.0.0.0/8:443", "10.1.2.3:443"},
        {"10.0.0.0/8:443", "10.0.0.0/24:443"},
        {"10.0.0.0/8:*", "10.1.2.0/24:80-90"},
        {"10.0.0.0/8:80-90", "10.0.0.0/8:80-89"},
        {"[2001:db8::/32]:443", "[2001:db8:1::]:443"},
        {"[fe80::/10]:1", "[fe80::1%3]:1"},
        {"*:443", "10.1.2.3:443"},
        {"*:443", "[::1]:443"},
        {"*:443", "example.com:443"},
        {"*:*", "*.example.com:*"},
        {"*.example.com:443", "a.b.example.com:443"},
        {"*.example.com:*", "*.a.example.com:443"},
        {"example.com:*", "example.com:443"},
        {"unix:/run/*", "unix:/run/app/x.sock"},
        {"unix:/run/*", "unix:/run/app/*.sock"},
        {"unix:*", "unix:/run/[ab]"},
        {"unix:/a*", "unix:/a*b"},
        {"unix:/a*", "unix:/a?"},
        {"unix:/run/?.sock", "unix:/run/a.sock"},
        {"unix:@*", "unix:@bus"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        expect_covers(pairs[i][0], pairs[i][1], true);
        expect_covers(pairs[i][1], pairs[i][0], false);
    }
}

static void the_same_pattern_covers_itself(void **state)
{
    (void)state;
    static const char *const patterns[] = {"10.1.2.3:443", "10.0.0.0/8:80-90",  "[::1]:1", "example.com:443",
                                           "*:443",        "*.example.com:443", "unix:/a", "unix:/a*[b]",
                                           "unix:@a"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        expect_covers(patterns[i], patterns[i], true);
    expect_covers("EXAMPLE.com.:443", "example.com:https", true);
    expect_covers("[::ffff:10.0.0.1]:1", "10.0.0.1:1", true);
}

static void patterns_that_differ_stand_side_by_side(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"10.0.0.0/8:443", "11.0.0.1:443"},
        {"10.0.0.0/8:443", "10.0.0.1:444"},
        {"10.0.0.0/9:443", "10.128.0.1:443"},
        {"10.0.0.0/8:443-450", "10.0.0.1:440-445"},
        {"0.0.0.0/0:443", "[::1]:443"},
        {"0.0.0.0/0:443", "example.com:443"}, /* a name has addresses that nobody knows here */
        {"10.0.0.1:443", "example.com:443"},
        {"*.example.com:443", "example.com:443"},
        {"*.example.com:443", "badexample.com:443"},
        {"example.com:443", "www.example.com:443"},
        {"a.example.com:443", "*.a.example.com:443"},
        {"*:*", "unix:/a"},
        {"unix:*", "unix:@a"},
        {"unix:/a*", "unix:/b*"},
        {"[fe80::1%2]:1", "[fe80::1%3]:1"},
        {"unix:/a", "unix:/b"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        expect_covers(pairs[i][0], pairs[i][1], false);
        expect_covers(pairs[i][1], pairs[i][0], false);
    }
}

static void a_part_of_a_target_that_is_shadowed_is_told_by_its_pattern(void **state)
{
    (void)state;
    expect_shadow("[a]\nmatch = x:1 10.0.0.0/8:1\n[b]\nmatch = y:1 \\\n 10.0.0.1:1\n", 5,
                  "pattern `10.0.0.1:1` takes nothing: `10.0.0.0/8:1` of `[a]` (line 2) takes all of it first");
    expect_shadow("[a]\nmatch = x:1 \\\n y:1 X:1\n", 3, "pattern `X:1`|`x:1` of the same section (line 2)");
    expect_shadow("[a]\nmatch = x:1\n[b]\nmatch = x:1 10.0.0.1:1\n[c]\nmatch = 10.0.0.1:2\n", 4, "pattern `x:1`");
    /* the narrower before the wider is as it should be */
    expect_no_shadow("[a]\nmatch = 10.0.0.1:1\nmode = off\n[b]\nmatch = 10.0.0.0/8:*\n");
}

static void a_target_that_takes_nothing_is_told_once(void **state)
{
    (void)state;
    expect_shadow("[all]\nmatch = *:*\n[b]\nmatch = x:1 y:2\n  \n", 3,
                  "target `[b]` takes nothing: `*:*` of `[all]` (line 2) comes first, and so on with its other "
                  "patterns; put the narrower target above the wider one");
    expect_shadow("[all]\nmatch = *:*\n[x:1]\n", 3,
                  "target `[x:1]` takes nothing: `*:*` of `[all]` (line 2) comes "
                  "first; put");
    /* of two that take all of it, the first is to blame */
    expect_shadow("[p]\nmatch = x:1\n[q]\nmatch = *:1 z:2\n[r]\nmatch = x:1\n", 5, "`x:1` of `[p]` (line 2)");
    expect_shadow("[q]\nmatch = *:1 z:2\n[r]\nmatch = x:1-2\n[s]\nmatch = x:1\n", 5, "`*:1` of `[q]` (line 2)");
}

static void a_pattern_of_the_command_line_has_no_line(void **state)
{
    (void)state;
    char path[] = "/tmp/sockfuse-order-XXXXXX";
    const char text[] = "[a]\nmatch = 10.0.0.0/8:*\n";
    struct loaded loaded = {0};
    write_temporary(path, text, strlen(text));
    loaded.policy = policy_load_with_patterns(path, (const char *const[]){"10.0.0.1:1", NULL}, NULL, &loaded.problems);
    assert_non_null(loaded.policy);
    policy_check_order(loaded.policy, &loaded.problems);
    expect_problem_of(&loaded, false, 0, "target `[10.0.0.1:1]` takes nothing: `10.0.0.0/8:*` of `[a]` (line 2)");
    unload(&loaded);
    remove(path);
}

static void warnings_stand_in_the_order_of_the_lines(void **state)
{
    (void)state;
    struct loaded loaded;
    load_text(&loaded,
              "[a]\nmatch = *:*\n[b]\nmatch = x:1\n[c]\nmatch = y:1\nprobe_timeout = 1s\n"
              "response_timeout = 2s\n",
              NULL);
    assert_non_null(loaded.policy);
    policy_check_order(loaded.policy, &loaded.problems);
    assert_int_equal(loaded.problems.count, 3);
    for (size_t i = 1; i < 3; i++)
        assert_true(loaded.problems.at[i - 1].line <= loaded.problems.at[i].line);
    unload(&loaded);
}

/* Loose, for sanitizers and busy machines; what it measured is in the message. */
static void ten_thousand_targets_take_milliseconds(void **state)
{
    (void)state;
    enum { TARGETS = 10000 };
    char *text = test_malloc(TARGETS * 32);
    size_t length = 0;
    for (unsigned int i = 0; i < TARGETS; i++)
        length += (size_t)sprintf(text + length, "[host%u.test:443]\n", i);
    struct timespec start, end;
    struct loaded loaded;
    load_text(&loaded, text, NULL);
    assert_non_null(loaded.policy);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    policy_check_order(loaded.policy, &loaded.problems);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    const double ms = (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
    print_message("the order of %d targets: %.1f ms\n", TARGETS, ms);
    assert_int_equal(loaded.problems.count, 0);
    assert_true(ms < 500);
    unload(&loaded);
    test_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_covers_what_takes_no_more_than_itself),
        cmocka_unit_test(the_same_pattern_covers_itself),
        cmocka_unit_test(patterns_that_differ_stand_side_by_side),
        cmocka_unit_test(a_part_of_a_target_that_is_shadowed_is_told_by_its_pattern),
        cmocka_unit_test(a_target_that_takes_nothing_is_told_once),
        cmocka_unit_test(a_pattern_of_the_command_line_has_no_line),
        cmocka_unit_test(warnings_stand_in_the_order_of_the_lines),
        cmocka_unit_test(ten_thousand_targets_take_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
