/*
 * http_request_state.h - where the reader of a request stands, and what it knows by then.
 *
 * Private to http_request.c and http_request_head.c.
 */
#ifndef SOCKFUSE_BREAKER_HTTP_REQUEST_STATE_H
#define SOCKFUSE_BREAKER_HTTP_REQUEST_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/http_request_model.h"

/* What is longer than this is no head that any server would read to its end. */
#define HTTP_HEAD_BYTES_MAX 65536u

enum http_request_state {
    IN_METHOD, /* 0: where every request starts */
    IN_TARGET,
    IN_VERSION,
    /* From here on it is known. */
    AFTER_VERSION,
    AT_LINE, /* the first byte of a header line, or the end of the block */
    AT_LINE_CR,
    IN_NAME,
    AFTER_NAME,
    IN_VALUE,
    IN_OTHER_LINE,
    IN_BODY,
    IN_CHUNK_SIZE,
    IN_CHUNK_EXTENSION,
    IN_CHUNK,
    AFTER_CHUNK,
    AT_TRAILER,
    IN_TRAILER,
    DONE_WHOLE,
    DONE_NONE,
};

enum http_request_framing {
    HAS_LENGTH = 1,
    HAS_CODING = 2,   /* a Transfer-Encoding */
    IS_CHUNKED = 4,   /* which ends with chunked */
    HAS_EXPECT = 8,   /* an Expect */
    IS_EXPECTED = 16, /* its value is 100-continue */
};

static inline void request_go(struct http_request *request, enum http_request_state state)
{
    request->state = (uint8_t)state;
    request->matched = 0;
}

static inline bool request_says(const struct http_request *request, enum http_request_framing framing)
{
    return request->framing & (unsigned int)framing;
}

static inline void request_note(struct http_request *request, enum http_request_framing framing)
{
    request->framing |= (uint8_t)framing;
}

/* --- the head: http_request_head.c -------------------------------------------------------------------------------- */

/* Takes the next byte of the head: in a state before IN_BODY. */
void http_request_head_take(struct http_request *request, unsigned char byte);

/*
 * As all but every request begins: its line as far as its version, read at once. Returns how many bytes that is; 0: byte
 * by byte, then.
 */
size_t http_request_head_take_version(struct http_request *request, const unsigned char *bytes, size_t count);

/* Whether a header line that begins so tells nothing; no: it may. */
static inline bool http_request_head_passes_line(unsigned char byte)
{
    const unsigned char letter = byte | 0x20;

    return letter >= 'a' && letter <= 'z' && letter != 'c' && letter != 't' && letter != 'e';
}

/*
 * As all but every request without a body is sent: the whole of it at once, with no line that tells of a body. Then all
 * of it is taken; false: nothing is, and it is to be read by its parts.
 */
bool http_request_head_take_whole(struct http_request *request, const unsigned char *bytes, size_t count);

/* The rest of a header line that tells nothing, as far as there is one: all but every byte of most heads. */
size_t http_request_head_take_other_line(struct http_request *request, const unsigned char *bytes, size_t count);

#endif
