/*
 * support_fleet.c - hosts of a fleet. See support_fleet.h.
 */
#include "support_fleet.h"

#include <stdlib.h>
#include <string.h>

#include "agent/fleet_model.h"
#include "base/hash.h"

#define THRESHOLD 3u
#define PAUSE_NS (10 * NS_PER_S)
#define PAUSE_MAX_NS (60 * NS_PER_S)
#define PROBE_TIMEOUT_NS (10 * NS_PER_S)
/* What the header of src/agent/fleet.h promises. */
#define HOLD_NS (5 * NS_PER_S)
/* Longer than a lease. */
#define FLEET_FROZEN_NS (25 * NS_PER_S)

uint64_t fleet_bench_draw(struct fleet_bench *bench, uint64_t below)
{
    return hash_spread(bench->random += HASH_STEP) % below;
}

static uint64_t host_now(const struct fleet_host *host)
{
    return host->bench->now_ns + host->clock_ns;
}

/* --- the link --- */

static struct fleet_message *message_at(struct fleet_host *host, unsigned int i)
{
    return &host->messages[(host->first + i) % FLEET_MESSAGES];
}

static struct fleet_command *command_keep(const struct fleet_command *command)
{
    const char **words = calloc(command->count, sizeof *words);
    size_t *lengths = calloc(command->count, sizeof *lengths);
    struct fleet_command *kept = malloc(sizeof *kept);

    if (words == NULL || lengths == NULL || kept == NULL)
        abort();
    for (unsigned int i = 0; i < command->count; i++) {
        words[i] = strndup(command->words[i], command->lengths[i]);
        lengths[i] = command->lengths[i];
    }
    *kept = (struct fleet_command){command->tag, command->count, words, lengths};
    return kept;
}

static void command_drop(struct fleet_command *command)
{
    for (unsigned int i = 0; i < command->count; i++)
        free((char *)(uintptr_t)command->words[i]);
    free((void *)(uintptr_t)command->words);
    free((void *)(uintptr_t)command->lengths);
    free(command);
}

static void message_drop(struct fleet_message *message)
{
    if (message->command != NULL)
        command_drop(message->command);
    if (message->reply != NULL)
        redis_drop(message->reply);
    memset(message, 0, sizeof *message);
}

static void send_command(void *context, const struct fleet_command *command)
{
    struct fleet_host *host = context;

    if (host->is_doomed && host->end == FLEET_END_KILLED)
        return;
    if (host->count == FLEET_MESSAGES)
        abort();
    struct fleet_message *message = message_at(host, host->count++);
    *message = (struct fleet_message){
        .at_ns = host->bench->now_ns + host->bench->latency_ns,
        .tag = command->tag,
        .command = command_keep(command),
    };
    /* Stopped within a round: what it would have sent leaves when it goes on. */
    if (host->is_doomed)
        message->at_ns = host->bench->now_ns + FLEET_FROZEN_NS;
    else if (host->ends_after > 0 && --host->ends_after == 0)
        host->is_doomed = true;
}

void fleet_host_disconnect(struct fleet_host *host)
{
    while (host->count > 0) {
        message_drop(message_at(host, 0));
        host->first++;
        host->count--;
    }
    if (host->is_connected && host->fleet != NULL)
        fleet_broken(host->fleet);
    host->is_connected = false;
    host->connect_at_ns = host->bench->now_ns + NS_PER_S + fleet_bench_draw(host->bench, NS_PER_S);
}

/* Commands that come to the server, in order; and replies that come back, in order. */
static void link_run(struct fleet_host *host)
{
    struct fleet_bench *bench = host->bench;

    if (host->link_is_cut || bench->redis_is_down)
        return;
    for (unsigned int i = 0; i < host->count; i++) {
        struct fleet_message *message = message_at(host, i);
        if (message->command == NULL)
            continue;
        if (message->at_ns > bench->now_ns)
            break;
        const struct fleet_reply reply = redis_do(bench->redis, message->command);
        message->reply = redis_keep(&reply);
        command_drop(message->command);
        message->command = NULL;
        message->at_ns = bench->now_ns + bench->latency_ns;
    }
    if (host->is_frozen || host->is_doomed)
        return;
    while (host->count > 0 && message_at(host, 0)->reply != NULL && message_at(host, 0)->at_ns <= bench->now_ns) {
        struct fleet_message message = *message_at(host, 0);
        memset(message_at(host, 0), 0, sizeof message);
        host->first++;
        host->count--;
        host->last_reply_ns = bench->now_ns;
        if (host->fleet != NULL)
            fleet_answer(host->fleet, message.tag, message.reply, host_now(host));
        message_drop(&message);
    }
}

