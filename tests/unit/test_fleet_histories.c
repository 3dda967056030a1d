/*
 * test_fleet_histories.c - random histories of a fleet: whatever happens to hosts, links and Redis, nothing stays stuck,
 * nobody is held beyond the last word, and no single host opens another's circuit. links: agent
 *
 * Seeds are fixed; a failure names its own.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support_fleet.h"

#define HISTORIES 60u
#define HOSTS 6u
#define SECONDS 240u
/* From the last fault: a lease, the longest pause, patience, and a probe. */
#define HEALED_WITHIN (240 * NS_PER_S)

/* Which faults a history has. */
enum faults { OF_SERVICE = 1, OF_CABLES = 2, OF_REDIS = 4, OF_LINKS = 8, OF_AGENTS = 16 };

static void happen(struct fleet_bench *bench, unsigned int faults)
{
    struct fleet_host *host = &bench->hosts[fleet_bench_draw(bench, bench->host_count)];

    switch (fleet_bench_draw(bench, 12)) {
    case 0:
    case 1:
        if (faults & OF_SERVICE)
            bench->service_is_up = !bench->service_is_up;
        break;
    case 2:
        if (faults & OF_CABLES)
            host->cable_is_cut = !host->cable_is_cut;
        break;
    case 3:
        if (faults & OF_REDIS)
            redis_empty(bench->redis);
        break;
    case 4:
        if (faults & OF_REDIS)
            bench->redis_is_down = !bench->redis_is_down;
        break;
    case 5:
        if (faults & OF_REDIS)
            bench->redis->forbids_scripts = !bench->redis->forbids_scripts;
        break;
    case 6:
        if (faults & OF_LINKS)
            host->link_is_cut = !host->link_is_cut;
        break;
    case 7:
        if (faults & OF_LINKS)
            fleet_host_disconnect(host);
        break;
    case 8:
        if (faults & OF_LINKS)
            bench->latency_ns = fleet_bench_draw(bench, 2000) * NS_PER_MS;
        break;
    case 9:
        if (faults & OF_AGENTS)
            host->is_frozen = !host->is_frozen;
        break;
    case 10:
        if ((faults & OF_AGENTS) && host->fleet != NULL)
            fleet_host_kill(host);
        else
            fleet_host_start(host);
        break;
    default:
        host->has_programs = !host->has_programs;
        break;
    }
}

static void all_is_mended(struct fleet_bench *bench)
{
    bench->service_is_up = true;
    bench->redis_is_down = bench->redis->forbids_scripts = false;
    bench->latency_ns = NS_PER_MS;
    for (unsigned int i = 0; i < bench->host_count; i++) {
        struct fleet_host *host = &bench->hosts[i];
        host->cable_is_cut = host->link_is_cut = host->is_frozen = false;
        host->has_programs = true;
        fleet_host_start(host);
    }
}

static void play(uint64_t seed, unsigned int faults)
{
    static struct fleet_bench bench;

    fleet_bench_start(&bench, HOSTS, seed);
    for (unsigned int second = 0; second < SECONDS; second++) {
        if (fleet_bench_draw(&bench, 4) == 0)
            happen(&bench, faults);
        fleet_bench_run(&bench, NS_PER_S);
        if (bench.held_too_long)
            fail_msg("seed %" PRIu64 ", second %u: held beyond the last word", seed, second);
        if (!(faults & (OF_REDIS | OF_LINKS | OF_AGENTS)) && bench.leased_at_once_most > 1)
            fail_msg("seed %" PRIu64 ", second %u: two hosts probe at once", seed, second);
    }
    all_is_mended(&bench);
    const uint64_t end_ns = bench.now_ns + HEALED_WITHIN;
    while (bench.now_ns < end_ns &&
           (fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS || fleet_bench_held(&bench) > 0))
        fleet_bench_run(&bench, NS_PER_S);
    if (fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS || fleet_bench_held(&bench) > 0)
        fail_msg("seed %" PRIu64 ": %u closed, %u held", seed, fleet_bench_in_state(&bench, CIRCUIT_CLOSED),
                 fleet_bench_held(&bench));
    fleet_bench_run(&bench, 30 * NS_PER_S);
    if (fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS || fleet_bench_held(&bench) > 0)
        fail_msg("seed %" PRIu64 ": it does not stay so", seed);
    fleet_bench_end(&bench);
}

static void one_probe_at_a_time_is_made_while_redis_and_links_stand(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        play(seed, OF_SERVICE | OF_CABLES);
}

static void nothing_is_stuck_whatever_happens_to_redis_links_and_agents(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        play(1000 + seed, OF_SERVICE | OF_CABLES | OF_REDIS | OF_LINKS | OF_AGENTS);
}

/* Neither what Redis forgets nor what is lost makes one host two. */
static void one_broken_cable_holds_nobody_whatever_happens_to_redis(void **state)
{
    static struct fleet_bench bench;

    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        fleet_bench_start(&bench, HOSTS, 2000 + seed);
        bench.hosts[2].cable_is_cut = true;
        for (unsigned int second = 0; second < SECONDS; second++) {
            if (fleet_bench_draw(&bench, 4) == 0)
                happen(&bench, OF_REDIS | OF_LINKS | OF_AGENTS);
            fleet_bench_run(&bench, NS_PER_S);
            if (fleet_bench_held(&bench) > 0 || fleet_bench_in_state(&bench, CIRCUIT_CLOSED) < HOSTS - 1)
                fail_msg("seed %" PRIu64 ", second %u: another host's circuit is open", 2000 + seed, second);
        }
        fleet_bench_end(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_probe_at_a_time_is_made_while_redis_and_links_stand),
        cmocka_unit_test(nothing_is_stuck_whatever_happens_to_redis_links_and_agents),
        cmocka_unit_test(one_broken_cable_holds_nobody_whatever_happens_to_redis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
