/*
 * metrics_text.c - metrics as text. See metrics_text.h.
 *
 * One table has all that is told. The names are a contract with dashboards and alerts: add, never change.
 */
#include "view/metrics_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/text.h"
#include "base/units.h"

#define US_PER_S (NS_PER_S / NS_PER_US)

struct exposition {
    FILE *out;
    enum metrics_format format;
    const struct family *family; /* that is being written */
    const char *labels;          /* of the circuit or policy */
};

enum type { GAUGE, COUNTER, HISTOGRAM };

struct family {
    const char *name; /* of a counter without _total */
    enum type type;
    const char *unit; /* NULL: none */
    const char *help;
    void (*circuit)(const struct exposition *, const struct metered_circuit *); /* or */
    void (*policy)(const struct exposition *, const struct metered_policy *);   /* or */
    void (*all)(const struct exposition *, const struct metrics *);
};

/* --- one sample --------------------------------------------------------------------------------------------------- */

/* Its name and labels; `more` stands behind the labels, NULL: nothing. */
static void begin(const struct exposition *exposition, const char *suffix, const char *more)
{
    const bool is_counter = exposition->family->type == COUNTER;
    fprintf(exposition->out, "%s%s{%s%s%s} ", exposition->family->name, is_counter ? "_total" : suffix,
            exposition->labels, more != NULL ? "," : "", more != NULL ? more : "");
}

static void number(const struct exposition *exposition, const char *more, uint64_t value)
{
    begin(exposition, "", more);
    fprintf(exposition->out, "%" PRIu64 "\n", value);
}

static void seconds(const struct exposition *exposition, const char *suffix, uint64_t us)
{
    begin(exposition, suffix, NULL);
    fprintf(exposition->out, "%" PRIu64 ".%06" PRIu64 "\n", us / US_PER_S, us % US_PER_S);
}

/* One that has a label of its own, whose value is one of our words. */
static void named(const struct exposition *exposition, const char *label, const char *word, uint64_t value)
{
    char more[64];
    snprintf(more, sizeof more, "%s=\"%s\"", label, word);
    number(exposition, more, value);
}

/* --- circuits ----------------------------------------------------------------------------------------------------- */

static void states(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    for (unsigned int state = CIRCUIT_CLOSED; state <= CIRCUIT_HALF_OPEN; state++)
        named(exposition, "state", circuit_state_name(state), circuit->state == state);
}

static void active(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->is_active);
}

static void forced(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->is_forced);
}

static void held(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->is_held);
}

static void failures(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->failures);
}

static void outcome(const struct exposition *exposition, const char *verdict, const char *kind, uint64_t value)
{
    char more[96];
    snprintf(more, sizeof more, "outcome=\"%s\",kind=\"%s\"", verdict, kind);
    number(exposition, more, value);
}

/* Of the kinds of failure all but those by HTTP, of these the listed ones, and what else came. */
static void calls(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    const uint64_t *counts = circuit->counts;
    char label[FAILURE_LABEL_MAX];
    unsigned int status;
    outcome(exposition, "success", "none", counts[COUNT_SUCCEEDED]);
    for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++) {
        if (kind != FAILURE_HTTP)
            outcome(exposition, "failure", failure_kind_name(kind), counts[COUNT_FAILURE_KIND + kind]);
    }
    for (unsigned int place = 0; counter_status(place, &status); place++) {
        const uint64_t count = counts[COUNT_HTTP_STATUS + place];
        if (count > 0 || (circuit->statuses >> place & 1) != 0)
            outcome(exposition, "failure", status != 0 ? failure_label(FAILURE_HTTP, status, label) : "http-other",
                    count);
    }
    for (unsigned int reason = 1; reason < NEUTRAL_REASONS; reason++)
        outcome(exposition, "neutral", neutral_reason_name(reason), counts[COUNT_NEUTRAL_REASON + reason]);
    outcome(exposition, "business", "none", counts[COUNT_BUSINESS]);
    outcome(exposition, "late", "none", counts[COUNT_LATE]);
}

static void slow(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->counts[COUNT_SLOW]);
}

static void charged(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->counts[COUNT_OVERDUE]);
}

/* As the kernel names them. One that a circuit has not met is not told: there are too many. */
static void local_faults(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    for (unsigned int i = 0; i < circuit->fault_count; i++) {
        char name[32];
        struct text text;
        text_start(&text, name, sizeof name);
        text_add_errno(&text, circuit->faults[i].error);
        named(exposition, "error", circuit->faults[i].error == 0 ? "other" : name, circuit->faults[i].count);
    }
}

static void refusals(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    for (unsigned int by = ADMIT_REFUSED_OPEN; by < ADMISSIONS; by++)
        named(exposition, "reason", admission_name(by), circuit->counts[counter_of_refusal((enum admission)by)]);
}