/* --- the circuit --- */

static void circuit_opens(struct fleet_host *host)
{
    uint64_t pause_ns = PAUSE_NS << (host->step < 4 ? host->step : 4);

    host->state = CIRCUIT_OPEN;
    host->openings++;
    host->failures = 0;
    host->since_ns = host->bench->now_ns;
    host->pause_end_ns = host->bench->now_ns + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
}

static void circuit_closes(struct fleet_host *host)
{
    host->state = CIRCUIT_CLOSED;
    host->failures = host->step = 0;
    host->since_ns = host->bench->now_ns;
}

static bool reaches_service(const struct fleet_host *host)
{
    return host->bench->service_is_up && !host->cable_is_cut;
}

static void probe_begins(struct fleet_host *host)
{
    struct fleet_bench *bench = host->bench;

    host->state = CIRCUIT_HALF_OPEN;
    host->since_ns = bench->now_ns;
    host->probe_end_ns = bench->now_ns + (1 + fleet_bench_draw(bench, bench->probe_ticks)) * FLEET_TICK_NS;
    host->probe_is_leased = host->fleet != NULL && fleet_view(host->fleet, host->circuit, host_now(host)).probes;
    bench->probes++;
    bench->service_calls += !host->cable_is_cut;
    if (!host->probe_is_leased)
        return;
    host->leased_probes++;
    if (++bench->leased_at_once > bench->leased_at_once_most)
        bench->leased_at_once_most = bench->leased_at_once;
}

static void probe_ends(struct fleet_host *host)
{
    if (host->probe_is_leased)
        host->bench->leased_at_once--;
    host->probe_is_leased = false;
    if (reaches_service(host)) {
        circuit_closes(host);
    } else {
        host->step++;
        circuit_opens(host);
    }
}

static void program_calls(struct fleet_host *host)
{
    struct fleet_bench *bench = host->bench;

    host->calls++;
    if (fleet_host_is_held(host) || host->state == CIRCUIT_HALF_OPEN ||
        (host->state == CIRCUIT_OPEN && bench->now_ns < host->pause_end_ns)) {
        host->refused++;
        return;
    }
    host->passed++;
    if (host->state == CIRCUIT_OPEN) {
        probe_begins(host);
        return;
    }
    bench->service_calls += !host->cable_is_cut;
    if (reaches_service(host))
        host->failures = 0;
    else if (++host->failures >= THRESHOLD)
        circuit_opens(host);
}

/* --- the agent --- */

/* As the server has it, which ends it by its own clock. */
static bool has_lease(const struct fleet_host *host)
{
    const struct fleet_circuit *const circuit = &host->fleet->circuits[host->circuit];
    const char *const value = redis_value(host->bench->redis, "lease:payments\npayments.internal:443");

    return value != NULL && strtoull(value, NULL, 16) == circuit->token;
}

static void agent_applies(struct fleet_host *host)
{
    const struct fleet_wish wish = fleet_wish(host->fleet, host->circuit, host_now(host));

    host->held_until_ns = wish.held_until_ns > host->clock_ns ? wish.held_until_ns - host->clock_ns : 0;
    if (host->held_until_ns > host->last_reply_ns + HOLD_NS)
        host->bench->held_too_long = true;
    if (wish.end_pause && host->state == CIRCUIT_OPEN) {
        host->pause_end_ns = host->bench->now_ns;
        host->bench->probed_without_lease |= !has_lease(host);
    }
    if (wish.close && host->state == CIRCUIT_OPEN) {
        circuit_closes(host);
        host->closed_by_fleet++;
    }
}

static void agent_looks(struct fleet_host *host)
{
    const struct fleet_bench *const bench = host->bench;
    const struct fleet_seen seen = {
        .state = host->state,
        .votes = true,
        .probes = host->state == CIRCUIT_HALF_OPEN,
        .openings = host->openings,
        .calls = host->calls,
        .since_ns = host->since_ns + host->clock_ns,
        .retry_in_ns =
            host->state == CIRCUIT_OPEN && host->pause_end_ns > bench->now_ns ? host->pause_end_ns - bench->now_ns : 0,
        .quorum = bench->quorum,
        .quorum_permille = bench->quorum_permille,
        .backoff_permille = 2000,
        .pause_max_ns = PAUSE_MAX_NS,
        .probe_timeout_ns = PROBE_TIMEOUT_NS,
    };
    uint32_t cursor = 0;

    /* A host that has no such circuit gets one where the fleet has it open. */
    if (host->circuit == FLEET_CIRCUIT_NONE &&
        (host->has_programs || fleet_elsewhere(host->fleet, &cursor, host_now(host)) != NULL))
        host->circuit = fleet_circuit(host->fleet, "payments", "payments.internal:443");
    if (host->circuit != FLEET_CIRCUIT_NONE)
        fleet_see(host->fleet, host->circuit, &seen, host_now(host));
    agent_applies(host);
    fleet_turn(host->fleet, host_now(host));
}

