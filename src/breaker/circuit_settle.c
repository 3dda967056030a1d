/*
 * circuit_settle.c - what an admitted call's outcome makes of its circuit.
 */
#include <stdatomic.h>

#include "breaker/circuit_visit.h"
#include "breaker/lease.h"
#include "breaker/recent_kinds.h"
#include "breaker/window.h"

/* A CAS loses only to another failure; should it do so more often, that one's kind stands for this one's. */
#define KIND_STEPS_MAX 64u

/*
 * Adds the outcome to the window: once, however often the word has to be looked at. Should the circuit leave its
 * generation before the word is replaced, the outcome is late, and the window that has it is over.
 */
static void add_to_window(struct visit *visit, const struct outcome *outcome)
{
    enum window_class class = outcome->verdict == VERDICT_FAILURE ? WINDOW_FAILED
                              : outcome->slow                     ? WINDOW_SLOW
                                                                  : WINDOW_SUCCEEDED;

    if (visit->in_window)
        return;
    window_add(visit->circuit, visit->settings, visit->caller->shard, visit->word.generation, class, visit->now_ns);
    visit->in_window = true;
}

/* Whether this outcome opens a rate's circuit. Each rate is judged only when what it counts has been added. */
static enum transition_reason judge_rates(struct visit *visit, const struct outcome *outcome)
{
    const struct settings *settings = visit->settings;
    const bool failed = outcome->verdict == VERDICT_FAILURE;

    if (!window_is_used(settings) || (!failed && outcome->verdict != VERDICT_SUCCESS))
        return REASON_NONE;
    add_to_window(visit, outcome);
    if (!failed && !outcome->slow)
        return REASON_NONE;
    visit->window = window_sum(visit->circuit, settings, visit->word.generation, visit->now_ns);
    if (failed)
        return window_fails(settings, &visit->window) ? REASON_FAILURE_RATE : REASON_NONE;
    return window_is_slow(settings, &visit->window) ? REASON_SLOW_CALL_RATE : REASON_NONE;
}

/* Before the word is replaced, so that who opens the circuit finds all that led to it; and once, as above. */
static void add_kind(struct visit *visit, const struct outcome *outcome)
{
    _Atomic uint64_t *word = &visit->circuit->recent_kinds;
    /* Relaxed: for people. */
    uint64_t kinds = atomic_load_explicit(word, memory_order_relaxed);

    for (unsigned int step = 0; !visit->has_kind && step < KIND_STEPS_MAX; step++) {
        visit->recent_kinds = recent_kinds_with(kinds, outcome);
        visit->has_kind = atomic_compare_exchange_strong_explicit(word, &kinds, visit->recent_kinds,
                                                                  memory_order_relaxed, memory_order_relaxed);
    }
}

/* The outcome of a call that is no probe. */
static enum visit_step settle_ordinary(struct visit *visit, const struct ticket *ticket, const struct outcome *outcome)
{
    const uint32_t threshold = visit->settings->failure_threshold;
    struct word next = visit->word;

    if (next.state != CIRCUIT_CLOSED || next.generation != ticket->generation)
        return LATE;
    if (outcome->verdict == VERDICT_SUCCESS)
        next.failures = 0;
    if (outcome->verdict == VERDICT_FAILURE) {
        next.failures = visit_failures(visit);
        add_kind(visit, outcome);
    }
    enum transition_reason reason = judge_rates(visit, outcome);
    /* `>=`: the threshold may have been lowered since. One that the counter can't reach counts as the counter's end. */
    if (outcome->verdict == VERDICT_FAILURE && threshold != 0 &&
        (next.failures >= threshold || next.failures == CIRCUIT_FAILURES_MAX))
        reason = REASON_FAILURE_THRESHOLD;
    if (reason != REASON_NONE)
        return visit_open(visit, reason, 0, visit->now_ns, visit->word.generation) ? COUNTED : LOOK_AGAIN;
    return visit_replace(visit, next) ? COUNTED : LOOK_AGAIN;
}

static enum visit_step probe_succeeded(struct visit *visit, int slot)
{
    const uint32_t wanted = visit->settings->success_threshold;
    struct word next = word_with_leases(visit->word, visit->word.leases & ~(1u << slot));
    struct lease_tokens ended = lease_tokens(visit->circuit, 1u << slot);

    next.successes = word_one_more(next.successes, CIRCUIT_SUCCESSES_MAX);
    bool closes = next.successes >= wanted || next.successes == CIRCUIT_SUCCESSES_MAX;
    if (closes) {
        next = (struct word){.state = CIRCUIT_CLOSED, .generation = visit->word.generation};
        ended = lease_tokens(visit->circuit, visit->word.leases);
    }
    if (!visit_replace(visit, next))
        return LOOK_AGAIN;
    lease_release_all(visit->circuit, &ended);
    visit_count(visit, COUNT_PROBES_SUCCEEDED);
    visit->by = next.generation;
    if (closes)
        visit_report(visit, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED, visit->now_ns, 0);
    return COUNTED;
}

static enum visit_step probe_attempt_failed(struct visit *visit, int slot, const struct ticket *ticket,
                                            enum failure_kind kind)
{
    /* No program goes on to the next address after an answer: the destination itself has failed. */
    int address = kind == FAILURE_HTTP ? ADDRESS_NONE : ticket->address;