static void transitions(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    for (unsigned int to = CIRCUIT_CLOSED; to <= CIRCUIT_HALF_OPEN; to++)
        named(exposition, "to", circuit_state_name(to), circuit->counts[counter_of_state((enum circuit_state)to)]);
}

static void probes(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    named(exposition, "result", "success", circuit->counts[COUNT_PROBES_SUCCEEDED]);
    named(exposition, "result", "failure", circuit->counts[COUNT_PROBES_FAILED]);
}

static void fallbacks(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->counts[COUNT_FALLBACK]);
}

static void retries(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    named(exposition, "result", "made", circuit->counts[COUNT_RETRIES]);
    named(exposition, "result", "denied", circuit->counts[COUNT_RETRIES_DENIED]);
}

static void injected(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->counts[COUNT_INJECTED]);
}

static void in_flight(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->in_flight);
}

static void waiting(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->waiting);
}

static void overdue(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->overdue);
}

static void most_waiting(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    number(exposition, NULL, circuit->most_waiting);
}

static void oldest(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    seconds(exposition, "", circuit->oldest_ns / NS_PER_US);
}

static void waited(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    seconds(exposition, "", circuit->waited_us);
}

static void connections(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    if (circuit->has_limit)
        number(exposition, NULL, circuit->connections);
}

static void max_connections(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    if (circuit->has_limit)
        number(exposition, NULL, circuit->max_connections);
}

/* In seconds, as short as it can be written; with a point, as OpenMetrics has it. */
static void bound_text(uint64_t ns, char text[32])
{
    int length = snprintf(text, 32, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, ns % NS_PER_S);
    while (text[length - 1] == '0' && text[length - 2] != '.')
        text[--length] = '\0';
}

static void waits(const struct exposition *exposition, const struct metered_waits *of)
{
    char more[48], text[32];
    for (unsigned int bound = 0; bound <= WAIT_BOUNDS; bound++) {
        if (bound < WAIT_BOUNDS)
            bound_text(metrics_bound_ns(bound), text);
        snprintf(more, sizeof more, "le=\"%s\"", bound < WAIT_BOUNDS ? text : "+Inf");
        begin(exposition, "_bucket", more);
        fprintf(exposition->out, "%" PRIu64 "\n", bound < WAIT_BOUNDS ? of->below[bound] : of->count);
    }
    begin(exposition, "_count", NULL);
    fprintf(exposition->out, "%" PRIu64 "\n", of->count);
    seconds(exposition, "_sum", of->sum_us);
}

static void connects(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    waits(exposition, &circuit->connects);
}

static void first_bytes(const struct exposition *exposition, const struct metered_circuit *circuit)
{
    waits(exposition, &circuit->answers);
}

/* --- policies, and the whole -------------------------------------------------------------------------------------- */

static void processes(const struct exposition *exposition, const struct metered_policy *policy)
{
    number(exposition, NULL, policy->processes);
}

static void unguarded(const struct exposition *exposition, const struct metered_policy *policy)
{
    static const char *const names[NO_ROOM_KINDS] = {"circuits", "connections", "processes"};
    for (unsigned int kind = 0; kind < NO_ROOM_KINDS; kind++)
        named(exposition, "reason", names[kind], policy->no_room[kind]);
}

static void apart(const struct exposition *exposition, const struct metered_policy *policy)
{
    number(exposition, NULL, policy->apart);
}

static void log_lost(const struct exposition *exposition, const struct metered_policy *policy)
{
    number(exposition, NULL, policy->log_lost);
}

static void unreadable(const struct exposition *exposition, const struct metrics *metrics)
{
    fprintf(exposition->out, "%s %zu\n", exposition->family->name, metrics->unreadable);
}

