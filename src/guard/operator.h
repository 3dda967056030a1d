/*
 * operator.h - an operator's word over a live circuit: open, closed, or as the circuit says; for a time, or until
 * another.
 *
 * The word stands in the circuit's entry with its end, so that every process obeys it with its next call, and knows by
 * itself when it is over: nobody has to run for that. A circuit that is forced keeps its place in the table. force_set
 * is for the command line; what a guard asks is force_obey. Async-signal-safe.
 */
#ifndef SOCKFUSE_GUARD_OPERATOR_H
#define SOCKFUSE_GUARD_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "policy/policy.h"
#include "segment/forced.h"

/* What an operator said of the circuit, if that holds now; FORCED_NONE also where there is none. One relaxed load. */
struct force force_read(const struct segment *segment, uint32_t circuit, uint64_t now_ns);
enum forced force_get(const struct segment *segment, uint32_t circuit, uint64_t now_ns);

/* force_get for a call that begins: the first one after a word's end takes it away, and notes that in the journal. */
enum forced force_obey(const struct guard *guard, uint32_t circuit, enum target_mode mode, uint64_t now_ns);

/* The state that a call meets under such a word, for the journal. */
enum circuit_state force_state(const struct segment *segment, uint32_t circuit, enum forced forced,
                               enum target_mode mode, uint64_t now_ns);

/* The mode in which a target's circuit is handled: an operator's word goes before the policy's. */
enum target_mode force_mode(enum forced forced, const struct target *target);

/*
 * Sets the word and writes it into the journal: `guard` is the command that does it, for `user`. FORCED_CLOSED also
 * closes the circuit, without a failure. `mode` is the target's, for what the journal says of the state before and
 * after. Returns the former word, if that still held.
 */
struct force force_set(const struct guard *guard, const char *user, uint32_t circuit, struct force force,
                       enum target_mode mode, uint64_t now_ns);
/* The same of a word for a whole fleet: `host` is where it was said; NULL: nowhere else. */
struct force force_set_by(const struct guard *guard, const char *user, const char *host, uint32_t circuit,
                          struct force force, enum target_mode mode, uint64_t now_ns);

#endif
