/*
 * backoff.h - how long a circuit stays open.
 *
 * Private to src/breaker (circuit_pause_ns and circuit_hold_open in circuit.h are for everybody). Arithmetic that
 * saturates; nothing is read of a circuit but the floor under its pauses.
 */
#ifndef SOCKFUSE_BREAKER_BACKOFF_H
#define SOCKFUSE_BREAKER_BACKOFF_H

#include <stdint.h>

#include "breaker/circuit_model.h"
#include "breaker/settings.h"

/* No pause reaches half of the circle on which a word's deadline is compared. */
#define BACKOFF_PAUSE_MAX_NS ((UINT64_C(1) << 56) - 1)

/*
 * The pause of an opening at back-off step `step`, lengthened by its jitter: pseudo-random from the time of the
 * opening and the word before it, so that whoever computes the same opening gets the same pause.
 */
uint64_t backoff_pause_ns(const struct settings *settings, unsigned int step, uint64_t opened_ns, uint64_t word);

/*
 * The same, lengthened so that it does not end before the circuit is free to be called again, as far as that can be
 * believed at `now_ns`.
 */
uint64_t backoff_opening_ns(const struct circuit *circuit, const struct settings *settings, unsigned int step,
                            uint64_t opened_ns, uint64_t word, uint64_t now_ns);

/*
 * How long an open circuit's pause still lasts, by the deadline in its word. 0: it is over; or the deadline lies
 * further ahead than any pause can, by these settings or by those of its opening: it was set by another clock (a time
 * name space of its own), or is corrupt, and is not believed.
 */
uint64_t backoff_left_ns(const struct circuit *circuit, const struct settings *settings, uint64_t deadline,
                         uint64_t now_ns);

/* Before this time no probe is wanted, whatever else is known: now, or when the destination asked to be called again. */
uint64_t backoff_earliest_ns(const struct circuit *circuit, const struct settings *settings, uint64_t now_ns);

#endif
