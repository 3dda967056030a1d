/*
 * date.c - a moment as text, for journals and the command line: by arithmetic alone, for the C library's own ways take
 * locks, allocate, and read the time zone.
 */
#include "base/date.h"

#include "base/clock.h"
#include "base/text.h"

/* Year, month and day of a day after 1970-01-01, by the proleptic Gregorian calendar (H. Hinnant, civil_from_days). */
static void add_date(struct text *text, uint64_t days)
{
    uint64_t shifted = days + 719468; /* days from 0000-03-01: a year that starts in March ends with its leap day */
    uint64_t era = shifted / 146097, day_of_era = shifted % 146097;
    uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t month_from_march = (5 * day_of_year + 2) / 153;
    uint64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    uint64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    text_add_padded(text, era * 400 + year_of_era + (month <= 2), 4);
    text_add(text, "-");
    text_add_padded(text, month, 2);
    text_add(text, "-");
    text_add_padded(text, day, 2);
}

size_t time_rfc3339(uint64_t wall_ns, char *buffer, size_t size)
{
    struct text text;
    uint64_t ms = wall_ns / NS_PER_MS, seconds = ms / 1000, of_day = seconds % 86400;
    text_start(&text, buffer, size);
    add_date(&text, seconds / 86400);
    text_add(&text, "T");
    text_add_padded(&text, of_day / 3600, 2);
    text_add(&text, ":");
    text_add_padded(&text, of_day / 60 % 60, 2);
    text_add(&text, ":");
    text_add_padded(&text, of_day % 60, 2);
    text_add(&text, ".");
    text_add_padded(&text, ms % 1000, 3);
    text_add(&text, "Z");
    return text.cut ? 0 : text.length;
}
