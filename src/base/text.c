/*
 * text.c - the bounded text builder, and what becomes of bytes that are no good text.
 *
 * All that is added goes through text_add_bytes and text_add_byte, which alone know the bounds. Names come from other processes and from
 * policies, so they may hold anything: JSON and terminals get them escaped.
 */
#include "base/text.h"

#include <string.h>

#include "base/utf8.h"

void text_start(struct text *text, char *buffer, size_t size)
{
    text->at = buffer;
    text->size = size;
    text->length = 0;
    text->cut = false;
    if (size > 0)
        buffer[0] = '\0';
}

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
    size_t room = text->size > text->length ? text->size - text->length - 1 : 0;
    if (count > room) {
        count = room;
        text->cut = true;
    }
    if (count == 0)
        return;
    memcpy(text->at + text->length, bytes, count);
    text->length += count;
    text->at[text->length] = '\0';
}

void text_add_byte(struct text *text, char byte)
{
    if (text->size > text->length && text->size - text->length > 1) {
        text->at[text->length++] = byte;
        text->at[text->length] = '\0';
    } else {
        text->cut = true;
    }
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

size_t text_whole(struct text *text)
{
    if (text->cut && text->size > 0)
        text->at[text->length = 0] = '\0';
    return text->cut ? 0 : text->length;
}

void text_add_padded(struct text *text, uint64_t number, unsigned int digits)
{
    char buffer[20]; /* UINT64_MAX has 20 digits */
    size_t at = sizeof buffer;
    if (digits > sizeof buffer)
        digits = sizeof buffer;
    while (at > 0 && (number > 0 || sizeof buffer - at < digits)) {
        buffer[--at] = (char)('0' + number % 10);
        number /= 10;
    }
    text_add_bytes(text, buffer + at, sizeof buffer - at);
}

void text_add_unsigned(struct text *text, uint64_t number)
{
    text_add_padded(text, number, 1);
}

void text_add_signed(struct text *text, int64_t number)
{
    if (number < 0)
        text_add_byte(text, '-');
    text_add_unsigned(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void text_add_hex(struct text *text, uint64_t number, unsigned int digits)
{
    char buffer[16];
    size_t at = sizeof buffer;
    if (digits > sizeof buffer)
        digits = sizeof buffer;
    while (at > 0 && (number > 0 || sizeof buffer - at < digits)) {
        buffer[--at] = "0123456789abcdef"[number & 15];
        number >>= 4;
    }
    text_add_bytes(text, buffer + at, sizeof buffer - at);
}

/*
 * Whether a well-formed character may change what a terminal does, or the order in which a line is read: C0, DEL and C1
 * controls; the marks, embeddings and isolates of writing from right to left (UAX #9), and separators of lines.
 */
static bool is_control(const unsigned char *bytes)
{
    if (bytes[0] < 0x80)
        return bytes[0] < 0x20 || bytes[0] == 0x7f;
    if (bytes[0] == 0xe2 && bytes[1] == 0x80)
        return bytes[2] == 0x8e || bytes[2] == 0x8f || (bytes[2] >= 0xa8 && bytes[2] <= 0xae);
    return (bytes[0] == 0xc2 && bytes[1] < 0xa0) || (bytes[0] == 0xd8 && bytes[1] == 0x9c) ||
           (bytes[0] == 0xe2 && bytes[1] == 0x81 && bytes[2] >= 0xa6 && bytes[2] <= 0xa9);
}

/* Of a character of up to three bytes, or of a stray byte, as if it were Latin-1. */
static unsigned int code_point(const unsigned char *bytes, size_t length)
{
    if (length == 3)
        return (bytes[0] & 0xfu) << 12 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu);
    return length == 2 ? (bytes[0] & 0x1fu) << 6 | (bytes[1] & 0x3fu) : bytes[0];
}

/*
 * The JSON form of the character or stray byte at `*string` in `piece`; moves `*string` behind it. Returns its
 * length.
 */
static size_t json_piece(const unsigned char **string, char piece[8])
{
    const unsigned char *bytes = *string;
    size_t length = utf8_character((const char *)bytes);
    struct text text;
    text_start(&text, piece, 8);
    if (bytes[0] == '"' || bytes[0] == '\\') {
        text_add_byte(&text, '\\');
        text_add_byte(&text, (char)bytes[0]);
    } else if (length > 0 && !is_control(bytes)) {
        text_add_bytes(&text, (const char *)bytes, length);
    } else {
        /* A stray byte gets the number of the byte, as if it were Latin-1: valid JSON, and to be told from nothing. */
        text_add(&text, "\\u");
        text_add_hex(&text, code_point(bytes, length), 4);
    }
    *string += length > 0 ? length : 1;
    return text.length;
}

void text_add_json_cut(struct text *text, const char *string, size_t most)
{
    size_t added = 0;
    text_add_byte(text, '"');
    for (const unsigned char *at = (const unsigned char *)string; *at;) {
        char piece[8];
        size_t length = json_piece(&at, piece);
        if (length > most - added)
            break;
        text_add_bytes(text, piece, length);
        added += length;
    }
    text_add_byte(text, '"');
}

void text_add_json(struct text *text, const char *string)
{
    text_add_json_cut(text, string, SIZE_MAX);
}

void text_add_printable(struct text *text, const char *string)
{
    for (const unsigned char *at = (const unsigned char *)string; *at;) {
        size_t length = utf8_character((const char *)at);
        if (length > 0 && !is_control(at)) {
            text_add_bytes(text, (const char *)at, length);
        } else {
            if (length == 0)
                length = 1;
            for (size_t byte = 0; byte < length; byte++) {
                text_add_bytes(text, "\\x", 2);
                text_add_hex(text, at[byte], 2);
            }
        }
        at += length;
    }
}
