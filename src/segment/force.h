/*
 * force.h - an operator's word over a live circuit: open, closed, or as the circuit says.
 *
 * The word stands in the circuit's entry, so that every process obeys it with its next call. A forced circuit keeps its
 * place in the table. force_set is for the command line; what a guard asks is force_get. Async-signal-safe.
 */
#ifndef SOCKFUSE_SEGMENT_FORCE_H
#define SOCKFUSE_SEGMENT_FORCE_H

#include <stdint.h>

#include "policy/policy.h"
#include "segment/guard.h"

/* Values are stored in shared memory: append only. */
enum forced { FORCED_NONE = 0, FORCED_OPEN, FORCED_CLOSED, FORCED_WORDS };

/* What an operator said of the circuit; FORCED_NONE also where there is none. One relaxed load. */
enum forced force_get(const struct segment *segment, uint32_t circuit);

/* The mode in which a target's circuit is handled: an operator's word goes before the policy's. */
enum target_mode force_mode(enum forced forced, const struct target *target);

/*
 * Sets the word and writes it into the journal: `guard` is the command that does it, for `user`. FORCED_CLOSED also
 * closes the circuit, without a failure. `mode` is the target's, for what the journal says of the state before and
 * after. Returns the former word.
 */
enum forced force_set(const struct guard *guard, const char *user, uint32_t circuit, enum forced forced,
                      enum target_mode mode, uint64_t now_ns);

/* "open", "closed"; NULL: not forced. */
const char *forced_name(unsigned int forced);

#endif
