/*
 * observation.c - the table that `observe` writes. See observation.h.
 */
#define _GNU_SOURCE
#include "cli/observation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/duration.h"
#include "view/table.h"

static const struct column columns[] = {
    {"DESTINATION", false}, {"CALLS", true},      {"OK", true},          {"FAILED", true},
    {"NEUTRAL", true},      {"LATE", true},       {"UNENDED", true},     {"REFUSED", true},
    {"WAITED", true},       {"AT ONCE", true},    {"CONNECT P50", true}, {"P95", true},
    {"MAX", true},          {"ANSWER P50", true}, {"P95", true},         {"MAX", true},
};
#define COLUMNS (sizeof columns / sizeof *columns)

static int compare(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    if (left->waits.waited_us != right->waits.waited_us)
        return left->waits.waited_us > right->waits.waited_us ? -1 : 1;
    return strcmp(left->destination, right->destination);
}

void observation_sort(struct rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (rows->at[i].called && rows->at[i].counts[COUNT_ADMITTED] + rows->at[i].counts[COUNT_REFUSED] > 0)
            rows->at[kept++] = rows->at[i];
    rows->count = kept;
    if (kept > 0)
        qsort(rows->at, kept, sizeof *rows->at, compare);
}

static bool is_observed(const struct row *row)
{
    return row_mode(row) == MODE_OBSERVE;
}

struct would_be observation_would_be(const struct row *row)
{
    const struct learnt_view *learnt = &row->learnt;
    return (struct would_be){
        .opened = row->counts[COUNT_OPENED],
        .refused = row->counts[COUNT_REFUSED],
        .spared = learnt->shadow_calls[VERDICT_FAILURE],
        .spared_ns = learnt->shadow_waited_ns[VERDICT_FAILURE],
        .wronged = learnt->shadow_calls[VERDICT_SUCCESS] + learnt->shadow_calls[VERDICT_BUSINESS],
    };
}

/* Calls without an outcome: they wait still, or their process was killed. */
static uint64_t unended(const struct row *row)
{
    const uint64_t ended = row->counts[COUNT_SUCCEEDED] + row->counts[COUNT_FAILED] + row->counts[COUNT_NEUTRAL] +
                           row->counts[COUNT_BUSINESS] + row->counts[COUNT_LATE];
    return row->counts[COUNT_ADMITTED] > ended ? row->counts[COUNT_ADMITTED] - ended : 0;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void add_count(struct table *table, enum colour colour, uint64_t count)
{
    if (count > 0)
        table_addf(table, colour, "%" PRIu64, count);
    else
        table_add(table, PLAIN, "");
}

static void add_summary(struct table *table, const struct span_summary *summary)
{
    char text[SPAN_TEXT_MAX];
    table_add(table, PLAIN, summary->count > 0 ? wait_format(summary->p50_ns, text) : "-");
    table_add(table, PLAIN, summary->count > 0 ? wait_format(summary->p95_ns, text) : "-");
    table_add(table, PLAIN, summary->count > 0 ? wait_format(summary->max_ns, text) : "-");
}

static void add_row(struct table *table, const struct row *row)
{
    char text[SPAN_TEXT_MAX];
    table_add(table, PLAIN, row->destination);
    table_addf(table, PLAIN, "%" PRIu64, row->counts[COUNT_ADMITTED]);
    /* What the peer said no to, it has answered. */
    table_addf(table, PLAIN, "%" PRIu64, row->counts[COUNT_SUCCEEDED] + row->counts[COUNT_BUSINESS]);
    add_count(table, RED, row->counts[COUNT_FAILED]);
    add_count(table, PLAIN, row->counts[COUNT_NEUTRAL]);
    add_count(table, PLAIN, row->counts[COUNT_LATE]);
    add_count(table, YELLOW, unended(row));
    add_count(table, PLAIN, is_observed(row) ? 0 : row->counts[COUNT_REFUSED]);
    table_add(table, PLAIN, wait_format(row->waits.waited_us * NS_PER_US, text));
    table_addf(table, PLAIN, "%" PRIu32, row_most_waiting(row));
    add_summary(table, &row->waits.connects);
    add_summary(table, &row->waits.answers);
}

/* --- what is told below it ---------------------------------------------------------------------------------------- */

static void heading(const char *text, FILE *out)
{
    const bool coloured = colour_wanted(out);
    fprintf(out, "\n%s%s%s\n", colour_start(BOLD, coloured), text, colour_start(PLAIN, coloured));
}

/* "2 response-timeout, 1 refused" of some counts; false: there are none. */
static bool print_parts(const struct row *row, unsigned int first, unsigned int count,
                        const char *(*name)(unsigned int), FILE *out)
{
    bool any = false;
    for (unsigned int i = 1; i < count; i++) {
        if (row->counts[first + i] == 0)
            continue;
        fprintf(out, "%s%" PRIu64 " %s", any ? ", " : "", row->counts[first + i], name(i));
        any = true;
    }
    return any;
}

static void print_failures(const struct rows *rows, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        if (row->counts[COUNT_FAILED] + row->counts[COUNT_NEUTRAL] == 0)
            continue;
        if (!any)
            heading("Failed, and neutral: given up early, or a fault on this side", out);
        any = true;
        fprintf(out, "  %s: ", shown(row->destination));
        const bool failed = print_parts(row, COUNT_FAILURE_KIND, FAILURE_KINDS, failure_kind_name, out);
        if (row->counts[COUNT_NEUTRAL] > 0) {
            fputs(failed ? "; neutral: " : "neutral: ", out);
            print_parts(row, COUNT_NEUTRAL_REASON, NEUTRAL_REASONS, neutral_reason_name, out);
        }
        fputc('\n', out);
    }
}

