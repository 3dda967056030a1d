/*
 * http.c - the head of an HTTP/1.x answer, byte by byte: a state machine. See http.h.
 *
 * Status line: RFC 9112, 4. Header lines: RFC 9112, 5. Retry-After: RFC 9110, 10.2.3; its dates: http_date.c.
 * Each function `in_…` takes one byte in one state.
 */
#include "breaker/http.h"

#include <string.h>

#include "base/ascii.h"
#include "base/hot.h"

/* What is longer than this is no head that anybody would read to its end. */
#define HEAD_BYTES_MAX 65536u
/* No status line that is read in one go is longer. */
#define LINE_BYTES_MAX 256u
#define FIFTY_YEARS_S (50u * 31556952ull)

enum state {
    IN_VERSION, /* 0: where every answer starts */
    IN_STATUS,
    AFTER_STATUS,
    IN_REASON,
    AT_LINE, /* the first byte of a header line, or the end of the block */
    AT_LINE_CR,
    IN_NAME,
    AFTER_NAME,
    AT_VALUE,
    IN_SECONDS,
    IN_DATE,
    AFTER_VALUE,
    AFTER_VALUE_CR,
    IN_OTHER_LINE,
    DONE_NONE,
    DONE_KNOWN,
};

/* What a Retry-After is, the better the larger. */
enum found { FOUND_NONE, FOUND_SHORT_DATE, FOUND_DATE, FOUND_SECONDS };

static const char version[] = "HTTP/1.x "; /* http_may_begin knows the first byte */
static const char header_name[] = "retry-after";

static bool is_interim(const struct http_reader *reader)
{
    return reader->status < 200 && reader->status != HTTP_SWITCHING_PROTOCOLS;
}

static void go(struct http_reader *reader, enum state state)
{
    reader->state = (uint8_t)state;
    reader->matched = 0;
}

static void in_version(struct http_reader *reader, unsigned char byte)
{
    char expected = version[reader->matched];
    if (expected == 'x' ? !ascii_is_digit(byte) : byte != (unsigned char)expected) {
        go(reader, DONE_NONE);
        return;
    }
    if (version[++reader->matched] == '\0')
        go(reader, IN_STATUS);
}

static void in_status(struct http_reader *reader, unsigned char byte)
{
    if (!ascii_is_digit(byte) || (reader->matched == 0 && byte == '0')) {
        go(reader, DONE_NONE);
        return;
    }
    reader->status = (uint16_t)(reader->status * 10u + (byte - '0'));
    if (++reader->matched == 3)
        go(reader, AFTER_STATUS);
}

/* Comes with Retry-After, perhaps. */
static bool may_ask(unsigned int status)
{
    return status == 429 || status == 503;
}

static void in_reason(struct http_reader *reader, unsigned char byte)
{
    if (byte == '\n')
        go(reader, may_ask(reader->status) || is_interim(reader) ? AT_LINE : DONE_KNOWN);
}

static void after_status(struct http_reader *reader, unsigned char byte)
{
    if (byte != ' ' && byte != '\r' && byte != '\n') {
        go(reader, DONE_NONE);
        return;
    }
    go(reader, IN_REASON);
    in_reason(reader, byte);
}

/* The empty line. */
static void end_block(struct http_reader *reader)
{
    if (is_interim(reader))
        *reader = (struct http_reader){0};
    else
        go(reader, DONE_KNOWN);
}

static void in_other_line(struct http_reader *reader, unsigned char byte)
{
    go(reader, byte == '\n' ? AT_LINE : IN_OTHER_LINE);
}

static void in_name(struct http_reader *reader, unsigned char byte)
{
    if (ascii_lower((char)byte) != header_name[reader->matched]) {
        in_other_line(reader, byte);
        return;
    }
    reader->state = IN_NAME;
    if (header_name[++reader->matched] == '\0')
        go(reader, AFTER_NAME);
}

static void at_line(struct http_reader *reader, unsigned char byte)
{
    if (byte == '\n')
        end_block(reader);
    else if (byte == '\r')
        go(reader, AT_LINE_CR);
    else if (is_interim(reader))
        go(reader, IN_OTHER_LINE);
    else
        in_name(reader, byte);
}

