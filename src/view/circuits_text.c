/*
 * circuits_text.c - the circuits of one policy as a table. See circuits_text.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/circuits_text.h"
#include "view/output.h"
#include "view/duration.h"
#include "view/row_standing.h"
#include "view/table.h"

static const struct column circuit_columns[] = {
    {"TARGET", false},  {"DESTINATION", false}, {"STATE", false}, {"FAILURES", true},    {"RATE", true},
    {"RETRY IN", true}, {"WAITING", true},      {"OLDEST", true}, {"CONNECTIONS", true}, {"CALLS", true},
    {"FAILED", true},   {"NEUTRAL", true},      {"LATE", true},   {"REFUSED", true},     {"LAST FAILURE", false},
};
#define CIRCUIT_COLUMNS (sizeof circuit_columns / sizeof *circuit_columns)
#define KEY_COLUMNS 2u /* by which a row is known */

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

/* Of those that wait in a circuit. */
static enum colour waiting_colour(const struct row *row)
{
    if (row->waiting.overdue > 0)
        return RED;
    return row->waiting.oldest_ns >= LONG_WAIT_NS ? YELLOW : PLAIN;
}

static void add_state(struct table *table, const struct row *row)
{
    char left[TIME_LEFT_MAX];
    static const enum colour living[] = {[CIRCUIT_CLOSED] = GREEN, [CIRCUIT_OPEN] = RED, [CIRCUIT_HALF_OPEN] = YELLOW};
    static const enum colour over[] = {[CIRCUIT_CLOSED] = DIM, [CIRCUIT_OPEN] = DIM, [CIRCUIT_HALF_OPEN] = DIM};
    /* A closed circuit whose calls hang is not well. */
    const enum colour hanging[] = {
        [CIRCUIT_CLOSED] = waiting_colour(row), [CIRCUIT_OPEN] = RED, [CIRCUIT_HALF_OPEN] = YELLOW};
    const enum colour *colours = row->ended != ENDED_NOT ? over : waiting_colour(row) != PLAIN ? hanging : living;
    enum target_mode mode = row->target != NULL ? row->target->mode : MODE_ENFORCE;
    enum circuit_state state = row_state(row);
    const char *name = circuit_state_name(state), *observed = mode == MODE_OBSERVE ? ", observed" : "";
    const char *rehearsal = row_rehearses(row) ? ", rehearsal" : "";
    if (row->ended == ENDED_TARGET)
        table_addf(table, DIM, "%s (ended)", circuit_state_name(row->view.state));
    else if (mode == MODE_OFF)
        table_add(table, DIM, "off");
    else if (row->forced != FORCED_NONE)
        table_addf(table, colours[state], "%s (forced%s)%s", name, time_left(row, left), rehearsal);
    else if (row_is_hidden(row))
        table_addf(table, DIM, "kept by each process%s", rehearsal);
    else if (row->destination[0] == '\0')
        table_addf(table, DIM, "no calls yet%s", rehearsal);
    else if (mode == MODE_OPEN || mode == MODE_CLOSED)
        table_addf(table, colours[state], "%s, by mode%s", name, rehearsal);
    else if (row->hold != HOLD_NONE)
        table_addf(table, colours[state], "%s, %s%s", name, row->hold == HOLD_FLEET ? "by fleet" : "check fails",
                   rehearsal);
    else if (row_probe_due(row))
        table_addf(table, row->ended != ENDED_NOT ? DIM : YELLOW, "%s, probe due%s%s", name, observed, rehearsal);
    else
        table_addf(table, colours[state], "%s%s%s", name, observed, rehearsal);
}

static bool opened_by_rate(const struct row *row)
{
    const struct event *opening = &row->last_transition;
    return row->view.state != CIRCUIT_CLOSED && row->has_transition && opening->to == CIRCUIT_OPEN &&
           (opening->reason == REASON_FAILURE_RATE || opening->reason == REASON_SLOW_CALL_RATE);
}

#define THRESHOLDS_MAX 64
#define EDITIONS_SHOWN 4u

/* "5", or "5 or 2" where running programs differ. */
static const char *thresholds(const struct row *row, const struct running *running, char text[THRESHOLDS_MAX])
{
    uint32_t listed[EDITIONS_SHOWN] = {row->target->breaker.failure_threshold}, count = 1;
    size_t length = (size_t)snprintf(text, THRESHOLDS_MAX, "%" PRIu32, listed[0]);
    for (size_t i = 0; i < running->edition_count && count < EDITIONS_SHOWN; i++) {
        const struct policy *policy = running->editions[i].policy;
        const struct target *target = policy != NULL ? policy_target_named(policy, row->target_name) : NULL;
        bool known = target == NULL;
        for (uint32_t j = 0; j < count && !known; j++)
            known = target->breaker.failure_threshold == listed[j];
        if (known)
            continue;
        listed[count++] = target->breaker.failure_threshold;
        length += (size_t)snprintf(text + length, THRESHOLDS_MAX - length, " or %" PRIu32, listed[count - 1]);
    }
    return text;
}

