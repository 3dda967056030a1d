/*
 * fleet_hosts.c - many virtual hosts of a fleet in one process, against a real Redis. links: agent
 *
 *     fleet_hosts URL HOSTS CALLERS CIRCUITS [QUIET DOWN UP]
 *
 * Each host has a link of its own (two connections), and CIRCUITS plain circuits, which programs call on the first CALLERS
 * hosts. The service is up for QUIET seconds, down for DOWN, and up again for UP. It prints one line of JSON: commands a
 * second in each of these (in the first one without the joining), how long an opening took from its second host to all,
 * and a healing from the probe's success to all, how many probes the service saw, and at once at most, and what is left at the end.
 */
#include <ev.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/fleet_link.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"

#define TICK_S 0.02
#define CALL_EVERY 10u /* ticks */
#define THRESHOLD 3u
#define PAUSE_NS (5 * NS_PER_S)
#define PROBE_NS (100 * NS_PER_MS)

struct circuit_of_host {
    uint32_t number;
    enum circuit_state state;
    uint64_t since_ns, pause_end_ns, probe_end_ns, openings, calls, held_until_ns;
    uint64_t held_ns, freed_ns; /* when it was first held, and released after the healing */
    unsigned int failures;
    bool has_opened;
};

struct host {
    struct fleet_link *link;
    struct fleet *fleet;
    struct circuit_of_host *circuits;
    uint64_t looked_ns;
};

struct outage {
    unsigned int opened;
    uint64_t quorum_ns, healed_ns;
};

static struct {
    unsigned int hosts, callers, circuits, quiet_s, down_s, up_s;
    struct host *at;
    struct outage *outages;
    uint64_t from_ns, joined_ns, ticks, random;
    unsigned int probes, at_once, at_once_most;
    uint64_t commands_joined, commands[3];
    unsigned int phase;
} bench;

static uint64_t commands_so_far(void)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < bench.hosts; i++)
        sum += fleet_link_commands(bench.at[i].link);
    return sum;
}

static void opens(struct circuit_of_host *circuit, unsigned int which, uint64_t now_ns)
{
    struct outage *outage = &bench.outages[which];

    circuit->state = CIRCUIT_OPEN;
    circuit->openings++;
    circuit->failures = 0;
    circuit->since_ns = now_ns;
    circuit->pause_end_ns = now_ns + PAUSE_NS;
    if (!circuit->has_opened && ++outage->opened == 2)
        outage->quorum_ns = now_ns;
    circuit->has_opened = true;
}

static void program_calls(struct circuit_of_host *circuit, unsigned int which, uint64_t now_ns)
{
    const bool is_up = bench.phase != 1;

    circuit->calls++;
    if (circuit->held_until_ns > now_ns || circuit->state == CIRCUIT_HALF_OPEN)
        return;
    if (circuit->state == CIRCUIT_OPEN) {
        if (now_ns < circuit->pause_end_ns)
            return;
        circuit->state = CIRCUIT_HALF_OPEN;
        circuit->since_ns = now_ns;
        circuit->probe_end_ns = now_ns + PROBE_NS;
        bench.probes++;
        if (which == 0 && ++bench.at_once > bench.at_once_most)
            bench.at_once_most = bench.at_once;
    } else if (is_up) {
        circuit->failures = 0;
    } else if (++circuit->failures >= THRESHOLD) {
        opens(circuit, which, now_ns);
    }
}

static void probe_ends(struct circuit_of_host *circuit, unsigned int which, uint64_t now_ns)
{
    struct outage *outage = &bench.outages[which];

    bench.at_once -= which == 0;
    if (bench.phase == 1) {
        opens(circuit, which, now_ns);
        return;
    }
    circuit->state = CIRCUIT_CLOSED;
    circuit->since_ns = now_ns;
    if (outage->healed_ns == 0)
        outage->healed_ns = now_ns;
}

static void apply(struct host *host, unsigned int which, uint64_t now_ns)
{
    struct circuit_of_host *circuit = &host->circuits[which];
    const struct fleet_wish wish = fleet_wish(host->fleet, circuit->number, now_ns);

    circuit->held_until_ns = wish.held_until_ns;
    if (wish.held_until_ns > now_ns && circuit->held_ns == 0)
        circuit->held_ns = now_ns;
    if (wish.end_pause && circuit->state == CIRCUIT_OPEN)
        circuit->pause_end_ns = now_ns;
    if (wish.close && circuit->state == CIRCUIT_OPEN) {
        circuit->state = CIRCUIT_CLOSED;
        circuit->since_ns = now_ns;
    }
    if (bench.outages[which].healed_ns != 0 && circuit->freed_ns == 0 && wish.held_until_ns <= now_ns &&
        circuit->state == CIRCUIT_CLOSED)
        circuit->freed_ns = now_ns;
}

