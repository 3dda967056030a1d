/*
 * test_fleet.c - stories of a fleet: hosts that share what they know of one circuit by a Redis in plain memory. links: agent
 *
 * Each is told by what the service sees and by what each host's programs meet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

static void only_hosts_and_their_names_are_kept_in_redis_while_all_is_well(void **state)
{
    (void)state;
    fleet_bench_run(&bench, 60 * NS_PER_S);
    assert_int_equal(redis_key_count(bench.redis), 1 + 4);
    unsigned long before = bench.redis->executed;
    fleet_bench_run(&bench, 60 * NS_PER_S);
    /* The time and one list, a host and second; every few seconds operators' words, and what is shown. */
    assert_in_range(bench.redis->executed - before, 4 * 2 * 55, 4 * 11 * 61 / 4);
    for (unsigned int i = 0; i < 4; i++)
        fleet_host_kill(&bench.hosts[i]);
    bench.redis->now_ms += 21 * 60 * 1000;
    assert_int_equal(redis_key_count(bench.redis), 0);
}

static void two_hosts_that_open_hold_all_within_two_seconds(void **state)
{
    (void)state;
    bench.hosts[2].has_programs = bench.hosts[3].has_programs = false;
    bench.service_is_up = false;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_OPEN) == 2, 10 * NS_PER_S);
    run_until(fleet_bench_held(&bench) == 4, 2 * NS_PER_S);
    assert_int_equal(fleet_bench_in_state(&bench, CIRCUIT_OPEN), 2);
}

static void one_host_with_a_broken_cable_opens_nobody_elses_circuit(void **state)
{
    (void)state;
    bench.hosts[1].cable_is_cut = true;
    for (unsigned int i = 0; i < 600; i++) {
        fleet_bench_run(&bench, FLEET_TICK_NS);
        assert_int_equal(fleet_bench_held(&bench), 0);
    }
    assert_int_equal(bench.hosts[1].state, CIRCUIT_OPEN);
    assert_int_equal(bench.hosts[0].refused + bench.hosts[2].refused + bench.hosts[3].refused, 0);
}

/* The agent of such a host starts again and again: it is the same host. */
static void nor_does_one_whose_agent_starts_again(void **state)
{
    (void)state;
    bench.hosts[1].cable_is_cut = true;
    for (unsigned int i = 0; i < 60; i++) {
        fleet_host_kill(&bench.hosts[1]);
        fleet_host_start(&bench.hosts[1]);
        fleet_bench_run(&bench, NS_PER_S);
        assert_int_equal(fleet_bench_held(&bench), 0);
    }
}

/* All instances probe at once, elsewhere: here one call a pause goes to the service, and nobody else's before it failed. */
static void one_probe_is_made_by_all_hosts_together(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    uint64_t before = bench.probes, calls = bench.service_calls;
    fleet_bench_run(&bench, 60 * NS_PER_S);
    assert_in_range(bench.probes - before, 2, 3); /* after 10 s, 20 s more, 40 s more */
    assert_int_equal(bench.service_calls - calls, bench.probes - before);
    assert_int_equal(bench.leased_at_once_most, 1);
}

static void the_success_of_one_probe_releases_all(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    uint64_t before = bench.probes;
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 4 && fleet_bench_held(&bench) == 0, 20 * NS_PER_S);
    assert_int_equal(bench.probes - before, 1);
    fleet_bench_run(&bench, 30 * NS_PER_S);
    assert_int_equal(fleet_bench_held(&bench), 0);
    assert_int_equal(redis_members(bench.redis, ":open"), 0);
}

static void a_failed_probe_lengthens_the_pause_of_all(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    uint64_t before = bench.probes;
    run_until(bench.probes == before + 1, 20 * NS_PER_S);
    uint64_t first = bench.now_ns;
    run_until(bench.probes == before + 2, 40 * NS_PER_S);
    uint64_t second = bench.now_ns;
    run_until(bench.probes == before + 3, 60 * NS_PER_S);
    assert_in_range(second - first, 20 * NS_PER_S, 28 * NS_PER_S);
    assert_in_range(bench.now_ns - second, 40 * NS_PER_S, 50 * NS_PER_S);
}

