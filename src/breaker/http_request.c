/*
 * http_request.c - a request of HTTP/1.x, byte by byte: a state machine. See http_request.h.
 *
 * Here stand its body, chunks and end; the head is read in http_request_head.c. What is not understood is no request,
 * or one that is whole: then the wait for its answer begins with its last byte, as with any protocol.
 */
#include "breaker/http_request.h"

#include <string.h>

#include "base/ascii.h"
#include "base/frame.h"
#include "base/hot.h"
#include "breaker/http_request_state.h"

#define CHUNK_DIGITS_MAX 15u /* of a chunk's size: 60 bits */

static int hex_digit(unsigned char byte)
{
    if (ascii_is_digit(byte))
        return byte - '0';
    const char letter = ascii_lower((char)byte);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static void end_chunk_line(struct http_request *request)
{
    if (request->matched == 0 && request->state == IN_CHUNK_SIZE)
        request_go(request, DONE_NONE);
    else
        request_go(request, request->left > 0 ? IN_CHUNK : AT_TRAILER);
}

static void in_chunk_size(struct http_request *request, unsigned char byte)
{
    int digit = hex_digit(byte);
    if (byte == '\n') {
        end_chunk_line(request);
    } else if (digit >= 0) {
        request->left = request->left << 4 | (uint64_t)digit;
        if (++request->matched > CHUNK_DIGITS_MAX)
            request_go(request, DONE_NONE);
    } else if (request->matched > 0 && (byte == ';' || byte == '\r' || ascii_is_blank(byte))) {
        request_go(request, IN_CHUNK_EXTENSION);
    } else {
        request_go(request, DONE_NONE);
    }
}

/* Behind a chunk stands an empty line, and then the next one's size. */
static void after_chunk(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        request_go(request, IN_CHUNK_SIZE);
    else if (byte != '\r')
        request_go(request, DONE_NONE);
}

static void at_trailer(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        request_go(request, DONE_WHOLE);
    else if (byte != '\r')
        request_go(request, IN_TRAILER);
}

static bool is_in_body(const struct http_request *request)
{
    return request->state == IN_BODY || request->state == IN_CHUNK;
}

/* Bytes of the body, or of the chunk, as many as there are; returns how many. */
static size_t take_body(struct http_request *request, uint64_t count)
{
    uint64_t taken = count < request->left ? count : request->left;
    request->left -= taken;
    if (request->left == 0)
        request_go(request, request->state == IN_BODY ? DONE_WHOLE : AFTER_CHUNK);
    return (size_t)taken;
}

/* Something of the body was sent: nobody waits for `100 Continue` any more. */
static void begin_body(struct http_request *request)
{
    request->framing &= (uint8_t)~IS_EXPECTED;
}

/* One byte that is not of the body itself. */
static void take(struct http_request *request, unsigned char byte)
{
    if (request->state < IN_BODY)
        http_request_head_take(request, byte);
    else if (request->state == IN_CHUNK_SIZE)
        in_chunk_size(request, byte);
    else if (request->state == IN_CHUNK_EXTENSION && byte == '\n')
        end_chunk_line(request);
    else if (request->state == AFTER_CHUNK)
        after_chunk(request, byte);
    else if (request->state == AT_TRAILER)
        at_trailer(request, byte);
    else if (request->state == IN_TRAILER && byte == '\n')
        request_go(request, AT_TRAILER);
}

/* By its parts. */
OWN_FRAME static void read_parts(struct http_request *request, const unsigned char *byte, size_t count)
{
    size_t i =
        request->state == IN_METHOD && request->bytes == 0 ? http_request_head_take_version(request, byte, count) : 0;
    while (i < count && request->state < DONE_WHOLE) {
        if (request->state >= IN_BODY && request_says(request, IS_EXPECTED))
            begin_body(request);
        if (is_in_body(request)) {
            i += take_body(request, count - i);
            continue;
        }
        if (request->state == AT_LINE && http_request_head_passes_line(byte[i]))
            request_go(request, IN_OTHER_LINE);
        if (request->state == IN_OTHER_LINE)
            i += http_request_head_take_other_line(request, byte + i, count - i);
        if (i == count)
            return;
        take(request, byte[i++]);
        /* The lines between chunks have no end of their own: they are few bytes for each chunk. */
        if (request->state < IN_BODY && ++request->bytes >= HTTP_HEAD_BYTES_MAX)
            request_go(request, DONE_NONE);
    }
}

HOT void http_request_read(struct http_request *request, const void *bytes, size_t count)
{
    if (request->state != IN_METHOD || request->bytes != 0 || !http_request_head_take_whole(request, bytes, count))
        read_parts(request, bytes, count);
}

void http_request_skip(struct http_request *request, uint64_t count)
{
    if (count == 0 || request->state >= DONE_WHOLE)
        return;
    begin_body(request);
    if (!is_in_body(request) || count > request->left)
        request_go(request, request->state == IN_BODY ? DONE_WHOLE : DONE_NONE);
    else
        take_body(request, count);
}

bool http_request_is_over(const struct http_request *request)
{
    return request->state >= DONE_WHOLE;
}

void http_request_end(struct http_request *request)
{
    request_go(request, DONE_WHOLE);
}

bool http_request_is_open(const struct http_request *request)
{
    bool known = request->state > IN_VERSION && request->state < DONE_WHOLE;
    return known && !(request->state >= IN_BODY && request_says(request, IS_EXPECTED));
}

bool http_request_is_plain(const void *bytes, size_t count)
{
    const char *text = bytes;
    if (count == 0 || text[0] < 'A' || text[0] > 'Z')
        return true;
    return count >= 18 && (!memcmp(text, "GET ", 4) || !memcmp(text, "HEAD ", 5)) &&
           !memcmp(text + count - 4, "\r\n\r\n", 4);
}
