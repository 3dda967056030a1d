/*
 * story_model.h - what a story is made of: events by circuit, and the incidents in them.
 *
 * Whoever tells it, reckons with it or writes it includes this; what can be done is in story.h and incident.h.
 */
#ifndef SOCKFUSE_VIEW_STORY_MODEL_H
#define SOCKFUSE_VIEW_STORY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "breaker/circuit.h"
#include "segment/event_facts.h"

/* A duration or count that may be unknown. */
struct figure {
    bool is_known;
    uint64_t value;
};

/* Calls of one process that failed in it. */
struct incident_process {
    const char *program;
    uint32_t pid, calls;
    uint32_t at_once; /* so many of them waited at the same time; probes apart */
    uint64_t waited_ms, longest_ms;
    struct figure without_ms; /* its part of the incident's */
};

/* Failures of one kind. */
struct incident_kind {
    uint8_t kind;
    uint16_t http_status;
    uint32_t calls;
};

struct incident {
    const struct event *opened; /* NULL: the events begin when it was under way */
    const struct event *ended;  /* NULL: they end before it does */
    uint64_t from_ns, to_ns;    /* wall clock; what of it the events tell */
    struct figure lasted_ms;    /* from the opening to the closing, or until now */
    struct figure detect_ms;    /* from the start of the first call that led to the opening */
    uint32_t counted;           /* failures that led to the opening */
    uint32_t leaked;            /* calls that failed while it was open, and were no probes */
    uint32_t hanging;           /* of all of them, those that were charged while they still hung */
    uint32_t probes, probes_failed;
    uint64_t waited_ms, leaked_ms; /* of calls that failed: all; those that leaked */
    struct figure refused;         /* as the last change of state tells, or the segment */
    struct figure typical_ms;      /* the median wait of calls that failed, without the probes */
    /*
     * What would have been waited without the circuit: by at_most_ms, had each refused call been made all the same and
     * waited as long as that; but no longer than these processes can have waited from the first call that failed to
     * the end, each with as many calls at once as it was seen to wait with.
     */
    struct figure at_most_ms, without_ms;
    struct incident_process *processes; /* who waited longest first */
    size_t process_count;
    struct incident_kind *kinds; /* the commonest first */
    size_t kind_count;
};

/* More than that is no page that anybody reads; it would take half a GiB of memory. */
#define STORY_EVENTS_MAX 1000000u

struct told {
    struct event event;
    const char *policy, *owner; /* "": unknown; each text stands once */
    unsigned int source;        /* the same event may stand in two of them */
    bool repeated;              /* it does, and this is not the first */
    size_t order;
};

struct story_circuit {
    const char *policy, *owner, *target, *destination;
    const struct event **events; /* oldest first; those of one moment in the order in which they were told */
    size_t event_count;
    struct incident *incidents;
    size_t incident_count;
    bool is_known_now; /* a segment has it; then: */
    enum circuit_state state_now;
    uint64_t refused_now; /* as transitions count them */
};

struct story {
    struct told *told;
    size_t told_count;
    char **texts;
    size_t text_count;
    struct story_circuit *circuits; /* without a destination: what was done to a whole policy */
    size_t circuit_count;
    const struct event **order; /* what the circuits' lists are parts of */
    uint64_t from_ns, to_ns;    /* wall clock */
};

/* When the call of a failure or an outcome began, as far as its milliseconds say; wall clock. */
static inline uint64_t event_began_ns(const struct event *event)
{
    const uint64_t elapsed_ns = event->elapsed_ms * NS_PER_MS;
    return event->time_ns > elapsed_ns ? event->time_ns - elapsed_ns : 0;
}

/*
 * Whether it is how a call ended; each call has one such event, and one of EVENT_NONE while it is in flight. With
 * `record = all` a failure stands there twice.
 */
static inline bool event_is_call(const struct event *event)
{
    return event->type == EVENT_FAILURE || (event->type == EVENT_OUTCOME && event->verdict != VERDICT_FAILURE);
}

/* Whether it tells how long a call has waited, be it over or not. */
static inline bool story_is_wait(const struct event *event)
{
    return event_is_call(event) || event->type == EVENT_NONE;
}

#endif
