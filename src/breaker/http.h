/*
 * http.h - the head of a plaintext HTTP/1.x answer, read byte by byte as it passes.
 *
 * Recognised by its first bytes, whatever the port. Only the status line and the Retry-After header are read, never a
 * byte beyond the header block; interim answers (1xx) are skipped. The state has at most 32 bytes, no buffer; the
 * functions are pure: the same bytes in other pieces give the same result. Everybody may call them; async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_HTTP_H
#define SOCKFUSE_BREAKER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/http_date.h"

/* The value of a Retry-After header, while it is read: a number or a date. */
union http_value {
    struct http_date date;
    uint32_t seconds;
};

/* All zero at the start of an answer. The members are the reader's own. */
struct http_reader {
    uint64_t retry_after; /* the best so far: seconds, or a date's seconds since 1970 */
    uint32_t bytes;       /* of this head so far */
    uint16_t status;
    uint8_t state;
    uint8_t matched; /* bytes of what the state expects */
    uint8_t found;   /* what retry_after is */
    uint8_t reading; /* what value is */
    union http_value value;
};
_Static_assert(sizeof(struct http_reader) <= 32, "a few bytes of state");

#define HTTP_SWITCHING_PROTOCOLS 101u

enum http_progress {
    HTTP_MORE,  /* not decided yet: more bytes are needed */
    HTTP_NONE,  /* this is no HTTP/1.x answer: final */
    HTTP_KNOWN, /* `head` is filled: final */
};

struct http_head {
    unsigned int status; /* 200 to 999; never 1xx, but 101 (it ends HTTP on this connection) */
    enum { RETRY_AFTER_NONE, RETRY_AFTER_SECONDS, RETRY_AFTER_DATE } retry_after;
    uint64_t retry_after_s; /* SECONDS: from now, at most UINT32_MAX; DATE: seconds since 1970, UTC, 0 if before */
    bool two_digit_year;    /* DATE: it was given with two digits, and read as 20xx */
};

/* Whether an answer that begins with this byte may be one of HTTP: if not, there is nothing to read. */
static inline bool http_may_begin(const void *byte)
{
    return *(const char *)byte == 'H';
}

/*
 * Takes the next `count` bytes of an answer. HTTP_KNOWN comes with the end of the status line, but for 429 and 503,
 * whose header block is read to its end for Retry-After (and given up after 64 KiB, without it). After a final result
 * the reader says the same for ever. Bytes beyond what decides are not looked at. `head` is written with HTTP_KNOWN
 * alone.
 *
 * Of several Retry-After headers, seconds win over dates (they need no agreement of two clocks), dates with the whole
 * year over those without, and else the larger one. What is neither a number nor one of RFC 9110's three forms of a
 * date is as if it were not there.
 */
enum http_progress http_read(struct http_reader *reader, const void *bytes, size_t count, struct http_head *head);

/*
 * The status of an answer whose status line stands whole at the beginning of these bytes, if that is all that http_read
 * would ask for: no interim one, nor one that may come with Retry-After. 0: ask http_read.
 */
unsigned int http_status_at_once(const void *bytes, size_t count);

/*
 * For how many seconds from `now_s` (since 1970, UTC) the answer asks to be left alone; 0: it does not, or no longer.
 * A two-digit year that would be more than 50 years ahead is past (RFC 9110, 5.6.7).
 */
uint64_t http_retry_after_s(const struct http_head *head, uint64_t now_s);

/* Whether no byte was read at all. */
static inline bool http_is_fresh(const struct http_reader *reader)
{
    return reader->bytes == 0;
}

/* Whether a byte of the final answer has been read: interim answers alone are none. */
bool http_has_begun(const struct http_reader *reader);

/* What is known when the answer breaks off: a status line that was read to its end counts, else HTTP_NONE. */
enum http_progress http_break(const struct http_reader *reader, struct http_head *head);

#endif
