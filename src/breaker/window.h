/*
 * window.h - the outcomes of the last while, or of the last calls: what the failure rate and the slow-call rate are of.
 *
 * Private to src/breaker, but for the numbers. A window holds completed calls: each success and each failure that
 * counted for a closed circuit, when its outcome was found. Calls in flight, neutral and business outcomes are not in
 * it. So a rate is failed / completed, and `minimum_calls` compares completed calls: a burst that is admitted at once
 * is judged as its outcomes come in.
 *
 * A window belongs to one generation of the circuit and is empty when that begins, without anybody clearing it.
 *
 * A duration, [now - window, now): buckets in a ring. A bucket counts until its first instant is exactly one window
 * old, and then all of it is out: a call exactly one window old is never in, and a call drops out no sooner than one
 * bucket, at most 1/16 of the window, before that. "Now" is the latest time seen: an outcome that is found with an
 * earlier time (an overdue call failed when it became overdue) goes into its own bucket, unless that is out already.
 * `N calls`: exactly the last N outcomes, in one order for all processes. All cores write one word for that, so on a
 * busy circuit a duration costs less.
 *
 * Of two processes with different windows on one circuit (an edited policy, -o) the longer duration decides how wide
 * the buckets are. A duration and `N calls` do not see each other's outcomes.
 *
 * Every step is one CAS of one word that holds all it depends on, so nothing is lost or counted twice, and a process
 * killed between two instructions leaves nothing half done. Never waits. Async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_WINDOW_H
#define SOCKFUSE_BREAKER_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit_model.h"

/* Adds an outcome of a call of that generation, which the caller has just seen to be the closed circuit's. */
void window_add(struct circuit *circuit, const struct settings *settings, unsigned int shard, uint64_t generation,
                enum window_class class, uint64_t now_ns);
/* The same of a success, in as few steps as the usual one takes: into a bucket in which others were counted before. */
void window_add_success(struct circuit *circuit, const struct settings *settings, unsigned int shard,
                        uint64_t generation, uint64_t now_ns);

/* What the window of that generation holds at `now_ns`: with all that was added before by whomever. */
struct window_counts window_sum(const struct circuit *circuit, const struct settings *settings, uint64_t generation,
                                uint64_t now_ns);

/* Whether the rates open the circuit, with at least minimum_calls. AT the rate they do. 0 permille: never. */
bool window_fails(const struct settings *settings, const struct window_counts *counts);
bool window_is_slow(const struct settings *settings, const struct window_counts *counts);

#endif
