/*
 * event_file.h - the lines of a file of events, one after the other, none longer than an event's can be.
 *
 * The file may be any: what has no end of a line is not held.
 */
#ifndef SOCKFUSE_VIEW_EVENT_FILE_H
#define SOCKFUSE_VIEW_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An identity and names, each byte of them written as \u00XX, are less. */
#define EVENT_LINE_MAX 65536u

struct event_file {
    const char *name; /* for messages */
    FILE *file;
    uint64_t line; /* the number of the present one */
    bool failed;   /* it could not be read to its end, which was said */
    size_t length; /* of the present line, with its end */
    char text[EVENT_LINE_MAX + 1];
};

/* "-": standard input. NULL: it can't be read, which was said. */
struct event_file *event_file_open(const char *path);
/* The next line; behind it stands a zero byte. False: there is none, or it failed. */
bool event_file_next(struct event_file *file);
/* False: it had failed. */
bool event_file_close(struct event_file *file);

#endif
