/*
 * top_pane.c - what `sockfuse top` tells of the chosen circuit. See top_pane.h.
 */
#define _GNU_SOURCE
#include "cli/top_pane.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/calls_output.h"
#include "view/duration.h"
#include "view/row_standing.h"
#include "cli/top_columns.h"
#include "cli/top_list.h"

#define INDENT 1
#define PANE_TEXT_MAX 512
/* From this width on calls and events stand side by side. */
#define SIDE_BY_SIDE 118
#define CALLS_WIDTH 50

const char *top_clock(uint64_t wall_ns, uint64_t today_ns, char text[CLOCK_TEXT_MAX])
{
    const time_t then = (time_t)(wall_ns / NS_PER_S), today = (time_t)(today_ns / NS_PER_S);
    struct tm local, now;
    localtime_r(&then, &local);
    localtime_r(&today, &now);
    const bool is_today = local.tm_yday == now.tm_yday && local.tm_year == now.tm_year;
    if (strftime(text, CLOCK_TEXT_MAX, is_today ? "%H:%M:%S" : "%m-%d %Hh", &local) == 0)
        text[0] = '\0';
    return text;
}

void top_pane_put_title(struct canvas *canvas, int line, const char *title, const char *more, const char *right)
{
    canvas_rule(canvas, line, 0, canvas->width, STYLE_DIM);
    int at = 2;
    at += canvas_putf(canvas, line, at, canvas->width - at - 1, STYLE_BOLD, " %s ", title);
    if (more[0] != '\0' && at < canvas->width - 4)
        at += canvas_putf(canvas, line, at, canvas->width - at - 1, STYLE_PLAIN, "%s ", more);
    const int room = canvas->width - at - 3;
    if (room > 12 && right[0] != '\0')
        canvas_put_right(canvas, line, at + 1, room, STYLE_DIM, right);
}

/* --- in lines ----------------------------------------------------------------------------------------------------- */

static FILE *line_start(char line[PANE_TEXT_MAX])
{
    memset(line, 0, PANE_TEXT_MAX);
    return fmemopen(line, PANE_TEXT_MAX - 1, "w");
}

static void line_end(struct canvas *canvas, int row, unsigned int style, FILE *out, const char *line)
{
    fclose(out);
    canvas_put(canvas, row, INDENT, canvas->width - 2 * INDENT, style, line);
}

static void put_state(struct canvas *canvas, int line, const struct top_row *of, uint64_t now_ns)
{
    const struct row *row = of->row;
    char text[PANE_TEXT_MAX], span[SPAN_TEXT_MAX];
    uint64_t retry_ms;
    FILE *out = line_start(text);
    if (out == NULL)
        return;
    fputs(top_state(of), out);
    if (row->view.since_ns != 0)
        fprintf(out, " for %s", span_format(span_since(row->view.since_ns, now_ns), span));
    if (row->forced_left_ns > 0)
        fprintf(out, ", given back in %s", span_format(row->forced_left_ns, span));
    if (row_retry_in_ms(row, &retry_ms) && retry_ms > 0)
        fprintf(out, ", a probe in %s", span_format(retry_ms * NS_PER_MS, span));
    if (row_state(row) == CIRCUIT_CLOSED && row->target != NULL && row->called &&
        row->target->breaker.failure_threshold > 0)
        fprintf(out, ", %" PRIu32 " failure%s in a row, %" PRIu32 " open it", row->view.failures,
                row->view.failures == 1 ? "" : "s", row->target->breaker.failure_threshold);
    if (row_rehearses(row))
        fputs(", rehearsal", out);
    line_end(canvas, line, top_state_style(row), out, text);
}

