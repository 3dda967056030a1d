/*
 * top_columns.c - the table of circuits of `sockfuse top`. See top_columns.h.
 */
#include "cli/top_columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "view/duration.h"
#include "view/row_standing.h"
#include "cli/top_list.h"

#define MARK_WIDTH 1 /* before the chosen row, for terminals that can't show it otherwise */
#define GAP 1
#define FIGURE_MAX 64

static const struct {
    const char *title;
    bool right;
    int least, usual; /* columns */
    int sort;         /* the order that goes by it; -1: none */
} rules[TOP_COLUMNS] = {
    [COLUMN_DESTINATION] = {"DESTINATION", false, 16, 21, SORT_NAME},
    [COLUMN_STATE] = {"STATE", false, 9, 16, SORT_WORST},
    [COLUMN_PAUSE] = {"PAUSE", true, 6, 6, -1},
    [COLUMN_WAITING] = {"WAIT", true, 5, 5, SORT_WAITING},
    [COLUMN_OLDEST] = {"OLDEST", true, 6, 6, SORT_OLDEST},
    [COLUMN_FAILURES] = {"IN ROW", true, 6, 6, -1},
    [COLUMN_RATE] = {"CALLS/S", true, 7, 7, SORT_RATE},
    [COLUMN_P95] = {"P95", true, 6, 6, SORT_P95},
    [COLUMN_FAILED] = {"FAILED", true, 7, 7, SORT_FAILED},
    [COLUMN_REFUSED] = {"REFUSED", true, 7, 7, SORT_REFUSED},
    [COLUMN_LAST_FAILURE] = {"LAST FAILURE", false, 28, 28, -1},
    [COLUMN_TARGET] = {"TARGET", false, 12, 12, -1},
    [COLUMN_POLICY] = {"POLICY", false, 20, 20, -1},
    [COLUMN_OUTCOMES] = {"OUTCOMES", false, 8, 12, -1},
};
/* The first ones are always there; of the others as many as have room. */
static const enum top_column ranks[TOP_COLUMNS] = {
    COLUMN_DESTINATION, COLUMN_STATE,        COLUMN_WAITING,  COLUMN_OLDEST,  COLUMN_OUTCOMES,
    COLUMN_PAUSE,       COLUMN_RATE,         COLUMN_FAILURES, COLUMN_REFUSED, COLUMN_P95,
    COLUMN_FAILED,      COLUMN_LAST_FAILURE, COLUMN_TARGET,   COLUMN_POLICY,
};
#define ALWAYS 4u
/* Who gets what is left over, in this order, up to so many columns. */
static const struct {
    enum top_column column;
    int most;
} takers[] = {
    {COLUMN_DESTINATION, 26}, {COLUMN_OUTCOMES, 24},    {COLUMN_STATE, 19},
    {COLUMN_TARGET, 20},      {COLUMN_DESTINATION, 40}, {COLUMN_OUTCOMES, OUTCOME_TICKS},
};
#define TAKERS (sizeof takers / sizeof *takers)

/* --- where -------------------------------------------------------------------------------------------------------- */

static void widen(struct top_columns *columns, enum top_column column, int most, int *left)
{
    if (columns->width[column] == 0 || columns->width[column] >= most)
        return;
    const int more = most - columns->width[column] < *left ? most - columns->width[column] : *left;
    columns->width[column] += more;
    *left -= more;
}

void top_columns_lay(struct top_columns *columns, int page_width)
{
    int left = page_width - MARK_WIDTH + GAP, at = MARK_WIDTH;
    memset(columns, 0, sizeof *columns);
    for (unsigned int i = 0; i < ALWAYS; i++) {
        columns->width[ranks[i]] = rules[ranks[i]].least;
        left -= rules[ranks[i]].least + GAP;
    }
    for (unsigned int i = 0; i < ALWAYS; i++)
        widen(columns, ranks[i], rules[ranks[i]].usual, &left);
    for (unsigned int i = ALWAYS; i < TOP_COLUMNS; i++) {
        if (left < rules[ranks[i]].usual + GAP)
            continue;
        columns->width[ranks[i]] = rules[ranks[i]].usual;
        left -= rules[ranks[i]].usual + GAP;
    }
    for (unsigned int i = 0; i < TAKERS; i++)
        widen(columns, takers[i].column, takers[i].most, &left);
    for (unsigned int i = 0; i < TOP_COLUMNS; i++) {
        columns->at[i] = at;
        at += columns->width[i] > 0 ? columns->width[i] + GAP : 0;
    }
}

