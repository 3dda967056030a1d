/*
 * status.c - `sockfuse status`: the circuits, and who is attached.
 *
 * Computes the state at reading (a circuit whose pause is over shows `open, probe due`) and changes nothing. Text for
 * people, or JSON with --json.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/rows.h"
#include "cli/select.h"
#include "cli/status_json.h"
#include "cli/table.h"
#include "segment/clock.h"
#include "segment/process.h"

static const char help[] =
    "Usage: sockfuse status [-p FILE] [--json]\n"
    "Shows the circuits of the policies in use, and the processes that are attached.\n"
    "\n"
    "  -p, --policy FILE  only those of this policy\n" WHOSE_HELP
    "      --json         one JSON array, an object for each policy\n"
    "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "  STATE      closed: calls pass; open: calls fail at once; half-open: a probe is on its way;\n"
    "             open, probe due: the pause is over, the next call is the probe;\n"
    "             (forced): by sockfuse open or close, until sockfuse auto or for the time that is left;\n"
    "             rehearsal: the policy injects faults\n"
    "  FAILURES   in a row, of how many open the circuit\n"
    "  RATE       failures in percent of the calls in the window, when these are enough to be judged\n"
    "  RETRY IN   until the next probe\n"
    "  CONNECTIONS  of all processes, of how many there may be (max_connections)\n"
    "  CALLS      admitted so far; FAILED of them, and how many were REFUSED besides\n"
    "  REVISION   of the policy that a program runs: another one than the file's after it was edited\n"
    "  NEUTRAL    ended so that they say nothing of the peer (given up early, a fault on this side)\n"
    "\n"
    "The circuits are in $SOCKFUSE_STATE; else in the first that can be used of /run/sockfuse (root),\n"
    "$XDG_RUNTIME_DIR/sockfuse, /run/user/UID/sockfuse, /dev/shm/sockfuse-UID and /tmp/sockfuse-UID.\n";

/* --- text --------------------------------------------------------------------------------------------------------- */

static const struct column circuit_columns[] = {
    {"TARGET", false},  {"DESTINATION", false}, {"STATE", false},      {"FAILURES", true},      {"RATE", true},
    {"RETRY IN", true}, {"IN FLIGHT", true},    {"CONNECTIONS", true}, {"CALLS", true},         {"FAILED", true},
    {"NEUTRAL", true},  {"LATE", true},         {"REFUSED", true},     {"LAST FAILURE", false},
};
#define CIRCUIT_COLUMNS (sizeof circuit_columns / sizeof *circuit_columns)
static const struct column process_columns[] = {
    {"PID", true}, {"PROGRAM", false}, {"SINCE", true}, {"REVISION", false}, {"", false},
};
#define PROCESS_COLUMNS (sizeof process_columns / sizeof *process_columns)

/* Whether the circuits of a row are in the processes' own memory, where nobody else can look. */
static bool is_hidden(const struct row *row)
{
    return !row->called && row->target != NULL && row->target->scope == SCOPE_PROCESS;
}

#define TIME_LEFT_MAX (SPAN_TEXT_MAX + 16)

/* ", 9m12s left" of an operator's word, or nothing. */
static const char *time_left(const struct row *row, char text[TIME_LEFT_MAX])
{
    char span[SPAN_TEXT_MAX];
    text[0] = '\0';
    if (row->forced_left_ns > 0)
        snprintf(text, TIME_LEFT_MAX, ", %s left", span_format(row->forced_left_ns, span));
    return text;
}

