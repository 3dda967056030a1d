/*
 * http_request_head.c - the head of a request of HTTP/1.x: its line, and the headers that say how long its body is.
 * See http_request_state.h.
 */
#include "breaker/http_request_state.h"

#include <string.h>

#include "base/ascii.h"
#include "base/hot.h"

#define METHOD_BYTES_MAX 24u

enum header { CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, HEADERS };
static const char *const names[HEADERS] = {"content-length", "transfer-encoding", "expect"};

static const char version[] = "HTTP/1.";
static const char chunked[] = "chunked";
static const char go_on[] = "100-continue";

static void in_method(struct http_request *request, unsigned char byte)
{
    bool is_first = request->matched == 0;
    if (is_first && (byte == '\r' || byte == '\n')) /* a server passes them by (RFC 9112, 2.2) */
        return;
    if (!is_first && byte == ' ')
        request_go(request, IN_TARGET);
    else if (((byte < 'A' || byte > 'Z') && byte != '-' && byte != '_') || ++request->matched > METHOD_BYTES_MAX)
        request_go(request, DONE_NONE);
}

static void in_target(struct http_request *request, unsigned char byte)
{
    if (byte == ' ' && request->matched > 0)
        request_go(request, IN_VERSION);
    else if (byte <= ' ')
        request_go(request, DONE_NONE);
    else
        request->matched = 1;
}

static void in_version(struct http_request *request, unsigned char byte)
{
    const size_t fixed = sizeof version - 1;
    if (request->matched == fixed ? !ascii_is_digit(byte) : byte != (unsigned char)version[request->matched])
        request_go(request, DONE_NONE);
    else if (++request->matched > fixed)
        request_go(request, AFTER_VERSION);
}

static void after_version(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        request_go(request, AT_LINE);
    else if (byte != '\r')
        request_go(request, DONE_NONE);
}

/* The empty line. Both framings at once, or one that ends with the connection, are nothing to wait by. */
static void end_head(struct http_request *request)
{
    if (request_says(request, HAS_CODING))
        request_go(request, request_says(request, IS_CHUNKED) ? IN_CHUNK_SIZE : DONE_NONE);
    else
        request_go(request, request->left > 0 ? IN_BODY : DONE_WHOLE);
    if (request->state == IN_CHUNK_SIZE)
        request->left = 0;
}

static void in_other_line(struct http_request *request, unsigned char byte)
{
    request_go(request, byte == '\n' ? AT_LINE : IN_OTHER_LINE);
}

static void in_name(struct http_request *request, unsigned char byte)
{
    const char *name = names[request->header];
    if (ascii_lower((char)byte) != name[request->matched])
        in_other_line(request, byte);
    else if (name[++request->matched] == '\0')
        request_go(request, AFTER_NAME);
}

static void at_line(struct http_request *request, unsigned char byte)
{
    if (byte == '\n') {
        end_head(request);
        return;
    }
    if (byte == '\r') {
        request_go(request, AT_LINE_CR);
        return;
    }
    for (unsigned int i = 0; i < HEADERS; i++) {
        if (ascii_lower((char)byte) == names[i][0]) { /* each begins with a letter of its own */
            request->header = (uint8_t)i;
            request_go(request, IN_NAME);
            in_name(request, byte);
            return;
        }
    }
    request_go(request, IN_OTHER_LINE);
}

static void at_line_cr(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        end_head(request);
    else
        request_go(request, IN_OTHER_LINE);
}

static void after_name(struct http_request *request, unsigned char byte)
{
    if (byte != ':') {
        if (!ascii_is_blank(byte))
            in_other_line(request, byte);
        return;
    }
    request_go(request, IN_VALUE);
    if (request->header == TRANSFER_ENCODING)
        request_note(request, HAS_CODING);
    else if (request->header == CONTENT_LENGTH && request_says(request, HAS_LENGTH))
        request_go(request, DONE_NONE); /* twice: nobody knows by which to go */
    else if (request->header == CONTENT_LENGTH)
        request_note(request, HAS_LENGTH);
}

/* A number, with blanks around it. `matched`: 0 before it, 1 in it, 2 behind it. */
static void in_length(struct http_request *request, unsigned char byte)
{
    if (ascii_is_blank(byte) || byte == '\r') {
        request->matched = request->matched == 0 && byte != '\r' ? 0 : 2;
        return;
    }
    if (!ascii_is_digit(byte) || request->matched == 2 || request->left > UINT64_MAX / 10 - 1) {
        request_go(request, DONE_NONE);
        return;
    }
    request->matched = 1;
    request->left = request->left * 10 + (uint64_t)(byte - '0');
}