void top_columns_put_titles(const struct top_columns *columns, struct canvas *canvas, int line, enum top_sort sort)
{
    for (unsigned int i = 0; i < TOP_COLUMNS; i++) {
        const unsigned int style = rules[i].sort == (int)sort ? STYLE_BOLD : STYLE_DIM;
        if (rules[i].right)
            canvas_put_right(canvas, line, columns->at[i], columns->width[i], style, rules[i].title);
        else if (columns->width[i] > 0)
            canvas_put(canvas, line, columns->at[i], columns->width[i], style, rules[i].title);
    }
}

/* --- what --------------------------------------------------------------------------------------------------------- */

unsigned int top_wait_style(const struct row *row)
{
    if (row->waiting.overdue > 0)
        return STYLE_RED;
    return row->waiting.oldest_ns >= LONG_WAIT_NS ? STYLE_YELLOW : STYLE_PLAIN;
}

unsigned int top_state_style(const struct row *row)
{
    const enum circuit_state state = row_state(row);
    if (row->ended != ENDED_NOT || row->destination[0] == '\0' || row_is_hidden(row) ||
        (row->target != NULL && row->target->mode == MODE_OFF))
        return STYLE_DIM;
    if (row_probe_due(row) || state == CIRCUIT_HALF_OPEN)
        return STYLE_YELLOW;
    if (state == CIRCUIT_OPEN)
        return STYLE_RED | STYLE_BOLD;
    /* A closed circuit whose calls hang is not well. */
    return top_wait_style(row) != STYLE_PLAIN ? top_wait_style(row) : STYLE_GREEN;
}

/* "850", "12.3k", "4.5M": in five columns. */
static void format_count(uint64_t count, char text[FIGURE_MAX])
{
    static const char units[] = " kMGTPE";
    unsigned int unit = 0;
    uint64_t rest = 0;
    if (count < 100000) {
        snprintf(text, FIGURE_MAX, "%" PRIu64, count);
        return;
    }
    for (; count >= 1000; unit++) {
        rest = count % 1000;
        count /= 1000;
    }
    if (count < 100)
        snprintf(text, FIGURE_MAX, "%" PRIu64 ".%" PRIu64 "%c", count, rest / 100, units[unit]);
    else
        snprintf(text, FIGURE_MAX, "%" PRIu64 "%c", count, units[unit]);
}

/* What is left of a pause, or of an operator's word. */
static void format_pause(const struct row *row, char text[FIGURE_MAX])
{
    char span[SPAN_TEXT_MAX];
    uint64_t retry_ms;
    text[0] = '\0';
    if (row->forced_left_ns > 0)
        snprintf(text, FIGURE_MAX, "%s", span_format(row->forced_left_ns, span));
    else if (row_retry_in_ms(row, &retry_ms) && retry_ms > 0)
        snprintf(text, FIGURE_MAX, "%s", span_format(retry_ms * NS_PER_MS, span));
}

static void format_rate(const struct row *row, char text[FIGURE_MAX])
{
    const uint64_t rate = row_waits_rate(&row->waits);
    if (rate >= 100000)
        format_count(rate / 10, text);
    else if (rate > 0)
        snprintf(text, FIGURE_MAX, "%" PRIu64 ".%" PRIu64, rate / 10, rate % 10);
}

static void format_failures(const struct row *row, char text[FIGURE_MAX])
{
    const bool counts = row->view.state == CIRCUIT_CLOSED && row->target != NULL &&
                        row->target->breaker.failure_threshold > 0 && row_mode(row) != MODE_CLOSED;
    if (counts)
        snprintf(text, FIGURE_MAX, "%" PRIu32 "/%" PRIu32, row->view.failures, row->target->breaker.failure_threshold);
}

