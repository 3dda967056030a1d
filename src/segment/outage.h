/*
 * outage.h - what a circuit keeps of an outage while it lasts: how it began, and how the attempts of its probes failed.
 *
 * An outage lasts from an opening out of closed to the closing. What is told of it at its end stands in the circuit's
 * entry, so that it is right though the journal has gone on. Written by who made the transition, or before the outcome
 * of a probe's attempt is told to the circuit. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_OUTAGE_H
#define SOCKFUSE_SEGMENT_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/circuit_kept.h"

struct circuit_entry;

/* A circuit of that generation has opened. */
void outage_begins(struct circuit_entry *entry, uint64_t generation, const struct outage_start *start);
/*
 * The circuit has closed under that generation: how the outage began, which is forgotten. False: it is not known, for
 * who opened the circuit has not come to say it.
 */
bool outage_ends(struct circuit_entry *entry, uint64_t generation, struct outage_start *start);
/* The one that lasts now, for observers; false: none that is known. */
bool outage_lasts(const struct circuit_entry *entry, struct outage_start *start);

/* An attempt of the probe with that token has failed so; before the circuit is told. */
void outage_note_attempt(struct circuit_entry *entry, uint64_t token, const struct event_attempt *attempt);
/* The failed attempts of that probe, oldest first, as far as they are known. Returns how many there are. */
unsigned int outage_attempts(const struct circuit_entry *entry, uint64_t token,
                             struct event_attempt attempts[EVENT_ATTEMPTS]);

/* The circuit begins anew. */
void outage_clear(struct circuit_entry *entry);

#endif
