/*
 * test_fleet_others.c - what others do to a host of a fleet: hosts that write rubbish or much of it, votes of many, a Redis that
 * comes and goes. links: agent
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/fleet_model.h"
#include "support_fleet.h"

static struct fleet_bench bench;

#define run_until(condition, most) fleet_run_until(&bench, condition, most)

static int setup(void **state)
{
    (void)state;
    fleet_bench_start(&bench, 4, 1);
    fleet_bench_run(&bench, 3 * NS_PER_S);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fleet_bench_end(&bench);
    return 0;
}

/* As another host that may write there, and means no good. */
static void say(const char *const *words, unsigned int count)
{
    size_t lengths[8];

    for (unsigned int i = 0; i < count; i++)
        lengths[i] = strlen(words[i]);
    redis_do(bench.redis, &(struct fleet_command){.count = count, .words = words, .lengths = lengths});
}

static void names_that_others_list_leave_room_for_this_hosts_own(void **state)
{
    char name[64], score[32];
    const char *const add[] = {"ZADD", "sockfuse:1:{/etc/sockfuse/web.policy}:open", score, name};
    const char *const forget[] = {"DEL", add[1]};

    (void)state;
    for (unsigned int second = 0; second < 20; second++) {
        say(forget, 2);
        for (unsigned int i = 0; i < 60; i++) {
            snprintf(name, sizeof name, "payments\n%u.example:%u", second, i + 1);
            snprintf(score, sizeof score, "%llu", (unsigned long long)bench.redis->now_ms + 5000);
            say(add, 4);
        }
        fleet_bench_run(&bench, NS_PER_S);
    }
    for (unsigned int i = 0; i < FLEET_CIRCUITS / 2 - 1; i++) {
        snprintf(name, sizeof name, "own-%u.example:1", i);
        assert_int_not_equal(fleet_circuit(bench.hosts[0].fleet, "payments", name), FLEET_CIRCUIT_NONE);
    }
}

/* What is no name of a circuit, of no target, too long, or has no end that can be meant. */
static void rubbish_in_redis_is_passed_over(void **state)
{
    static char huge[590];
    const char *const names[] = {
        "", "\n", "payments", "payments\n", "\npayments.internal:443", huge, "\x1b[2J\n\xff:1"};
    const char *add[] = {"ZADD", "sockfuse:1:{/etc/sockfuse/web.policy}:open", "", ""};
    char score[32];

    (void)state;
    memset(huge, 'a', sizeof huge - 1);
    huge[300] = '\n';
    for (unsigned int second = 0; second < 10; second++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(score, sizeof score, "%llu", (unsigned long long)bench.redis->now_ms + 5000);
            add[2] = score;
            add[3] = names[i];
            say(add, 4);
        }
        fleet_bench_run(&bench, NS_PER_S);
        assert_int_equal(fleet_bench_held(&bench), 0);
        assert_string_equal(fleet_trouble(bench.hosts[0].fleet), "");
    }
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 20 * NS_PER_S);
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 4 && fleet_bench_held(&bench) == 0, 60 * NS_PER_S);
}

/* Others keep one counter that whoever writes last sets. */
/* Its calls were over before the agent first looked, and its own pause is over. */
static void a_circuit_that_was_open_when_it_was_first_seen_counts_as_called_then(void **state)
{
    (void)state;
    bench.service_is_up = false;
    for (unsigned int i = 0; i < 4; i++)
        fleet_host_kill(&bench.hosts[i]);
    run_until(fleet_bench_in_state(&bench, CIRCUIT_OPEN) == 4, 10 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++)
        bench.hosts[i].has_programs = false;
    fleet_bench_run(&bench, 20 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++)
        fleet_host_start(&bench.hosts[i]);
    for (unsigned int i = 0; i < 4; i++)
        bench.hosts[i].circuit = fleet_circuit(bench.hosts[i].fleet, "payments", "payments.internal:443");
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
}

static void votes_of_all_hosts_count_and_not_the_last_writers(void **state)
{
    (void)state;
    bench.quorum = 4;
    for (unsigned int i = 0; i < 3; i++) {
        bench.hosts[i].cable_is_cut = true;
        run_until(redis_members(bench.redis, ":votes:payments\npayments.internal:443") == i + 1, 20 * NS_PER_S);
        for (unsigned int tick = 0; tick < 50; tick++) {
            fleet_bench_run(&bench, FLEET_TICK_NS);
            assert_int_equal(fleet_bench_held(&bench), 0);
        }
    }
    bench.hosts[3].cable_is_cut = true;
    run_until(fleet_bench_held(&bench) == 4, 20 * NS_PER_S);
}

static void a_redis_that_comes_and_goes_makes_no_circuit_flap(void **state)
{
    uint64_t openings[4];

    (void)state;
    for (unsigned int i = 0; i < 4; i++)
        openings[i] = bench.hosts[i].openings;
    for (unsigned int i = 0; i < 40; i++) {
        bench.redis_is_down = i % 2 == 0;
        if (i % 8 == 4)
            redis_empty(bench.redis);
        fleet_bench_run(&bench, NS_PER_S + fleet_bench_draw(&bench, 3 * NS_PER_S));
        assert_int_equal(fleet_bench_held(&bench), 0);
    }
    for (unsigned int i = 0; i < 4; i++)
        assert_int_equal(bench.hosts[i].openings, openings[i]);
    assert_int_equal(bench.hosts[0].refused + bench.hosts[1].refused + bench.hosts[2].refused + bench.hosts[3].refused,
                     0);
}

/* For who looks alone: by turns, so that it costs the same however many circuits others have open. */
static void who_has_a_circuit_open_is_asked_of_a_few_a_second(void **state)
{
    struct fleet *const fleet = bench.hosts[0].fleet;
    uint32_t numbers[60];
    char name[64], score[32];
    const char *const add[] = {"ZADD", "sockfuse:1:{/etc/sockfuse/web.policy}:open", score, name};
    unsigned int seen = 0;

    (void)state;
    for (unsigned int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "%u.example:1", i);
        numbers[i] = fleet_circuit(fleet, "payments", name);
    }
    for (unsigned int second = 0; second < 12; second++) {
        const uint64_t before = fleet->commands;
        for (unsigned int i = 0; i < 60; i++) {
            snprintf(name, sizeof name, "payments\n%u.example:1", i);
            snprintf(score, sizeof score, "%llu", (unsigned long long)bench.redis->now_ms + 5000);
            say(add, 4);
        }
        fleet_nudge(fleet);
        fleet_bench_run(&bench, NS_PER_S);
        /* Voters and their number; time, lists, four MGET for sixteen circuits each, twice; that it is there; names. */
        assert_in_range(fleet->commands - before, 2, 2 * FLEET_SHOWN_A_SECOND + 2 * 7 + 6);
    }
    for (unsigned int i = 0; i < 60; i++)
        seen += fleet_view(fleet, numbers[i], bench.now_ns + bench.hosts[0].clock_ns).seen_ns != 0;
    assert_int_equal(seen, 60);
}

int main(void)
{
#define story(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        story(names_that_others_list_leave_room_for_this_hosts_own),
        story(rubbish_in_redis_is_passed_over),
        story(a_circuit_that_was_open_when_it_was_first_seen_counts_as_called_then),
        story(votes_of_all_hosts_count_and_not_the_last_writers),
        story(who_has_a_circuit_open_is_asked_of_a_few_a_second),
        story(a_redis_that_comes_and_goes_makes_no_circuit_flap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
