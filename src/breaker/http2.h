/*
 * http2.h - the frames of HTTP/2 (RFC 9113), read as they pass, in either direction.
 *
 * What is sent: which streams begin and end. What comes: which are answered, how, and which are given back. Bodies are
 * skipped, nothing is kept. Pure; the same bytes in other pieces give the same events. Async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_HTTP2_H
#define SOCKFUSE_BREAKER_HTTP2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/hpack.h"

enum http2_what {
    HTTP2_NOTHING,  /* all bytes are read */
    HTTP2_LOST,     /* this is no HTTP/2, or more than can be followed: final */
    HTTP2_SETTINGS, /* the peer's, not what acknowledges ours */
    HTTP2_HEADERS,  /* of what is sent: as they begin; of what came: they are read */
    HTTP2_DATA,     /* a frame of it begins */
    HTTP2_RESET,    /* RST_STREAM; of what came: with its code */
    HTTP2_GOAWAY,   /* `stream`: the last one that was, or may be, processed */
};

/* Codes of errors (RFC 9113, 7) that say that a stream was not processed, or is not wanted. */
#define HTTP2_NO_ERROR 0u
#define HTTP2_REFUSED_STREAM 7u
#define HTTP2_CANCEL 8u
#define HTTP2_HTTP_1_1_REQUIRED 13u

struct http2_event {
    enum http2_what what;
    uint32_t stream;
    uint32_t error;         /* RESET */
    bool ends;              /* HEADERS, DATA: nothing comes behind them on this stream */
    struct hpack_head head; /* HEADERS that came */
};

/* The members are the reader's own. All zero: a server's bytes are to come; http2_start_client: a client's. */
struct http2_reader {
    uint32_t left; /* bytes of the present frame's payload to come */
    uint32_t stream;
    uint32_t words[2]; /* of RST_STREAM and GOAWAY */
    uint8_t state;
    uint8_t have; /* bytes of the preface, of a frame's head, of words */
    uint8_t type, flags;
    uint8_t padding, prefix;
    bool is_client, has_greeted;
    bool in_block;    /* a header block goes on in the next frame, */
    bool block_ends;  /* which ends its stream, */
    bool is_promised; /* or is of a stream that the server would begin */
};

static inline void http2_start_client(struct http2_reader *reader)
{
    *reader = (struct http2_reader){.is_client = true};
}

/* A client's first words (RFC 9113, 3.4): whether these begin so. */
bool http2_begins(const void *bytes, size_t count);

/* A server's (the same): settings. No other protocol whose server speaks first is known to begin so. */
bool http2_greets(const void *bytes, size_t count);

/*
 * Reads up to the next event, and says how many bytes that were: all, with HTTP2_NOTHING. `hpack`: of what comes, and
 * of nothing else.
 */
size_t http2_read(struct http2_reader *reader, struct hpack *hpack, const void *bytes, size_t count,
                  struct http2_event *event);

/* How many of the next bytes are passed over without being looked at. */
size_t http2_skips(const struct http2_reader *reader);

#endif
