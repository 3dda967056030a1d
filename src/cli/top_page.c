/*
 * top_page.c - the whole page of `sockfuse top`. See top_page.h.
 *
 * From above: two lines of sums, the table of circuits, the pane of the chosen one, the keys. On a page that is too low
 * for both the pane gives way.
 */
#include "cli/top_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "view/duration.h"
#include "cli/top_columns.h"
#include "cli/top_dialog.h"
#include "cli/top_pane.h"
#include "policy/value.h"

#define HEAD_ROWS 2
#define TITLE_ROWS 1
#define KEY_ROWS 1
#define PANE_LEAST 8  /* rows, below which there is no pane */
#define PANE_USUAL 20 /* rows that it gets before a long list gets more than half */
#define LIST_LEAST 3
#define TEXT_MAX 512

/* --- who gets how many rows --------------------------------------------------------------------------------------- */

static int middle_rows(int height)
{
    return height - HEAD_ROWS - TITLE_ROWS - KEY_ROWS;
}

static bool has_pane(int height)
{
    return middle_rows(height) >= LIST_LEAST + PANE_LEAST;
}

int top_page_room(const struct top_view *view, int height, size_t row_count)
{
    const int rows = middle_rows(height);
    if (!has_pane(height))
        return rows;
    const int half = rows / 2, most = view->is_deep ? LIST_LEAST : rows - PANE_USUAL > half ? rows - PANE_USUAL : half;
    const int wanted = row_count < (size_t)most ? (int)row_count : most;
    return wanted > LIST_LEAST ? wanted : LIST_LEAST;
}

/* --- the head ----------------------------------------------------------------------------------------------------- */

struct sums {
    size_t circuits, open, half_open, ended;    /* the last ones are none of the others */
    uint64_t waiting, overdue, oldest_ns, rate; /* tenths a second */
};

static void add_up(struct sums *sums, const struct top_sight *sight)
{
    *sums = (struct sums){0};
    for (size_t i = 0; i < sight->row_count; i++) {
        const struct row *row = sight->rows[i].row;
        if (!row->called)
            continue;
        sums->ended += row->ended != ENDED_NOT;
        if (row->ended != ENDED_NOT)
            continue;
        sums->circuits++;
        sums->open += row_state(row) == CIRCUIT_OPEN;
        sums->half_open += row_state(row) == CIRCUIT_HALF_OPEN;
        sums->waiting += row->waiting.calls;
        sums->overdue += row->waiting.overdue;
        sums->rate += row_waits_rate(&row->waits);
        if (row->waiting.oldest_ns > sums->oldest_ns)
            sums->oldest_ns = row->waiting.oldest_ns;
    }
}

/* Parts of a line, one behind the other. */
struct parts {
    struct canvas *canvas;
    int line, at, end;
};

static void add_part(struct parts *parts, unsigned int style, const char *text)
{
    for (; strchr(", ;", text[0]) != NULL && text[0] != '\0'; text++) /* what parts them has no colour */
        parts->at +=
            canvas_putf(parts->canvas, parts->line, parts->at, parts->end - parts->at, STYLE_PLAIN, "%c", text[0]);
    parts->at += canvas_put(parts->canvas, parts->line, parts->at, parts->end - parts->at, style, text);
}

static void put_circuits(struct parts *parts, const struct sums *sums)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%zu circuit%s", sums->circuits, sums->circuits == 1 ? "" : "s");
    add_part(parts, STYLE_PLAIN, text);
    if (sums->open > 0) {
        snprintf(text, sizeof text, ", %zu open", sums->open);
        add_part(parts, STYLE_RED | STYLE_BOLD, text);
    }
    if (sums->half_open > 0) {
        snprintf(text, sizeof text, ", %zu half-open", sums->half_open);
        add_part(parts, STYLE_YELLOW, text);
    }
    if (sums->open + sums->half_open == 0 && sums->circuits > 0)
        add_part(parts, STYLE_GREEN, sums->circuits == 1 ? ", closed" : ", all closed");
    if (sums->ended > 0) {
        snprintf(text, sizeof text, ", %zu ended", sums->ended);
        add_part(parts, STYLE_DIM, text);
    }
}

