/*
 * duration.c - points in time and spans as people write and read them on the command line.
 *
 * See duration.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/date.h"
#include "base/units.h"
#include "view/duration.h"

const char *span_format(uint64_t span_ns, char text[SPAN_TEXT_MAX])
{
    if (span_ns < NS_PER_S)
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 "ms", span_ns / NS_PER_MS);
    else if (span_ns < NS_PER_MINUTE)
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 ".%" PRIu64 "s", span_ns / NS_PER_S,
                 span_ns % NS_PER_S * 10 / NS_PER_S);
    else if (span_ns < NS_PER_HOUR)
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 "m%02" PRIu64 "s", span_ns / NS_PER_MINUTE,
                 span_ns % NS_PER_MINUTE / NS_PER_S);
    else if (span_ns < NS_PER_DAY)
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 "h%02" PRIu64 "m", span_ns / NS_PER_HOUR,
                 span_ns % NS_PER_HOUR / NS_PER_MINUTE);
    else
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 "d%02" PRIu64 "h", span_ns / NS_PER_DAY,
                 span_ns % NS_PER_DAY / NS_PER_HOUR);
    return text;
}

const char *wait_format(uint64_t wait_ns, char text[SPAN_TEXT_MAX])
{
    if (wait_ns >= 10 * NS_PER_MS)
        return span_format(wait_ns, text);
    if (wait_ns >= NS_PER_MS)
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 ".%" PRIu64 "ms", wait_ns / NS_PER_MS,
                 wait_ns % NS_PER_MS * 10 / NS_PER_MS);
    else
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 "us", wait_ns / NS_PER_US);
    return text;
}

/* The unit at `*text`, which is set behind it; 0: none. */
static uint64_t read_unit(const char **text)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"ns", 1},          {"us", NS_PER_US}, {"ms", NS_PER_MS},     {"s", NS_PER_S}, {"m", NS_PER_MINUTE},
        {"h", NS_PER_HOUR}, {"d", NS_PER_DAY}, {"w", 7 * NS_PER_DAY},
    };
    size_t length = 0;
    while ((*text)[length] >= 'a' && (*text)[length] <= 'z')
        length++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) == length && strncmp(units[i].name, *text, length) == 0) {
            *text += length;
            return units[i].ns;
        }
    }
    return 0;
}

bool span_parse(const char *text, uint64_t *span_ns)
{
    uint64_t sum = 0;
    if (text[0] == '\0')
        return false;
    while (*text != '\0') {
        uint64_t whole, fraction = 0, divisor = 1;
        if (!ascii_number(&text, &whole) || whole == UINT64_MAX)
            return false;
        if (*text == '.') {
            text++;
            if (!ascii_is_digit(*text))
                return false;
            for (; ascii_is_digit(*text); text++) {
                if (divisor < NS_PER_S) { /* more digits mean nothing */
                    fraction = fraction * 10 + (uint64_t)(*text - '0');
                    divisor *= 10;
                }
            }
        }
        uint64_t unit = read_unit(&text), product;
        if (unit == 0 || __builtin_mul_overflow(whole, unit, &product) || __builtin_add_overflow(sum, product, &sum))
            return false;
        /* In two steps: fraction x unit may not fit, fraction is below 10^9 and so is what the division leaves. */
        uint64_t part = unit / divisor * fraction + unit % divisor * fraction / divisor;
        if (__builtin_add_overflow(sum, part, &sum))
            return false;
    }
    *span_ns = sum;
    return true;
}

static bool read_byte(const char **text, const char *accepted)
{
    if (**text == '\0' || strchr(accepted, **text) == NULL)
        return false;
    (*text)++;
    return true;
}

/* "Z", "+01:00" or nothing: seconds to be taken off. */
static bool read_zone(const char **text, int64_t *seconds)
{
    *seconds = 0;
    if (**text == '\0' || read_byte(text, "Zz"))
        return true;
    const int64_t sign = **text == '-' ? -1 : 1;
    unsigned int hours, minutes;
    if (!read_byte(text, "+-") || !ascii_digits(text, 2, &hours) || !read_byte(text, ":") ||
        !ascii_digits(text, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *seconds = sign * ((int64_t)hours * 3600 + (int64_t)minutes * 60);
    return true;
}

static bool read_time_of_day(const char **text, int64_t *seconds, uint64_t *ns)
{
    unsigned int hour, minute, second;
    *ns = 0;
    if (!ascii_digits(text, 2, &hour) || !read_byte(text, ":") || !ascii_digits(text, 2, &minute) ||
        !read_byte(text, ":") || !ascii_digits(text, 2, &second) || hour > 23 || minute > 59 || second > 60)
        return false;
    *seconds = (int64_t)hour * 3600 + (int64_t)minute * 60 + second;
    if (!read_byte(text, "."))
        return true;
    if (!ascii_is_digit(**text))
        return false;
    for (uint64_t unit = NS_PER_S / 10; ascii_is_digit(**text); (*text)++, unit /= 10)
        *ns += (uint64_t)(**text - '0') * unit;
    return true;
}

bool moment_parse(const char *text, uint64_t *wall_ns)
{
    unsigned int year, month, day;
    int64_t of_day = 0, zone = 0;
    uint64_t ns = 0;
    if (!ascii_digits(&text, 4, &year) || !read_byte(&text, "-") || !ascii_digits(&text, 2, &month) ||
        !read_byte(&text, "-") || !ascii_digits(&text, 2, &day))
        return false;
    if (year < 1970 || !date_exists(year, month, day))
        return false;
    if (read_byte(&text, "Tt ") && (!read_time_of_day(&text, &of_day, &ns) || !read_zone(&text, &zone)))
        return false;
    int64_t seconds = (int64_t)date_days(year, month, day) * 86400 + of_day - zone;
    /* Nanoseconds since 1970 fit into 64 bits until 2554. */
    if (*text != '\0' || seconds < 0 || seconds >= (int64_t)(UINT64_MAX / NS_PER_S))
        return false;
    *wall_ns = (uint64_t)seconds * NS_PER_S + ns;
    return true;
}

bool since_parse(const char *text, uint64_t wall_ns, uint64_t *since_ns)
{
    uint64_t span_ns;
    if (span_parse(text, &span_ns)) {
        *since_ns = span_ns < wall_ns ? wall_ns - span_ns : 0;
        return true;
    }
    return moment_parse(text, since_ns);
}
