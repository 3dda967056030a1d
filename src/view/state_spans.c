/*
 * state_spans.c - a circuit's states one behind the other.
 *
 * See state_spans.h.
 */
#include "view/state_spans.h"

#include <stdlib.h>

#include "view/output.h"

static bool tells_state(const struct event *event)
{
    return event_is_transition(event) || event->type == EVENT_FORCED || event->type == EVENT_HELD;
}

/* Calls that counted and no change of state: it was closed all the time. */
static bool was_closed(const struct story_circuit *circuit)
{
    for (size_t i = 0; i < circuit->event_count; i++) {
        if (event_is_call(circuit->events[i]) && !circuit->events[i]->late)
            return true;
    }
    return false;
}

static struct state_span first_span(const struct story *story, const struct story_circuit *circuit)
{
    struct state_span span = {
        .from_ns = story->from_ns, .is_known = circuit->is_known_now, .state = circuit->state_now};
    for (size_t i = 0; i < circuit->event_count; i++) {
        if (!tells_state(circuit->events[i]))
            continue;
        span.is_known = true;
        span.state = (enum circuit_state)circuit->events[i]->from;
        return span;
    }
    span.is_known = span.is_known || was_closed(circuit);
    return span;
}

/* What follows an event: while somebody's word holds, the circuit's own transitions are nobody's to meet. */
static struct state_span following(const struct state_span *before, const struct event *event)
{
    struct state_span span = {.from_ns = event->time_ns, .is_known = true, .because = event};
    span.forced = event->type == EVENT_FORCED ? (enum forced)event->kind : before->forced;
    span.by_fleet = event->type == EVENT_HELD ? event->kind == HOLD_FLEET : before->by_fleet;
    span.state = (enum circuit_state)event->to;
    if (event_is_transition(event) && (span.forced != FORCED_NONE || span.by_fleet))
        span.state = before->state;
    return span;
}

size_t state_spans(const struct story *story, const struct story_circuit *circuit, struct state_span **spans)
{
    struct state_span *at = allocate(circuit->event_count + 1, sizeof *at);
    size_t count = 0;
    at[count++] = first_span(story, circuit);
    for (size_t i = 0; i < circuit->event_count; i++) {
        const struct event *event = circuit->events[i];
        if (!tells_state(event))
            continue;
        const struct state_span next = following(&at[count - 1], event);
        if (next.state == at[count - 1].state && next.forced == at[count - 1].forced &&
            next.by_fleet == at[count - 1].by_fleet && at[count - 1].is_known)
            continue;
        at[count - 1].to_ns = next.from_ns;
        if (at[count - 1].to_ns > at[count - 1].from_ns)
            count++;
        at[count - 1] = next;
    }
    at[count - 1].to_ns = story->to_ns > at[count - 1].from_ns ? story->to_ns : at[count - 1].from_ns;
    *spans = at;
    return count;
}

const char *state_span_name(const struct state_span *span)
{
    return span->is_known ? circuit_state_name(span->state) : "unknown";
}
