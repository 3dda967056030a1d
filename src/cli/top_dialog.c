/*
 * top_dialog.c - help, questions and answers of `sockfuse top`. See top_dialog.h.
 */
#include "cli/top_dialog.h"

#include <stdio.h>

#include "view/duration.h"
#include "cli/top_list.h"
#include "cli/top_pane.h"

#define INDENT 1
#define KEY_WIDTH 12
#define TEXT_MAX 512

static const struct {
    const char *key, *does;
} keys[] = {
    {"Up Down j k", "choose a circuit; PgUp PgDn Home End as well"},
    {"Enter", "more of the chosen circuit, or less"},
    {"s S r", "the next order, the one before, the same turned round;"},
    {"1-8", "or one of: worst, name, waiting, oldest, rate, p95, failed, refused"},
    {"/", "filter by destination, target, policy, user or state"},
    {"o c a", "force the chosen circuit open or closed, or give it back"},
    {"Space", "look now"},
    {"n", "notes: what could not be read, and why"},
    {"q", "quit; Ctrl-L draws the page anew"},
};

static const char *const legend[] = {
    "PAUSE     until a probe may pass, or until a force ends by itself",
    "WAIT      calls in flight; OLDEST: the longest of these waits",
    "IN ROW    consecutive failures, and how many open the circuit",
    "CALLS/S, P95  of the calls that ended in the last minute",
    "OUTCOMES  a sign for each look since top was started, the newest at the right:",
};

static void put_help(struct canvas *canvas, int top, int rows)
{
    const int end = top + rows, room = canvas->width - 2 * INDENT;
    int line = top;
    top_pane_put_title(canvas, line++, "Keys", "", " any key goes back ");
    for (size_t i = 0; i < sizeof keys / sizeof *keys && line < end; i++, line++) {
        canvas_put(canvas, line, INDENT, KEY_WIDTH, STYLE_BOLD, keys[i].key);
        canvas_put(canvas, line, INDENT + KEY_WIDTH + 1, room - KEY_WIDTH - 1, STYLE_PLAIN, keys[i].does);
    }
    if (line < end)
        top_pane_put_title(canvas, line++, "Columns", "", "");
    for (size_t i = 0; i < sizeof legend / sizeof *legend && line < end; i++, line++)
        canvas_put(canvas, line, INDENT, room, STYLE_PLAIN, legend[i]);
    if (line >= end)
        return;
    const bool in_letters = !canvas->takes_colour || !canvas->takes_utf8;
    int at = INDENT + 10;
    at += canvas_put(canvas, line, at, 30, STYLE_GREEN, canvas->takes_utf8 ? "\u2582\u2585\u2588" : ".:#");
    at += canvas_put(canvas, line, at, 30, STYLE_PLAIN, " all well  ");
    at += canvas_put(canvas, line, at, 30, STYLE_RED, in_letters ? "x" : "\u2585");
    at += canvas_put(canvas, line, at, 30, STYLE_PLAIN, " some failed  ");
    at += canvas_put(canvas, line, at, 30, STYLE_YELLOW, in_letters ? "-" : "\u2585");
    canvas_put(canvas, line, at, 30, STYLE_PLAIN, " refused at once");
}

/* --- the questions ------------------------------------------------------------------------------------------------ */

static const char *doing(enum forced word)
{
    static const char *const words[FORCED_WORDS] = {
        [FORCED_NONE] = "Give back", [FORCED_OPEN] = "Force open", [FORCED_CLOSED] = "Force closed"};
    return words[word];
}

static const char *meaning(enum forced word)
{
    static const char *const words[FORCED_WORDS] = {
        [FORCED_NONE] = "It goes by its own rules again.",
        [FORCED_OPEN] = "Every call to it fails at once.",
        [FORCED_CLOSED] = "No call to it is refused, whatever fails.",
    };
    return words[word];
}

static const char *name_of(const struct top_row *row)
{
    return row->row->destination[0] != '\0' ? row->row->destination : row->row->target_name;
}

