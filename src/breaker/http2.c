/*
 * http2.c - see http2.h. Frames: RFC 9113, 4.1 and 6.
 */
#include "breaker/http2.h"

#include <string.h>

#define HEAD_BYTES 9u
#define PRIORITY_BYTES 5u
#define PROMISE_BYTES 4u
#define SETTING_BYTES 6u
#define PREFACE_SHOWN 12u /* bytes by which it is known: no request of HTTP/1 begins so */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum frame { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION };
enum flag { END_STREAM = 0x1, ACK = 0x1, END_HEADERS = 0x4, PADDED = 0x8, WITH_PRIORITY = 0x20 };

enum state { IN_PREFACE, IN_HEAD, AT_PADDING, IN_PREFIX, IN_BLOCK, IN_WORDS, IN_REST, IS_LOST };

bool http2_begins(const void *bytes, size_t count)
{
    return count >= PREFACE_SHOWN && memcmp(bytes, preface, PREFACE_SHOWN) == 0;
}

bool http2_greets(const void *bytes, size_t count)
{
    static const unsigned char rest[] = {SETTINGS, 0, 0, 0, 0, 0};
    const unsigned char *byte = bytes;
    return count >= HEAD_BYTES && byte[0] == 0 && (unsigned int)(byte[1] << 8 | byte[2]) % SETTING_BYTES == 0 &&
           memcmp(byte + 3, rest, sizeof rest) == 0;
}

static void go(struct http2_reader *reader, enum state state)
{
    reader->state = (uint8_t)state;
    reader->have = 0;
}

static void lose(struct http2_reader *reader, struct http2_event *event)
{
    go(reader, IS_LOST);
    *event = (struct http2_event){.what = HTTP2_LOST};
}

static bool has_flag(const struct http2_reader *reader, enum flag flag)
{
    return reader->flags & (unsigned int)flag;
}

static void tell(const struct http2_reader *reader, struct http2_event *event, enum http2_what what)
{
    event->what = what;
    event->stream = reader->stream;
    event->ends = has_flag(reader, END_STREAM);
}

/* --- a frame's head is known --- */

static void begin_sent(struct http2_reader *reader, struct http2_event *event)
{
    go(reader, IN_REST);
    if (reader->type == HEADERS)
        tell(reader, event, HTTP2_HEADERS);
    else if (reader->type == DATA)
        tell(reader, event, HTTP2_DATA);
    else if (reader->type == RST_STREAM)
        tell(reader, event, HTTP2_RESET);
}

/* What stands before a header block, and behind it. False: there is no room for that. */
static bool begin_block(struct http2_reader *reader, struct hpack *hpack)
{
    const bool is_padded = has_flag(reader, PADDED) && reader->type != CONTINUATION;

    reader->padding = 0;
    reader->prefix = reader->type == PUSH_PROMISE                                 ? PROMISE_BYTES
                     : reader->type == HEADERS && has_flag(reader, WITH_PRIORITY) ? PRIORITY_BYTES
                                                                                  : 0;
    go(reader, is_padded ? AT_PADDING : IN_PREFIX);
    if (reader->type != CONTINUATION) {
        reader->in_block = true;
        reader->block_ends = reader->type == HEADERS && has_flag(reader, END_STREAM);
        reader->is_promised = reader->type == PUSH_PROMISE;
        hpack_begin(hpack);
    }
    return reader->left >= (is_padded ? 1u : 0u) + reader->prefix;
}

static void begin_words(struct http2_reader *reader, unsigned int words, struct http2_event *event)
{
    go(reader, IN_WORDS);
    reader->words[0] = reader->words[1] = 0;
    if (reader->left < 4 * words)
        lose(reader, event);
}

static void begin_came(struct http2_reader *reader, struct hpack *hpack, struct http2_event *event)
{
    const bool is_block = reader->type == HEADERS || reader->type == PUSH_PROMISE || reader->type == CONTINUATION;

    if (!reader->has_greeted && (reader->type != SETTINGS || has_flag(reader, ACK))) {
        lose(reader, event); /* a server begins with its settings (RFC 9113, 3.4) */
        return;
    }
    reader->has_greeted = true;
    if (is_block) {
        if (reader->stream == 0 || reader->in_block != (reader->type == CONTINUATION) || !begin_block(reader, hpack))
            lose(reader, event);
        return;
    }
    if (reader->in_block) {
        lose(reader, event);
        return;
    }
    go(reader, IN_REST);
    if (reader->type == RST_STREAM)
        begin_words(reader, 1, event);
    else if (reader->type == GOAWAY)
        begin_words(reader, 2, event);
    else if (reader->type == DATA)
        tell(reader, event, HTTP2_DATA);
    else if (reader->type == SETTINGS && !has_flag(reader, ACK))
        tell(reader, event, HTTP2_SETTINGS);
}

/* --- parts that may be empty --- */

