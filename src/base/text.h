/*
 * text.h - a bounded text builder for places where stdio may not go: inside wrappers.
 *
 * Never writes beyond its size, always ends with a zero byte, remembers if something was cut. Async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_TEXT_H
#define SOCKFUSE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *at;
    size_t size, length;
    bool cut;
};

void text_start(struct text *text, char *buffer, size_t size);
void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_add_byte(struct text *text, char byte);
void text_add_unsigned(struct text *text, uint64_t number);
void text_add_signed(struct text *text, int64_t number);
void text_add_hex(struct text *text, uint64_t number, unsigned int digits);
void text_add_padded(struct text *text, uint64_t number, unsigned int digits); /* with leading zeros */
/* For what is to be whole or nothing: its length; of one that was cut nothing is left, and 0 is returned. */
size_t text_whole(struct text *text);
/* A JSON string with its quotes; control characters and bytes that are no UTF-8 are escaped. */
void text_add_json(struct text *text, const char *string);
/* The same with at most `most` bytes between the quotes, cut at a character's end; that is not noted in `cut`. */
void text_add_json_cut(struct text *text, const char *string, size_t most);
/* For people's eyes: control characters and bytes that are no UTF-8 as \xNN, so that no name can drive the terminal. */
void text_add_printable(struct text *text, const char *string);

#endif
