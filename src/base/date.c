/*
 * date.c - days from dates, dates from days, and a moment as text. See date.h.
 *
 * Both ways by eras of 400 years that begin in March (H. Hinnant, days_from_civil and civil_from_days): a year that
 * starts in March ends with its leap day.
 */
#include "base/date.h"

#include "base/clock.h"
#include "base/text.h"

#define ERA_DAYS 146097u
#define EPOCH_DAY 719468u /* 1970-01-01, in days from 0000-03-01 */

bool date_exists(unsigned int year, unsigned int month, unsigned int day)
{
    static const unsigned int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

uint64_t date_days(unsigned int year, unsigned int month, unsigned int day)
{
    if (year < 1970)
        return 0;
    const uint64_t from_march = (uint64_t)year - (month <= 2), era = from_march / 400, of_era = from_march % 400;
    const uint64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAY;
}

/* Year, month and day of a day after 1970-01-01. */
static void add_date(struct text *text, uint64_t days)
{
    uint64_t shifted = days + EPOCH_DAY, era = shifted / ERA_DAYS, day_of_era = shifted % ERA_DAYS;
    uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t month_from_march = (5 * day_of_year + 2) / 153;
    uint64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    uint64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    text_add_padded(text, era * 400 + year_of_era + (month <= 2), 4);
    text_add_byte(text, '-');
    text_add_padded(text, month, 2);
    text_add_byte(text, '-');
    text_add_padded(text, day, 2);
}

size_t time_rfc3339(uint64_t wall_ns, char *buffer, size_t size)
{
    struct text text;
    uint64_t ms = wall_ns / NS_PER_MS, seconds = ms / 1000, of_day = seconds % 86400;
    text_start(&text, buffer, size);
    add_date(&text, seconds / 86400);
    text_add_byte(&text, 'T');
    text_add_padded(&text, of_day / 3600, 2);
    text_add_byte(&text, ':');
    text_add_padded(&text, of_day / 60 % 60, 2);
    text_add_byte(&text, ':');
    text_add_padded(&text, of_day % 60, 2);
    text_add_byte(&text, '.');
    text_add_padded(&text, ms % 1000, 3);
    text_add_byte(&text, 'Z');
    return text_whole(&text);
}
