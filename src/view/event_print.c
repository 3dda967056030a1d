/*
 * event_print.c - events as lines for people. See event_print.h.
 *
 * On a terminal a line that does not fit goes on below, under its own last column if that is wide enough for reading,
 * and else a little behind the line's beginning. Elsewhere each event is one line, for grep.
 */
#include "view/event_print.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "view/output.h"
#include "view/local_time.h"
#include "view/table.h"
#include "segment/event_facts.h"

#define GAP 2u
#define EVENT_WIDTH 9u /* of "half-open", the longest */
#define DESTINATION_WIDTH_MIN 14u
#define DESTINATION_WIDTH_MAX 44u
#define PROGRAM_WIDTH_MIN 10u
#define PROGRAM_WIDTH_MAX 26u
/* Less than that is no room to tell what happened. */
#define READABLE 36u
#define FOLDED_INDENT 4u

/* --- what stands in the columns ----------------------------------------------------------------------------------- */

/* To be freed, as all of these. */
static char *destination_text(const struct event *event)
{
    char *destination = printable(event->destination), *target, *text;
    if (event->target[0] == '\0' || strcmp(event->target, event->destination) == 0)
        return destination;
    target = printable(event->target);
    text = format_text("%s (%s)", destination, target);
    free(destination);
    free(target);
    return text;
}

static char *program_text(const struct event *event)
{
    if (event->program[0] == '\0' && event->pid == 0)
        return copy_text("");
    char *program = printable(event_program(event)), *text = format_text("%s[%" PRIu32 "]", program, event->pid);
    free(program);
    return text;
}

static void widen(size_t *width, const char *text, size_t most)
{
    const size_t wanted = utf8_count(text);
    if (wanted > *width && wanted <= most)
        *width = wanted;
}

void event_columns_start(struct event_columns *columns, FILE *out, unsigned int indent, bool of_one_circuit)
{
    *columns = (struct event_columns){
        .out = out,
        .indent = indent,
        .of_one_circuit = of_one_circuit,
        .coloured = colour_wanted(out),
        .room = line_room(out),
        .destination = DESTINATION_WIDTH_MIN,
        .program = PROGRAM_WIDTH_MIN,
    };
}

void event_columns_fit(struct event_columns *columns, const struct event *event)
{
    char time[LOCAL_TIME_MAX], *destination = destination_text(event), *program = program_text(event);
    widen(&columns->time, local_time(event->time_ns, time), SIZE_MAX);
    widen(&columns->destination, destination, DESTINATION_WIDTH_MAX);
    widen(&columns->program, program, PROGRAM_WIDTH_MAX);
    free(destination);
    free(program);
}

/* --- a line ------------------------------------------------------------------------------------------------------- */

struct line {
    FILE *out;
    size_t at;   /* the column that was reached */
    size_t owed; /* blanks that are written once something follows */
    size_t room;
};

static void put(struct line *line, const char *text, size_t width, const char *start, const char *end)
{
    const size_t length = utf8_count(text);
    if (length > 0) {
        fprintf(line->out, "%*s%s%s%s", (int)line->owed, "", start, text, end);
        line->at += line->owed + length;
        line->owed = 0;
    }
    line->owed += GAP + (width > length ? width - length : 0);
}

/* Words, and on a new line where the next one does not fit. */
static void put_words(struct line *line, const char *text, size_t indent)
{
    for (bool first = true; *text != '\0'; first = false) {
        const size_t bytes = strcspn(text, " ");
        char *word = format_text("%.*s", (int)bytes, text);
        const size_t length = utf8_count(word), gap = first ? line->owed : 1;
        if (line->at + gap + length > line->room && line->at > indent) {
            fprintf(line->out, "\n%*s%s", (int)indent, "", word);
            line->at = indent + length;
        } else {
            fprintf(line->out, "%*s%s", (int)gap, "", word);
            line->at += gap + length;
        }
        free(word);
        text += bytes;
        text += strspn(text, " ");
    }
}

static enum colour colour_of(const struct event *event)
{
    switch (event->type) {
    case EVENT_OPEN:
        return RED;
    case EVENT_HALF_OPEN:
        return YELLOW;
    case EVENT_CLOSE:
        return GREEN;
    case EVENT_FORCED:
    case EVENT_HELD:
        return BOLD;
    default:
        return PLAIN;
    }
}

void event_columns_print(const struct event_columns *columns, const struct event *event, const char *behind)
{
    const enum colour colour = colour_of(event);
    const bool coloured = columns->coloured && colour != PLAIN;
    char time[LOCAL_TIME_MAX], what[EVENT_JSON_MAX];
    char *destination = destination_text(event), *program = program_text(event), *words;
    struct line line = {.out = columns->out, .owed = columns->indent, .room = columns->room};
    event_what(event, what, sizeof what);
    put(&line, local_time(event->time_ns, time), columns->time, "", "");
    put(&line, event_type_name(event->type), EVENT_WIDTH, colour_start(colour, coloured),
        colour_start(PLAIN, coloured));
    if (!columns->of_one_circuit)
        put(&line, destination, columns->destination, "", "");
    put(&line, program, columns->program, "", "");
    words = format_text("%s%s", what, behind);
    const size_t column = line.at + line.owed;
    const bool readable =
        columns->room == SIZE_MAX || column + READABLE <= columns->room || column + utf8_count(words) <= columns->room;
    if (!readable) {
        line.at = line.room; /* all of it below */
        line.owed = 0;
    }
    put_words(&line, words, readable ? column : columns->indent + FOLDED_INDENT);
    fputc('\n', columns->out);
    free(destination);
    free(program);
    free(words);
}
