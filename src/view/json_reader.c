/*
 * json_reader.c - reads one JSON object member by member (RFC 8259).
 *
 * See json_reader.h.
 */
#include "view/json_reader.h"

#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"

#define DEPTH_MAX 16
#define NO_CHARACTER UINT32_MAX

void json_read_start(struct json_reader *reader, const char *text, size_t length)
{
    *reader = (struct json_reader){.at = text, .end = text + length, .first = true};
}

static bool refuse(struct json_reader *reader)
{
    reader->bad = true;
    reader->at = reader->end;
    return false;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* The next byte behind blanks; 0 at the end. */
static char peek(struct json_reader *reader)
{
    while (reader->at < reader->end && is_blank(*reader->at))
        reader->at++;
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool take(struct json_reader *reader, char byte)
{
    if (peek(reader) != byte || reader->at == reader->end)
        return false;
    reader->at++;
    return true;
}

static bool take_word(struct json_reader *reader, const char *word)
{
    const size_t length = strlen(word);
    if (peek(reader) != word[0] || (size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

/* Where a string's characters go: `at` NULL, nowhere. */
struct sink {
    char *at;
    size_t size, length;
    bool full;
};

static void put(struct sink *sink, const char *bytes, size_t count)
{
    sink->full = sink->full || sink->at == NULL || count >= sink->size - sink->length;
    if (sink->full)
        return;
    memcpy(sink->at + sink->length, bytes, count);
    sink->length += count;
}

static void put_character(struct sink *sink, uint32_t character)
{
    char bytes[4];
    size_t count = 0;
    if (character == 0 || (character >= 0xd800 && character < 0xe000))
        character = 0xfffd;
    if (character < 0x80) {
        bytes[count++] = (char)character;
    } else {
        const unsigned int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
        static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
        bytes[count++] = (char)(lead[more] | character >> (6 * more));
        for (unsigned int left = more; left > 0; left--)
            bytes[count++] = (char)(0x80 | (character >> (6 * (left - 1)) & 0x3f));
    }
    put(sink, bytes, count);
}

static uint32_t take_hex(struct json_reader *reader)
{
    uint32_t number = 0;
    for (int digits = 0; digits < 4; digits++, reader->at++) {
        static const char hex[] = "0123456789abcdef";
        const char *found = reader->at < reader->end && *reader->at != '\0' ? strchr(hex, *reader->at | 0x20) : NULL;
        if (found == NULL)
            return NO_CHARACTER;
        number = number << 4 | (uint32_t)(found - hex);
    }
    return number;
}

/* Behind "\u". Two escapes may make one character. */
static uint32_t take_escaped(struct json_reader *reader)
{
    const uint32_t first = take_hex(reader);
    if (first < 0xd800 || first >= 0xdc00 || reader->end - reader->at < 6 || memcmp(reader->at, "\\u", 2) != 0)
        return first;
    struct json_reader ahead = *reader;
    ahead.at += 2;
    const uint32_t second = take_hex(&ahead);
    if (second < 0xdc00 || second >= 0xe000)
        return first;
    reader->at = ahead.at;
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
}

static bool take_escape(struct json_reader *reader, struct sink *sink)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end || *reader->at == '\0')
        return false;
    const char letter = *reader->at++;
    if (letter == 'u') {
        const uint32_t character = take_escaped(reader);
        put_character(sink, character);
        return character != NO_CHARACTER;
    }
    const char *found = strchr(letters, letter);
    if (found != NULL)
        put(sink, &meant[found - letters], 1);
    return found != NULL;
}

static bool take_string(struct json_reader *reader, struct sink *sink)
{
    if (!take(reader, '"'))
        return refuse(reader);
    while (reader->at < reader->end && *reader->at != '"') {
        if ((unsigned char)*reader->at < 0x20)
            return refuse(reader);
        if (*reader->at == '\\') {
            reader->at++;
            if (!take_escape(reader, sink))
                return refuse(reader);
            continue;
        }
        const size_t length = utf8_character(reader->at);
        put(sink, reader->at, length > 0 ? length : 1);
        reader->at += length > 0 ? length : 1;
    }
    if (sink->at != NULL)
        sink->at[sink->length] = '\0';
    return take(reader, '"') || refuse(reader);
}

bool json_read_string(struct json_reader *reader, char *text, size_t size)
{
    struct sink sink = {.at = text, .size = size};
    if (peek(reader) != '"') {
        json_read_skip(reader);
        return false;
    }
    return take_string(reader, &sink);
}

/* --- other values ------------------------------------------------------------------------------------------------- */

static size_t take_digits(struct json_reader *reader)
{
    const char *from = reader->at;
    while (reader->at < reader->end && ascii_is_digit(*reader->at))
        reader->at++;
    return (size_t)(reader->at - from);
}

static bool skip_number(struct json_reader *reader)
{
    if (*reader->at == '-')
        reader->at++;
    bool good = take_digits(reader) > 0;
    if (reader->at < reader->end && *reader->at == '.') {
        reader->at++;
        good = take_digits(reader) > 0 && good;
    }
    if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
            reader->at++;
        good = take_digits(reader) > 0 && good;
    }
    return good || refuse(reader);
}

bool json_read_unsigned(struct json_reader *reader, uint64_t *number)
{
    const char first = peek(reader), *from = reader->at;
    if (!ascii_is_digit(first)) {
        json_read_skip(reader);
        return false;
    }
    *number = 0;
    bool fits = true;
    for (; reader->at < reader->end && ascii_is_digit(*reader->at); reader->at++)
        fits = !__builtin_mul_overflow(*number, (uint64_t)10, number) &&
               !__builtin_add_overflow(*number, (uint64_t)(*reader->at - '0'), number) && fits;
    if (reader->at < reader->end && (*reader->at == '.' || ascii_lower(*reader->at) == 'e')) {
        reader->at = from;
        skip_number(reader);
        return false;
    }
    return fits;
}

bool json_read_bool(struct json_reader *reader, bool *value)
{
    *value = take_word(reader, "true");
    if (*value || take_word(reader, "false"))
        return true;
    json_read_skip(reader);
    return false;
}

/* Numbers, words and strings; false: it is something else, or bad. */
static bool skip_simple(struct json_reader *reader)
{
    struct sink nowhere = {0};
    const char first = peek(reader);
    if (first == '"')
        return take_string(reader, &nowhere);
    if (first == '-' || ascii_is_digit(first))
        return skip_number(reader);
    return take_word(reader, "true") || take_word(reader, "false") || take_word(reader, "null");
}

static bool skip_member_key(struct json_reader *reader)
{
    struct sink nowhere = {0};
    return take_string(reader, &nowhere) && (take(reader, ':') || refuse(reader));
}

void json_read_skip(struct json_reader *reader)
{
    char closing[DEPTH_MAX];
    unsigned int depth = 0;
    do {
        const char first = peek(reader);
        if (first == '{' || first == '[') {
            if (depth == DEPTH_MAX) {
                refuse(reader);
                return;
            }
            reader->at++;
            closing[depth++] = first == '{' ? '}' : ']';
            if (peek(reader) != closing[depth - 1]) {
                if (first == '{' && !skip_member_key(reader))
                    return;
                continue;
            }
        } else if (!skip_simple(reader)) {
            refuse(reader);
            return;
        }
        while (depth > 0 && take(reader, closing[depth - 1]))
            depth--;
        if (depth > 0 && (!take(reader, ',') || (closing[depth - 1] == '}' && !skip_member_key(reader)))) {
            refuse(reader);
            return;
        }
    } while (depth > 0);
}

/* --- the object --------------------------------------------------------------------------------------------------- */

bool json_read_open(struct json_reader *reader)
{
    reader->first = true;
    return take(reader, '{') || refuse(reader);
}

bool json_read_key(struct json_reader *reader, char *key, size_t size)
{
    struct sink sink = {.at = key, .size = size};
    const bool first = reader->first;
    reader->first = false;
    if (reader->bad || take(reader, '}'))
        return false;
    if (!first && !take(reader, ','))
        return refuse(reader);
    return take_string(reader, &sink) && (take(reader, ':') || refuse(reader));
}

/* Opens what begins so; else it is skipped. */
static bool open_or_skip(struct json_reader *reader, char bracket)
{
    if (peek(reader) != bracket) {
        json_read_skip(reader);
        return false;
    }
    reader->first = true;
    return take(reader, bracket);
}

bool json_read_object(struct json_reader *reader)
{
    return open_or_skip(reader, '{');
}

bool json_read_list(struct json_reader *reader)
{
    return open_or_skip(reader, '[');
}

bool json_read_item(struct json_reader *reader)
{
    const bool first = reader->first;
    reader->first = false;
    if (reader->bad || take(reader, ']'))
        return false;
    return first || take(reader, ',') || refuse(reader);
}

bool json_read_end(struct json_reader *reader)
{
    peek(reader);
    return !reader->bad && reader->at == reader->end;
}
