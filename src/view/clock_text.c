/*
 * clock_text.c - a moment of today. See clock_text.h.
 */
#include "view/clock_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/units.h"

const char *clock_text(uint64_t wall_ns, uint64_t now_wall_ns, char text[CLOCK_TEXT_MAX])
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S), now = (time_t)(now_wall_ns / NS_PER_S);
    struct tm local, today;
    char date[24] = "";
    if (localtime_r(&seconds, &local) == NULL || localtime_r(&now, &today) == NULL)
        return "?";
    const bool is_today = local.tm_year == today.tm_year && local.tm_yday == today.tm_yday;
    strftime(date, sizeof date, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &local);
    snprintf(text, CLOCK_TEXT_MAX, "%s.%03u", date, (unsigned int)(wall_ns / NS_PER_MS % 1000));
    return text;
}
