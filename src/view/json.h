/*
 * json.h - a small JSON writer over stdio: two spaces of indent, one member a line.
 *
 * It keeps commas, depth and indent; the caller keeps the order and closes what was opened. Text is escaped as
 * everywhere in sockfuse (text_add_json): what comes out is always valid UTF-8. `key` is NULL inside an array. Write
 * errors stay in the stream (finish_output).
 */
#ifndef SOCKFUSE_VIEW_JSON_H
#define SOCKFUSE_VIEW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    unsigned int depth;
    bool empty;   /* nothing was written since the innermost bracket was opened */
    bool is_flat; /* all of it on one line */
};

void json_start(struct json *json, FILE *out);
/* The same for one that goes on one line, with a newline at its end, for who reads line by line. */
void json_start_line(struct json *json, FILE *out);

void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                 /* '}' or ']'; a newline behind the outermost one */

void json_string(struct json *json, const char *key, const char *value); /* NULL: null */
void json_unsigned(struct json *json, const char *key, uint64_t value);
/* Tenths, written as a decimal: 125 as 12.5. */
void json_tenths(struct json *json, const char *key, uint64_t tenths);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* A value that was written before, by another of these. */
void json_written(struct json *json, const char *key, const char *value);
/* An array of numbers, in one line. */
void json_numbers(struct json *json, const char *key, const uint64_t *values, size_t count);

/* A string alone, in quotes, into what somebody else writes. */
void json_text(const char *value, FILE *out);

#endif
