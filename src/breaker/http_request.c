/*
 * http_request.c - a request of HTTP/1.x, byte by byte: a state machine. See http_request.h.
 *
 * What is not understood is no request, or one that is whole: then the wait for its answer begins with its last byte,
 * as with any protocol.
 */
#include "breaker/http_request.h"

#include <string.h>

#include "base/ascii.h"

#define METHOD_BYTES_MAX 24u
/* What is longer than this is no head that any server would read to its end. */
#define HEAD_BYTES_MAX 65536u
#define CHUNK_DIGITS_MAX 15u /* of a chunk's size: 60 bits */

enum state {
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

enum header { CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, HEADERS };
static const char *const names[HEADERS] = {"content-length", "transfer-encoding", "expect"};

enum framing {
    HAS_LENGTH = 1,
    HAS_CODING = 2,   /* a Transfer-Encoding */
    IS_CHUNKED = 4,   /* which ends with chunked */
    HAS_EXPECT = 8,   /* an Expect */
    IS_EXPECTED = 16, /* its value is 100-continue */
};

static const char version[] = "HTTP/1.";
static const char chunked[] = "chunked";
static const char go_on[] = "100-continue";

static void go(struct http_request *request, enum state state)
{
    request->state = (uint8_t)state;
    request->matched = 0;
}

static bool says(const struct http_request *request, enum framing framing)
{
    return request->framing & (unsigned int)framing;
}

static void note(struct http_request *request, enum framing framing)
{
    request->framing |= (uint8_t)framing;
}

static bool is_blank(unsigned char byte)
{
    return byte == ' ' || byte == '\t';
}

static void in_method(struct http_request *request, unsigned char byte)
{
    bool is_first = request->matched == 0;
    if (is_first && (byte == '\r' || byte == '\n')) /* a server passes them by (RFC 9112, 2.2) */
        return;
    if (!is_first && byte == ' ')
        go(request, IN_TARGET);
    else if (((byte < 'A' || byte > 'Z') && byte != '-' && byte != '_') || ++request->matched > METHOD_BYTES_MAX)
        go(request, DONE_NONE);
}

static void in_target(struct http_request *request, unsigned char byte)
{
    if (byte == ' ' && request->matched > 0)
        go(request, IN_VERSION);
    else if (byte <= ' ')
        go(request, DONE_NONE);
    else
        request->matched = 1;
}

static void in_version(struct http_request *request, unsigned char byte)
{
    const size_t fixed = sizeof version - 1;
    if (request->matched == fixed ? !ascii_is_digit(byte) : byte != (unsigned char)version[request->matched])
        go(request, DONE_NONE);
    else if (++request->matched > fixed)
        go(request, AFTER_VERSION);
}

static void after_version(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        go(request, AT_LINE);
    else if (byte != '\r')
        go(request, DONE_NONE);
}

/* The empty line. Both framings at once, or one that ends with the connection, are nothing to wait by. */
static void end_head(struct http_request *request)
{
    if (says(request, HAS_CODING))
        go(request, says(request, IS_CHUNKED) ? IN_CHUNK_SIZE : DONE_NONE);
    else
        go(request, request->left > 0 ? IN_BODY : DONE_WHOLE);
    if (request->state == IN_CHUNK_SIZE)
        request->left = 0;
}

static void in_other_line(struct http_request *request, unsigned char byte)
{
    go(request, byte == '\n' ? AT_LINE : IN_OTHER_LINE);
}

static void in_name(struct http_request *request, unsigned char byte)
{
    const char *name = names[request->header];
    if (ascii_lower((char)byte) != name[request->matched])
        in_other_line(request, byte);
    else if (name[++request->matched] == '\0')
        go(request, AFTER_NAME);
}

static void at_line(struct http_request *request, unsigned char byte)
{
    if (byte == '\n') {
        end_head(request);
        return;
    }
    if (byte == '\r') {
        go(request, AT_LINE_CR);
        return;
    }
    for (unsigned int i = 0; i < HEADERS; i++) {
        if (ascii_lower((char)byte) == names[i][0]) { /* each begins with a letter of its own */
            request->header = (uint8_t)i;
            go(request, IN_NAME);
            in_name(request, byte);
            return;
        }
    }
    go(request, IN_OTHER_LINE);
}

static void at_line_cr(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        end_head(request);
    else
        go(request, IN_OTHER_LINE);
}

static void after_name(struct http_request *request, unsigned char byte)
{
    if (byte != ':') {
        if (!is_blank(byte))
            in_other_line(request, byte);
        return;
    }
    go(request, IN_VALUE);
    if (request->header == TRANSFER_ENCODING)
        note(request, HAS_CODING);
    else if (request->header == CONTENT_LENGTH && says(request, HAS_LENGTH))
        go(request, DONE_NONE); /* twice: nobody knows by which to go */
    else if (request->header == CONTENT_LENGTH)
        note(request, HAS_LENGTH);
}

/* A number, with blanks around it. `matched`: 0 before it, 1 in it, 2 behind it. */
static void in_length(struct http_request *request, unsigned char byte)
{
    if (is_blank(byte) || byte == '\r') {
        request->matched = request->matched == 0 && byte != '\r' ? 0 : 2;
        return;
    }
    if (!ascii_is_digit(byte) || request->matched == 2 || request->left > UINT64_MAX / 10 - 1) {
        go(request, DONE_NONE);
        return;
    }
    request->matched = 1;
    request->left = request->left * 10 + (uint64_t)(byte - '0');
}

/* The word, as the last one of the value: what stands behind it takes it back. */
static void in_codings(struct http_request *request, unsigned char byte)
{
    if (is_blank(byte) || byte == '\r')
        return;
    if (byte == ',') {
        request->matched = 0;
        request->framing &= (uint8_t)~IS_CHUNKED;
    } else if (request->matched < sizeof chunked - 1 && ascii_lower((char)byte) == chunked[request->matched]) {
        if (++request->matched == sizeof chunked - 1)
            note(request, IS_CHUNKED);
    } else {
        request->matched = UINT8_MAX; /* another word */
        request->framing &= (uint8_t)~IS_CHUNKED;
    }
}

static void in_expectation(struct http_request *request, unsigned char byte)
{
    if (is_blank(byte) && request->matched == 0)
        return;
    if (request->matched >= sizeof go_on - 1)
        return;
    if (ascii_lower((char)byte) != go_on[request->matched])
        request->matched = UINT8_MAX;
    else if (++request->matched == sizeof go_on - 1)
        note(request, IS_EXPECTED);
}

static void in_value(struct http_request *request, unsigned char byte)
{
    if (byte == '\n') {
        go(request, AT_LINE);
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
        go(request, DONE_NONE);
    else
        go(request, request->left > 0 ? IN_CHUNK : AT_TRAILER);
}

static void in_chunk_size(struct http_request *request, unsigned char byte)
{
    int digit = hex_digit(byte);
    if (byte == '\n') {
        end_chunk_line(request);
    } else if (digit >= 0) {
        request->left = request->left << 4 | (uint64_t)digit;
        if (++request->matched > CHUNK_DIGITS_MAX)
            go(request, DONE_NONE);
    } else if (request->matched > 0 && (byte == ';' || byte == '\r' || is_blank(byte))) {
        go(request, IN_CHUNK_EXTENSION);
    } else {
        go(request, DONE_NONE);
    }
}

/* Behind a chunk stands an empty line, and then the next one's size. */
static void after_chunk(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        go(request, IN_CHUNK_SIZE);
    else if (byte != '\r')
        go(request, DONE_NONE);
}

static void at_trailer(struct http_request *request, unsigned char byte)
{
    if (byte == '\n')
        go(request, DONE_WHOLE);
    else if (byte != '\r')
        go(request, IN_TRAILER);
}

static void take(struct http_request *request, unsigned char byte)
{
    static void (*const steps[])(struct http_request * request, unsigned char byte) = {
        [IN_METHOD] = in_method,
        [IN_TARGET] = in_target,
        [IN_VERSION] = in_version,
        [AFTER_VERSION] = after_version,
        [AT_LINE] = at_line,
        [AT_LINE_CR] = at_line_cr,
        [IN_NAME] = in_name,
        [AFTER_NAME] = after_name,
        [IN_VALUE] = in_value,
        [IN_OTHER_LINE] = in_other_line,
        [IN_CHUNK_SIZE] = in_chunk_size,
        [AFTER_CHUNK] = after_chunk,
        [AT_TRAILER] = at_trailer,
    };

    if (request->state == IN_CHUNK_EXTENSION) {
        if (byte == '\n')
            end_chunk_line(request);
    } else if (request->state == IN_TRAILER) {
        if (byte == '\n')
            go(request, AT_TRAILER);
    } else if (request->state < sizeof steps / sizeof steps[0] && steps[request->state]) {
        steps[request->state](request, byte);
    }
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
        go(request, request->state == IN_BODY ? DONE_WHOLE : AFTER_CHUNK);
    return (size_t)taken;
}

/* Something of the body was sent: nobody waits for `100 Continue` any more. */
static void begin_body(struct http_request *request)
{
    request->framing &= (uint8_t)~IS_EXPECTED;
}

/*
 * As all but every request begins: its line as far as its version, read at once. Returns how many bytes that is; 0: byte
 * by byte, then.
 */
static size_t take_version(struct http_request *request, const unsigned char *bytes, size_t count)
{
    const size_t fixed = sizeof version - 1, most = count < HEAD_BYTES_MAX ? count : HEAD_BYTES_MAX - 1;
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
    go(request, AFTER_VERSION);
    return request->bytes;
}

/* The rest of a header line that tells nothing, as far as there is one: all but every byte of most heads. */
static size_t take_other_line(struct http_request *request, const unsigned char *bytes, size_t count)
{
    const size_t left = HEAD_BYTES_MAX - 1 - request->bytes, most = count < left ? count : left;
    const unsigned char *end = memchr(bytes, '\n', most);
    const size_t taken = end ? (size_t)(end - bytes) + 1 : most;
    request->bytes += (uint32_t)taken;
    if (end)
        go(request, AT_LINE);
    return taken;
}

void http_request_read(struct http_request *request, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;

    size_t i = request->state == IN_METHOD && request->bytes == 0 ? take_version(request, bytes, count) : 0;
    while (i < count && request->state < DONE_WHOLE) {
        if (request->state >= IN_BODY && says(request, IS_EXPECTED))
            begin_body(request);
        if (is_in_body(request)) {
            i += take_body(request, count - i);
            continue;
        }
        if (request->state == IN_OTHER_LINE)
            i += take_other_line(request, byte + i, count - i);
        if (i == count)
            return;
        take(request, byte[i++]);
        /* The lines between chunks have no end of their own: they are few bytes for each chunk. */
        if (request->state < IN_BODY && ++request->bytes >= HEAD_BYTES_MAX)
            go(request, DONE_NONE);
    }
}

void http_request_skip(struct http_request *request, uint64_t count)
{
    if (count == 0 || request->state >= DONE_WHOLE)
        return;
    begin_body(request);
    if (!is_in_body(request) || count > request->left)
        go(request, request->state == IN_BODY ? DONE_WHOLE : DONE_NONE);
    else
        take_body(request, count);
}

bool http_request_is_over(const struct http_request *request)
{
    return request->state >= DONE_WHOLE;
}

void http_request_end(struct http_request *request)
{
    go(request, DONE_WHOLE);
}

bool http_request_is_open(const struct http_request *request)
{
    bool known = request->state > IN_VERSION && request->state < DONE_WHOLE;
    return known && !(request->state >= IN_BODY && says(request, IS_EXPECTED));
}

bool http_request_is_plain(const void *bytes, size_t count)
{
    const char *text = bytes;
    if (count == 0 || text[0] < 'A' || text[0] > 'Z')
        return true;
    return count >= 18 && (!memcmp(text, "GET ", 4) || !memcmp(text, "HEAD ", 5)) &&
           !memcmp(text + count - 4, "\r\n\r\n", 4);
}
