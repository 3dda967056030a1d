/*
 * test_policy_capacity.c - `capacity` and `journal`: what they take, where they may stand, and what they come to.
 */
#include "support_policy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "policy/keys.h"

static struct capacity capacity_of(const char *defaults, const char *const *options)
{
    char text[512];
    struct loaded loaded;
    snprintf(text, sizeof text, "[defaults]\n%s\n[a:1]\n[b:2]\n", defaults);
    load_text(&loaded, text, options);
    if (loaded.policy == NULL)
        fail_msg("%s: %s", text, loaded.problems.at[0].text);
    const struct capacity capacity = loaded.policy->capacity;
    policy_problems_free(&loaded.problems);
    policy_free(loaded.policy);
    return capacity;
}

static void assert_capacity(struct capacity is, uint32_t circuits, uint32_t calls, uint32_t processes, uint32_t events)
{
    assert_int_equal(is.circuits, circuits);
    assert_int_equal(is.calls, calls);
    assert_int_equal(is.processes, processes);
    assert_int_equal(is.events, events);
}

static void what_is_not_named_is_built_in(void **state)
{
    (void)state;
    assert_capacity(capacity_of("", NULL), 256, 8192, 1024, 2048);
    assert_capacity(capacity_of("capacity = 1000 circuits", NULL), 1000, 8192, 1024, 2048);
    assert_capacity(capacity_of("capacity = 1 process\njournal = 1 event", NULL), 256, 8192, 1, 1);
    assert_capacity(capacity_of("capacity = 3 processes, 7 connections  5 circuits\njournal = 77 events", NULL), 5, 7,
                    3, 77);
    assert_capacity(capacity_of("journal = 262144 events\n"
                                "capacity = 16384 circuits 262144 connections 4000 processes",
                                NULL),
                    16384, 262144, 4000, 262144);
}

static void an_option_wins_over_the_file(void **state)
{
    (void)state;
    static const char *const options[] = {"capacity=9 circuits", NULL}, *const journal[] = {"journal=5 events", NULL};
    assert_capacity(capacity_of("capacity = 100 processes\njournal = 10 events", options), 9, 8192, 1024, 10);
    assert_capacity(capacity_of("capacity = 100 processes\njournal = 10 events", journal), 256, 8192, 100, 5);
}

static void bad_values_say_what_is_expected(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"capacity = 256", "of what are there 256?"},
        {"capacity = circuits", "`circuits` is no number"},
        {"capacity = 256 circuts", "did you mean `circuits`"},
        {"capacity = 256 sockets", "`sockets` is not known"},
        {"capacity = 256 circuits 8192", "of what are there 8192?"},
        {"capacity = 1 circuit 2 circuits", "`circuits` again"},
        {"capacity = 0 circuits", "from 1 to 16384 circuits"},
        {"capacity = 16385 circuits", "from 1 to 16384 circuits"},
        {"capacity = 262145 connections", "from 1 to 262144 connections"},
        {"capacity = 4001 processes", "from 1 to 4000 processes"},
        {"capacity = 99999999999 processes", "expected from 1 to 4000 processes"},
        {"capacity = -1 processes", "`-1` is no number"},
        {"capacity = ,", "expected numbers of circuits"},
        {"journal = 2048", "Write `2048 events`"},
        {"journal = 0 events", "from 1 to 262144 events"},
        {"journal = 262145 events", "from 1 to 262144 events"},
        {"journal = 1.5 events", "from 1 to 262144 events"},
        {"journal = many", "a number of events such as"},
        {"journal = 5 calls", "a number of events such as"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "[defaults]\n%s\n[a:1]\n", bad[i][0]);
        expect_error(text, 2, bad[i][1]);
    }
}

static void a_section_can_have_neither(void **state)
{
    (void)state;
    expect_error("[a:1]\ncapacity = 9 circuits\n", 2, "`capacity` can stand in `[defaults]` alone");
    expect_error("[a:1]\nmode = open\njournal = 9 events\n", 3, "`journal` can stand in `[defaults]` alone");
}

static void more_connections_than_there_is_room_for_are_worth_a_warning(void **state)
{
    (void)state;
    expect_warning("[defaults]\ncapacity = 40 connections\n[a:1]\nmax_connections = 41\n[b:1]\n"
                   "max_connections = 40\n",
                   4, "pass unguarded");
}

/* It decides over the file's size alone: a file that gets another one keeps its circuits. */
static void it_is_no_part_of_the_identity(void **state)
{
    (void)state;
    char path[] = "/tmp/sockfuse-capacity-XXXXXX";
    static const char text[] = "[defaults]\ncapacity = 9 circuits\n[a:1]\n";
    struct policy_problems problems;
    write_temporary(path, text, strlen(text));
    struct policy *policy = policy_load(path, NULL, &problems);
    assert_non_null(policy);
    assert_string_equal(policy->identity, path);
    assert_int_equal(policy->capacity.circuits, 9);
    policy_problems_free(&problems);
    policy_free(policy);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_named_is_built_in),
        cmocka_unit_test(an_option_wins_over_the_file),
        cmocka_unit_test(bad_values_say_what_is_expected),
        cmocka_unit_test(a_section_can_have_neither),
        cmocka_unit_test(more_connections_than_there_is_room_for_are_worth_a_warning),
        cmocka_unit_test(it_is_no_part_of_the_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
