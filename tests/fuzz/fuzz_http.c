/*
 * fuzz_http.c - throws bytes at the reader of HTTP answers.
 *
 * `make fuzz` builds and runs it. Longer: make fuzz RUNS=10000000 SEED=2. Without libFuzzer: see alone.c.
 *
 * The input's first two bytes say how the rest comes in pieces. In the rest, most bytes of 0x80 and above stand for a
 * whole word: by single bytes chance would never write "HTTP/1.1 503". Beside crashes it looks for these: the result is
 * the same for all bytes at once, byte by byte and in those pieces, and it is that of the slow reader; it comes with
 * the byte that decides, and stays; and a status that is told at once is that one.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "fuzz_words.h"
#include "support_http.h"

static const char *const words[] = {
    "HTTP/1.1 503 x\r\nRetry-After: ",
    "HTTP/1.0 429\nretry-after:",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 ",
    "503 ",
    "\r\n",
    "\r\n\r\n",
    "\r\nRETRY-AFTER",
    "\t",
    ": ",
    "4294967295",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
};

/* Reads the bytes in pieces of `first`, `second`, `first`, … bytes, each in memory of just its size. */
static void read_in_pieces(const char *bytes, size_t count, size_t first, size_t second,
                           const struct slow_http *expected)
{
    struct http_reader reader = {0};
    struct http_head head = {0};
    enum http_progress progress = HTTP_MORE;
    size_t from = 0;

    for (size_t number = 0; from < count; number++) {
        size_t length = number % 2 == 0 ? first : second;
        if (length > count - from)
            length = count - from;
        char *piece = piece_of(bytes + from, length);
        progress = http_read(&reader, piece, length, &head);
        free(piece);
        from += length;
        const bool decided = expected->progress != HTTP_MORE && expected->used <= from;
        assert(progress == (decided ? expected->progress : HTTP_MORE));
        assert(progress != HTTP_KNOWN || same_head(&head, &expected->head));
        assert(progress == HTTP_MORE || http_has_begun(&reader));
    }
    memset(&head, 0, sizeof head);
    assert(http_break(&reader, &head) == expected->if_broken);
    assert(expected->if_broken != HTTP_KNOWN || same_head(&head, &expected->broken_head));
    assert(http_retry_after_s(&head, 1700000000) <= UINT64_C(253402300800));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t count;
    char *bytes = spelled_out(data + 2, size - 2, WORDS(words), &count);
    const struct slow_http expected = slow_http(bytes, count);

    const unsigned int at_once = http_status_at_once(bytes, count);
    assert(at_once == 0 || (expected.progress == HTTP_KNOWN && expected.head.status == at_once &&
                            expected.head.retry_after == RETRY_AFTER_NONE));
    read_in_pieces(bytes, count, count, 0, &expected);
    read_in_pieces(bytes, count, 1, 1, &expected);
    read_in_pieces(bytes, count, data[0], data[1] + 1u, &expected);
    free(bytes);
    return 0;
}
