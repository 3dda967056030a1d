/*
 * circuit_page.c - one circuit on a page of its own. See circuit_page.h.
 *
 * What comes from a policy or a segment is printed safely; the page fits 80 columns but for names and events.
 */
#include "view/circuit_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/calls_output.h"
#include "view/output.h"
#include "view/duration.h"
#include "view/event_print.h"
#include "view/local_time.h"
#include "view/table.h"
#include "view/waiting_thread.h"
#include "segment/circuits.h"
#include "segment/journal.h"

#define LABEL_WIDTH 14
#define BAR_WIDTH 40u
#define EVENTS_SHOWN 5u
/* So far back events of this circuit are looked for. */
#define EVENTS_LOOKED_AT 2048u

static void label(const char *text)
{
    printf("  %-*s", LABEL_WIDTH, text);
}

static void print_state(const struct row *row, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX];
    uint64_t retry_ms;
    label("State");
    printf("%s%s", circuit_state_name(row_state(row)), row->ended != ENDED_NOT ? " (ended)" : "");
    if (row->forced != FORCED_NONE)
        fputs(" (forced)", stdout);
    if (row->hold != HOLD_NONE)
        fputs(row->hold == HOLD_FLEET ? " (in the fleet)" : " (its health check fails)", stdout);
    if (row_probe_due(row))
        fputs(", probe due", stdout);
    if (row->view.since_ns != 0)
        printf(", for %s", span_format(span_since(row->view.since_ns, now_ns), span));
    if (row_retry_in_ms(row, &retry_ms) && retry_ms > 0)
        printf(", next probe in %s", span_format(retry_ms * NS_PER_MS, span));
    fputc('\n', stdout);
    if (row_state(row) == CIRCUIT_CLOSED && row->target != NULL) {
        label("Failures");
        printf("%" PRIu32 " in a row, %" PRIu32 " open it\n", row->view.failures,
               row->target->breaker.failure_threshold);
    }
}

/* "3 refused, 1 http-503" of what is counted, in brackets; nothing of none. */
static void print_parts(const struct row *row, unsigned int first, unsigned int count,
                        const char *(*name)(unsigned int))
{
    const char *before = " (";
    for (unsigned int i = 1; i < count; i++) {
        if (row->counts[first + i] == 0)
            continue;
        printf("%s%" PRIu64 " %s", before, row->counts[first + i], name(i));
        before = ", ";
    }
    if (before[0] == ',')
        fputc(')', stdout);
}

static void print_counts(const struct row *row)
{
    label("Calls");
    printf("%" PRIu64 ", succeeded %" PRIu64, row->counts[COUNT_ADMITTED], row->counts[COUNT_SUCCEEDED]);
    if (row->counts[COUNT_BUSINESS] > 0)
        printf(", answered no %" PRIu64, row->counts[COUNT_BUSINESS]);
    if (row->counts[COUNT_LATE] > 0)
        printf(", late %" PRIu64, row->counts[COUNT_LATE]);
    printf(", refused besides %" PRIu64 "\n", row->counts[COUNT_REFUSED]);
    label("");
    printf("failed %" PRIu64, row->counts[COUNT_FAILED]);
    print_parts(row, COUNT_FAILURE_KIND, FAILURE_KINDS, failure_kind_name);
    fputc('\n', stdout);
    if (row->counts[COUNT_NEUTRAL] > 0) {
        label("");
        printf("neutral %" PRIu64, row->counts[COUNT_NEUTRAL]);
        print_parts(row, COUNT_NEUTRAL_REASON, NEUTRAL_REASONS, neutral_reason_name);
        fputc('\n', stdout);
    }
}

/* What failed without the destination's doing. */
static void print_faults(const struct row *row, uint64_t now_ns)
{
    for (unsigned int i = 0; i < row->faults.count; i++) {
        char *text = row_fault_text(&row->faults.at[i], now_ns);
        label(i == 0 ? "Local faults" : "");
        printf("%s%s\n", text, i + 1 == row->faults.count ? ": the fault is on this side" : "");
        free(text);
    }
}

static void print_outage(const struct row *row)
{
    char span[SPAN_TEXT_MAX], time[LOCAL_TIME_MAX];
    const struct event_outage *outage = &row->outage.event.outage;
    if (!row->outage.is_known)
        return;
    char *text = row_outage_text(&row->outage);
    label(row->outage.lasts ? "Outage" : "Last outage");
    printf("%s%s, since %s\n", row->outage.lasts ? "for " : "", span_format(outage->lasted_ns, span),
           local_time(outage->time_ns, time));
    label("");
    printf("%s\n", text);
    free(text);
}

