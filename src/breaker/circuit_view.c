/*
 * circuit_view.c - what a circuit looks like from outside, at a given time.
 *
 * The state is computed at reading: the word changes only when a call comes by, but a pause ends and a lease runs out
 * without one. Reads only; for status displays, metrics and the tests, never for a decision about a call.
 */
#include <stdatomic.h>
#include <string.h>

#include "breaker/backoff.h"
#include "breaker/circuit.h"
#include "breaker/lease.h"
#include "breaker/window.h"
#include "breaker/word.h"

static void view_open(struct circuit_view *view, uint32_t step, uint64_t left_ns)
{
    view->state = CIRCUIT_OPEN;
    view->step = step;
    view->retry_in_ns = left_ns;
    view->probe_due = view->retry_in_ns == 0;
}

void circuit_observe(const struct circuit *circuit, const struct settings *settings, uint64_t now_ns,
                     struct circuit_view *view)
{
    /* Acquire: with a lease's bit comes its deadline. */
    uint64_t raw = atomic_load_explicit(&circuit->word, memory_order_acquire);
    struct word word = word_unpack(raw);
    uint64_t deadline, token;

    memset(view, 0, sizeof *view);
    view->since_ns = atomic_load_explicit(&circuit->state_since_ns, memory_order_relaxed);
    switch (word.state) {
    case CIRCUIT_OPEN:
        view_open(view, word.step, backoff_left_ns(circuit, settings, word.deadline, now_ns));
        break;
    case CIRCUIT_HALF_OPEN:
        if (lease_expired(circuit, settings, word.leases, now_ns, &deadline, &token)) {
            /* The same computation as that of the call which will find it so. */
            uint32_t step = word_one_more(word.step, WORD_STEP_MAX);
            uint64_t pause_ns = backoff_opening_ns(circuit, settings, step, deadline, raw, now_ns);
            view_open(view, step, word_until(deadline + pause_ns, now_ns));
            view->since_ns = deadline;
            break;
        }
        view->state = CIRCUIT_HALF_OPEN;
        view->step = word.step;
        view->successes = word.successes;
        view->probes = (uint32_t)__builtin_popcount(word.leases);
        view->generation = word.generation;
        break;
    default: /* closed; a corrupt word too, for the next call will make it so */
        view->state = CIRCUIT_CLOSED;
        view->failures = word.failures;
        view->generation = word.generation;
        if (window_is_used(settings))
            view->window = window_sum(circuit, settings, word.generation, now_ns);
        break;
    }
}

void circuit_observe_holders(const struct circuit *circuit, holder_alive_fn *alive, void *context,
                             struct circuit_view *view)
{
    if (view->state != CIRCUIT_HALF_OPEN)
        return;
    /* Acquire: as above. */
    struct word word = word_unpack(atomic_load_explicit(&circuit->word, memory_order_acquire));
    if (word.state == CIRCUIT_HALF_OPEN && word.generation == view->generation) {
        view->probes = lease_living(circuit, word.leases, alive, context);
        view->probe_due = view->probes == 0;
    }
}

const char *circuit_state_name(unsigned int state)
{
    static const char *const names[] = {
        [CIRCUIT_CLOSED] = "closed", [CIRCUIT_OPEN] = "open", [CIRCUIT_HALF_OPEN] = "half-open"};

    return state < sizeof names / sizeof *names ? names[state] : "unknown";
}

const char *transition_reason_name(unsigned int reason)
{
    static const char *const names[TRANSITION_REASONS] = {
        [REASON_NONE] = "none",
        [REASON_FAILURE_THRESHOLD] = "failure-threshold",
        [REASON_PAUSE_OVER] = "pause-over",
        [REASON_PROBE_FAILED] = "probe-failed",
        [REASON_PROBE_TIMEOUT] = "probe-timeout",
        [REASON_PROBE_SUCCEEDED] = "probe-succeeded",
        [REASON_FORCED] = "forced",
        [REASON_FAILURE_RATE] = "failure-rate",
        [REASON_SLOW_CALL_RATE] = "slow-call-rate",
        [REASON_FORCE_ENDED] = "force-ended",
        [REASON_FLEET] = "fleet",
    };

    return reason < TRANSITION_REASONS ? names[reason] : "unknown";
}
