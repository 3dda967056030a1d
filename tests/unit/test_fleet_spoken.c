/*
 * test_fleet_spoken.c - operators' words for all hosts of a fleet: who hears of them, when they end, what becomes of them when
 * Redis forgets or is full of rubbish, and when hosts were away. links: agent
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

static const char *say(struct fleet_host *host, uint64_t token, enum forced word, uint64_t for_ns)
{
    const struct fleet_word spoken = {.token = token, .word = word, .user = "alice\x1b\xff as root"};

    return fleet_say_word(host->fleet, "payments", "payments.internal:443", &spoken, for_ns);
}

static struct fleet_word word_at(const struct fleet_host *host)
{
    return fleet_word(host->fleet, host->circuit, bench.now_ns + host->clock_ns);
}

/* How many hosts know that word; those that do obey it. */
static unsigned int known(uint64_t token)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < bench.host_count; i++) {
        struct fleet_host *const host = &bench.hosts[i];
        if (host->fleet == NULL || host->circuit == FLEET_CIRCUIT_NONE || word_at(host).token != token)
            continue;
        fleet_word_obeyed(host->fleet, host->circuit, token);
        count++;
    }
    return count;
}

static void a_word_reaches_all_hosts_and_who_said_it_learns_how_many_obey(void **state)
{
    (void)state;
    for (unsigned int i = 0; i < 4; i++)
        fleet_set_host(bench.hosts[i].fleet, "web-1");
    assert_null(say(&bench.hosts[1], 7, FORCED_OPEN, 0));
    run_until(known(7) == 4, 7 * NS_PER_S);
    run_until(fleet_word_obedience(bench.hosts[1].fleet, 7).obeying == 4, 3 * NS_PER_S);
    assert_int_equal(fleet_word_obedience(bench.hosts[1].fleet, 7).hosts, 4);
    assert_int_equal(word_at(&bench.hosts[3]).word, FORCED_OPEN);
    assert_string_equal(word_at(&bench.hosts[3]).host, "web-1");
    assert_string_equal(word_at(&bench.hosts[3]).user, "alice?? as root");
    /* One that joins, and one that was away. */
    fleet_host_kill(&bench.hosts[0]);
    fleet_host_start(&bench.hosts[0]);
    fleet_bench_join(&bench);
    run_until(known(7) == 5, 12 * NS_PER_S);
}

/* Hosts' clocks have nothing in common; the server's has the end. */
static void a_word_for_a_time_ends_by_itself_on_all_hosts(void **state)
{
    (void)state;
    assert_null(say(&bench.hosts[1], 7, FORCED_CLOSED, 20 * NS_PER_S));
    run_until(known(7) == 4, 7 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++) {
        const uint64_t now_ns = bench.now_ns + bench.hosts[i].clock_ns;
        assert_in_range(word_at(&bench.hosts[i]).end_ns - now_ns, 12 * NS_PER_S, 20 * NS_PER_S);
    }
    fleet_bench_run(&bench, 10 * NS_PER_S);
    assert_int_equal(known(7), 4);
    run_until(known(0) == 4, 12 * NS_PER_S);
    fleet_bench_run(&bench, NS_PER_S);
    assert_null(redis_value(bench.redis, ":word:payments\npayments.internal:443"));
    /* And is said by nobody again. */
    fleet_bench_run(&bench, 30 * NS_PER_S);
    assert_null(redis_value(bench.redis, ":word:payments\npayments.internal:443"));
    assert_int_equal(known(0), 4);
}

static void what_redis_has_lost_is_said_again_but_over_no_other_word(void **state)
{
    (void)state;
    assert_null(say(&bench.hosts[1], 7, FORCED_OPEN, 0));
    run_until(known(7) == 4, 7 * NS_PER_S);
    redis_empty(bench.redis);
    for (unsigned int tick = 0; tick < 120; tick++) {
        fleet_bench_run(&bench, FLEET_TICK_NS);
        assert_int_equal(known(7), 4);
    }
    assert_non_null(redis_value(bench.redis, ":word:payments\npayments.internal:443"));
    /* While one is cut off, the word is taken back. It comes again, and undoes nothing. */
    bench.hosts[3].link_is_cut = true;
    fleet_host_disconnect(&bench.hosts[3]);
    assert_null(say(&bench.hosts[0], 8, FORCED_NONE, 0));
    run_until(known(8) == 3, 7 * NS_PER_S);
    assert_int_equal(known(7), 1);
    bench.hosts[3].link_is_cut = false;
    run_until(known(8) == 4, 10 * NS_PER_S);
}

static void pass(uint64_t for_ns)
{
    bench.now_ns += for_ns;
    bench.redis->now_ms += for_ns / NS_PER_MS;
    fleet_bench_run(&bench, 20 * NS_PER_S);
}