static void print_last_failure(const struct row *row, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX], kind[FAILURE_LABEL_MAX];
    const struct event *failure = &row->last_failure;
    if (!row->has_failure)
        return;
    label("Last failure");
    printf("%s, %s ago, pid %" PRIu32 " (%s)\n", failure_label(failure->kind, failure->http_status, kind),
           span_format(span_since(failure->mono_ns, now_ns), span), failure->pid, shown(failure->program));
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

static void print_summary(const char *name, const struct span_summary *summary, const char *what)
{
    char p50[SPAN_TEXT_MAX], p95[SPAN_TEXT_MAX], p99[SPAN_TEXT_MAX];
    label(name);
    if (summary->count == 0) {
        printf("no %s yet\n", what);
        return;
    }
    printf("P50 %s, P95 %s, P99 %s, of %" PRIu64 " %s\n", wait_format(summary->p50_ns, p50),
           wait_format(summary->p95_ns, p95), wait_format(summary->p99_ns, p99), summary->count, what);
}

static void print_waits(const struct row *row)
{
    const struct row_waits *waits = &row->waits;
    char span[SPAN_TEXT_MAX], p50[SPAN_TEXT_MAX], p95[SPAN_TEXT_MAX];
    label("Waiting");
    printf("%" PRIu32, row->waiting.calls);
    if (row->waiting.overdue > 0)
        printf(", %" PRIu32 " overdue", row->waiting.overdue);
    if (row->waiting.calls > 0)
        printf(", the oldest %s", span_format(row->waiting.oldest_ns, span));
    printf("; at most %" PRIu32 " at once\n", row_most_waiting(row));
    label("Waited");
    printf("%s in all%s\n", span_format(waits->waited_us * 1000, span),
           row->waiting.calls > 0 ? "; a call counts when it is over, or beyond its limit" : "");
    label("Last minute");
    if (waits->recent_calls == 0) {
        fputs("no call ended\n", stdout);
    } else {
        const uint64_t rate = row_waits_rate(waits);
        printf("%" PRIu64 ".%" PRIu64 " calls/s", rate / 10, rate % 10);
        if (waits->recent.count > 0)
            printf(", P50 %s, P95 %s", wait_format(waits->recent.p50_ns, p50), wait_format(waits->recent.p95_ns, p95));
        printf(", max %s\n", wait_format(waits->recent_longest_ns, span));
    }
    print_summary("Connecting", &waits->connects, "connections");
    print_summary("First byte", &waits->answers, "answers");
}

/* After how long each program was seen to give up. */
static void print_timeouts(const struct timeouts *timeouts)
{
    for (size_t i = 0; i < timeouts->count; i++) {
        char *text = timeout_text(&timeouts->at[i]);
        label(i == 0 ? "Gives up" : "");
        printf("%s, %s: %s\n", shown(timeouts->at[i].program), timeout_wait_text(timeouts->at[i].waits), text);
        free(text);
    }
    if (timeouts->without_room > 0) {
        label("");
        printf("(%" PRIu64 " waits of further programs were not noted)\n", timeouts->without_room);
    }
}

/* Where a line of the chart ends: 1, 2 and 5 of each power of ten from 10 us on. */
static uint64_t next_bound(uint64_t bound_ns)
{
    uint64_t power = 10000;
    while (power * 10 <= bound_ns)
        power *= 10;
    return bound_ns < 10000 ? 10000 : bound_ns / power < 2 ? 2 * power : bound_ns / power < 5 ? 5 * power : 10 * power;
}

static void print_bar(uint64_t from_ns, uint64_t to_ns, uint64_t count, uint64_t most)
{
    char from[SPAN_TEXT_MAX], to[SPAN_TEXT_MAX], bar[BAR_WIDTH + 1];
    /* One that is not empty is seen. */
    const uint64_t length = count > 0 ? 1 + (uint64_t)((double)count / (double)most * (BAR_WIDTH - 1)) : 0;
    memset(bar, '#', sizeof bar);
    bar[length <= BAR_WIDTH ? length : BAR_WIDTH] = '\0';
    printf("  %*s%7s - %-7s %-*s %" PRIu64 "\n", 2, "", from_ns > 0 ? wait_format(from_ns, from) : "0",
           wait_format(to_ns, to), (int)BAR_WIDTH, bar, count);
}

struct chart {
    uint64_t to_ns[64], counts[64];
    size_t lines;
};