static void agent_looks(struct host *host, uint64_t now_ns)
{
    host->looked_ns = now_ns;
    for (unsigned int i = 0; i < bench.circuits; i++) {
        struct circuit_of_host *circuit = &host->circuits[i];
        const struct fleet_seen seen = {
            .state = circuit->state,
            .votes = true,
            .probes = circuit->state == CIRCUIT_HALF_OPEN,
            .openings = circuit->openings,
            .calls = circuit->calls,
            .since_ns = circuit->since_ns,
            .retry_in_ns =
                circuit->state == CIRCUIT_OPEN && circuit->pause_end_ns > now_ns ? circuit->pause_end_ns - now_ns : 0,
            .quorum = 2,
            .backoff_permille = 1000,
            .pause_max_ns = 60 * NS_PER_S,
            .probe_timeout_ns = 5 * NS_PER_S,
        };
        fleet_see(host->fleet, circuit->number, &seen, now_ns);
        apply(host, i, now_ns);
    }
    fleet_link_turn(host->link, host->fleet, now_ns);
}

/* What a host says when it comes is no part of what it says while all is well. */
static void look_who_has_joined(uint64_t now_ns)
{
    if (bench.phase != 0 || bench.joined_ns != 0)
        return;
    for (unsigned int i = 0; i < bench.hosts; i++) {
        if (fleet_standing(bench.at[i].fleet).heard_ns == 0)
            return;
    }
    bench.joined_ns = now_ns;
    bench.commands_joined = commands_so_far();
}

/* Commands a second while all is well; where not all hosts have joined by then, with their joining. */
static double quiet_rate(void)
{
    const uint64_t end_ns = bench.from_ns + bench.quiet_s * NS_PER_S;

    if (bench.joined_ns == 0 || bench.joined_ns + NS_PER_S / 2 > end_ns)
        return (double)bench.commands[0] / bench.quiet_s;
    return (double)(bench.commands[0] - bench.commands_joined) /
           ((double)(end_ns - bench.joined_ns) / (double)NS_PER_S);
}