static void a_word_without_an_end_lives_as_long_as_somebody_renews_it(void **state)
{
    (void)state;
    assert_null(say(&bench.hosts[1], 7, FORCED_OPEN, 0));
    run_until(known(7) == 4, 7 * NS_PER_S);
    for (unsigned int i = 0; i < 6; i++)
        pass(11 * NS_PER_HOUR);
    assert_int_equal(known(7), 4);
    for (unsigned int i = 0; i < 4; i++)
        fleet_host_kill(&bench.hosts[i]);
    bench.redis->now_ms += 25 * NS_PER_HOUR / NS_PER_MS;
    assert_int_equal(redis_key_count(bench.redis), 0);
}

/* What ends a word is kept for a day, and by nobody's renewing longer. */
static void who_was_away_when_a_word_was_taken_back_lets_go_when_he_finds_none(void **state)
{
    (void)state;
    assert_null(say(&bench.hosts[1], 8, FORCED_NONE, 0));
    run_until(known(8) == 4, 7 * NS_PER_S);
    pass(23 * NS_PER_HOUR);
    assert_int_equal(known(8), 4);
    pass(2 * NS_PER_HOUR);
    assert_int_equal(known(0), 4);
    assert_int_equal(redis_members(bench.redis, ":words"), 0);
    /* A new agent knows of none at once, and is sure of it later. */
    fleet_host_kill(&bench.hosts[0]);
    fleet_host_start(&bench.hosts[0]);
    struct fleet_host *const host = &bench.hosts[0];
    unsigned int ticks = 0;
    while (host->circuit == FLEET_CIRCUIT_NONE ||
           !fleet_has_no_word(host->fleet, host->circuit, bench.now_ns + host->clock_ns)) {
        fleet_bench_run(&bench, FLEET_TICK_NS);
        assert_true(++ticks < 300);
    }
    assert_true(ticks > 90);
    bench.redis_is_down = true;
    fleet_host_disconnect(host);
    assert_false(fleet_has_no_word(host->fleet, host->circuit, bench.now_ns + host->clock_ns));
}

static void without_a_connection_nothing_is_said(void **state)
{
    (void)state;
    fleet_host_disconnect(&bench.hosts[1]);
    assert_string_equal(say(&bench.hosts[1], 7, FORCED_OPEN, 0), "the fleet's Redis can't be reached");
    fleet_bench_run(&bench, 10 * NS_PER_S);
    for (unsigned int i = 0; i < FLEET_SAYINGS; i++)
        assert_null(say(&bench.hosts[1], 100 + i, FORCED_OPEN, 0));
    assert_string_equal(say(&bench.hosts[1], 7, FORCED_OPEN, 0), "more at a time than can be said");
    run_until(known(100 + FLEET_SAYINGS - 1) == 4, 12 * NS_PER_S); /* the last one stands */
    assert_false(fleet_word_obedience(bench.hosts[1].fleet, 7).is_said);
}

static void rubbish_is_no_word(void **state)
{
    static char long_text[FLEET_WORD_TEXT + 20];
    const char *const values[] = {"",
                                  " ",
                                  "7",
                                  "0123456789abcdef 1 0 o web-1",
                                  "0123456789abcdef 1 0 x web-1 alice",
                                  long_text,
                                  "0123456789abcdef 1 99999999999999999999 o web-1 alice",
                                  "0000000000000000 1 0 o web-1 alice",
                                  "0123456789abcdef 1 0 o web-1 a-user-whose-name-is-longer-than-any",
                                  "0123456789abcdef 1 1 o web-1 alice"};

    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    assert_null(say(&bench.hosts[1], 7, FORCED_OPEN, 0));
    run_until(known(7) == 4, 7 * NS_PER_S);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        redis_put(bench.redis, ":word:payments\npayments.internal:443", values[i]);
        fleet_host_kill(&bench.hosts[2]);
        fleet_host_start(&bench.hosts[2]);
        fleet_bench_run(&bench, 4 * NS_PER_S);
        assert_int_equal(word_at(&bench.hosts[2]).token, 0);
        assert_string_equal(fleet_trouble(bench.hosts[2].fleet), "");
    }
    /* A host without a name that can be shown. */
    redis_put(bench.redis, ":word:payments\npayments.internal:443", "0123456789abcdef 1 0 c \x1b[2J alice");
    fleet_host_kill(&bench.hosts[2]);
    fleet_host_start(&bench.hosts[2]);
    fleet_bench_run(&bench, 4 * NS_PER_S);
    assert_int_equal(word_at(&bench.hosts[2]).word, FORCED_CLOSED);
    assert_string_equal(word_at(&bench.hosts[2]).host, "");
}

int main(void)
{
#define story(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        story(a_word_reaches_all_hosts_and_who_said_it_learns_how_many_obey),
        story(a_word_for_a_time_ends_by_itself_on_all_hosts),
        story(what_redis_has_lost_is_said_again_but_over_no_other_word),
        story(a_word_without_an_end_lives_as_long_as_somebody_renews_it),
        story(who_was_away_when_a_word_was_taken_back_lets_go_when_he_finds_none),
        story(without_a_connection_nothing_is_said),
        story(rubbish_is_no_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