static void at_line_cr(struct http_reader *reader, unsigned char byte)
{
    if (byte == '\n')
        end_block(reader);
    else
        go(reader, IN_OTHER_LINE);
}

/* Blanks before the colon are forbidden, and sent all the same. */
static void after_name(struct http_reader *reader, unsigned char byte)
{
    if (byte == ':')
        go(reader, AT_VALUE);
    else if (!ascii_is_blank(byte))
        in_other_line(reader, byte);
}

/* The line with a whole value has ended: it counts if it is better than what was found before. */
static void end_value(struct http_reader *reader)
{
    enum found found = (enum found)reader->reading;
    uint64_t value = found == FOUND_SECONDS ? reader->value.seconds : http_date_s(&reader->value.date);
    if (found == FOUND_DATE && reader->value.date.form == HTTP_DATE_RFC850)
        found = FOUND_SHORT_DATE;
    if (found > reader->found || (found == reader->found && value > reader->retry_after)) {
        reader->found = (uint8_t)found;
        reader->retry_after = value;
    }
    go(reader, AT_LINE);
}

static void after_value(struct http_reader *reader, unsigned char byte)
{
    if (byte == '\n')
        end_value(reader);
    else if (byte == '\r')
        go(reader, AFTER_VALUE_CR);
    else if (ascii_is_blank(byte))
        go(reader, AFTER_VALUE);
    else
        go(reader, IN_OTHER_LINE);
}

static void after_value_cr(struct http_reader *reader, unsigned char byte)
{
    if (byte == '\n')
        end_value(reader);
    else
        go(reader, IN_OTHER_LINE);
}