static void next_phase(struct ev_loop *loop, uint64_t now_ns)
{
    const unsigned int ends_s[] = {bench.quiet_s, bench.quiet_s + bench.down_s,
                                   bench.quiet_s + bench.down_s + bench.up_s};

    if (now_ns - bench.from_ns < ends_s[bench.phase] * NS_PER_S)
        return;
    bench.commands[bench.phase] = commands_so_far();
    if (++bench.phase == 3)
        ev_break(loop, EVBREAK_ALL);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    const uint64_t now_ns = clock_real_ns();
    (void)timer, (void)events;

    look_who_has_joined(now_ns);
    next_phase(loop, now_ns);
    bench.ticks++;
    for (unsigned int i = 0; i < bench.hosts && bench.phase < 3; i++) {
        struct host *host = &bench.at[i];
        for (unsigned int which = 0; which < bench.circuits; which++) {
            struct circuit_of_host *circuit = &host->circuits[which];
            if (circuit->state == CIRCUIT_HALF_OPEN && now_ns >= circuit->probe_end_ns)
                probe_ends(circuit, which, now_ns);
            if (i < bench.callers && (bench.ticks + i) % CALL_EVERY == 0)
                program_calls(circuit, which, now_ns);
            apply(host, which, now_ns); /* the agent is told of news at once */
        }
        if (now_ns - host->looked_ns >= NS_PER_S)
            agent_looks(host, now_ns);
    }
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static void print_times(const char *name, double *times, size_t count, size_t missing)
{
    qsort(times, count, sizeof *times, compare);
    printf("\"%s\": {\"count\": %zu, \"missing\": %zu", name, count, missing);
    if (count > 0)
        printf(", \"p50_ms\": %.0f, \"p99_ms\": %.0f, \"max_ms\": %.0f", times[count / 2], times[count * 99 / 100],
               times[count - 1]);
    printf("}, ");
}

static double after_ms(uint64_t from_ns, uint64_t at_ns)
{
    return at_ns > from_ns ? (double)(at_ns - from_ns) / (double)NS_PER_MS : 0;
}

static void report(void)
{
    double *spread = calloc((size_t)bench.hosts * bench.circuits, sizeof *spread);
    double *heal = calloc((size_t)bench.hosts * bench.circuits, sizeof *heal);
    size_t spread_count = 0, heal_count = 0, spread_missing = 0, heal_missing = 0, held = 0, open = 0;
    const uint64_t now_ns = clock_real_ns();
    char trouble[800];
    struct text text;

    if (spread == NULL || heal == NULL)
        abort();
    for (unsigned int i = 0; i < bench.hosts; i++) {
        for (unsigned int which = 0; which < bench.circuits; which++) {
            const struct circuit_of_host *const circuit = &bench.at[i].circuits[which];
            const struct outage *const outage = &bench.outages[which];
            if (circuit->held_ns != 0)
                spread[spread_count++] = after_ms(outage->quorum_ns, circuit->held_ns);
            else
                spread_missing++;
            if (circuit->freed_ns != 0)
                heal[heal_count++] = after_ms(outage->healed_ns, circuit->freed_ns);
            else
                heal_missing++;
            held += circuit->held_until_ns > now_ns;
            open += circuit->state != CIRCUIT_CLOSED;
        }
    }
    printf("{\"hosts\": %u, \"callers\": %u, \"circuits\": %u, ", bench.hosts, bench.callers, bench.circuits);
    printf("\"commands_a_second\": {\"quiet\": %.0f, \"down\": %.0f, \"up\": %.0f}, ", quiet_rate(),
           (double)(bench.commands[1] - bench.commands[0]) / bench.down_s,
           (double)(bench.commands[2] - bench.commands[1]) / bench.up_s);
    print_times("spread", spread, spread_count, spread_missing);
    print_times("heal", heal, heal_count, heal_missing);
    text_start(&text, trouble, sizeof trouble);
    text_add_json(&text, fleet_link_trouble(bench.at[0].link));
    printf("\"probes\": %u, \"probes_at_once\": %u, \"held\": %zu, \"open\": %zu, \"trouble\": %s}\n", bench.probes,
           bench.at_once_most, held, open, trouble);
    free(spread);
    free(heal);
}

static void start_hosts(struct ev_loop *loop, const struct redis_url *url)
{
    char destination[32];

    bench.at = calloc(bench.hosts, sizeof *bench.at);
    bench.outages = calloc(bench.circuits, sizeof *bench.outages);
    for (unsigned int i = 0; i < bench.hosts && bench.at != NULL && bench.outages != NULL; i++) {
        struct host *host = &bench.at[i];
        host->link = fleet_link_open(loop, url, NULL);
        host->fleet = host->link != NULL ? fleet_link_join(host->link, "bench", 1 + i) : NULL;
        host->circuits = calloc(bench.circuits, sizeof *host->circuits);
        if (host->fleet == NULL || host->circuits == NULL)
            abort();
        host->looked_ns = clock_real_ns() - hash_spread(i) % NS_PER_S; /* not all in one moment */
        for (unsigned int which = 0; which < bench.circuits; which++) {
            snprintf(destination, sizeof destination, "service-%u:443", which);
            host->circuits[which].number = fleet_circuit(host->fleet, "service", destination);
        }
    }
}

int main(int argc, char **argv)
{
    struct ev_loop *loop = ev_default_loop(0);
    const struct rlimit many = {65536, 65536};
    struct redis_url url;
    char why[400];
    ev_timer tick;

    if (argc < 5 || !redis_url_parse(&url, argv[1], why, sizeof why)) {
        fprintf(stderr, "usage: fleet_hosts URL HOSTS CALLERS CIRCUITS [QUIET DOWN UP]\n");
        return 2;
    }
    bench.hosts = (unsigned int)strtoul(argv[2], NULL, 10);
    bench.callers = (unsigned int)strtoul(argv[3], NULL, 10);
    bench.circuits = (unsigned int)strtoul(argv[4], NULL, 10);
    bench.quiet_s = argc > 5 ? (unsigned int)strtoul(argv[5], NULL, 10) : 5;
    bench.down_s = argc > 6 ? (unsigned int)strtoul(argv[6], NULL, 10) : 10;
    bench.up_s = argc > 7 ? (unsigned int)strtoul(argv[7], NULL, 10) : 20;
    if (bench.hosts == 0 || bench.circuits == 0 || bench.quiet_s == 0 || bench.down_s == 0 || bench.up_s == 0)
        return 2;
    (void)setrlimit(RLIMIT_NOFILE, &many);
    signal(SIGPIPE, SIG_IGN);
    clock_start(NULL);
    start_hosts(loop, &url);
    bench.from_ns = clock_real_ns();
    ev_timer_init(&tick, on_tick, TICK_S, TICK_S);
    ev_timer_start(loop, &tick);
    ev_run(loop, 0);
    report();
    for (unsigned int i = 0; i < bench.hosts; i++)
        fleet_link_close(bench.at[i].link);
    return 0;
}
