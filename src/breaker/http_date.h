/*
 * http_date.h - a date of HTTP, read byte by byte: RFC 9110, 5.6.7, all three forms.
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT     (IMF-fixdate)
 *     Sunday, 06-Nov-94 08:49:37 GMT    (RFC 850: the century is the reader's guess)
 *     Sun Nov  6 08:49:37 1994          (asctime)
 *
 * For the reader of answers (http.c). Pure, async-signal-safe, without a buffer.
 */
#ifndef SOCKFUSE_BREAKER_HTTP_DATE_H
#define SOCKFUSE_BREAKER_HTTP_DATE_H

#include <stdint.h>

/* All zero before the first byte. */
struct http_date {
    uint16_t year;    /* as written: of RFC 850 the last two digits */
    uint16_t letters; /* being read: the short name of a day or month, five bits each */
    uint8_t step;
    uint8_t matched; /* bytes of what the step expects */
    uint8_t form;    /* enum http_date_form */
    uint8_t month;   /* 0 to 11 */
    uint8_t day, hour, minute, second;
};

enum http_date_form { HTTP_DATE_IMF, HTTP_DATE_RFC850, HTTP_DATE_ASCTIME };

enum http_date_progress {
    HTTP_DATE_MORE,
    HTTP_DATE_NONE,  /* no date has this byte here, or the day or time does not exist: do not go on */
    HTTP_DATE_WHOLE, /* this byte was the last one: do not go on */
};

/*
 * Takes the next byte. Names are case-sensitive, as the RFC says; the day's name need not be that of the date. A second
 * of 60 is a leap second.
 */
enum http_date_progress http_date_read(struct http_date *date, unsigned char byte);

/* Seconds since 1970, UTC, of a whole date; 0 if it lies before. A two-digit year is read as 20xx. */
uint64_t http_date_s(const struct http_date *date);

#endif