/* Each member restarts the pause for itself, elsewhere, so that it never ends. */
static void a_member_that_opens_later_does_not_begin_the_pause_again(void **state)
{
    (void)state;
    char pause[48];

    bench.hosts[3].has_programs = false;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    snprintf(pause, sizeof pause, "%s", redis_value(bench.redis, "pause:payments\npayments.internal:443"));
    for (unsigned int i = 0; i < 4; i++) {
        fleet_bench_join(&bench);
        fleet_bench_run(&bench, NS_PER_S);
    }
    assert_string_equal(redis_value(bench.redis, "pause:payments\npayments.internal:443"), pause);
}

/* A member that joins resets everybody's state, elsewhere. */
static void a_member_that_joins_changes_nobodys_state(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++) {
        struct fleet_host *host = fleet_bench_join(&bench);
        run_until(fleet_host_is_held(host), 4 * NS_PER_S);
        assert_int_equal(fleet_bench_held(&bench), 5 + i);
    }
}

static void a_host_that_never_called_is_held_before_it_does(void **state)
{
    (void)state;
    bench.hosts[3].has_programs = false;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    bench.hosts[3].has_programs = true;
    uint64_t before = bench.hosts[3].passed;
    fleet_bench_run(&bench, 5 * NS_PER_S);
    assert_int_equal(bench.hosts[3].passed, before);
    assert_true(bench.hosts[3].refused > 0);
}

static void a_host_that_can_not_reach_the_service_lets_others_probe(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    bench.hosts[0].cable_is_cut = true;
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) >= 3 && fleet_bench_held(&bench) == 0, 120 * NS_PER_S);
    fleet_bench_run(&bench, 60 * NS_PER_S);
    assert_int_equal(fleet_bench_in_state(&bench, CIRCUIT_CLOSED), 3);
}

static void holds_end_by_themselves_when_redis_is_gone(void **state)
{
    (void)state;
    bench.hosts[3].has_programs = false;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    bench.redis_is_down = true;
    run_until(fleet_bench_held(&bench) == 0, 6 * NS_PER_S);
    /* Each goes by its own circuit: protected all the same, and back by itself. */
    assert_int_equal(fleet_bench_in_state(&bench, CIRCUIT_OPEN), 3);
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 4, 60 * NS_PER_S);
}

static void a_redis_that_comes_back_empty_is_told_again(void **state)
{
    (void)state;
    bench.hosts[3].has_programs = false;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    uint64_t before = bench.probes;
    redis_empty(bench.redis);
    for (unsigned int i = 0; i < 40; i++) { /* its pause is not over */
        fleet_bench_run(&bench, FLEET_TICK_NS);
        assert_int_equal(bench.probes, before);
    }
    run_until(fleet_bench_held(&bench) == 4, 5 * NS_PER_S);
    bench.redis_is_down = true;
    fleet_bench_run(&bench, NS_PER_S);
    redis_empty(bench.redis);
    bench.redis_is_down = false;
    run_until(fleet_bench_held(&bench) == 4, 8 * NS_PER_S);
}

static void an_emptied_redis_gives_no_second_lease_while_a_probe_is_in_flight(void **state)
{
    (void)state;
    bench.probe_ticks = 1;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    uint64_t before = bench.probes;
    run_until(bench.leased_at_once == 1, 20 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++)
        bench.hosts[i].probe_end_ns += 8 * NS_PER_S; /* it hangs */
    redis_empty(bench.redis);
    fleet_bench_run(&bench, 6 * NS_PER_S);
    assert_int_equal(bench.probes, before + 1);
}

static void the_death_of_the_host_that_probes_frees_the_lease(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    bench.probe_ticks = 1;
    run_until(bench.leased_at_once == 1, 20 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++) {
        if (!bench.hosts[i].probe_is_leased)
            continue;
        fleet_host_kill(&bench.hosts[i]);
        bench.hosts[i].has_programs = false;
        bench.hosts[i].cable_is_cut = true;
    }
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 3 && fleet_bench_held(&bench) == 0, 60 * NS_PER_S);
}

static void where_scripts_are_forbidden_the_lease_ends_by_itself(void **state)
{
    (void)state;
    bench.redis->forbids_scripts = true;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    uint64_t before = bench.probes;
    run_until(bench.probes == before + 2, 60 * NS_PER_S);
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 4 && fleet_bench_held(&bench) == 0, 120 * NS_PER_S);
    assert_int_equal(bench.leased_at_once_most, 1);
}

