/*
 * circuits.h - the table of circuits in a segment: one for each destination of each target.
 *
 * Fixed memory: a circuit that nobody has asked for during a minute, if it is closed, or ten minutes, if it is open and
 * its pause is over, gives its place to a new destination, unless it is forced, held or a connection refers to it. When none
 * does, the new destination passes unguarded and is counted; a look for such a place is a walk, and is made once a
 * second at the most for each place that a destination's search begins at. Async-signal-safe.
 */
#ifndef SOCKFUSE_SEGMENT_CIRCUITS_H
#define SOCKFUSE_SEGMENT_CIRCUITS_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "segment/event.h"
#include "segment/learnt.h"
#include "segment/segment_model.h"

#define CIRCUIT_INDEX_NONE UINT32_MAX

/* The circuit's index; made if it is missing. CIRCUIT_INDEX_NONE: no place (counted as unguarded by the caller). */
uint32_t circuits_find(struct segment *segment, const char *target, const char *destination, uint64_t now_ns);

/*
 * The same in two steps, for who comes again: what it is known by, in any segment, never 0; and where it is, if it has a
 * place. CIRCUIT_INDEX_NONE: circuits_find makes it one.
 */
uint64_t circuits_key(const char *target, const char *destination);
uint32_t circuits_in_use(struct segment *segment, uint64_t key, uint64_t now_ns);

/* As circuits_find, but none is made. */
uint32_t circuits_stand(const struct segment *segment, const char *target, const char *destination);

/*
 * A circuit begins anew, closed and without a history. `in_use`: living processes are attached, so it keeps its place,
 * for they may be just about to call; calls in flight go on, and what becomes of them counts no more. Else its place is
 * free. False: it was just given to another destination.
 */
bool circuits_forget(struct segment *segment, uint32_t index, bool in_use, uint64_t now_ns);

/* NULL if the index is out of range. */
struct circuit *circuits_at(const struct segment *segment, uint32_t index);

/* What the calls of a circuit have waited; NULL if the index is out of range. */
struct latency *circuits_latency(const struct segment *segment, uint32_t index);

/* What they have taught; NULL likewise. */
struct learnt *circuits_learnt(const struct segment *segment, uint32_t index);

struct circuit_texts {
    char target[TARGET_NAME_MAX];
    char destination[DESTINATION_MAX];
};
/*
 * The next circuit in use at or after `*cursor` (start with 0; it is set behind the one that was found): its index, or
 * CIRCUIT_INDEX_NONE.
 */
uint32_t circuits_next(const struct segment *segment, uint32_t *cursor, struct circuit_texts *texts);

/* The last failure or transition of a circuit; false if there was none. */
bool circuits_last_failure(const struct segment *segment, uint32_t index, struct event *event);
bool circuits_last_transition(const struct segment *segment, uint32_t index, struct event *event);

/* The texts of one circuit; false (and empty ones) if its place is free or just being handed over. */
bool circuits_texts(const struct segment *segment, uint32_t index, struct circuit_texts *texts);
/* The same into rooms of these sizes, the texts' own. */
bool circuits_copy_texts(const struct segment *segment, uint32_t index, char target[TARGET_NAME_MAX],
                         char destination[DESTINATION_MAX]);

/* For src/segment alone. NULL if the index is out of range. */
struct circuit_entry;
struct circuit_entry *circuits_entry(const struct segment *segment, uint32_t index);

#endif
