/*
 * circuit_visit.c - looking at a circuit's word and replacing it. See circuit_visit.h.
 */
#include "breaker/circuit_visit.h"

#include <stdatomic.h>

#include "breaker/backoff.h"
#include "breaker/lease.h"
#include "breaker/recent_kinds.h"

void visit_look(struct visit *visit)
{
    /* Acquire: with a lease's bit come its token, deadline and attempts. */
    visit->raw = atomic_load_explicit(&visit->circuit->word, memory_order_acquire);
    visit->word = word_unpack(visit->raw);
}

bool visit_replace(const struct visit *visit, struct word next)
{
    uint64_t expected = visit->raw, desired = word_pack(next);

    /* Most successes find no failures to forget: no write, so that the cores can all keep the line. */
    if (desired == expected)
        return true;
    /*
     * Release: a lease's fields are filled before its bit is seen. Acquire: a slot is freed, and the hints for
     * observers are written, only after the word says so. A loser has learned nothing; its next look loads with
     * acquire.
     */
    return atomic_compare_exchange_strong_explicit(&visit->circuit->word, &expected, desired, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

void visit_count(const struct visit *visit, unsigned int counter)
{
    counters_add(&visit->circuit->counters, visit->caller->shard, counter);
}

uint32_t visit_failures(const struct visit *visit)
{
    return word_one_more(visit->word.failures, CIRCUIT_FAILURES_MAX);
}

/* At an opening from closed. A slow call succeeded. */
static uint32_t consecutive_failures(const struct visit *visit, enum transition_reason reason)
{
    return reason == REASON_SLOW_CALL_RATE ? 0 : visit_failures(visit);
}

static uint64_t kinds_that_led_to_it(const struct visit *visit, enum transition_reason reason)
{
    return recent_kinds_newest(visit->recent_kinds, reason == REASON_FAILURE_RATE
                                                        ? visit->window.failed
                                                        : consecutive_failures(visit, reason));
}

void visit_report(struct visit *visit, enum circuit_state to, enum transition_reason reason, uint64_t at_ns,
                  uint64_t pause_ns)
{
    struct circuit *circuit = visit->circuit;
    const bool begins_outage = visit->word.state == CIRCUIT_CLOSED;

    /* Relaxed: nothing is decided by them, and an observer may see them a moment before or after the word. */
    atomic_store_explicit(&circuit->state_since_ns, at_ns, memory_order_relaxed);
    atomic_store_explicit(&circuit->overrun_generation, reason == REASON_PROBE_TIMEOUT ? visit->word.generation : 0,
                          memory_order_relaxed);
    if (to == CIRCUIT_OPEN)
        atomic_store_explicit(&circuit->pause_ns, pause_ns, memory_order_relaxed);
    visit_count(visit, counter_of_state(to));
    if (visit->transitions->count < TRANSITIONS_MAX)
        visit->transitions->at[visit->transitions->count++] = (struct transition){
            .from = (enum circuit_state)visit->word.state,
            .to = to,
            .reason = reason,
            .failures = visit->word.state == CIRCUIT_CLOSED ? consecutive_failures(visit, reason) : 0,
            .window = visit->window,
            .pause_ns = pause_ns,
            .refused = begins_outage ? visit->refused : counters_sum(&circuit->counters, COUNT_REFUSED),
            .at_ns = at_ns,
            .recent_kinds = begins_outage ? kinds_that_led_to_it(visit, reason) : 0,
            .by = visit->by,
        };
}

bool visit_open(struct visit *visit, enum transition_reason reason, uint32_t step, uint64_t at_ns, uint64_t by)
{
    uint64_t pause = backoff_opening_ns(visit->circuit, visit->settings, step, at_ns, visit->raw, visit->now_ns);
    struct lease_tokens tokens = lease_tokens(visit->circuit, visit->word.leases);

    visit->by = by;
    /* Before others can be refused: so whoever is, is refused in this outage. */
    if (visit->word.state == CIRCUIT_CLOSED)
        visit->refused = counters_sum(&visit->circuit->counters, COUNT_REFUSED);
    if (!visit_replace(visit, (struct word){.state = CIRCUIT_OPEN, .step = step, .deadline = at_ns + pause}))
        return false;
    lease_release_all(visit->circuit, &tokens);
    visit_report(visit, CIRCUIT_OPEN, reason, at_ns, pause);
    return true;
}

bool visit_open_expired(struct visit *visit)
{
    uint64_t deadline, token;

    if (!lease_expired(visit->circuit, visit->settings, visit->word.leases, visit->now_ns, &deadline, &token))
        return false;
    if (visit_open(visit, REASON_PROBE_TIMEOUT, word_one_more(visit->word.step, WORD_STEP_MAX), deadline, token))
        visit_count(visit, COUNT_PROBES_FAILED);
    return true;
}
