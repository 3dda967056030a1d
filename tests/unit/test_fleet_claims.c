/*
 * test_fleet_claims.c - which host of a fleet tells of what all see. links: agent
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support_fleet.h"

static struct fleet_bench bench;

struct told {
    unsigned int times;
    enum fleet_claim claim;
    char word[100];
};
static struct told told[FLEET_HOSTS];

static int setup(void **state)
{
    (void)state;
    memset(told, 0, sizeof told);
    fleet_bench_start(&bench, 4, 1);
    fleet_set_host(bench.hosts[0].fleet, "a");
    fleet_set_host(bench.hosts[1].fleet, "b b\n");
    fleet_bench_run(&bench, 3 * NS_PER_S);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fleet_bench_end(&bench);
    return 0;
}

static void take(void *context, const struct fleet_claimed *claimed)
{
    struct told *of = context;

    of->times++;
    of->claim = claimed->claim;
    snprintf(of->word, sizeof of->word, "%s", claimed->word);
}

static enum fleet_claim claim_for(unsigned int host, const char *event, uint64_t lasts_ns)
{
    told[host].times = 0;
    fleet_claim(bench.hosts[host].fleet, "payments", "payments.internal:443", event, lasts_ns, take, &told[host]);
    fleet_bench_run(&bench, 2 * NS_PER_S);
    assert_int_equal(told[host].times, 1);
    return told[host].claim;
}

static void one_of_those_that_ask_at_once_tells(void **state)
{
    unsigned int mine = 0;

    (void)state;
    bench.service_is_up = false;
    for (unsigned int i = 0; i < 4; i++)
        fleet_claim(bench.hosts[i].fleet, "payments", "payments.internal:443", "open", NS_PER_S, take, &told[i]);
    fleet_bench_run(&bench, 2 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++) {
        assert_int_equal(told[i].times, 1);
        mine += told[i].claim == CLAIM_MINE;
        assert_int_not_equal(told[i].claim, CLAIM_ALONE);
    }
    assert_int_equal(mine, 1);
}

static void the_others_know_who_does_by_a_plain_name(void **state)
{
    (void)state;
    assert_int_equal(claim_for(1, "flapping", NS_PER_MINUTE), CLAIM_MINE);
    assert_int_equal(claim_for(0, "flapping", NS_PER_MINUTE), CLAIM_OTHERS);
    assert_string_equal(told[0].word, "b?b?");
    /* Another matter, and one that is over. */
    assert_int_equal(claim_for(0, "overdue", NS_PER_S), CLAIM_MINE);
    fleet_bench_run(&bench, NS_PER_MINUTE);
    assert_int_equal(claim_for(2, "flapping", NS_PER_MINUTE), CLAIM_MINE);
}

static void an_outage_is_told_of_once_however_long_it_is_and_the_next_one_again(void **state)
{
    (void)state;
    bench.service_is_up = false;
    fleet_bench_run(&bench, 5 * NS_PER_S);
    assert_int_equal(fleet_bench_held(&bench), 4);
    assert_int_equal(claim_for(0, "open", NS_PER_S), CLAIM_MINE);
    assert_int_equal(claim_for(1, "open", NS_PER_S), CLAIM_OTHERS);
    fleet_bench_run(&bench, 10 * NS_PER_MINUTE);
    assert_int_equal(claim_for(2, "open", NS_PER_S), CLAIM_OTHERS);
    bench.service_is_up = true;
    fleet_bench_run(&bench, 2 * NS_PER_MINUTE);
    assert_int_equal(fleet_bench_in_state(&bench, CIRCUIT_CLOSED), 4);
    assert_int_equal(claim_for(3, "close", NS_PER_MINUTE), CLAIM_MINE);
    assert_int_equal(claim_for(2, "close", NS_PER_MINUTE), CLAIM_OTHERS);
    /* A second one within a minute, opening and closing. */
    bench.service_is_up = false;
    fleet_bench_run(&bench, 5 * NS_PER_S);
    assert_int_equal(claim_for(1, "open", NS_PER_S), CLAIM_MINE);
    assert_int_equal(claim_for(0, "close", NS_PER_MINUTE), CLAIM_MINE);
}

static void a_broken_cable_silences_nobody_for_longer_than_a_minute(void **state)
{
    (void)state;
    bench.hosts[1].cable_is_cut = true;
    fleet_bench_run(&bench, 5 * NS_PER_S);
    assert_int_equal(claim_for(1, "open", NS_PER_S), CLAIM_MINE);
    fleet_bench_run(&bench, NS_PER_MINUTE);
    bench.service_is_up = false;
    fleet_bench_run(&bench, 5 * NS_PER_S);
    assert_int_equal(claim_for(0, "open", NS_PER_S), CLAIM_MINE);
}

static void where_redis_is_gone_each_tells_for_itself_and_knows_why(void **state)
{
    (void)state;
    bench.redis_is_down = true;
    fleet_claim(bench.hosts[0].fleet, "payments", "payments.internal:443", "open", NS_PER_S, take, &told[0]);
    assert_int_equal(told[0].times, 0);
    fleet_bench_run(&bench, 10 * NS_PER_S);
    assert_int_equal(told[0].times, 1);
    assert_int_equal(told[0].claim, CLAIM_ALONE);
    assert_non_null(strstr(told[0].word, "broke"));
    assert_int_equal(claim_for(0, "open", NS_PER_S), CLAIM_ALONE);
    assert_true(told[0].word[0] != '\0');
}

static void each_claim_is_answered_when_too_many_ask_and_when_the_agent_ends(void **state)
{
    (void)state;
    for (unsigned int i = 0; i < 100; i++)
        fleet_claim(bench.hosts[0].fleet, "payments", "payments.internal:443", "open", NS_PER_S, take, &told[0]);
    fleet_host_kill(&bench.hosts[0]);
    assert_int_equal(told[0].times, 100);
    assert_int_equal(told[0].claim, CLAIM_ALONE);
}

/* What an enemy wrote there is nobody's claim, and never shown. */
static void a_claim_that_is_none_does_not_silence(void **state)
{
    (void)state;
    assert_int_equal(claim_for(0, "flapping", NS_PER_MINUTE), CLAIM_MINE);
    redis_put(bench.redis, "alert:flapping:payments\npayments.internal:443", "\033[2J");
    assert_int_equal(claim_for(1, "flapping", NS_PER_MINUTE), CLAIM_ALONE);
    redis_put(bench.redis, "alert:flapping:payments\npayments.internal:443", "0123456789abcdef \033[2J");
    assert_int_equal(claim_for(1, "flapping", NS_PER_MINUTE), CLAIM_OTHERS);
    assert_string_equal(told[1].word, "");
}

#define claims(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        claims(one_of_those_that_ask_at_once_tells),
        claims(the_others_know_who_does_by_a_plain_name),
        claims(an_outage_is_told_of_once_however_long_it_is_and_the_next_one_again),
        claims(a_broken_cable_silences_nobody_for_longer_than_a_minute),
        claims(where_redis_is_gone_each_tells_for_itself_and_knows_why),
        claims(each_claim_is_answered_when_too_many_ask_and_when_the_agent_ends),
        claims(a_claim_that_is_none_does_not_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