static void format_last_failure(const struct row *row, uint64_t now_ns, char text[FIGURE_MAX])
{
    char span[SPAN_TEXT_MAX], label[FAILURE_LABEL_MAX];
    if (row->has_failure)
        snprintf(text, FIGURE_MAX, "%s, %s ago",
                 failure_label(row->last_failure.kind, row->last_failure.http_status, label),
                 span_format(span_since(row->last_failure.mono_ns, now_ns), span));
}

/* The figures of a circuit that stands; what says nothing is "". */
static void format_figure(enum top_column column, const struct row *row, uint64_t now_ns, char text[FIGURE_MAX])
{
    char span[SPAN_TEXT_MAX];
    text[0] = '\0';
    switch (column) {
    case COLUMN_PAUSE:
        format_pause(row, text);
        break;
    case COLUMN_WAITING:
        if (row->waiting.calls > 0)
            format_count(row->waiting.calls, text);
        break;
    case COLUMN_OLDEST:
        if (row->waiting.calls > 0)
            snprintf(text, FIGURE_MAX, "%s", span_format(row->waiting.oldest_ns, span));
        break;
    case COLUMN_FAILURES:
        format_failures(row, text);
        break;
    case COLUMN_RATE:
        format_rate(row, text);
        break;
    case COLUMN_P95:
        if (row->waits.recent_calls > 0 && row->waits.recent.count > 0)
            snprintf(text, FIGURE_MAX, "%s", wait_format(row->waits.recent.p95_ns, span));
        break;
    case COLUMN_FAILED:
        format_count(row->counts[COUNT_FAILED], text);
        break;
    case COLUMN_REFUSED:
        format_count(row->counts[COUNT_REFUSED], text);
        break;
    case COLUMN_LAST_FAILURE:
        format_last_failure(row, now_ns, text);
        break;
    default:
        break;
    }
}

static unsigned int style_of(enum top_column column, const struct row *row)
{
    switch (column) {
    case COLUMN_STATE:
        return top_state_style(row);
    case COLUMN_WAITING:
        return row->waiting.overdue > 0 ? STYLE_RED : STYLE_PLAIN;
    case COLUMN_OLDEST:
        return top_wait_style(row);
    default:
        return row->ended != ENDED_NOT ? STYLE_DIM : STYLE_PLAIN;
    }
}

/* Names as they came; the canvas makes them safe. */
static const char *text_of(enum top_column column, const struct top_row *of, uint64_t now_ns, char figure[FIGURE_MAX])
{
    const struct row *row = of->row;
    switch (column) {
    case COLUMN_DESTINATION:
        return row->destination[0] != '\0' ? row->destination : row->target_name;
    case COLUMN_STATE:
        return top_state(of);
    case COLUMN_TARGET:
        return row->target_name;
    case COLUMN_POLICY: /* of a path the end tells more */
        return strrchr(of->policy, '/') != NULL ? strrchr(of->policy, '/') + 1 : of->policy;
    default:
        figure[0] = '\0';
        if (row->called)
            format_figure(column, row, now_ns, figure);
        return figure;
    }
}

void top_columns_put(const struct top_columns *columns, struct canvas *canvas, int line, const struct top_row *row,
                     const struct top_sight *sight, bool is_chosen)
{
    char figure[FIGURE_MAX];
    const int outcomes = columns->width[COLUMN_OUTCOMES];
    for (unsigned int i = 0; i < TOP_COLUMNS; i++) {
        /* In the row that stands out colours would be patches. */
        const unsigned int style = is_chosen ? STYLE_PLAIN : style_of((enum top_column)i, row->row);
        if (columns->width[i] == 0 || i == COLUMN_OUTCOMES)
            continue;
        const char *text = text_of((enum top_column)i, row, sight->now_ns, figure);
        if (rules[i].right)
            canvas_put_right(canvas, line, columns->at[i], columns->width[i], style, text);
        else
            canvas_put(canvas, line, columns->at[i], columns->width[i], style, text);
    }
    if (is_chosen) {
        canvas_put(canvas, line, 0, MARK_WIDTH, STYLE_PLAIN, ">");
        canvas_mark(canvas, line, 0, canvas->width - (outcomes > 0 ? outcomes + GAP : 0), STYLE_REVERSE);
    }
    if (row->row->called && outcomes > 0)
        outcomes_draw(outcomes_of(&sight->outcomes, row->key), canvas, line, columns->at[COLUMN_OUTCOMES], outcomes);
}
