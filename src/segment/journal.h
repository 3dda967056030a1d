/*
 * journal.h - the ring of events in the segment.
 *
 * Writers never wait: a number is drawn, the slot is marked, written, stamped. A writer that is killed leaves a slot
 * that readers skip. Readers may be lapped and then skip. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_JOURNAL_H
#define SOCKFUSE_SEGMENT_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/event.h"
#include "segment/segment_model.h"

void journal_append(struct segment *segment, const struct event *event);

/* Number of the next event; the oldest one that may still stand. */
uint64_t journal_head(const struct segment *segment);
uint64_t journal_oldest(const struct segment *segment);
/*
 * Both as of one moment: of a head that somebody writes at will the events between are no more than there is room for.
 */
void journal_span(const struct segment *segment, uint64_t *oldest, uint64_t *head);
/* Reads event `number`: false if it is torn, lapped, not written yet or out of range. Every field is checked. */
bool journal_read(const struct segment *segment, uint64_t number, struct event *event);

/*
 * Takes an event for the alerts, of which each is told once, whoever reads the journal, and again after a restart. False:
 * it was taken, or a later one was.
 */
bool journal_take(struct segment *segment, uint64_t number);
/* The oldest one that nobody has taken; 0: none was ever. */
uint64_t journal_untaken(const struct segment *segment);

/*
 * A stamped slot, also outside the ring (the frozen last failure and transition of a circuit). Of two writers the one
 * with the higher number stays. The number is kept and given back modulo 2^32. Slots must lie on 4 bytes' boundary.
 */
struct event_slot;
void event_slot_write(struct event_slot *slot, uint64_t number, const struct event *event);
bool event_slot_read(const struct event_slot *slot, struct event *event, uint64_t *number);

#endif
