/*
 * test_fleet_deaths.c - an agent that ends or is stopped after each single command that it sends, in the whole story of an
 * outage: voting, opening, a probe that fails, one that succeeds, healing. links: agent
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support_fleet.h"

#define HOSTS 4u
#define DOWN_NS (25 * NS_PER_S)
/* A lease, the longest pause by then, patience, and a probe. */
#define HEALED_WITHIN (200 * NS_PER_S)
/* Far more than a host sends in a story. */
#define STEPS_MAX 1000u

static struct fleet_bench bench;

static void check(unsigned int victim, unsigned int step)
{
    if (bench.held_too_long)
        fail_msg("host %u, after command %u: somebody is held beyond the last word", victim, step);
    if (bench.leased_at_once_most > 1)
        fail_msg("host %u, after command %u: two hosts probe at once", victim, step);
    if (bench.probed_without_lease)
        fail_msg("host %u, after command %u: a host probes by a lease that it has no more", victim, step);
}

/* False: the story was over before. */
static bool play(unsigned int victim, unsigned int step, enum fleet_end end, bool starts_again)
{
    struct fleet_host *host = &bench.hosts[victim];

    fleet_bench_start(&bench, HOSTS, 1 + victim);
    fleet_bench_run(&bench, 3 * NS_PER_S);
    host->ends_after = step;
    host->end = end;
    bench.service_is_up = false;
    const uint64_t up_ns = bench.now_ns + DOWN_NS, over_ns = up_ns + HEALED_WITHIN;
    while (bench.now_ns < over_ns && (bench.now_ns < up_ns || fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS ||
                                      fleet_bench_held(&bench) > 0)) {
        bench.service_is_up = bench.now_ns >= up_ns;
        fleet_bench_run(&bench, FLEET_TICK_NS);
        if (host->fleet == NULL && starts_again)
            fleet_host_start(host);
        check(victim, step);
    }
    if (fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS || fleet_bench_held(&bench) > 0)
        fail_msg("host %u, after command %u: %u closed, %u held", victim, step,
                 fleet_bench_in_state(&bench, CIRCUIT_CLOSED), fleet_bench_held(&bench));
    const bool has_ended = host->ends_after == 0;
    fleet_bench_run(&bench, 30 * NS_PER_S);
    check(victim, step);
    if (fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS || fleet_bench_held(&bench) > 0)
        fail_msg("host %u, after command %u: it does not stay closed", victim, step);
    fleet_bench_end(&bench);
    return has_ended;
}

/* Each host has its turn; where only every so many steps are played, the hosts share them. */
static void at_steps(unsigned int every, enum fleet_end end, bool starts_again)
{
    for (unsigned int victim = 0; victim < HOSTS; victim++) {
        unsigned int step = 1 + victim % every;
        while (step < STEPS_MAX && play(victim, step, end, starts_again))
            step += every;
        assert_in_range(step, 50, STEPS_MAX - 1);
    }
}

static void an_agent_killed_at_any_step_leaves_nothing_stuck_and_no_second_probe(void **state)
{
    (void)state;
    at_steps(1, FLEET_END_KILLED, false);
}

static void nor_does_one_that_is_started_again_at_once(void **state)
{
    (void)state;
    at_steps(4, FLEET_END_KILLED, true);
}

/* For longer than its lease: what it then finds in its memory, and in answers that waited for it, is long over. */
static void nor_does_one_that_was_stopped_and_goes_on(void **state)
{
    (void)state;
    at_steps(2, FLEET_END_FROZEN, false);
}

/* Stopped when it had heard of its lease, and had not yet done what follows of it. */
static void a_lease_that_was_slept_through_lets_nobody_probe(void **state)
{
    (void)state;
    fleet_bench_start(&bench, HOSTS, 1);
    fleet_bench_run(&bench, 3 * NS_PER_S);
    for (unsigned int i = 0; i < HOSTS; i++) {
        bench.hosts[i].ends_with_lease = true;
        bench.hosts[i].end = FLEET_END_FROZEN;
    }
    bench.service_is_up = false;
    while (fleet_bench_held(&bench) < HOSTS)
        fleet_bench_run(&bench, FLEET_TICK_NS);
    for (unsigned int i = 0; i < HOSTS; i++)
        bench.hosts[i].pause_end_ns += 60 * NS_PER_S; /* of its own: so that it is the lease that ends it */
    for (unsigned int i = 0; i < 1200; i++) {
        fleet_bench_run(&bench, FLEET_TICK_NS);
        check(HOSTS, i);
    }
    bench.service_is_up = true;
    for (unsigned int i = 0; i < 1200; i++)
        fleet_bench_run(&bench, FLEET_TICK_NS);
    assert_int_equal(fleet_bench_in_state(&bench, CIRCUIT_CLOSED), HOSTS);
    fleet_bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_killed_at_any_step_leaves_nothing_stuck_and_no_second_probe),
        cmocka_unit_test(nor_does_one_that_is_started_again_at_once),
        cmocka_unit_test(nor_does_one_that_was_stopped_and_goes_on),
        cmocka_unit_test(a_lease_that_was_slept_through_lets_nobody_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