static void put_counts(struct canvas *canvas, int line, const struct row *row)
{
    static const struct {
        unsigned int counter;
        const char *name;
    } parts[] = {{COUNT_FAILED, "failed"},
                 {COUNT_NEUTRAL_REASON + NEUTRAL_LOCAL, "failed on this side"},
                 {COUNT_BUSINESS, "answered no"},
                 {COUNT_LATE, "late"}};
    char text[PANE_TEXT_MAX];
    FILE *out = line_start(text);
    if (out == NULL)
        return;
    fprintf(out, "calls %" PRIu64 ": %" PRIu64 " succeeded", row->counts[COUNT_ADMITTED], row->counts[COUNT_SUCCEEDED]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (row->counts[parts[i].counter] > 0)
            fprintf(out, ", %" PRIu64 " %s", row->counts[parts[i].counter], parts[i].name);
    fprintf(out, "; refused besides %" PRIu64, row->counts[COUNT_REFUSED]);
    line_end(canvas, line, STYLE_PLAIN, out, text);
}

static void put_waits(struct canvas *canvas, int line, const struct row *row)
{
    const struct row_waits *waits = &row->waits;
    char text[PANE_TEXT_MAX], p50[SPAN_TEXT_MAX], p95[SPAN_TEXT_MAX], span[SPAN_TEXT_MAX];
    FILE *out = line_start(text);
    if (out == NULL)
        return;
    const uint64_t rate = row_waits_rate(waits);
    if (waits->recent_calls == 0)
        fputs("last minute: no call ended", out);
    else
        fprintf(out, "last minute: %" PRIu64 ".%" PRIu64 " calls/s", rate / 10, rate % 10);
    if (waits->recent_calls > 0 && waits->recent.count > 0)
        fprintf(out, ", P50 %s, P95 %s", wait_format(waits->recent.p50_ns, p50),
                wait_format(waits->recent.p95_ns, p95));
    if (waits->recent_calls > 0)
        fprintf(out, ", max %s", wait_format(waits->recent_longest_ns, span));
    line_end(canvas, line, STYLE_PLAIN, out, text);
}

static void put_last_failure(struct canvas *canvas, int line, const struct row *row, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX], label[FAILURE_LABEL_MAX];
    const struct event *failure = &row->last_failure;
    if (row->has_failure)
        canvas_putf(canvas, line, INDENT, canvas->width - 2 * INDENT, STYLE_PLAIN,
                    "last failure: %s, %s ago, pid %" PRIu32 " (%s)",
                    failure_label(failure->kind, failure->http_status, label),
                    span_format(span_since(failure->mono_ns, now_ns), span), failure->pid, failure->program);
    else
        canvas_put(canvas, line, INDENT, canvas->width - 2 * INDENT, STYLE_PLAIN, "no failure yet");
}

/* --- calls and events --------------------------------------------------------------------------------------------- */

struct box {
    int top, left, width, rows;
};

static void put_more(struct canvas *canvas, const struct box *box, int line, size_t left_out)
{
    canvas_putf(canvas, line, box->left, box->width, STYLE_DIM, "and %zu more (sockfuse calls)", left_out);
}

static void put_call(struct canvas *canvas, const struct box *box, int line, const struct inflight_call *call)
{
    const struct process_view *process = &call->owner->process;
    const unsigned int style = call->is_overdue                  ? STYLE_RED
                               : call->waited_ns >= LONG_WAIT_NS ? STYLE_YELLOW
                                                                 : STYLE_PLAIN;
    char span[SPAN_TEXT_MAX];
    const int end = box->left + box->width;
    int at = box->left;
    canvas_put_right(canvas, line, at, 7, style, span_format(call->waited_ns, span));
    at += 8;
    if (call->limit_ns != 0)
        canvas_putf(canvas, line, at, 9, STYLE_PLAIN, "of %s", span_format(call->limit_ns, span));
    at += 10;
    canvas_put(canvas, line, at, 8, STYLE_PLAIN, inflight_phase(call->phase));
    at += 9;
    canvas_putf(canvas, line, at, 8, style, "%s", call->is_overdue ? "OVERDUE" : call->is_probe ? "probe" : "");
    at += 9;
    at += canvas_putf(canvas, line, at, end - at, STYLE_PLAIN, "%s[%" PRIu32 "]%s", process->program, process->pid,
                      process->is_near ? "" : " of a container");
    if (call->owner->uid != geteuid() && end - at > 3)
        canvas_putf(canvas, line, at, end - at, STYLE_DIM, "  %s", calls_user(call->owner->uid));
}

static void put_calls(struct canvas *canvas, const struct box *box, const struct inflight *calls, uint32_t most)
{
    size_t overdue = 0;
    for (size_t i = 0; i < calls->count; i++)
        overdue += calls->at[i].is_overdue;
    int used = canvas_put(canvas, box->top, box->left, box->width, STYLE_DIM, "CALLS IN FLIGHT  ");
    used += canvas_putf(canvas, box->top, box->left + used, box->width - used, STYLE_PLAIN, "%zu", calls->count);
    if (overdue > 0)
        used += canvas_putf(canvas, box->top, box->left + used, box->width - used, STYLE_RED, ", %zu overdue", overdue);
    canvas_putf(canvas, box->top, box->left + used, box->width - used, STYLE_DIM, "; at most %" PRIu32 " at once",
                most);
    const size_t room = box->rows > 1 ? (size_t)box->rows - 1 : 0;
    for (size_t i = 0; i < calls->count && i < room; i++) {
        const int line = box->top + 1 + (int)i;
        if (i + 1 == room && calls->count > room)
            put_more(canvas, box, line, calls->count - i);
        else
            put_call(canvas, box, line, &calls->at[i]);
    }
}