/* The word, as the last one of the value: what stands behind it takes it back. */
static void in_codings(struct http_request *request, unsigned char byte)
{
    if (ascii_is_blank(byte) || byte == '\r')
        return;
    if (byte == ',') {
        request->matched = 0;
        request->framing &= (uint8_t)~IS_CHUNKED;
    } else if (request->matched < sizeof chunked - 1 && ascii_lower((char)byte) == chunked[request->matched]) {
        if (++request->matched == sizeof chunked - 1)
            request_note(request, IS_CHUNKED);
    } else {
        request->matched = UINT8_MAX; /* another word */
        request->framing &= (uint8_t)~IS_CHUNKED;
    }
}

static void in_expectation(struct http_request *request, unsigned char byte)
{
    if (ascii_is_blank(byte) && request->matched == 0)
        return;
    if (request->matched >= sizeof go_on - 1)
        return;
    if (ascii_lower((char)byte) != go_on[request->matched])
        request->matched = UINT8_MAX;
    else if (++request->matched == sizeof go_on - 1)
        request_note(request, IS_EXPECTED);
}

static void in_value(struct http_request *request, unsigned char byte)
{
    if (byte == '\n') {
        request_go(request, AT_LINE);
        return;
    }
    switch ((enum header)request->header) {
    case CONTENT_LENGTH:
        in_length(request, byte);
        break;
    case TRANSFER_ENCODING:
        in_codings(request, byte);
        break;
    default:
        in_expectation(request, byte);
        break;
    }
}

void http_request_head_take(struct http_request *request, unsigned char byte)
{
    static void (*const steps[])(struct http_request * request, unsigned char byte) = {
        [IN_METHOD] = in_method,   [IN_TARGET] = in_target,
        [IN_VERSION] = in_version, [AFTER_VERSION] = after_version,
        [AT_LINE] = at_line,       [AT_LINE_CR] = at_line_cr,
        [IN_NAME] = in_name,       [AFTER_NAME] = after_name,
        [IN_VALUE] = in_value,     [IN_OTHER_LINE] = in_other_line,
    };
    steps[request->state](request, byte);
}

/* Where the line that is the request's own ends, behind its line feed; 0: it is another one. */
static inline size_t take_line(const unsigned char *bytes, size_t count)
{
    const size_t fixed = sizeof version - 1;
    size_t at = 0;
    while (at < count && at < METHOD_BYTES_MAX && bytes[at] >= 'A' && bytes[at] <= 'Z')
        at++;
    if (at == 0 || at == count || bytes[at] != ' ')
        return 0;
    const size_t target = ++at;
    while (at < count && bytes[at] > ' ')
        at++;
    if (at == target || count - at < fixed + 4 || bytes[at++] != ' ' || memcmp(bytes + at, version, fixed) != 0 ||
        !ascii_is_digit(bytes[at + fixed]) || bytes[at + fixed + 1] != '\r' || bytes[at + fixed + 2] != '\n')
        return 0;
    return at + fixed + 3;
}

HOT bool http_request_head_take_whole(struct http_request *request, const unsigned char *bytes, size_t count)
{
    static const char end[] = "\r\n\r\n";
    const size_t length = sizeof end - 1;
    if (count <= length || count >= HTTP_HEAD_BYTES_MAX || memcmp(bytes + count - length, end, length) != 0)
        return false;
    const size_t last = count - length / 2; /* the empty line */
    size_t at = take_line(bytes, last);
    while (at != 0 && at < last && http_request_head_passes_line(bytes[at])) {
        const unsigned char *feed = memchr(bytes + at, '\n', last - at);
        at = feed ? (size_t)(feed - bytes) + 1 : 0;
    }
    if (at != last)
        return false;
    request->bytes = (uint32_t)count - 1; /* as they are counted: the one that ends it is of no state any more */
    request_go(request, DONE_WHOLE);
    return true;
}

size_t http_request_head_take_version(struct http_request *request, const unsigned char *bytes, size_t count)
{
    const size_t fixed = sizeof version - 1, most = count < HTTP_HEAD_BYTES_MAX ? count : HTTP_HEAD_BYTES_MAX - 1;
    size_t at = 0;
    while (at < most && at < METHOD_BYTES_MAX && bytes[at] >= 'A' && bytes[at] <= 'Z')
        at++;
    if (at == 0 || at == most || bytes[at] != ' ')
        return 0;
    const size_t target = ++at;
    while (at < most && bytes[at] > ' ')
        at++;
    if (at == target || most - at < fixed + 2 || bytes[at++] != ' ' || memcmp(bytes + at, version, fixed) != 0 ||
        !ascii_is_digit(bytes[at + fixed]))
        return 0;
    request->bytes = (uint32_t)(at + fixed + 1);
    request_go(request, AFTER_VERSION);
    return request->bytes;
}

size_t http_request_head_take_other_line(struct http_request *request, const unsigned char *bytes, size_t count)
{
    const size_t left = HTTP_HEAD_BYTES_MAX - 1 - request->bytes, most = count < left ? count : left;
    const unsigned char *end = memchr(bytes, '\n', most);
    const size_t taken = end ? (size_t)(end - bytes) + 1 : most;
    request->bytes += (uint32_t)taken;
    if (end)
        request_go(request, AT_LINE);
    return taken;
}
