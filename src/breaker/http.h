/*
 * http.h - the head of a plaintext HTTP/1.x answer, read byte by byte as it passes.
 *
 * Recognised by its first bytes, whatever the port. Only the status line and the Retry-After header are read, never a byte beyond the
 * header block; interim answers (1xx) are skipped. The state has at most 32 bytes, no buffer; the function is pure: the same bytes in
 * other pieces give the same result. Async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_HTTP_H
#define SOCKFUSE_BREAKER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero at the start of an answer. */
struct http_reader {
    uint64_t number;       /* what is being read: a status, seconds, the parts of a date */
    uint32_t state;
    uint16_t status;
    uint8_t matched;
    uint8_t flags;
    uint64_t date;
    uint32_t reserved[2];
};
_Static_assert(sizeof(struct http_reader) <= 32, "a few bytes of state");

#define HTTP_SWITCHING_PROTOCOLS 101u

enum http_progress {
    HTTP_MORE,  /* not decided yet: more bytes are needed */
    HTTP_NONE,  /* this is no HTTP/1.x answer: final */
    HTTP_KNOWN, /* `head` is filled: final */
};

struct http_head {
    unsigned int status;      /* 200 to 999; never 1xx, but 101 (it ends HTTP on this connection) */
    enum { RETRY_AFTER_NONE, RETRY_AFTER_SECONDS, RETRY_AFTER_DATE } retry_after;
    uint64_t retry_after_s;   /* SECONDS: from now; DATE: seconds since 1970, UTC */
};

/*
 * Takes the next `count` bytes of an answer. HTTP_KNOWN comes with the end of the status line, but for 429 and 503, whose header block is read to its
 * end for Retry-After. After a final result the reader says the same for ever. Bytes beyond what decides are not looked at.
 */
enum http_progress http_read(struct http_reader *reader, const void *bytes, size_t count, struct http_head *head);

/* Whether a byte of the final answer has been read: interim answers alone are none. */
bool http_has_begun(const struct http_reader *reader);

/* What is known when the answer breaks off: a status line that was read to its end counts, else HTTP_NONE. */
enum http_progress http_break(const struct http_reader *reader, struct http_head *head);

#endif