static unsigned int event_style(const struct event *event)
{
    switch (event->type) {
    case EVENT_OPEN:
        return STYLE_RED;
    case EVENT_HALF_OPEN:
    case EVENT_PROBE:
    case EVENT_FORCED:
    case EVENT_HELD:
    case EVENT_RETRY:
    case EVENT_ALERT:
        return STYLE_YELLOW;
    case EVENT_CLOSE:
        return STYLE_GREEN;
    default:
        return STYLE_PLAIN;
    }
}

static void put_event(struct canvas *canvas, const struct box *box, int line, const struct event *event,
                      uint64_t wall_ns)
{
    char clock[CLOCK_TEXT_MAX], what[EVENT_JSON_MAX];
    const bool has_program = event->type != EVENT_FORCED && event->type != EVENT_RELOAD && event->program[0] != '\0';
    const int end = box->left + box->width;
    int at = box->left;
    canvas_put(canvas, line, at, 9, STYLE_DIM, top_clock(event->time_ns, wall_ns, clock));
    at += 10;
    canvas_put(canvas, line, at, 9, event_style(event), event_type_name(event->type));
    at += 10;
    if (event_what(event, what, sizeof what) > 0)
        at += canvas_put(canvas, line, at, end - at, STYLE_PLAIN, what);
    if (has_program && end - at > 4)
        canvas_putf(canvas, line, at, end - at, STYLE_DIM, "  %s[%" PRIu32 "]", event->program, event->pid);
}

static void put_events(struct canvas *canvas, const struct box *box, const struct top_detail *detail, uint64_t wall_ns)
{
    canvas_put(canvas, box->top, box->left, box->width, STYLE_DIM, "LAST EVENTS");
    if (detail->event_count == 0 && box->rows > 1)
        canvas_put(canvas, box->top + 1, box->left, box->width, STYLE_DIM, "none");
    for (size_t i = 0; i < detail->event_count && (int)i + 1 < box->rows; i++)
        put_event(canvas, box, box->top + 1 + (int)i, &detail->events[i], wall_ns);
}

/* Side by side, or the calls above the events, which get at least half of the rows. */
static void put_both(struct canvas *canvas, int top, int rows, const struct top_detail *detail, uint32_t most,
                     uint64_t wall_ns)
{
    const int width = canvas->width - 2 * INDENT;
    struct box calls = {top, INDENT, width, rows}, events = calls;
    if (canvas->width >= SIDE_BY_SIDE) {
        calls.width = CALLS_WIDTH;
        events.left = calls.left + calls.width + 2;
        events.width = width - calls.width - 2;
    } else {
        const int wanted = 1 + (int)detail->calls.count;
        calls.rows = wanted < rows / 2 ? wanted : rows / 2;
        events.top = top + calls.rows;
        events.rows = rows - calls.rows;
    }
    if (calls.rows > 0)
        put_calls(canvas, &calls, &detail->calls, most);
    if (events.rows > 1)
        put_events(canvas, &events, detail, wall_ns);
}

void top_pane_put(struct canvas *canvas, int top, int rows, const struct top_row *row, const struct top_detail *detail,
                  const struct top_sight *sight)
{
    const int end = top + rows;
    int line = top;
    const char *name = row->row->destination[0] != '\0' ? row->row->destination : row->row->target_name;
    char right[PANE_TEXT_MAX], target[PANE_TEXT_MAX] = "";
    snprintf(right, sizeof right, " %s%s ", row->policy, row->whose);
    if (strcmp(name, row->row->target_name) != 0)
        snprintf(target, sizeof target, "[%s]", row->row->target_name);
    top_pane_put_title(canvas, line++, name, target, right);
    if (line < end)
        put_state(canvas, line++, row, sight->now_ns);
    if (!row->row->called)
        return;
    if (line < end)
        put_counts(canvas, line++, row->row);
    if (line < end)
        put_waits(canvas, line++, row->row);
    if (line < end && rows >= 10)
        put_last_failure(canvas, line++, row->row, sight->now_ns);
    if (detail->key == row->key && line < end)
        put_both(canvas, line, end - line, detail, row_most_waiting(row->row), sight->wall_ns);
}
