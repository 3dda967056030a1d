/*
 * fuzz_http_request.c - throws bytes at the reader of HTTP requests.
 *
 * `make fuzz` builds and runs it. The input's first two bytes say how the rest comes in pieces. In the rest, most bytes
 * of 0x80 and above stand for a whole word, as in fuzz_http.c. Beside crashes it looks for these: the state is the same
 * for all bytes at once, byte by byte, and in two pieces cut anywhere; and in a body it
 * is all the same whether its bytes were seen.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "breaker/http_request.h"
#include "fuzz.h"
#include "fuzz_words.h"

#define CUTS_MAX 48u /* longer texts are cut at some places only */

static const char *const words[] = {
    "POST /x HTTP/1.1\r\n",
    "GET / HTTP/1.0\n",
    "Content-Length: ",
    "\r\ncontent-length:7\r\n\r\n",
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding: gzip, ",
    "chunked",
    "Expect: 100-continue\r\n",
    "\r\n",
    "\r\n\r\n",
    "0\r\n\r\n",
    "a\r\n",
    "FFFFFFFFFFFFFFF\r\n",
    "18446744073709551615",
    "5;name=value\r\n",
};

static void read_piece(struct http_request *request, const char *bytes, size_t count)
{
    char *piece = piece_of(bytes, count);
    http_request_read(request, piece, count);
    free(piece);
}

static void check_pieces(const char *text, size_t length, size_t first, size_t second,
                         const struct http_request *expected)
{
    struct http_request request = {0};

    for (size_t from = 0, number = 0; from < length; number++) {
        size_t count = number % 2 == 0 ? first : second;
        if (count > length - from)
            count = length - from;
        read_piece(&request, text + from, count);
        from += count;
    }
    assert(memcmp(&request, expected, sizeof request) == 0);
}

/* Whoever does not see the bytes of a body knows as much at its end. */
static void check_unseen(const char *text, size_t length)
{
    struct http_request seen = {0}, unseen = {0};

    for (size_t i = 0; i < length; i++) {
        bool in_body = seen.left > 0 && http_request_is_open(&seen);
        struct http_request before = seen;
        read_piece(&seen, text + i, 1);
        /* A byte of the body takes one from what is left of it, and nothing else does. */
        if (in_body && before.state == seen.state && before.left == seen.left + 1)
            http_request_skip(&unseen, 1);
        else
            read_piece(&unseen, text + i, 1);
        assert(memcmp(&seen, &unseen, sizeof seen) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t length = 0;
    char *text = spelled_out(data + 2, size - 2, WORDS(words), &length);
    struct http_request whole = {0};

    read_piece(&whole, text, length);
    check_pieces(text, length, 1, 1, &whole);
    check_pieces(text, length, (size_t)data[0] + 1, (size_t)data[1] + 1, &whole);
    for (size_t cut = 1; cut < length && cut < CUTS_MAX; cut++)
        check_pieces(text, length, cut, length - cut, &whole);
    check_unseen(text, length);
    (void)http_request_is_plain(text, length);
    free(text);
    return 0;
}
