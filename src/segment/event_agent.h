/*
 * event_agent.h - what an event of the agent's tells: of holds, and of alerts that failed. Private to event_text.c.
 */
#ifndef SOCKFUSE_SEGMENT_EVENT_AGENT_H
#define SOCKFUSE_SEGMENT_EVENT_AGENT_H

#include "base/text.h"
#include "segment/event.h"

/* Of an operator's word for a whole fleet, where it was said. */
void event_add_fleet_host(struct text *text, const struct event *event);
void event_add_held(struct text *text, const struct event *event);
void event_add_alert(struct text *text, const struct event *event);

#endif