static void put_waiting(struct parts *parts, const struct sums *sums)
{
    char text[TEXT_MAX], span[SPAN_TEXT_MAX];
    snprintf(text, sizeof text, "%" PRIu64 " call%s wait%s", sums->waiting, sums->waiting == 1 ? "" : "s",
             sums->waiting == 1 ? "s" : "");
    add_part(parts, STYLE_PLAIN, text);
    if (sums->overdue > 0) {
        snprintf(text, sizeof text, ", %" PRIu64 " overdue", sums->overdue);
        add_part(parts, STYLE_RED | STYLE_BOLD, text);
    }
    if (sums->waiting > 0) {
        snprintf(text, sizeof text, ", the oldest %s", span_format(sums->oldest_ns, span));
        add_part(parts, sums->overdue > 0 ? STYLE_RED : sums->oldest_ns >= NS_PER_S ? STYLE_YELLOW : STYLE_PLAIN, text);
    }
    snprintf(text, sizeof text, "; %" PRIu64 ".%" PRIu64 " calls/s", sums->rate / 10, sums->rate % 10);
    add_part(parts, STYLE_PLAIN, text);
}

static void put_head(struct canvas *canvas, const struct top_sight *sight, const struct top_view *view)
{
    struct sums sums;
    char text[TEXT_MAX], interval[VALUE_TEXT_MAX], clock[CLOCK_TEXT_MAX];
    add_up(&sums, sight);
    struct parts parts = {canvas, 0, 0, canvas->width - 10};
    add_part(&parts, STYLE_BOLD, "sockfuse top");
    add_part(&parts, STYLE_PLAIN, "  ");
    put_circuits(&parts, &sums);
    canvas_put_right(canvas, 0, canvas->width - 9, 9, STYLE_DIM, top_clock(sight->wall_ns, sight->wall_ns, clock));
    /* The second line: what waits; at its end what the page goes by. */
    value_format(&(struct value_rule){.type = VALUE_DURATION}, view->interval_ns, interval, sizeof interval);
    snprintf(text, sizeof text, "%s%s%s%s%s, every %s", view->filter[0] != '\0' ? "/" : "", view->filter,
             view->filter[0] != '\0' ? ", " : "", top_sort_title(view->sort), view->is_reversed ? ", turned round" : "",
             interval);
    struct parts second = {canvas, 1, 0, canvas->width};
    put_waiting(&second, &sums);
    if (canvas->width - second.at - 2 >= canvas_columns(canvas, text))
        canvas_put_right(canvas, 1, second.at + 2, canvas->width - second.at - 2,
                         view->filter[0] != '\0' ? STYLE_BOLD : STYLE_DIM, text);
}

/* --- the middle --------------------------------------------------------------------------------------------------- */

static void put_empty(struct canvas *canvas, int top, int rows, const struct top_sight *sight,
                      const struct top_view *view)
{
    const char *text = view->filter[0] != '\0' && sight->row_count > 0 ? "No circuit is called so (Esc shows all)."
                       : sight->nothing != NULL                        ? sight->nothing
                                                                       : "No circuits yet.";
    canvas_put_lines(canvas, top + 1, 1, canvas->width - 2, rows - 1, STYLE_PLAIN, text);
}

static void put_list(struct canvas *canvas, int top, int rows, const struct top_sight *sight,
                     const struct top_list *list, const struct top_view *view)
{
    struct top_columns columns;
    top_columns_lay(&columns, canvas->width);
    top_columns_put_titles(&columns, canvas, top - TITLE_ROWS, view->sort);
    for (int i = 0; i < rows && view->first + (size_t)i < list->count; i++) {
        const size_t index = view->first + (size_t)i;
        top_columns_put(&columns, canvas, top + i, list->at[index], sight, index == view->chosen_index);
    }
}