static void add_failures(struct table *table, const struct row *row, const struct running *running)
{
    char text[THRESHOLDS_MAX];
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
        table_addf(table, PLAIN, "%" PRIu32 "/%s", failures, thresholds(row, running, text));
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

static void add_waiting(struct table *table, const struct row *row)
{
    const struct waiting *waiting = &row->waiting;
    char span[SPAN_TEXT_MAX];
    if (waiting->overdue > 0)
        table_addf(table, RED, "%" PRIu32 ", %" PRIu32 " overdue", waiting->calls, waiting->overdue);
    else
        table_addf(table, PLAIN, "%" PRIu32, waiting->calls);
    table_add(table, waiting_colour(row), waiting->calls > 0 ? span_format(waiting->oldest_ns, span) : "");
}

static void add_circuit(struct table *table, const struct row *row, const struct running *running, bool name_targets,
                        uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX], label[FAILURE_LABEL_MAX];
    uint64_t retry_ms;
    table_add(table, PLAIN, name_targets || row->destination[0] == '\0' ? row->target_name : "");
    table_add(table, PLAIN, row->destination);
    add_state(table, row);
    bool off = row->target != NULL && row->target->mode == MODE_OFF;
    if (row->destination[0] == '\0' || off || row_is_hidden(row)) {
        for (size_t i = 3; i < CIRCUIT_COLUMNS; i++)
            table_add(table, PLAIN, "");
        return;
    }
    add_failures(table, row, running);
    add_rate(table, row);
    bool waits = row_retry_in_ms(row, &retry_ms) && retry_ms > 0;
    table_add(table, PLAIN, waits ? span_format(retry_ms * NS_PER_MS, span) : "");
    add_waiting(table, row);
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
                   span_format(span_since(row->last_failure.mono_ns, now_ns), span));
    else
        table_add(table, PLAIN, "");
}

static const struct column wait_columns[] = {
    {"LAST MINUTE", false}, {"CALLS/S", true}, {"P50", true}, {"P95", true}, {"MAX", true},
};
#define WAIT_COLUMNS (sizeof wait_columns / sizeof *wait_columns)

static void add_waits(struct table *table, const struct row *row)
{
    const struct row_waits *waits = &row->waits;
    const uint64_t rate = row_waits_rate(waits);
    char text[SPAN_TEXT_MAX];
    table_add(table, PLAIN, row->destination);
    table_addf(table, PLAIN, "%" PRIu64 ".%" PRIu64, rate / 10, rate % 10);
    table_add(table, PLAIN, waits->recent.count > 0 ? wait_format(waits->recent.p50_ns, text) : "");
    table_add(table, PLAIN, waits->recent.count > 0 ? wait_format(waits->recent.p95_ns, text) : "");
    table_add(table, waits->recent_longest_ns >= LONG_WAIT_NS ? YELLOW : PLAIN,
              wait_format(waits->recent_longest_ns, text));
}

/* Of those that were called lately: in a table of its own, so that both fit a terminal. */
static void print_waits(const struct rows *rows)
{
    struct table table;
    table_start(&table, wait_columns, WAIT_COLUMNS);
    for (size_t i = 0; i < rows->count; i++)
        if (rows->at[i].waits.recent_calls > 0)
            add_waits(&table, &rows->at[i]);
    if (table.cell_count == 0)
        return;
    fputc('\n', stdout);
    table_print(&table, stdout, 2);
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

/* Faults on this side that are new: one line for all of a circuit's. */
static void print_faults(const struct row *row, uint64_t now_ns)
{
    if (!row_faults_are_new(&row->faults, now_ns))
        return;
    fputs("  note: ", stdout);
    print_safely(row->destination, stdout);
    for (unsigned int i = 0; i < row->faults.count; i++) {
        char *text = row_fault_text(&row->faults.at[i], now_ns);
        printf("%s%s", i > 0 ? "; " : ": ", text);
        free(text);
    }
    fputs(": the fault is on this side\n", stdout);
}

/* What running programs do not agree upon, once for each target. */
static void print_differences(const struct rows *rows, const struct running *running)
{
    for (size_t i = 0; running_differ(running) && i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        if (row->target == NULL || (i > 0 && row->target == rows->at[i - 1].target))
            continue;
        char *keys = differing_keys(running, row->target_name);
        if (keys != NULL) {
            fputs("  note: ", stdout);
            print_safely(row->target_name, stdout);
            fputs(": running programs differ: ", stdout);
            print_safely(keys, stdout);
            fputc('\n', stdout);
        }
        free(keys);
    }
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = *(const struct row *const *)a, *right = *(const struct row *const *)b;
    const unsigned int one = row_rank(left), other = row_rank(right);
    if (one != other)
        return one < other ? -1 : 1;
    return left < right ? -1 : left > right; /* they are of one list: in its order */
}

/* To be freed. */
static const struct row **worst_first(const struct rows *rows)
{
    const struct row **sorted = allocate(rows->count, sizeof *sorted);
    for (size_t i = 0; i < rows->count; i++)
        sorted[i] = &rows->at[i];
    qsort(sorted, rows->count, sizeof *sorted, compare_rows);
    return sorted;
}

void circuits_print(const struct rows *rows, const struct running *running, uint64_t now_ns)
{
    /* A section that is named after its one destination need not be named twice. */
    bool name_targets = false;
    if (rows->count == 0) {
        printf("  No calls yet.\n");
        return;
    }
    for (size_t i = 0; i < rows->count; i++)
        name_targets = name_targets || strcmp(rows->at[i].target_name, rows->at[i].destination) != 0;
    struct table table;
    table_start(&table, circuit_columns, CIRCUIT_COLUMNS);
    const struct row **sorted = worst_first(rows);
    for (size_t i = 0; i < rows->count; i++)
        add_circuit(&table, sorted[i], running, name_targets, now_ns);
    free(sorted);
    table_print_fitting(&table, stdout, 2, KEY_COLUMNS);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        print_faults(row, now_ns);
        print_note(row, COUNT_FALLBACK, "of the refused calls went to the fallback");
        print_note(row, COUNT_RETRIES, "of the calls tried a failed one again");
        print_note(row, COUNT_RETRIES_DENIED, "failed ones were not tried again: retry_budget was spent");
        print_note(row, COUNT_INJECTED, "of the calls got a fault in a rehearsal");
    }
    print_differences(rows, running);
    print_waits(rows);
}