static void end_block(struct http2_reader *reader, const struct hpack *hpack, struct http2_event *event)
{
    go(reader, IN_REST);
    if (!has_flag(reader, END_HEADERS))
        return;
    if (!hpack_end(hpack)) {
        lose(reader, event);
        return;
    }
    reader->in_block = false;
    if (reader->is_promised)
        return;
    tell(reader, event, HTTP2_HEADERS);
    event->ends = reader->block_ends;
    event->head = hpack->head;
}

static void end_words(struct http2_reader *reader, struct http2_event *event)
{
    if (reader->type == RST_STREAM) {
        tell(reader, event, HTTP2_RESET);
        event->error = reader->words[0];
    } else {
        tell(reader, event, HTTP2_GOAWAY);
        event->stream = reader->words[0] & 0x7fffffffu;
        event->error = reader->words[1];
    }
    go(reader, IN_REST);
}

/* Goes on behind what needs no further byte. */
static void go_on(struct http2_reader *reader, const struct hpack *hpack, struct http2_event *event)
{
    if (reader->state == IN_PREFIX && reader->prefix == 0)
        go(reader, IN_BLOCK);
    if (reader->state == IN_BLOCK && reader->left == reader->padding)
        end_block(reader, hpack, event);
    if (reader->state == IN_WORDS && reader->have == (reader->type == GOAWAY ? 8 : 4))
        end_words(reader, event);
    if (reader->state == IN_REST && reader->left == 0)
        go(reader, IN_HEAD);
}

/* --- bytes --- */

size_t http2_skips(const struct http2_reader *reader)
{
    return reader->state == IN_REST ? reader->left : 0;
}

static size_t less(size_t one, size_t other)
{
    return one < other ? one : other;
}

static size_t in_preface(struct http2_reader *reader, const unsigned char *byte, struct http2_event *event)
{
    if (*byte != (unsigned char)preface[reader->have])
        lose(reader, event);
    else if (preface[++reader->have] == '\0')
        go(reader, IN_HEAD);
    return 1;
}

static size_t in_head(struct http2_reader *reader, struct hpack *hpack, const unsigned char *byte,
                      struct http2_event *event)
{
    const unsigned int place = reader->have++;

    if (place < 3)
        reader->left = (place == 0 ? 0 : reader->left << 8) | *byte;
    else if (place == 3)
        reader->type = *byte;
    else if (place == 4)
        reader->flags = *byte;
    else
        reader->stream = (place == 5 ? 0 : reader->stream << 8) | *byte;
    if (reader->have < HEAD_BYTES)
        return 1;
    reader->stream &= 0x7fffffffu;
    if (reader->is_client)
        begin_sent(reader, event);
    else
        begin_came(reader, hpack, event);
    return 1;
}

static size_t at_padding(struct http2_reader *reader, const unsigned char *byte, struct http2_event *event)
{
    reader->padding = *byte;
    reader->left--;
    go(reader, IN_PREFIX);
    if (reader->left < (uint32_t)reader->padding + reader->prefix)
        lose(reader, event);
    return 1;
}

static size_t in_prefix(struct http2_reader *reader)
{
    reader->prefix--;
    reader->left--;
    if (reader->left < reader->padding) /* it was looked at before; two threads may have mixed it up */
        reader->left = reader->padding;
    return 1;
}

static size_t in_block(struct http2_reader *reader, struct hpack *hpack, const unsigned char *bytes, size_t count,
                       struct http2_event *event)
{
    const size_t part = less(count, reader->left - reader->padding);

    if (!hpack_read(hpack, bytes, part))
        lose(reader, event);
    reader->left -= (uint32_t)part;
    return part;
}

static size_t in_words(struct http2_reader *reader, const unsigned char *byte)
{
    uint32_t *word = &reader->words[(reader->have >> 2) & 1];

    *word = *word << 8 | *byte;
    reader->have++;
    reader->left--;
    return 1;
}

static size_t step(struct http2_reader *reader, struct hpack *hpack, const unsigned char *bytes, size_t count,
                   struct http2_event *event)
{
    size_t part;

    switch ((enum state)reader->state) {
    case IN_PREFACE:
        return in_preface(reader, bytes, event);
    case IN_HEAD:
        return in_head(reader, hpack, bytes, event);
    case AT_PADDING:
        return at_padding(reader, bytes, event);
    case IN_PREFIX:
        return in_prefix(reader);
    case IN_BLOCK:
        return in_block(reader, hpack, bytes, count, event);
    case IN_WORDS:
        return in_words(reader, bytes);
    case IN_REST:
        part = less(count, reader->left);
        reader->left -= (uint32_t)part;
        return part;
    case IS_LOST:
        break;
    }
    lose(reader, event);
    return count;
}

size_t http2_read(struct http2_reader *reader, struct hpack *hpack, const void *bytes, size_t count,
                  struct http2_event *event)
{
    const unsigned char *byte = bytes;
    size_t at = 0;

    event->what = HTTP2_NOTHING;
    if (reader->state == IN_PREFACE && !reader->is_client)
        go(reader, IN_HEAD);
    while (at < count && event->what == HTTP2_NOTHING) {
        at += step(reader, hpack, byte + at, count - at, event);
        if (event->what != HTTP2_LOST)
            go_on(reader, hpack, event);
    }
    return at;
}
