/*
 * outage_events.h - what the events of an outage tell beside their transitions: what led to it, how the attempts of its
 * probes failed, and at its end all that it came to.
 *
 * Called by who made the transition, before its event is written. Private to src/guard. Async-signal-safe; no system
 * call.
 */
#ifndef SOCKFUSE_GUARD_OUTAGE_EVENTS_H
#define SOCKFUSE_GUARD_OUTAGE_EVENTS_H

#include "breaker/circuit.h"
#include "segment/event.h"

struct circuit_entry;

/* Adds to a transition's event what the circuit has kept for it; keeps what later ones of the same outage will tell. */
void outage_tell(struct circuit_entry *entry, const struct transition *transition, struct event *event);

#endif