/* Between two instructions of its own: what the server is told, and what it answers, goes on. */
static void meet_the_end(struct fleet_host *host)
{
    if (host->frozen_until_ns != 0 && host->bench->now_ns >= host->frozen_until_ns) {
        host->is_frozen = false;
        host->frozen_until_ns = 0;
    }
    if (!host->is_doomed)
        return;
    host->is_doomed = false;
    if (host->end == FLEET_END_FROZEN) {
        host->is_frozen = true;
        host->frozen_until_ns = host->bench->now_ns + FLEET_FROZEN_NS;
        return;
    }
    fleet_free(host->fleet); /* its last commands arrive all the same */
    host->fleet = NULL;
}

static void agent_run(struct fleet_host *host)
{
    const struct fleet_bench *const bench = host->bench;

    if (!host->is_connected && !host->link_is_cut && !bench->redis_is_down && bench->now_ns >= host->connect_at_ns) {
        host->is_connected = true;
        fleet_connected(host->fleet, host_now(host));
    }
    agent_looks(host);
    if (host->is_connected && fleet_has_failed(host->fleet, host_now(host)))
        fleet_host_disconnect(host);
}

void fleet_host_kill(struct fleet_host *host)
{
    fleet_host_disconnect(host);
    fleet_free(host->fleet);
    host->fleet = NULL;
}

void fleet_host_start(struct fleet_host *host)
{
    const struct fleet_way way = {.send = send_command, .context = host};

    if (host->fleet != NULL)
        return;
    host->fleet = fleet_create("/etc/sockfuse/web.policy", 0x1000 + host->number,
                               fleet_bench_draw(host->bench, UINT64_MAX), &way);
    host->circuit = FLEET_CIRCUIT_NONE;
    if (host->fleet == NULL)
        abort();
}

/* --- the bench --- */

struct fleet_host *fleet_bench_join(struct fleet_bench *bench)
{
    struct fleet_host *host = &bench->hosts[bench->host_count];

    memset(host, 0, sizeof *host);
    host->number = bench->host_count++;
    host->bench = bench;
    host->clock_ns = (1 + fleet_bench_draw(bench, 1000000)) * NS_PER_S;
    host->has_programs = true;
    host->calls_every = 5;
    host->since_ns = bench->now_ns;
    fleet_host_start(host);
    return host;
}

void fleet_bench_start(struct fleet_bench *bench, unsigned int hosts, uint64_t seed)
{
    memset(bench, 0, sizeof *bench);
    bench->random = seed;
    bench->now_ns = 100 * NS_PER_S;
    bench->redis = redis_start();
    bench->service_is_up = true;
    bench->latency_ns = NS_PER_MS;
    bench->quorum = 2;
    bench->probe_ticks = 10;
    while (bench->host_count < hosts)
        fleet_bench_join(bench);
}

void fleet_bench_end(struct fleet_bench *bench)
{
    for (unsigned int i = 0; i < bench->host_count; i++) {
        if (bench->hosts[i].fleet != NULL)
            fleet_host_kill(&bench->hosts[i]);
    }
    redis_end(bench->redis);
}

void fleet_bench_run(struct fleet_bench *bench, uint64_t for_ns)
{
    const uint64_t end_ns = bench->now_ns + for_ns;

    for (; bench->now_ns < end_ns; bench->ticks++) {
        bench->now_ns += FLEET_TICK_NS;
        bench->redis->now_ms += FLEET_TICK_NS / NS_PER_MS;
        for (unsigned int i = 0; i < bench->host_count; i++) {
            struct fleet_host *host = &bench->hosts[i];
            if (host->state == CIRCUIT_HALF_OPEN && bench->now_ns >= host->probe_end_ns)
                probe_ends(host);
            if (host->has_programs && (bench->ticks + i) % host->calls_every == 0)
                program_calls(host);
            link_run(host);
            if (host->ends_with_lease && host->fleet != NULL &&
                fleet_view(host->fleet, host->circuit, host_now(host)).probes)
                host->is_doomed = !(host->ends_with_lease = false);
            if (host->fleet != NULL && !host->is_frozen && !host->is_doomed)
                agent_run(host);
            meet_the_end(host);
        }
    }
}