static void print_timeouts(const struct rows *rows, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < rows->count; i++) {
        const struct timeouts *timeouts = &rows->at[i].timeouts;
        for (size_t j = 0; j < timeouts->count; j++) {
            const struct timeout *timeout = &timeouts->at[j];
            char *text = timeout_text(timeout);
            if (!any)
                heading("Gave up", out);
            any = true;
            fprintf(out, "  %s on %s, %s: %s\n", shown(timeout->program), shown(rows->at[i].destination),
                    timeout_wait_text(timeout->waits), text);
            free(text);
        }
        if (timeouts->without_room > 0)
            fprintf(out, "  %s: %" PRIu64 " waits of further programs were not noted\n", shown(rows->at[i].destination),
                    timeouts->without_room);
    }
}

static const char *calls(uint64_t count)
{
    return count == 1 ? "call" : "calls";
}

static void print_would_be(const struct row *row, FILE *out)
{
    const struct would_be would = observation_would_be(row);
    char span[SPAN_TEXT_MAX];
    fprintf(out, "  %s: opened %" PRIu64 " time%s, refused %" PRIu64 " %s", shown(row->destination), would.opened,
            would.opened == 1 ? "" : "s", would.refused, calls(would.refused));
    if (would.spared > 0)
        fprintf(out, "; %" PRIu64 " failed after %s of waiting in all, which it would have saved", would.spared,
                wait_format(would.spared_ns, span));
    if (would.wronged > 0)
        fprintf(out, "; %" PRIu64 " succeeded, which it would have refused wrongly", would.wronged);
    fputc('\n', out);
}

/* Of circuits that refuse nothing, what they would have done. */
static void print_circuits(const struct rows *rows, FILE *out)
{
    bool any = false, opened = false;
    for (size_t i = 0; i < rows->count; i++) {
        any = any || is_observed(&rows->at[i]);
        opened = opened || (is_observed(&rows->at[i]) && rows->at[i].counts[COUNT_OPENED] > 0);
    }
    if (!any)
        return;
    if (!opened) {
        fputs("\nNo circuit would have opened.\n", out);
        return;
    }
    heading("A circuit that refuses would have", out);
    for (size_t i = 0; i < rows->count; i++)
        if (is_observed(&rows->at[i]) && rows->at[i].counts[COUNT_OPENED] > 0)
            print_would_be(&rows->at[i], out);
}

void observation_print(const struct rows *rows, FILE *out)
{
    struct table table;
    table_start(&table, columns, COLUMNS);
    for (size_t i = 0; i < rows->count; i++)
        add_row(&table, &rows->at[i]);
    table_print_fitting(&table, out, 0, 1);
    print_failures(rows, out);
    print_timeouts(rows, out);
    print_circuits(rows, out);
}