static void add_state(struct table *table, const struct row *row)
{
    char left[TIME_LEFT_MAX];
    static const enum colour colours[] = {[CIRCUIT_CLOSED] = GREEN, [CIRCUIT_OPEN] = RED, [CIRCUIT_HALF_OPEN] = YELLOW};
    enum target_mode mode = row->target != NULL ? row->target->mode : MODE_ENFORCE;
    enum circuit_state state = row_state(row);
    const char *name = circuit_state_name(state), *observed = mode == MODE_OBSERVE ? ", observed" : "";
    const char *rehearsal = row_rehearses(row) ? ", rehearsal" : "";
    if (mode == MODE_OFF)
        table_add(table, DIM, "off");
    else if (row->forced != FORCED_NONE)
        table_addf(table, colours[state], "%s (forced%s)%s", name, time_left(row, left), rehearsal);
    else if (is_hidden(row))
        table_addf(table, DIM, "kept by each process%s", rehearsal);
    else if (row->destination[0] == '\0')
        table_addf(table, DIM, "no calls yet%s", rehearsal);
    else if (mode == MODE_OPEN || mode == MODE_CLOSED)
        table_addf(table, colours[state], "%s, by mode%s", name, rehearsal);
    else if (row_probe_due(row))
        table_addf(table, YELLOW, "open, probe due%s%s", observed, rehearsal);
    else
        table_addf(table, colours[state], "%s%s%s", name, observed, rehearsal);
}

static bool opened_by_rate(const struct row *row)
{
    const struct event *opening = &row->last_transition;
    return row->view.state != CIRCUIT_CLOSED && row->has_transition && opening->to == CIRCUIT_OPEN &&
           (opening->reason == REASON_FAILURE_RATE || opening->reason == REASON_SLOW_CALL_RATE);
}

static void add_failures(struct table *table, const struct row *row)
{
    uint32_t failures = row->view.failures;
    if (row->view.state != CIRCUIT_CLOSED) {
        /* An open circuit counts no failures; those that opened it are in the transition's record. */
        if (!row->has_transition || row->last_transition.failures == 0 || opened_by_rate(row)) {
            table_add(table, PLAIN, "");
            return;
        }
        failures = row->last_transition.failures;
    }
    if (row->target == NULL)
        table_addf(table, PLAIN, "%" PRIu32 "/?", failures);
    else if (row->target->breaker.failure_threshold == 0 || row_mode(row) == MODE_CLOSED)
        table_addf(table, PLAIN, "%" PRIu32, failures);
    else
        table_addf(table, PLAIN, "%" PRIu32 "/%" PRIu32, failures, row->target->breaker.failure_threshold);
}

/* Of the window now, or of the one that opened the circuit. */
static void add_rate(struct table *table, const struct row *row)
{
    const struct event *opening = &row->last_transition;
    struct window_counts window = row->view.window;
    if (opened_by_rate(row))
        window = (struct window_counts){opening->window_calls, opening->window_failed, opening->window_slow};
    else if (!row_has_rates(row) || window.calls < row->target->breaker.minimum_calls) /* not judged */
        window = (struct window_counts){0};
    const uint64_t failed = rate_permille(window.failed, window.calls) / 10;
    const uint64_t slow = rate_permille(window.slow, window.calls) / 10;
    if (window.failed + window.slow == 0)
        table_add(table, PLAIN, "");
    else if (window.slow == 0)
        table_addf(table, PLAIN, "%" PRIu64 "%% of %" PRIu64, failed, window.calls);
    else
        table_addf(table, PLAIN, "%" PRIu64 "%%, slow %" PRIu64 "%% of %" PRIu64, failed, slow, window.calls);
}

static void add_count(struct table *table, uint64_t count)
{
    if (count == 0)
        table_add(table, PLAIN, "");
    else
        table_addf(table, PLAIN, "%" PRIu64, count);
}

static uint64_t ago(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

static void add_circuit(struct table *table, const struct row *row, bool name_targets, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX], label[FAILURE_LABEL_MAX];
    uint64_t retry_ms;
    table_add(table, PLAIN, name_targets || row->destination[0] == '\0' ? row->target_name : "");
    table_add(table, PLAIN, row->destination);
    add_state(table, row);
    bool off = row->target != NULL && row->target->mode == MODE_OFF;
    if (row->destination[0] == '\0' || off || is_hidden(row)) {
        for (size_t i = 3; i < CIRCUIT_COLUMNS; i++)
            table_add(table, PLAIN, "");
        return;
    }
    add_failures(table, row);
    add_rate(table, row);
    bool waits = row_retry_in_ms(row, &retry_ms) && retry_ms > 0;
    table_add(table, PLAIN, waits ? span_format(retry_ms * NS_PER_MS, span) : "");
    table_addf(table, PLAIN, "%" PRIu32, row->in_flight);
    if (row->target != NULL && row->target->max_connections != 0)
        table_addf(table, PLAIN, "%" PRIu32 "/%" PRIu32, row->connections, row->target->max_connections);
    else
        table_add(table, PLAIN, "");
    table_addf(table, PLAIN, "%" PRIu64, row->counts[COUNT_ADMITTED]);
    table_addf(table, PLAIN, "%" PRIu64, row->counts[COUNT_FAILED]);
    add_count(table, row->counts[COUNT_NEUTRAL]);
    add_count(table, row->counts[COUNT_LATE]);
    table_addf(table, PLAIN, "%" PRIu64, row->counts[COUNT_REFUSED]);
    if (row->has_failure)
        table_addf(table, PLAIN, "%s, %s ago",
                   failure_label(row->last_failure.kind, row->last_failure.http_status, label),
                   span_format(ago(now_ns, row->last_failure.mono_ns), span));
    else
        table_add(table, PLAIN, "");
}

