/*
 * fuzz_http2.c - throws bytes at the reader of HTTP/2's frames and header blocks.
 *
 * `make fuzz` builds and runs it. The input's first byte says in which direction the rest goes, and in what pieces it
 * comes. Of the rest most bytes from 0xc0 on stand for a whole frame, which chance would never write. Beside crashes it
 * looks for this: the events are the same for all bytes at once and in pieces, and the table of headers stays within
 * its bounds.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "breaker/http2.h"
#include "fuzz.h"

#define BYTES_MAX 65536u
#define EVENTS_MAX 4096u

struct word {
    const char *bytes;
    size_t count;
};
#define WORD(text)                                                                                                     \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }

static const struct word words[] = {
    WORD("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    WORD("\0\0\0\4\0\0\0\0\0"),
    WORD("\0\0\1\1\4\0\0\0\1\x88"),
    WORD("\0\0\1\1\5\0\0\0\1\x88"),
    WORD("\0\0\3\1\0\0\0\0\1\x40\1x\0\0\2\x9\4\0\0\0\1\1y"),
    WORD("\0\0\x5\1\4\0\0\0\3\x48\3"
         "503"),
    WORD("\0\0\2\1\4\0\0\0\3\xbe\xbf"),
    WORD("\0\0\7\1\x2c\0\0\0\5\1\0\0\0\0\0\x88"),
    WORD("\0\0\x4\1\4\0\0\0\7\x3f\xe1\x1f\xbe"),
    WORD("\0\0\4\0\0\0\0\0\1"),
    WORD("\0\0\4\3\0\0\0\0\1\0\0\0\7"),
    WORD("\0\0\x8\7\0\0\0\0\0\0\0\0\1\0\0\0\0"),
    WORD("\0\0\6\5\4\0\0\0\1\0\0\0\2\x82\x84"),
    WORD("\x40\x0bgrpc-status\2"
         "14"),
    WORD("\x5f\x10"
         "application/grpc"),
    WORD("\x40\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x81\x07"),
};
#define WORDS_FROM 0xc0u

/* The input with its words written out. */
static size_t write_out(const uint8_t *bytes, size_t size, unsigned char *out)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        const struct word *word = &words[bytes[i] % (sizeof words / sizeof words[0])];
        const bool is_word = bytes[i] >= WORDS_FROM && bytes[i] != 0xff;
        if (count + (is_word ? word->count : 1) > BYTES_MAX)
            break;
        memcpy(out + count, is_word ? word->bytes : (const char *)&bytes[i], is_word ? word->count : 1);
        count += is_word ? word->count : 1;
    }
    return count;
}

/* All events of these bytes, which come in pieces of so many. */
static size_t read_all(const unsigned char *bytes, size_t count, size_t piece, bool is_client,
                       struct http2_event *events)
{
    struct http2_reader reader = {0};
    struct hpack hpack;
    size_t seen = 0;

    if (is_client)
        http2_start_client(&reader);
    hpack_start(&hpack);
    for (size_t from = 0; from < count; from += piece) {
        const size_t part = count - from < piece ? count - from : piece;
        unsigned char *alone = malloc(part); /* so that a byte too many is found out */
        assert(alone != NULL);
        memcpy(alone, bytes + from, part);
        for (size_t at = 0; at < part;) {
            struct http2_event event = {0};
            at += http2_read(&reader, is_client ? NULL : &hpack, alone + at, part - at, &event);
            assert(at <= part && (event.what != HTTP2_NOTHING || at == part));
            assert(hpack.table_count <= HPACK_ENTRIES &&
                   (hpack.table_count == 0 || hpack.table_size <= hpack.table_most));
            if (event.what != HTTP2_NOTHING && seen < EVENTS_MAX)
                events[seen++] = event;
            if (event.what == HTTP2_LOST) {
                free(alone);
                return seen;
            }
        }
        free(alone);
    }
    return seen;
}

static bool is_same(const struct http2_event *one, const struct http2_event *other)
{
    if (one->what != other->what)
        return false;
    if (one->what == HTTP2_LOST)
        return true;
    return one->stream == other->stream && one->error == other->error && one->ends == other->ends &&
           one->head.status == other->head.status && one->head.grpc_status == other->head.grpc_status &&
           one->head.retry_after_s == other->head.retry_after_s && one->head.is_grpc == other->head.is_grpc;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static unsigned char out[BYTES_MAX];
    static struct http2_event whole[EVENTS_MAX], parts[EVENTS_MAX];

    if (size < 2)
        return 0;
    const bool is_client = bytes[0] & 1;
    const size_t count = write_out(bytes + 1, size - 1, out);
    const size_t seen = read_all(out, count, count > 0 ? count : 1, is_client, whole);
    for (size_t piece = 1; piece <= 3; piece++) {
        assert(read_all(out, count, piece == 3 ? (bytes[0] >> 1) + 1u : piece, is_client, parts) == seen);
        for (size_t i = 0; i < seen; i++)
            assert(is_same(&whole[i], &parts[i]));
    }
    return 0;
}
