/*
 * event_duration.h - how long something took or takes, in an event's text. Private to
 * event_text.c and event_agent.c.
 */
#ifndef SOCKFUSE_SEGMENT_EVENT_DURATION_H
#define SOCKFUSE_SEGMENT_EVENT_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "base/units.h"

static inline void event_add_duration(struct text *text, uint64_t ms)
{
    if (ms < 1000) {
        text_add_unsigned(text, ms);
        text_add(text, "ms");
        return;
    }
    text_add_unsigned(text, ms / 1000);
    if (ms % 1000 / 100 > 0) {
        text_add(text, ".");
        text_add_unsigned(text, ms % 1000 / 100);
    }
    text_add(text, "s");
}

/* "10m", "1h30m", "7.3s": units that say nothing are left out. */
static inline void event_add_long_duration(struct text *text, uint64_t ms)
{
    static const struct {
        uint64_t ms;
        const char *name;
    } units[] = {{NS_PER_HOUR / NS_PER_MS, "h"}, {NS_PER_MINUTE / NS_PER_MS, "m"}};
    bool any = false;

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ms < units[i].ms)
            continue;
        text_add_unsigned(text, ms / units[i].ms);
        text_add(text, units[i].name);
        ms %= units[i].ms;
        any = true;
    }
    if (!any || ms > 0)
        event_add_duration(text, ms);
}

#endif