/* What a count that is not in the table means, if there is any. */
static void print_note(const struct row *row, unsigned int counter, const char *what)
{
    if (row->counts[counter] == 0)
        return;
    fputs("  note: ", stdout);
    print_safely(row->destination, stdout);
    printf(": %" PRIu64 " %s\n", row->counts[counter], what);
}

static void print_circuits(const struct rows *rows, uint64_t now_ns)
{
    /* A section that is named after its one destination need not be named twice. */
    bool name_targets = false;
    for (size_t i = 0; i < rows->count; i++)
        name_targets = name_targets || strcmp(rows->at[i].target_name, rows->at[i].destination) != 0;
    struct table table;
    table_start(&table, circuit_columns, CIRCUIT_COLUMNS);
    for (size_t i = 0; i < rows->count; i++)
        add_circuit(&table, &rows->at[i], name_targets, now_ns);
    table_print(&table, stdout, 2);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        print_note(row, COUNT_NEUTRAL_REASON + NEUTRAL_LOCAL,
                   "of the neutral calls failed on this side (no route, no port, no permission)");
        print_note(row, COUNT_FALLBACK, "of the refused calls went to the fallback");
        print_note(row, COUNT_INJECTED, "of the calls were given a fault in a rehearsal");
    }
}

static void print_log_lost(const struct segment *segment)
{
    const uint64_t lost = segment_log_lost(segment);
    if (lost > 0)
        printf("  %" PRIu64 " line%s of the log (SOCKFUSE_LOG) could not be written.\n", lost, lost == 1 ? "" : "s");
}

/* What passed because there was no room for it, by reason. */
static void print_no_room(const struct segment *segment)
{
    const uint64_t circuits = segment_no_room(segment, NO_ROOM_CIRCUITS),
                   connections = segment_no_room(segment, NO_ROOM_CONNECTIONS),
                   processes = segment_no_room(segment, NO_ROOM_PROCESSES);
    if (circuits + connections + processes == 0)
        return;
    const uint64_t sum = circuits + connections + processes;
    printf("  %" PRIu64 " call%s passed unguarded, for there was no room:", sum, sum == 1 ? "" : "s");
    if (circuits > 0)
        printf(" %" PRIu64 " beyond %" PRIu32 " circuits", circuits, segment->capacity.circuits);
    if (connections > 0)
        printf("%s %" PRIu64 " beyond %" PRIu32 " connections", circuits > 0 ? "," : "", connections,
               segment->capacity.calls);
    if (processes > 0)
        printf("%s %" PRIu64 " beyond %" PRIu32 " processes", circuits + connections > 0 ? "," : "", processes,
               segment->capacity.processes);
    printf(" (capacity).\n");
}

/* How what a process runs stands to what the file says now. */
static const char *revision_note(const struct process_view *process, const struct policy *policy)
{
    if (policy == NULL || policy->path == NULL) /* there is no file, or it can't be read */
        return "";
    return process->revision != policy->revision ? "runs an earlier version of the policy (sockfuse reload)" : "";
}