static void put_how_long(struct canvas *canvas, int top, int rows, const struct top_view *view)
{
    const int room = canvas->width - 2 * INDENT;
    int line = top;
    canvas_put(canvas, line++, INDENT, room, STYLE_PLAIN, meaning(view->word));
    if (view->word == FORCED_NONE) {
        canvas_put(canvas, line, INDENT, room, STYLE_BOLD, "Enter goes on, Esc leaves it as it is");
        return;
    }
    const int used = canvas_put(canvas, line, INDENT, room, STYLE_BOLD, "For how long? ");
    int at = INDENT + used;
    at += canvas_put(canvas, line, at, canvas->width - at - 1, STYLE_PLAIN, view->how_long);
    canvas_put(canvas, line++, at, 1, STYLE_REVERSE, " ");
    if (view->complaint != NULL)
        canvas_put(canvas, line++, INDENT, room, STYLE_RED, view->complaint);
    if (line < top + rows)
        canvas_put_lines(
            canvas, line, INDENT, room, top + rows - line, STYLE_DIM,
            "such as 90s, 10m, 2h; nothing: until it is given back. Enter goes on, Esc leaves it as it is");
}

static void put_sure(struct canvas *canvas, int top, int rows, const struct top_detail *detail,
                     const struct top_view *view)
{
    const int room = canvas->width - 2 * INDENT;
    char text[TEXT_MAX], span[SPAN_TEXT_MAX];
    int line = top;
    if (view->word != FORCED_NONE && view->for_ns != 0)
        snprintf(text, sizeof text, "%s For %s.", meaning(view->word), span_format(view->for_ns, span));
    else
        snprintf(text, sizeof text, "%s%s", meaning(view->word),
                 view->word != FORCED_NONE ? " Until it is given back." : "");
    line += canvas_put_lines(canvas, line, INDENT, room, 2, STYLE_PLAIN, text);
    /* The question stands above the names, which may be many. */
    canvas_put(canvas, line++, INDENT, room, STYLE_BOLD, "Sure? y does it, any other key leaves it as it is");
    if (detail->programs == 0)
        snprintf(text, sizeof text, "No program runs under its policy now; the next one that starts obeys.");
    else
        snprintf(text, sizeof text, "%zu program%s under its policy, and obey%s with the next call: %s",
                 detail->programs, detail->programs == 1 ? " runs" : "s run", detail->programs == 1 ? "s" : "",
                 detail->program_names);
    if (line < top + rows)
        canvas_put_lines(canvas, line, INDENT, room, top + rows - line, STYLE_PLAIN, text);
}

void top_dialog_put(struct canvas *canvas, int top, int rows, const struct top_row *chosen,
                    const struct top_detail *detail, const struct top_sight *sight, const struct top_view *view)
{
    const int room = canvas->width - 2 * INDENT;
    for (int line = top; line < top + rows; line++)
        canvas_blank(canvas, line);
    switch (view->mode) {
    case TOP_HELP:
        put_help(canvas, top, rows);
        return;
    case TOP_NOTES:
        top_pane_put_title(canvas, top, "Notes", "", " any key goes back ");
        canvas_put_lines(canvas, top + 1, INDENT, room, rows - 1, STYLE_PLAIN,
                         sight->notes[0] != '\0' ? sight->notes : "All that was asked for could be read.");
        return;
    case TOP_ANSWER:
        top_pane_put_title(canvas, top, "What was done", "", " any key goes back ");
        canvas_put_lines(canvas, top + 1, INDENT, room, rows - 1, STYLE_PLAIN,
                         view->answer != NULL ? view->answer : "");
        return;
    default:
        break;
    }
    if (chosen == NULL)
        return;
    char title[TEXT_MAX], right[TEXT_MAX];
    snprintf(title, sizeof title, "%s: %s", doing(view->word), name_of(chosen));
    snprintf(right, sizeof right, " %s%s ", chosen->policy, chosen->whose);
    top_pane_put_title(canvas, top, title, "", right);
    if (view->mode == TOP_HOW_LONG)
        put_how_long(canvas, top + 1, rows - 1, view);
    else
        put_sure(canvas, top + 1, rows - 1, detail, view);
}