/* --- the last line ------------------------------------------------------------------------------------------------ */

static void put_keys(struct canvas *canvas, const struct top_sight *sight, const struct top_list *list,
                     const struct top_view *view, size_t room)
{
    static const struct {
        const char *key, *does;
    } keys[] = {{"?", "help"}, {"q", "quit"},  {"/", "filter"}, {"s", "sort"},
                {"o", "open"}, {"c", "close"}, {"a", "auto"},   {"Enter", "more"}};
    const int line = canvas->height - 1;
    struct parts parts = {canvas, line, 0, canvas->width};
    if (view->mode == TOP_FILTER) {
        add_part(&parts, STYLE_BOLD, "/");
        add_part(&parts, STYLE_PLAIN, view->filter);
        add_part(&parts, STYLE_REVERSE, " ");
        add_part(&parts, STYLE_DIM, "  Enter keeps it, Esc shows all");
        return;
    }
    if (sight->notes[0] != '\0') {
        char text[TEXT_MAX];
        const size_t length = strcspn(sight->notes, "\n");
        snprintf(text, sizeof text, "%.*s", length < 200 ? (int)length : 200, sight->notes);
        add_part(&parts, STYLE_BOLD, "n");
        add_part(&parts, STYLE_YELLOW, "  ");
        add_part(&parts, STYLE_YELLOW, text);
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (parts.end - parts.at < (int)(strlen(keys[i].key) + strlen(keys[i].does)) + 1)
            break;
        add_part(&parts, STYLE_BOLD, keys[i].key);
        add_part(&parts, STYLE_PLAIN, " ");
        add_part(&parts, STYLE_PLAIN, keys[i].does);
        add_part(&parts, STYLE_PLAIN, "  ");
    }
    if (list->count > room) {
        char text[TEXT_MAX];
        snprintf(text, sizeof text, "%zu of %zu", view->chosen_index + 1, list->count);
        if (parts.end - parts.at > (int)strlen(text))
            canvas_put_right(canvas, line, parts.at, parts.end - parts.at, STYLE_DIM, text);
    }
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static bool is_too_small(struct canvas *canvas)
{
    if (canvas->width >= TOP_LEAST_WIDTH && canvas->height >= TOP_LEAST_HEIGHT)
        return false;
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "too small: %dx%d at least (q quits)", TOP_LEAST_WIDTH, TOP_LEAST_HEIGHT);
    canvas_put_lines(canvas, 0, 0, canvas->width, canvas->height, STYLE_PLAIN, text);
    return true;
}

void top_page_put(struct canvas *canvas, const struct top_sight *sight, const struct top_list *list,
                  struct top_view *view, const struct top_detail *detail)
{
    if (is_too_small(canvas))
        return;
    const int top = HEAD_ROWS + TITLE_ROWS, rows = middle_rows(canvas->height);
    const int room = top_page_room(view, canvas->height, sight->row_count);
    const struct top_row *chosen = top_chosen(list, view);
    top_scroll(list, view, (size_t)room);
    put_head(canvas, sight, view);
    if (view->mode == TOP_HELP || view->mode == TOP_NOTES) {
        top_dialog_put(canvas, HEAD_ROWS, rows + TITLE_ROWS, chosen, detail, sight, view);
    } else {
        put_list(canvas, top, room, sight, list, view);
        if (list->count == 0)
            put_empty(canvas, top, rows, sight, view);
        const int dialog_rows = rows - room > PANE_LEAST ? rows - room : PANE_LEAST - 2;
        if (view->mode >= TOP_HOW_LONG)
            top_dialog_put(canvas, top + rows - dialog_rows, dialog_rows, chosen, detail, sight, view);
        else if (has_pane(canvas->height) && chosen != NULL)
            top_pane_put(canvas, top + room, rows - room, chosen, detail, sight);
    }
    put_keys(canvas, sight, list, view, (size_t)room);
}
