/*
 * outage_events.c - what the events of an outage tell beside their transitions. See outage_events.h.
 */
#include "guard/outage_events.h"

#include "base/frame.h"
#include "segment/layout.h"
#include "segment/outage.h"

static uint32_t count32(uint64_t count)
{
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static uint64_t probes_of(const struct circuit_entry *entry)
{
    return counters_sum(&entry->circuit.counters, COUNT_PROBES);
}

static uint64_t failed_probes_of(const struct circuit_entry *entry)
{
    return counters_sum(&entry->circuit.counters, COUNT_PROBES_FAILED);
}

/* An opening may be found later than it was. */
static uint64_t wall_clock_at(const struct event *event, uint64_t at_ns)
{
    const uint64_t ago_ns = event->mono_ns > at_ns ? event->mono_ns - at_ns : 0;

    return event->time_ns > ago_ns ? event->time_ns - ago_ns : 0;
}

/* It opened out of closed: what is to be told at the end stands in the circuit from now on. */
static void keep_start(struct circuit_entry *entry, const struct transition *transition, const struct event *event)
{
    const struct outage_start start = {
        .at_ns = transition->at_ns,
        .time_ns = wall_clock_at(event, transition->at_ns),
        .refused = transition->refused,
        .recent_kinds = transition->recent_kinds,
        .probes = count32(probes_of(entry)),
        .probes_failed = count32(failed_probes_of(entry)),
        .failures = event->failures,
        .window_calls = event->window_calls,
        .window_failed = event->window_failed,
        .window_slow = event->window_slow,
        .reason = event->reason,
        .injected = event->injected,
    };

    outage_begins(entry, transition->by, &start);
}

/* Since a count that may have been cut to 32 bits, as the present one is. */
static uint32_t count_since(uint64_t now, uint32_t before)
{
    return count32(now) > before ? count32(now) - before : 0;
}

/* It closed: what its outage came to. */
static void add_outage(struct circuit_entry *entry, const struct transition *transition, struct event *event)
{
    struct outage_start start;

    if (!outage_ends(entry, transition->by, &start))
        return;
    event->failures = start.failures;
    event->window_calls = start.window_calls;
    event->window_failed = start.window_failed;
    event->window_slow = start.window_slow;
    event->outage = (struct event_outage){
        .lasted_ns = transition->at_ns > start.at_ns ? transition->at_ns - start.at_ns : 0,
        .time_ns = start.time_ns,
        .refused = transition->refused > start.refused ? transition->refused - start.refused : 0,
        .recent_kinds = start.recent_kinds,
        .probes = count_since(probes_of(entry), start.probes),
        .probes_failed = count_since(failed_probes_of(entry), start.probes_failed),
        .is_known = true,
        .reason = (uint8_t)start.reason,
        .injected = start.injected != 0,
    };
}

/* What the circuit keeps for the events of its outage, and what it has kept. */
OWN_FRAME void outage_tell(struct circuit_entry *entry, const struct transition *transition, struct event *event)
{
    if (transition->to == CIRCUIT_CLOSED) {
        add_outage(entry, transition, event);
    } else if (transition->from == CIRCUIT_CLOSED) {
        event->recent_kinds = transition->recent_kinds;
        keep_start(entry, transition, event);
    } else if (transition->to == CIRCUIT_OPEN) {
        outage_attempts(entry, transition->by, event->attempts);
    }
}
