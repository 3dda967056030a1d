/*
 * json_reader.h - reads one JSON object member by member, as it comes.
 *
 * For lines that others wrote: nothing is believed. The text is bounded by its length, values are nested 16 deep at the
 * most, and after the first mistake every call fails and `bad` is set. No memory of its own.
 *
 *     struct json_reader reader;
 *     json_read_start(&reader, line, length);
 *     json_read_open(&reader);
 *     while (json_read_key(&reader, key, sizeof key))
 *         ... one json_read_... or json_read_skip for the value ...
 *     good = json_read_end(&reader);
 */
#ifndef SOCKFUSE_VIEW_JSON_READER_H
#define SOCKFUSE_VIEW_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_reader {
    const char *at, *end;
    bool bad;
    bool first; /* no member of the present object was read yet */
};

/* Behind the text stands a zero byte. */
void json_read_start(struct json_reader *reader, const char *text, size_t length);

/* '{' */
bool json_read_open(struct json_reader *reader);
/* The same where it may be something else, which is skipped then, and false. */
bool json_read_object(struct json_reader *reader);
/* The next member's key, cut to `size`. False: the object is over, or `bad`. */
bool json_read_key(struct json_reader *reader, char *key, size_t size);
/* Whether nothing was bad, and nothing but blanks follows. */
bool json_read_end(struct json_reader *reader);

/*
 * The value, if it is of that type; else it is skipped, and false. A string is cut at a character's end to `size`, with
 * its zero byte; U+0000 in it becomes U+FFFD. A number is a whole one from 0 to UINT64_MAX.
 */
bool json_read_string(struct json_reader *reader, char *text, size_t size);
bool json_read_unsigned(struct json_reader *reader, uint64_t *number);
bool json_read_bool(struct json_reader *reader, bool *value);
void json_read_skip(struct json_reader *reader);
/* '[', as json_read_object has it; then whether there is one more value, which is read or skipped before the next. */
bool json_read_list(struct json_reader *reader);
bool json_read_item(struct json_reader *reader);

#endif