static void print_processes(const struct segment *segment, const struct policy *policy)
{
    struct table table;
    struct process_view process;
    uint64_t now_ns = clock_wall_ns();
    table_start(&table, process_columns, PROCESS_COLUMNS);
    for (uint32_t cursor = 0; process_next(segment, &cursor, &process);) {
        char span[SPAN_TEXT_MAX];
        table_addf(&table, PLAIN, "%" PRIu32, process.pid);
        table_add(&table, PLAIN, process.program);
        table_add(&table, PLAIN, span_format(ago(now_ns, process.attached_ns), span));
        table_addf(&table, PLAIN, "%08" PRIx32, (uint32_t)(process.revision >> 32));
        table_add(&table, YELLOW, revision_note(&process, policy));
    }
    if (table.cell_count == 0) {
        printf("  No process is attached now.\n");
        return;
    }
    fputc('\n', stdout);
    table_print(&table, stdout, 2);
}

static void print_policy(const struct selected *selected, const struct policy *policy, const char *why,
                         const struct rows *rows, uint64_t now_ns)
{
    bool coloured = colour_wanted(stdout);
    fputs(colour_start(BOLD, coloured), stdout);
    print_safely(selected->identity, stdout);
    printf("%s%s\n", colour_start(PLAIN, coloured), selected->whose);
    if (policy == NULL) {
        fputs("  The policy can't be read now, so its targets and limits are unknown: ", stdout);
        print_safely(why, stdout);
        fputc('\n', stdout);
    }
    if (rows->count > 0)
        print_circuits(rows, now_ns);
    else
        printf("  No calls yet.\n");
    print_no_room(&selected->segment);
    print_log_lost(&selected->segment);
    if (segment_apart(&selected->segment) > 0)
        printf("  %" PRIu64 " calls were guarded apart, by circuits of single programs: they could not open this file "
               "for a while.\n", segment_apart(&selected->segment));
    if (selected->segment.map != NULL)
        print_processes(&selected->segment, policy);
    else if (policy != NULL && policy->has_process_scope && !policy->has_host_scope)
        printf("  Each process keeps circuits of its own (scope = process), which can't be seen from here.\n");
    else
        printf("  Not in use: no program was started under it yet. Start one: sockfuse run -p FILE -- CMD\n");
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* False: the policy of -p is not in use, and can't be read either. */
static bool show(const struct selected *selected, struct json *json, bool first)
{
    char *why;
    struct policy *policy = policy_of_selected(selected, &why);
    bool usable = policy != NULL || selected->segment.map != NULL;
    if (usable) {
        struct rows rows;
        uint64_t now_ns = clock_circuit_ns();
        rows_collect(&rows, &selected->segment, policy, now_ns);
        if (json != NULL) {
            status_json(json, selected, policy, &rows);
        } else {
            if (!first)
                fputc('\n', stdout);
            print_policy(selected, policy, why, &rows, now_ns);
        }
        rows_free(&rows);
    } else {
        warnx("%s: %s", selected->identity, why);
    }
    free(why);
    policy_free(policy);
    return usable;
}

static int show_all(const struct whose *choice, bool as_json)
{
    struct selection selection;
    struct json json;
    int status = EXIT_SUCCESS;
    json_start(&json, stdout);
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, choice, false);
    if (as_json)
        json_open(&json, NULL, '[');
    else if (selection.count == 0)
        tell_nothing_in_use(&selection, stdout);
    for (size_t i = 0; i < selection.count; i++) {
        if (!show(&selection.at[i], as_json ? &json : NULL, i == 0))
            status = EXIT_FAILURE;
    }
    if (as_json)
        json_close(&json, ']');
    select_close(&selection);
    return finish_output(status);
}

int command_status(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"json", no_argument, NULL, OPTION_JSON},
        {NULL, 0, NULL, 0},
    };
    struct whose choice = {.policy_file = NULL};
    bool as_json = false;
    int letter;
    while ((letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&choice, letter, optarg))
            continue;
        switch (letter) {
        case 'h':
            return print_help(help);
        case OPTION_VERSION:
            return print_version();
        case OPTION_JSON:
            as_json = true;
            break;
        default:
            return usage_error("status");
        }
    }
    if (optind < argc) {
        warnx("status: unexpected word '%s'; a policy is named with -p FILE", argv[optind]);
        return usage_error("status");
    }
    return show_all(&choice, as_json);
}