static void in_seconds(struct http_reader *reader, unsigned char byte)
{
    if (!ascii_is_digit(byte)) {
        after_value(reader, byte);
        return;
    }
    uint64_t seconds = reader->value.seconds * 10ull + (byte - '0');
    reader->value.seconds = seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

static void in_date(struct http_reader *reader, unsigned char byte)
{
    enum http_date_progress progress = http_date_read(&reader->value.date, byte);
    if (progress == HTTP_DATE_WHOLE)
        go(reader, AFTER_VALUE);
    else if (progress == HTTP_DATE_NONE)
        in_other_line(reader, byte);
}

static void at_value(struct http_reader *reader, unsigned char byte)
{
    if (ascii_is_blank(byte))
        return;
    reader->value = (union http_value){0};
    reader->reading = ascii_is_digit(byte) ? FOUND_SECONDS : FOUND_DATE;
    if (ascii_is_digit(byte)) {
        go(reader, IN_SECONDS);
        in_seconds(reader, byte);
    } else {
        go(reader, IN_DATE);
        in_date(reader, byte);
    }
}

static void take(struct http_reader *reader, unsigned char byte)
{
    switch ((enum state)reader->state) {
    case IN_VERSION:
        in_version(reader, byte);
        break;
    case IN_STATUS:
        in_status(reader, byte);
        break;
    case AFTER_STATUS:
        after_status(reader, byte);
        break;
    case IN_REASON:
        in_reason(reader, byte);
        break;
    case AT_LINE:
        at_line(reader, byte);
        break;
    case AT_LINE_CR:
        at_line_cr(reader, byte);
        break;
    case IN_NAME:
        in_name(reader, byte);
        break;
    case AFTER_NAME:
        after_name(reader, byte);
        break;
    case AT_VALUE:
        at_value(reader, byte);
        break;
    case IN_SECONDS:
        in_seconds(reader, byte);
        break;
    case IN_DATE:
        in_date(reader, byte);
        break;
    case AFTER_VALUE:
        after_value(reader, byte);
        break;
    case AFTER_VALUE_CR:
        after_value_cr(reader, byte);
        break;
    case IN_OTHER_LINE:
        in_other_line(reader, byte);
        break;
    case DONE_NONE:
    case DONE_KNOWN:
        break;
    }
}

/* A head without end is believed as far as its status. */
static void give_up(struct http_reader *reader)
{
    reader->found = FOUND_NONE;
    go(reader, is_interim(reader) ? DONE_NONE : DONE_KNOWN);
}

static void fill(const struct http_reader *reader, struct http_head *head)
{
    *head = (struct http_head){.status = reader->status, .retry_after = RETRY_AFTER_NONE};
    if (reader->found == FOUND_NONE)
        return;
    head->retry_after = reader->found == FOUND_SECONDS ? RETRY_AFTER_SECONDS : RETRY_AFTER_DATE;
    head->retry_after_s = reader->retry_after;
    head->two_digit_year = reader->found == FOUND_SHORT_DATE;
}

HOT unsigned int http_status_at_once(const void *bytes, size_t count)
{
    enum { MINOR = 7, STATUS = sizeof version - 1, REASON = STATUS + 3 };
    const char *text = bytes;
    if (count <= REASON || memcmp(text, version, MINOR) != 0 || !ascii_is_digit((unsigned char)text[MINOR]) ||
        text[MINOR + 1] != ' ' || text[STATUS] < '2' || text[STATUS] > '9' ||
        !ascii_is_digit((unsigned char)text[STATUS + 1]) || !ascii_is_digit((unsigned char)text[STATUS + 2]) ||
        (text[REASON] != ' ' && text[REASON] != '\r' && text[REASON] != '\n'))
        return 0;
    unsigned int status = (unsigned int)(text[STATUS] - '0') * 100 + (unsigned int)(text[STATUS + 1] - '0') * 10 +
                          (unsigned int)(text[STATUS + 2] - '0');
    for (size_t at = REASON; at < count && at < LINE_BYTES_MAX; at++) {
        if (text[at] == '\n')
            return may_ask(status) ? 0 : status;
    }
    return 0;
}

/* As all but every answer begins: the same as byte by byte, but for how many bytes were read of one that is known. */
static void read_at_once(struct http_reader *reader, const void *bytes, size_t count)
{
    const unsigned int status = http_status_at_once(bytes, count);
    if (status == 0)
        return;
    reader->status = (uint16_t)status;
    reader->bytes = sizeof version - 1;
    go(reader, DONE_KNOWN);
}

enum http_progress http_read(struct http_reader *reader, const void *bytes, size_t count, struct http_head *head)
{
    const unsigned char *byte = bytes;
    if (reader->bytes == 0)
        read_at_once(reader, bytes, count);
    for (size_t i = 0; i < count && reader->state < DONE_NONE; i++) {
        reader->bytes++;
        take(reader, byte[i]);
        if (reader->bytes >= HEAD_BYTES_MAX && reader->state < DONE_NONE)
            give_up(reader);
    }
    if (reader->state < DONE_NONE)
        return HTTP_MORE;
    if (reader->state != DONE_KNOWN)
        return HTTP_NONE;
    fill(reader, head);
    return HTTP_KNOWN;
}

uint64_t http_retry_after_s(const struct http_head *head, uint64_t now_s)
{
    switch (head->retry_after) {
    case RETRY_AFTER_SECONDS:
        return head->retry_after_s;
    case RETRY_AFTER_DATE:
        if (head->retry_after_s <= now_s)
            return 0;
        if (head->two_digit_year && head->retry_after_s - now_s > FIFTY_YEARS_S)
            return 0;
        return head->retry_after_s - now_s;
    default:
        return 0;
    }
}

/* A status that starts with 1 is one of an interim answer, unless it turns out to be 101. */
bool http_has_begun(const struct http_reader *reader)
{
    if (reader->state == IN_VERSION)
        return reader->matched > 0;
    if (reader->state == IN_STATUS)
        return reader->matched == 0 || reader->status / (reader->matched == 2 ? 10 : 1) != 1;
    return reader->state >= DONE_NONE || !is_interim(reader);
}

enum http_progress http_break(const struct http_reader *reader, struct http_head *head)
{
    if (reader->state != DONE_KNOWN && (reader->state < AT_LINE || reader->state == DONE_NONE || is_interim(reader)))
        return HTTP_NONE;
    fill(reader, head);
    return HTTP_KNOWN;
}
