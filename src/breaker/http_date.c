/*
 * http_date.c - the dates of HTTP: the name of the day tells the form, a pattern the rest. See http_date.h.
 */
#include "breaker/http_date.h"

#include <stdbool.h>

#include "base/ascii.h"
#include "base/date.h"

enum step { IN_DAY_NAME, IN_LONG_DAY_NAME, IN_PATTERN };

/*
 * What follows the name of the day and the byte behind it. Small letters stand for the parts (digits of the day, hour,
 * minute (i), second and year; m: letters of the month; D: a digit of the day, or a blank), all else for itself.
 */
static const char *const patterns[] = {
    [HTTP_DATE_IMF] = " dd mmm yyyy hh:ii:ss GMT",
    [HTTP_DATE_RFC850] = " dd-mmm-yy hh:ii:ss GMT",
    [HTTP_DATE_ASCTIME] = "mmm Dd hh:ii:ss yyyy",
};

static const char day_names[7][10] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* The next of three letters, of which the first is a capital. False: the byte is none. */
static bool take_letter(struct http_date *date, unsigned char byte, bool first)
{
    if (first ? byte < 'A' || byte > 'Z' : byte < 'a' || byte > 'z')
        return false;
    date->letters = (uint16_t)((first ? 0u : (unsigned int)date->letters << 5) | (byte & 31u));
    return true;
}

static bool are_letters(const struct http_date *date, const char *name)
{
    return date->letters == ((name[0] & 31) << 10 | (name[1] & 31) << 5 | (name[2] & 31));
}

static bool start_pattern(struct http_date *date, enum http_date_form form)
{
    date->form = (uint8_t)form;
    date->step = IN_PATTERN;
    date->matched = 0;
    date->day = 0;
    return true;
}

/* The byte behind the first three letters of a day's name. */
static bool take_after_day(struct http_date *date, unsigned char byte)
{
    uint8_t day = 0;
    while (day < 7 && !are_letters(date, day_names[day]))
        day++;
    if (day == 7)
        return false;
    if (byte == ',')
        return start_pattern(date, HTTP_DATE_IMF);
    if (byte == ' ')
        return start_pattern(date, HTTP_DATE_ASCTIME);
    date->step = IN_LONG_DAY_NAME;
    date->matched = 4;
    date->day = day;
    return byte == (unsigned char)day_names[day][3];
}

static bool take_day_name(struct http_date *date, unsigned char byte)
{
    if (date->matched == 3)
        return take_after_day(date, byte);
    return take_letter(date, byte, date->matched++ == 0);
}

static bool take_long_day_name(struct http_date *date, unsigned char byte)
{
    char expected = day_names[date->day][date->matched++];
    if (expected == '\0')
        return byte == ',' && start_pattern(date, HTTP_DATE_RFC850);
    return byte == (unsigned char)expected;
}

static bool take_month(struct http_date *date, unsigned char byte, bool first, bool last)
{
    if (!take_letter(date, byte, first))
        return false;
    if (!last)
        return true;
    for (date->month = 0; date->month < 12; date->month++)
        if (are_letters(date, month_names[date->month]))
            return true;
    return false;
}

static bool take_digit(uint8_t *part, unsigned char byte)
{
    *part = (uint8_t)(*part * 10u + (byte - '0'));
    return ascii_is_digit(byte);
}

static bool take_year(struct http_date *date, unsigned char byte)
{
    date->year = (uint16_t)(date->year * 10u + (byte - '0'));
    return ascii_is_digit(byte);
}

/* The byte that stands at `pattern`; `behind` is the one that the pattern has before it, or a blank. */
static bool take_part(struct http_date *date, const char *pattern, char behind, unsigned char byte)
{
    switch (*pattern) {
    case 'D':
        return byte == ' ' || take_digit(&date->day, byte);
    case 'd':
        return take_digit(&date->day, byte);
    case 'h':
        return take_digit(&date->hour, byte);
    case 'i':
        return take_digit(&date->minute, byte);
    case 's':
        return take_digit(&date->second, byte);
    case 'y':
        return take_year(date, byte);
    case 'm':
        return take_month(date, byte, behind != 'm', pattern[1] != 'm');
    default:
        return byte == (unsigned char)*pattern;
    }
}

static unsigned int whole_year(const struct http_date *date)
{
    return date->form == HTTP_DATE_RFC850 ? 2000u + date->year : date->year;
}

static bool exists(const struct http_date *date)
{
    return date_exists(whole_year(date), date->month + 1u, date->day) && date->hour <= 23 && date->minute <= 59 &&
           date->second <= 60;
}

enum http_date_progress http_date_read(struct http_date *date, unsigned char byte)
{
    if (date->step != IN_PATTERN) {
        bool good = date->step == IN_DAY_NAME ? take_day_name(date, byte) : take_long_day_name(date, byte);
        return good ? HTTP_DATE_MORE : HTTP_DATE_NONE;
    }
    const char *pattern = patterns[date->form] + date->matched;
    if (!take_part(date, pattern, date->matched ? pattern[-1] : ' ', byte))
        return HTTP_DATE_NONE;
    date->matched++;
    if (pattern[1] != '\0')
        return HTTP_DATE_MORE;
    return exists(date) ? HTTP_DATE_WHOLE : HTTP_DATE_NONE;
}

uint64_t http_date_s(const struct http_date *date)
{
    unsigned int year = whole_year(date);
    if (year < 1970)
        return 0;
    uint64_t days = date_days(year, date->month + 1u, date->day);
    return ((days * 24 + date->hour) * 60 + date->minute) * 60 + date->second;
}