    switch (lease_attempt_failed(visit->circuit, slot, ticket->token, address)) {
    case LEASE_GOES_ON:
        return COUNTED;
    case LEASE_LOST:
        return LOOK_AGAIN;
    case LEASE_DECIDED:
        break;
    }
    if (!visit_open(visit, REASON_PROBE_FAILED, word_one_more(visit->word.step, WORD_STEP_MAX), visit->now_ns,
                    ticket->token))
        return LOOK_AGAIN;
    visit_count(visit, COUNT_PROBES_FAILED);
    return COUNTED;
}

static enum visit_step probe_attempt_returned(struct visit *visit, int slot, const struct ticket *ticket)
{
    switch (lease_attempt_returned(visit->circuit, slot, ticket->token, ticket->address)) {
    case LEASE_GOES_ON:
        return COUNTED;
    case LEASE_LOST:
        return LOOK_AGAIN;
    case LEASE_DECIDED:
        break;
    }
    if (!visit_replace(visit, word_with_leases(visit->word, visit->word.leases & ~(1u << slot))))
        return LOOK_AGAIN;
    lease_release(visit->circuit, slot, ticket->token);
    return COUNTED;
}

/*
 * The answer to a probe that has overrun its deadline. Its generation stands for "no later probe was admitted": each
 * transition writes over it. A word that has changed since, and with it perhaps the generation, is no longer replaced.
 */
static enum visit_step settle_overrun(struct visit *visit, const struct ticket *ticket, struct outcome outcome)
{
    uint64_t overrun = atomic_load_explicit(&visit->circuit->overrun_generation, memory_order_relaxed);

    if (visit->word.state != CIRCUIT_OPEN || overrun != ticket->generation ||
        (outcome.verdict != VERDICT_SUCCESS && outcome.verdict != VERDICT_BUSINESS))
        return LATE;
    struct word next = {.state = CIRCUIT_CLOSED, .generation = serial_draw(visit->circuit, WORD_GENERATION_BITS)};
    if (!visit_replace(visit, next))
        return LOOK_AGAIN;
    visit_count(visit, COUNT_PROBES_SUCCEEDED);
    visit->by = next.generation;
    visit_report(visit, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED, visit->now_ns, 0);
    return COUNTED;
}

/* The outcome of a probe's attempt: only the token of a standing lease decides. */
static enum visit_step settle_probe(struct visit *visit, const struct ticket *ticket, struct outcome outcome)
{
    int slot;

    if (visit->word.state != CIRCUIT_HALF_OPEN)
        return settle_overrun(visit, ticket, outcome);
    slot = lease_find(visit->circuit, visit->word.leases, ticket->token);
    if (slot == LEASE_NONE)
        return LATE;
    /* The lease ran out before its outcome came: the probe failed at its deadline, as every observer has seen. */
    if (visit_open_expired(visit))
        return LOOK_AGAIN;

    switch (outcome.verdict) {
    case VERDICT_SUCCESS:
    case VERDICT_BUSINESS: /* the peer answers: that is what a probe asks */
        return probe_succeeded(visit, slot);
    case VERDICT_FAILURE:
        return probe_attempt_failed(visit, slot, ticket, outcome.kind);
    case VERDICT_NEUTRAL:
    case VERDICT_NONE:
        break;
    }
    return probe_attempt_returned(visit, slot, ticket);
}

enum settlement circuit_settle(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                               const struct ticket *ticket, struct outcome outcome, uint64_t now_ns,
                               struct transitions *transitions)
{
    struct visit visit = {
        .circuit = circuit, .settings = settings, .caller = caller, .transitions = transitions, .now_ns = now_ns};
    enum visit_step step = LOOK_AGAIN;

    transitions->count = 0;
    for (unsigned int looks = 0; step == LOOK_AGAIN && looks < VISIT_LOOKS_MAX; looks++) {
        visit_look(&visit);
        step = ticket->token != 0 ? settle_probe(&visit, ticket, outcome) : settle_ordinary(&visit, ticket, &outcome);
    }
    if (step != COUNTED) {
        visit_count(&visit, COUNT_LATE);
        return SETTLED_LATE;
    }
    circuit_count_outcome(circuit, caller->shard, outcome);
    return SETTLED_COUNTED;
}

void circuit_return_probe(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                          const struct ticket *ticket, uint64_t now_ns, struct transitions *transitions)
{
    const struct outcome nothing = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN};
    struct visit visit = {
        .circuit = circuit, .settings = settings, .caller = caller, .transitions = transitions, .now_ns = now_ns};
    enum visit_step step = LOOK_AGAIN;

    transitions->count = 0;
    for (unsigned int looks = 0; step == LOOK_AGAIN && looks < VISIT_LOOKS_MAX; looks++) {
        visit_look(&visit);
        int slot =
            visit.word.state == CIRCUIT_HALF_OPEN ? lease_find(circuit, visit.word.leases, ticket->token) : LEASE_NONE;
        if (slot == LEASE_NONE || !lease_attempt_stands(circuit, slot, ticket->token, ticket->address))
            return;
        step = settle_probe(&visit, ticket, nothing);
    }
}
