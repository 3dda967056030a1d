/*
 * settings.h - the numbers a circuit behaves by.
 *
 * A plain value: whoever owns a policy fills it, the circuit only reads it. Durations are nanoseconds, ratios are
 * permille, so that no floating point enters a host process. No function here; nothing is allocated.
 */
#ifndef SOCKFUSE_BREAKER_SETTINGS_H
#define SOCKFUSE_BREAKER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* How many probes a half-open circuit can have in flight at the most: the width of the lease bitmap in its word. */
#define CIRCUIT_LEASES 8u
/* Consecutive failures are counted in 16 bits. */
#define CIRCUIT_FAILURES_MAX 65535u
/* Successful probes are counted in 7 bits. */
#define CIRCUIT_SUCCESSES_MAX 127u
/* No setting is longer: a pause with its jitter stays far below the 2^56 ns that a circuit's word can hold. */
#define SETTING_MAX_NS (30 * NS_PER_DAY)
/* In `window`: the rest is a number of calls, not nanoseconds. */
#define WINDOW_CALLS (UINT64_C(1) << 63)
/* The longest window of calls; so many outcomes have a place. */
#define WINDOW_CALLS_MAX 1000u

struct settings {
    /* What each success asks for. */
    uint64_t window;                  /* of the rates: nanoseconds, or WINDOW_CALLS | a number of calls */
    uint64_t slow_call_ns;            /* an answer that takes longer is slow; 0: none is, and that rule is off */
    uint32_t failure_rate_permille;   /* failures of the window's calls that open; 0: this rule is off */
    uint32_t slow_call_rate_permille; /* slow calls of them that open; 0: this rule is off */
    /* The rest. */
    uint32_t minimum_calls;        /* no rate is judged on fewer completed calls */
    uint32_t failure_threshold;    /* consecutive failures that open; 0: this rule is off */
    uint32_t success_threshold;    /* successful probes that close; 1 to CIRCUIT_SUCCESSES_MAX */
    uint32_t half_open_max_calls;  /* probes in flight at once; 1 to CIRCUIT_LEASES */
    uint32_t backoff_permille;     /* each failed probe multiplies the pause by this; 1000: no back-off */
    uint32_t jitter_permille;      /* a pause is lengthened by up to this */
    uint64_t reset_timeout_ns;     /* the first pause */
    uint64_t reset_timeout_max_ns; /* no pause (before jitter) is longer */
    uint64_t probe_timeout_ns;     /* a probe's lease lasts this long */
    uint64_t retry_after_max_ns;   /* no floor under a pause lies further ahead; 0: not known */
};

/* Whether any rate is judged; if not, nobody touches the window. */
static inline bool window_is_used(const struct settings *settings)
{
    return settings->failure_rate_permille != 0 ||
           (settings->slow_call_ns != 0 && settings->slow_call_rate_permille != 0);
}

#endif
