/*
 * retries.h - whether a connect that failed may be tried again, as far as its circuit, its target and its budget go.
 *
 * The engine asks behind an attempt's failure, waits, asks whether the circuit still stands as it did, and makes the
 * next attempt by guard_admit, with `is_retry`. Async-signal-safe; no system call. errno may change.
 */
#ifndef SOCKFUSE_GUARD_RETRIES_H
#define SOCKFUSE_GUARD_RETRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"

/* Whether the circuit is closed, and what its target says is in force; so that a refusal is not even counted. */
bool guard_may_retry(const struct guard *guard, uint32_t circuit, const struct target *target, uint64_t now_ns);
/* Takes one retry of the budget. False: there is none left, which is counted. */
bool guard_take_retry(const struct guard *guard, uint32_t circuit, const struct target *target, unsigned int shard,
                      uint64_t now_ns);

/* A retry that was admitted. */
struct retry_report {
    enum failure_kind kind; /* of the attempt before */
    int error;
    uint32_t number, most; /* of how many that one connect may have */
    uint64_t waited_ns;
};
/* Counts it, and tells the journal. */
void guard_note_retry(const struct guard *guard, uint32_t circuit, unsigned int shard,
                      const struct retry_report *report, uint64_t now_ns);

#endif