static void build(const struct exposition *exposition, const struct metrics *metrics)
{
    (void)metrics;
    fprintf(exposition->out, "%s{version=\"%s\"} 1\n", exposition->family->name, SOCKFUSE_VERSION);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static const struct family families[] = {
    {"sockfuse_circuit_state", GAUGE, NULL, "Whether this is the state that the next call meets.", .circuit = states},
    {"sockfuse_circuit_active", GAUGE, NULL, "Whether a running program can use the circuit; else it is history.",
     .circuit = active},
    {"sockfuse_circuit_forced", GAUGE, NULL, "Whether the state is so by an operator's word.", .circuit = forced},
    {"sockfuse_circuit_held", GAUGE, NULL, "Whether the agent refuses its calls, or keeps it from being probed.",
     .circuit = held},
    {"sockfuse_consecutive_failures", GAUGE, NULL, "Failures in a row of a closed circuit.", .circuit = failures},
    {"sockfuse_calls", COUNTER, NULL, "Calls that ended, by outcome, and by the kind of failure or neutral reason.",
     .circuit = calls},
    {"sockfuse_slow_calls", COUNTER, NULL, "Successes whose answer took longer than slow_call.", .circuit = slow},
    {"sockfuse_overdue_calls", COUNTER, NULL, "Calls that were charged at their limit while they still hung.",
     .circuit = charged},
    {"sockfuse_local_faults", COUNTER, NULL, "Calls that failed on this side, by error; they are neutral outcomes.",
     .circuit = local_faults},
    {"sockfuse_refusals", COUNTER, NULL, "Calls that were refused locally, by reason.", .circuit = refusals},
    {"sockfuse_fallbacks", COUNTER, NULL, "Refused calls that were connected to the fallback instead.",
     .circuit = fallbacks},
    {"sockfuse_retries", COUNTER, NULL,
     "Failed attempts that were tried again (made), and those that were not for want of budget (denied).",
     .circuit = retries},
    {"sockfuse_injected_faults", COUNTER, NULL, "Calls that a rehearsal gave a fault.", .circuit = injected},
    {"sockfuse_transitions", COUNTER, NULL, "Changes of the circuit's state, by the state that they led to.",
     .circuit = transitions},
    {"sockfuse_probes", COUNTER, NULL, "Probes that ended, by result.", .circuit = probes},
    {"sockfuse_calls_in_flight", GAUGE, NULL, "Calls without an outcome yet.", .circuit = in_flight},
    {"sockfuse_calls_waiting", GAUGE, NULL, "Calls that wait now, those that were charged at their limit included.",
     .circuit = waiting},
    {"sockfuse_calls_overdue", GAUGE, NULL, "Calls that wait now and are beyond their limit.", .circuit = overdue},
    {"sockfuse_calls_waiting_most", GAUGE, NULL, "The most calls that waited at once.", .circuit = most_waiting},
    {"sockfuse_oldest_wait_seconds", GAUGE, "seconds", "For how long the oldest call waits; 0 without one.",
     .circuit = oldest},
    {"sockfuse_waiting_seconds", COUNTER, "seconds", "For how long calls that ended have waited, all together.",
     .circuit = waited},
    {"sockfuse_connect_duration_seconds", HISTOGRAM, "seconds", "How long connecting took, where it succeeded.",
     .circuit = connects},
    {"sockfuse_first_byte_duration_seconds", HISTOGRAM, "seconds",
     "How long the first byte of an answer took, from the last of the request.", .circuit = first_bytes},
    {"sockfuse_connections", GAUGE, NULL, "Connections under max_connections, of all processes.",
     .circuit = connections},
    {"sockfuse_connections_limit", GAUGE, NULL, "How many connections there may be.", .circuit = max_connections},
    {"sockfuse_processes", GAUGE, NULL, "Processes that run under the policy.", .policy = processes},
    {"sockfuse_unguarded_calls", COUNTER, NULL, "Calls that passed unguarded, by what there was no room for.",
     .policy = unguarded},
    {"sockfuse_apart_calls", COUNTER, NULL,
     "Calls that were guarded by circuits of a single process, which could not open the shared ones.", .policy = apart},
    {"sockfuse_log_lines_lost", COUNTER, NULL, "Lines of SOCKFUSE_LOG that could not be written.", .policy = log_lost},
    {"sockfuse_unreadable", GAUGE, NULL, "Files of circuits, and folders of them, that could not be looked into.",
     .all = unreadable},
    {"sockfuse_build_info", GAUGE, NULL, "The version of the sockfuse that wrote this.", .all = build},
};

static void write_head(const struct exposition *exposition)
{
    static const char *const types[] = {[GAUGE] = "gauge", [COUNTER] = "counter", [HISTOGRAM] = "histogram"};
    const struct family *family = exposition->family;
    const bool is_open = exposition->format == METRICS_OPENMETRICS;
    const char *suffix = !is_open && family->type == COUNTER ? "_total" : "";
    fprintf(exposition->out, "# TYPE %s%s %s\n", family->name, suffix, types[family->type]);
    if (is_open && family->unit != NULL)
        fprintf(exposition->out, "# UNIT %s %s\n", family->name, family->unit);
    fprintf(exposition->out, "# HELP %s%s %s\n", family->name, suffix, family->help);
}

void metrics_write(const struct metrics *metrics, enum metrics_format format, FILE *out)
{
    struct exposition exposition = {.out = out, .format = format};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *family = exposition.family = &families[i];
        write_head(&exposition);
        for (size_t j = 0; family->circuit != NULL && j < metrics->circuit_count; j++) {
            exposition.labels = metrics->circuits[j].labels;
            family->circuit(&exposition, &metrics->circuits[j]);
        }
        for (size_t j = 0; family->policy != NULL && j < metrics->policy_count; j++) {
            exposition.labels = metrics->policies[j].labels;
            family->policy(&exposition, &metrics->policies[j]);
        }
        if (family->all != NULL)
            family->all(&exposition, metrics);
    }
    if (format == METRICS_OPENMETRICS)
        fputs("# EOF\n", out);
}
