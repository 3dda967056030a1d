/*
 * event_print.c - events as lines for people. See event_print.h.
 *
 * On a terminal the day stands above its events, and targets' names only where there is room for them. A line that does
 * not fit all the same goes on below, under its own last column if that is wide enough for reading, and else a little
 * behind the line's beginning. Elsewhere each event is one line that has all, for grep.
 */
#include "view/event_print.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "view/fold.h"
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
/* But this is, if it takes no more than two lines: each may lack a word at its end. */
#define READABLE_TWICE 24u
#define LAST_WORD 12u
#define FOLDED_INDENT 4u

/* --- what stands in the columns ----------------------------------------------------------------------------------- */

/* To be freed, as all of these. */
static char *destination_text(const struct event *event, bool with_target)
{
    char *destination = printable(event->destination), *target, *text;
    if (!with_target || event->target[0] == '\0' || strcmp(event->target, event->destination) == 0)
        return destination;
    target = printable(event->target);
    text = format_text("%s (%s)", destination, target);
    free(destination);
    free(target);
    return text;
}

/* Of "2026-02-03T05:05:06.789+01:00" what stands on each line, if the rest stands above. */
#define SHORT_AT 11u
#define SHORT_LENGTH 12u

static char *time_text(const struct event_columns *columns, const struct event *event)
{
    char time[LOCAL_TIME_MAX];
    local_time(event->time_ns, time);
    return columns->room == SIZE_MAX ? copy_text(time) : format_text("%.*s", (int)SHORT_LENGTH, time + SHORT_AT);
}

/* The day, and its distance from UTC, when it is another one than above. */
static void print_day(struct event_columns *columns, const struct event *event)
{
    char time[LOCAL_TIME_MAX], day[EVENT_DAY_MAX];
    if (columns->room == SIZE_MAX)
        return;
    local_time(event->time_ns, time);
    const char *zone = time + SHORT_AT + SHORT_LENGTH;
    snprintf(day, sizeof day, "%.10s %s", time, strcmp(zone, "Z") == 0 ? "UTC" : zone);
    if (strcmp(day, columns->day) == 0)
        return;
    memcpy(columns->day, day, sizeof day);
    fprintf(columns->out, "%*s%s%s%s\n", (int)columns->indent, "", colour_start(BOLD, columns->coloured), day,
            colour_start(PLAIN, columns->coloured));
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
        .bare_destination = DESTINATION_WIDTH_MIN,
        .program = PROGRAM_WIDTH_MIN,
    };
}

void event_columns_fit(struct event_columns *columns, const struct event *event)
{
    char *time = time_text(columns, event), *program = program_text(event);
    char *destination = destination_text(event, true), *bare = destination_text(event, false);
    widen(&columns->time, time, SIZE_MAX);
    widen(&columns->destination, destination, DESTINATION_WIDTH_MAX);
    widen(&columns->bare_destination, bare, DESTINATION_WIDTH_MAX);
    widen(&columns->program, program, PROGRAM_WIDTH_MAX);
    free(time);
    free(bare);
    free(destination);
    free(program);
}

/* Whether there is room for targets' names, and to tell what happened besides. */
static bool has_targets(const struct event_columns *columns)
{
    return columns->room == SIZE_MAX || columns->indent + columns->time + GAP + EVENT_WIDTH + GAP +
                                                columns->destination + GAP + columns->program + GAP + READABLE <=
                                            columns->room;
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
    case EVENT_ALERT:
        return YELLOW;
    default:
        return PLAIN;
    }
}

/* Whether so many letters, in lines that begin in that column, are no strip of single words. */
static bool is_readable(size_t column, size_t letters, size_t room)
{
    const size_t wide = column < room ? room - column : 0;
    return wide >= READABLE || letters <= wide || (wide >= READABLE_TWICE && letters + LAST_WORD <= 2 * wide);
}

void event_columns_print(struct event_columns *columns, const struct event *event, const char *behind)
{
    const enum colour colour = colour_of(event);
    const bool coloured = columns->coloured && colour != PLAIN, with_target = has_targets(columns);
    char what[EVENT_JSON_MAX];
    char *destination = destination_text(event, with_target), *program = program_text(event), *words;
    char *time = time_text(columns, event);
    struct line line = {.out = columns->out, .owed = columns->indent, .room = columns->room};
    print_day(columns, event);
    event_what(event, what, sizeof what);
    put(&line, time, columns->time, "", "");
    put(&line, event_type_name(event->type), EVENT_WIDTH, colour_start(colour, coloured),
        colour_start(PLAIN, coloured));
    if (!columns->of_one_circuit)
        put(&line, destination, with_target ? columns->destination : columns->bare_destination, "", "");
    put(&line, program, columns->program, "", "");
    words = format_text("%s%s", what, behind);
    const size_t column = line.at + line.owed;
    const bool readable = is_readable(column, utf8_count(words), columns->room);
    if (!readable) {
        line.at = line.room; /* all of it below */
        line.owed = 0;
    }
    fold_words(columns->out, words,
               (struct fold){line.at, line.owed, readable ? column : columns->indent + FOLDED_INDENT, columns->room});
    fputc('\n', columns->out);
    free(time);
    free(destination);
    free(program);
    free(words);
}
