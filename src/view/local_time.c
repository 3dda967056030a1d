/*
 * local_time.c - a moment in the time of its reader's zone. See local_time.h.
 */
#include "view/local_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/date.h"
#include "base/units.h"

const char *local_time(uint64_t wall_ns, char text[LOCAL_TIME_MAX])
{
    const time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm local;
    /* Some zones were seconds off once, which no distance can say. */
    if (localtime_r(&seconds, &local) == NULL || local.tm_gmtoff == 0 || local.tm_gmtoff % 60 != 0) {
        time_rfc3339(wall_ns, text, LOCAL_TIME_MAX);
        return text;
    }
    char date[24];
    const unsigned int minutes = (unsigned int)(labs(local.tm_gmtoff) / 60 % (24L * 60));
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &local);
    snprintf(text, LOCAL_TIME_MAX, "%s.%03" PRIu64 "%c%02u:%02u", date, wall_ns / NS_PER_MS % 1000,
             local.tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
    return text;
}