static void a_replica_that_takes_no_writes_is_told_of_and_holds_nobody(void **state)
{
    (void)state;
    bench.redis->is_replica = true;
    bench.service_is_up = false;
    fleet_bench_run(&bench, 20 * NS_PER_S);
    assert_int_equal(fleet_bench_held(&bench), 0);
    assert_int_equal(fleet_bench_in_state(&bench, CIRCUIT_CLOSED), 0);
    assert_non_null(strstr(fleet_trouble(bench.hosts[0].fleet), "READONLY"));
}

static void a_slow_redis_neither_flaps_nor_delays_anybody(void **state)
{
    (void)state;
    bench.latency_ns = 500 * NS_PER_MS;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 20 * NS_PER_S);
    for (unsigned int i = 0; i < 50; i++) {
        fleet_bench_run(&bench, FLEET_TICK_NS);
        assert_int_equal(fleet_bench_held(&bench), 4);
    }
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 4 && fleet_bench_held(&bench) == 0, 60 * NS_PER_S);
}

static void a_share_is_of_those_that_called_lately(void **state)
{
    (void)state;
    bench.quorum = 0;
    bench.quorum_permille = 600;
    for (unsigned int i = 0; i < 4; i++)
        fleet_bench_join(&bench);
    fleet_bench_run(&bench, 3 * NS_PER_S);
    for (unsigned int i = 0; i < 4; i++)
        bench.hosts[i].cable_is_cut = true; /* half of them */
    for (unsigned int i = 0; i < 300; i++) {
        fleet_bench_run(&bench, FLEET_TICK_NS);
        assert_int_equal(fleet_bench_held(&bench), 0);
    }
    bench.hosts[4].cable_is_cut = true;
    run_until(fleet_bench_held(&bench) == 8, 20 * NS_PER_S);
}

static void a_lease_that_nobody_gives_back_is_waited_for_no_longer_than_patience_lasts(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    redis_put(bench.redis, "sockfuse:1:{/etc/sockfuse/web.policy}:lease:payments\npayments.internal:443", "rubbish");
    bench.service_is_up = true;
    run_until(fleet_bench_in_state(&bench, CIRCUIT_CLOSED) == 4 && fleet_bench_held(&bench) == 0, 200 * NS_PER_S);
}

static void a_host_without_calls_gives_the_lease_back(void **state)
{
    (void)state;
    bench.service_is_up = false;
    run_until(fleet_bench_held(&bench) == 4, 10 * NS_PER_S);
    for (unsigned int i = 0; i < 3; i++)
        bench.hosts[i].calls_every = 100000;
    bench.service_is_up = true;
    run_until(bench.hosts[3].state == CIRCUIT_CLOSED, 60 * NS_PER_S);
    assert_int_equal(bench.leased_at_once_most, 1);
}

int main(void)
{
#define story(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        story(only_hosts_and_their_names_are_kept_in_redis_while_all_is_well),
        story(two_hosts_that_open_hold_all_within_two_seconds),
        story(one_host_with_a_broken_cable_opens_nobody_elses_circuit),
        story(nor_does_one_whose_agent_starts_again),
        story(one_probe_is_made_by_all_hosts_together),
        story(the_success_of_one_probe_releases_all),
        story(a_failed_probe_lengthens_the_pause_of_all),
        story(a_member_that_opens_later_does_not_begin_the_pause_again),
        story(a_member_that_joins_changes_nobodys_state),
        story(a_host_that_never_called_is_held_before_it_does),
        story(a_host_that_can_not_reach_the_service_lets_others_probe),
        story(holds_end_by_themselves_when_redis_is_gone),
        story(a_redis_that_comes_back_empty_is_told_again),
        story(an_emptied_redis_gives_no_second_lease_while_a_probe_is_in_flight),
        story(the_death_of_the_host_that_probes_frees_the_lease),
        story(where_scripts_are_forbidden_the_lease_ends_by_itself),
        story(a_replica_that_takes_no_writes_is_told_of_and_holds_nobody),
        story(a_slow_redis_neither_flaps_nor_delays_anybody),
        story(a_share_is_of_those_that_called_lately),
        story(a_lease_that_nobody_gives_back_is_waited_for_no_longer_than_patience_lasts),
        story(a_host_without_calls_gives_the_lease_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
