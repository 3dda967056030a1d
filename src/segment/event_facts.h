/*
 * event_facts.h - what an event means, for all forms in which it is written. Async-signal-safe.
 */
#ifndef SOCKFUSE_SEGMENT_EVENT_FACTS_H
#define SOCKFUSE_SEGMENT_EVENT_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/date.h"
#include "base/text.h"
#include "breaker/circuit.h"
#include "breaker/recent_kinds.h"
#include "segment/event.h"
#include "segment/held.h"

static inline bool event_is_transition(const struct event *event)
{
    return event->type == EVENT_OPEN || event->type == EVENT_HALF_OPEN || event->type == EVENT_CLOSE;
}

/* Nobody did it: the time of an operator's word was over, and a call noticed. */
static inline bool event_is_force_ended(const struct event *event)
{
    return event->type == EVENT_FORCED && event->reason == REASON_FORCE_ENDED;
}

/* What a user did with the command, whose name such an event need not keep: it keeps the user's in its place. */
static inline bool event_is_by_user(const struct event *event)
{
    return (event->type == EVENT_FORCED && !event_is_force_ended(event)) || event->type == EVENT_RELOAD;
}

/* Of what changes the state that calls meet, why. */
static inline const char *event_why(const struct event *event)
{
    return event->type == EVENT_HELD ? hold_reason_name(event->reason) : transition_reason_name(event->reason);
}

/* The program that it names: what it keeps of one may be a user. */
static inline const char *event_program(const struct event *event)
{
    return event_is_by_user(event) ? "sockfuse" : event->program;
}

/* EVENT_REFUSED keeps an enum admission in `reason`. */
static inline enum admission event_refusal(const struct event *event)
{
    bool known = event->reason >= ADMIT_REFUSED_OPEN && event->reason < ADMISSIONS;

    return known ? (enum admission)event->reason : ADMIT_REFUSED_OPEN;
}

/* Adds the wall clock's time, as RFC 3339. */
static inline void event_add_time(struct text *text, uint64_t wall_ns)
{
    char time[32];
    time_rfc3339(wall_ns, time, sizeof time);
    text_add(text, time);
}

#endif