static void chart_fill(struct chart *chart, const struct distribution *distribution)
{
    uint64_t bound_ns = 10000;
    *chart = (struct chart){.lines = 1, .to_ns = {10000}};
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        for (; histogram_middle(bucket) >= bound_ns && chart->lines < 64; chart->lines++)
            chart->to_ns[chart->lines] = bound_ns = next_bound(bound_ns);
        chart->counts[chart->lines - 1] += distribution->counts[bucket];
    }
}

static void print_chart(const struct distribution *distribution)
{
    struct chart chart;
    size_t first = 0, last = 0;
    uint64_t most = 0;
    chart_fill(&chart, distribution);
    for (size_t i = 0; i < chart.lines; i++) {
        if (chart.counts[i] == 0)
            continue;
        if (most == 0)
            first = i;
        last = i;
        if (chart.counts[i] > most)
            most = chart.counts[i];
    }
    if (most == 0)
        return;
    fputs("\n  First byte, since the circuit was made\n", stdout);
    for (size_t i = first; i <= last; i++)
        print_bar(i > 0 ? chart.to_ns[i - 1] : 0, chart.to_ns[i], chart.counts[i], most);
}

/* --- what goes on ------------------------------------------------------------------------------------------------- */

static void print_calls(const struct selected *selected, uint32_t circuit, uint64_t now_ns)
{
    struct inflight inflight = {0};
    inflight_add(&inflight, &selected->segment, selected, now_ns);
    inflight_find_threads(&inflight);
    inflight_keep_circuit(&inflight, circuit);
    inflight_find_users(&inflight);
    inflight_sort(&inflight);
    if (inflight.count > 0) {
        fputs("\n  In flight\n", stdout);
        calls_print_table(&inflight, stdout, 2);
    }
    inflight_free(&inflight);
}

static bool is_of(const struct event *event, const struct row *row)
{
    return strcmp(event->target, row->target_name) == 0 && strcmp(event->destination, row->destination) == 0;
}

static void print_events(const struct segment *segment, const struct row *row)
{
    uint64_t oldest, head, numbers[EVENTS_SHOWN];
    size_t count = 0;
    struct event event;
    struct event_columns columns;
    journal_span(segment, &oldest, &head);
    for (uint64_t number = head; number > oldest && head - number < EVENTS_LOOKED_AT && count < EVENTS_SHOWN;) {
        number--;
        if (journal_read(segment, number, &event) && is_of(&event, row))
            numbers[count++] = number;
    }
    if (count > 0)
        fputs("\n  Last events\n", stdout);
    event_columns_start(&columns, stdout, 2, true);
    for (size_t i = 0; i < count; i++)
        if (journal_read(segment, numbers[i], &event))
            event_columns_fit(&columns, &event);
    while (count-- > 0) {
        if (journal_read(segment, numbers[count], &event))
            event_columns_print(&columns, &event, "");
    }
}

static void print_value(const char *key, const char *value, const char *origin, void *context)
{
    bool *any = context;
    /* What is as built in is in the manual. */
    if (strcmp(origin, "built in") == 0 || strcmp(key, "match") == 0)
        return;
    if (!*any)
        fputs("\n  In force, beside what is built in\n", stdout);
    *any = true;
    printf("  %s = ", key);
    print_safely(value, stdout);
    fputc('\n', stdout);
}

void circuit_page_print(const struct selected *selected, const struct row *row, uint64_t now_ns)
{
    const bool coloured = colour_wanted(stdout);
    fputs(colour_start(BOLD, coloured), stdout);
    print_safely(row->destination[0] != '\0' ? row->destination : row->target_name, stdout);
    fputs(colour_start(PLAIN, coloured), stdout);
    printf("  [%s]  ", shown(row->target_name));
    print_safely(selected->identity, stdout);
    printf("%s\n", selected->whose);
    print_state(row, now_ns);
    print_outage(row);
    print_counts(row);
    print_faults(row, now_ns);
    print_last_failure(row, now_ns);
    if (row->called && selected->segment.map != NULL) {
        struct latency_view *view = allocate(1, sizeof *view);
        struct row_waits waits;
        const uint32_t circuit = circuits_stand(&selected->segment, row->target_name, row->destination);
        print_waits(row);
        print_timeouts(&row->timeouts);
        if (circuit != CIRCUIT_INDEX_NONE) {
            row_waits_read(&waits, &selected->segment, circuit, now_ns, view);
            print_chart(&view->answers);
            print_calls(selected, circuit, now_ns);
        }
        free(view);
        print_events(&selected->segment, row);
    }
    bool any = false;
    if (row->target != NULL)
        policy_describe(row->target, print_value, &any);
}
