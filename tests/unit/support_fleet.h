/*
 * support_fleet.h - hosts of a fleet, each with a member, a plain circuit and programs that call, against one Redis in
 * plain memory over links that can be slow, cut or lost.
 *
 * Time goes in steps of a tick. A host's agent can be frozen, killed and started again, its cable cut, its link to Redis
 * cut; the service is up or down for all. What the service sees is counted here and nowhere else.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_FLEET_H
#define SOCKFUSE_TESTS_SUPPORT_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/fleet.h"
#include "base/units.h"
#include "support_redis.h"

#define FLEET_HOSTS 16u
#define FLEET_TICK_NS (100 * NS_PER_MS)
#define FLEET_MESSAGES 512u

struct fleet_message {
    uint64_t at_ns; /* when it comes to the server, or back */
    uint32_t tag;
    struct fleet_command *command; /* on the way there */
    struct fleet_reply *reply;     /* on the way back */
};

struct fleet_host {
    struct fleet *fleet; /* NULL: no agent runs */
    unsigned int number;
    struct fleet_bench *bench;
    uint32_t circuit;
    uint64_t clock_ns; /* added to the bench's time: clocks of hosts have nothing in common */
    bool is_frozen, cable_is_cut, link_is_cut, is_connected;
    bool has_programs;
    unsigned int calls_every; /* ticks */
    /* The link. */
    struct fleet_message messages[FLEET_MESSAGES];
    unsigned int first, count;
    uint64_t connect_at_ns, last_reply_ns;
    /* What becomes of its agent when so many commands more have left: 0: nothing. */
    unsigned int ends_after;
    enum fleet_end { FLEET_END_KILLED, FLEET_END_FROZEN } end;
    bool is_doomed, ends_with_lease; /* also: as soon as it has heard that it has the lease, before it does anything */
    uint64_t frozen_until_ns;        /* by that */
    /* The circuit. */
    enum circuit_state state;
    uint64_t since_ns, pause_end_ns, probe_end_ns, openings, calls;
    unsigned int failures, step;
    bool probe_is_leased;
    uint64_t held_until_ns;
    uint64_t passed, refused, closed_by_fleet;
    unsigned int leased_probes;
};

struct fleet_bench {
    uint64_t now_ns;
    unsigned int ticks;
    struct redis *redis;
    bool service_is_up, redis_is_down;
    uint64_t latency_ns; /* one way; a link's messages stay in order */
    uint64_t random;
    unsigned int quorum, quorum_permille;
    unsigned int probe_ticks;
    struct fleet_host hosts[FLEET_HOSTS];
    unsigned int host_count;
    /* What the service and the fleet saw. */
    uint64_t service_calls, probes;
    unsigned int leased_at_once, leased_at_once_most;
    bool held_too_long;        /* beyond the last word */
    bool probed_without_lease; /* an agent let its host probe by a lease that is not its own */
};

void fleet_bench_start(struct fleet_bench *bench, unsigned int hosts, uint64_t seed);
void fleet_bench_end(struct fleet_bench *bench);
struct fleet_host *fleet_bench_join(struct fleet_bench *bench);
void fleet_bench_run(struct fleet_bench *bench, uint64_t for_ns);

void fleet_host_kill(struct fleet_host *host);
void fleet_host_start(struct fleet_host *host);
/* The link is gone with all that was on it; it comes again unless it is cut. */
void fleet_host_disconnect(struct fleet_host *host);

static inline bool fleet_host_is_held(const struct fleet_host *host)
{
    return host->held_until_ns > host->bench->now_ns;
}

static inline unsigned int fleet_bench_held(const struct fleet_bench *bench)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < bench->host_count; i++)
        count += fleet_host_is_held(&bench->hosts[i]);
    return count;
}

static inline unsigned int fleet_bench_in_state(const struct fleet_bench *bench, enum circuit_state state)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < bench->host_count; i++)
        count += bench->hosts[i].state == state;
    return count;
}

uint64_t fleet_bench_draw(struct fleet_bench *bench, uint64_t below);

/* Runs until it is so, for `most` at the longest. For tests, which have cmocka and stdio. */
#define fleet_run_until(bench, condition, most)                                                                        \
    do {                                                                                                               \
        const uint64_t until_ns = (bench)->now_ns + (most);                                                            \
        while (!(condition) && (bench)->now_ns < until_ns)                                                             \
            fleet_bench_run((bench), FLEET_TICK_NS);                                                                   \
        if (!(condition))                                                                                              \
            fail_msg("not within %d s: %s", (int)((most) / NS_PER_S), #condition);                                     \
    } while (0)

#endif
