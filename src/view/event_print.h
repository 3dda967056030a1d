/*
 * event_print.h - events as lines for people: in local time, in columns, and folded where a terminal is narrow.
 *
 * Time, event, destination (target), program[pid], what happened. On a terminal the day stands above. The columns are as wide as what was announced to them;
 * names that are too long for any column stand out of it. No name can drive the terminal.
 */
#ifndef SOCKFUSE_VIEW_EVENT_PRINT_H
#define SOCKFUSE_VIEW_EVENT_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "segment/event.h"

#define EVENT_DAY_MAX 48

struct event_columns {
    FILE *out;
    unsigned int indent;
    bool of_one_circuit; /* so that its destination need not be said */
    bool coloured;
    size_t room; /* of a line; SIZE_MAX: any */
    size_t time, destination, bare_destination, program;
    char day[EVENT_DAY_MAX]; /* that stands above: "2026-02-03 +01:00" */
};

void event_columns_start(struct event_columns *columns, FILE *out, unsigned int indent, bool of_one_circuit);
/* The event will be printed: no column is narrower than it needs. */
void event_columns_fit(struct event_columns *columns, const struct event *event);
/* Its line, or lines; `behind` is what comes behind what happened, and safe to print. */
void event_columns_print(struct event_columns *columns, const struct event *event, const char *behind);

#endif
