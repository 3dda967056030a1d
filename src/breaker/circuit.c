/*
 * circuit.c - admission and settlement: the state machine itself.
 *
 * Every decision has the same form: look at the word, decide what follows from it, replace the word by one CAS; if
 * the CAS loses, somebody else was faster, so look again. The winner of a CAS that changes the state, and nobody
 * else, reports and counts the transition. Nothing needs undoing when a process dies between two instructions: before
 * the CAS nothing has happened but a claimed lease slot (lease.c takes it back), after it only observers' hints and
 * counts are missing.
 *
 * A word whose state bits are corrupt (WORD_BROKEN) is replaced by a fresh closed one at the next admission.
 */
#include "breaker/circuit.h"

#include <stdatomic.h>

#include "breaker/backoff.h"
#include "breaker/lease.h"
#include "breaker/word.h"

/*
 * Looks in one call. A look is repeated only after somebody else changed the word, or after a step of our own (at
 * most a few), so this bound is met only if corrupt or hostile memory never comes to rest; then the call is refused,
 * or is late.
 */
#define LOOKS_MAX 4096u

/* One call's view of a circuit. */
struct visit {
    struct circuit *circuit;
    const struct settings *settings;
    const struct caller *caller;
    struct transitions *transitions;
    uint64_t now_ns;
    bool in_window;              /* its outcome has been added there */
    struct window_counts window; /* what the window held when it was judged */
    uint64_t raw;     /* the word as it was found */
    struct word word; /* the same, taken apart */
};

/* What a look led to. */
enum step { LOOK_AGAIN, PASSED, PROBES, REFUSED, COUNTED, LATE };

static void look(struct visit *visit)
{
    /* Acquire: with a lease's bit come its token, deadline and attempts. */
    visit->raw = atomic_load_explicit(&visit->circuit->word, memory_order_acquire);
    visit->word = word_unpack(visit->raw);
}

/* Replaces the word that was found. False: it is another one by now. */
static bool replace(const struct visit *visit, struct word next)
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

static void count(const struct visit *visit, unsigned int counter)
{
    counters_add(&visit->circuit->counters, visit->caller->shard, counter);
}

static uint32_t failures_with_one_more(const struct visit *visit)
{
    return word_one_more(visit->word.failures, CIRCUIT_FAILURES_MAX);
}

/* At an opening from closed. A slow call succeeded. */
static uint32_t consecutive_failures(const struct visit *visit, enum transition_reason reason)
{
    return reason == REASON_SLOW_CALL_RATE ? 0 : failures_with_one_more(visit);
}

/* For the winner of a CAS that changed the state: hints for observers, counts, and the record for the journal. */
static void report(struct visit *visit, enum circuit_state to, enum transition_reason reason, uint64_t at_ns,
                   uint64_t pause_ns)
{
    struct circuit *circuit = visit->circuit;

    /* Relaxed: nothing is decided by them, and an observer may see them a moment before or after the word. */
    atomic_store_explicit(&circuit->state_since_ns, at_ns, memory_order_relaxed);
    atomic_store_explicit(&circuit->overrun_generation,
                          reason == REASON_PROBE_TIMEOUT ? visit->word.generation : 0, memory_order_relaxed);
    if (to == CIRCUIT_OPEN) {
        atomic_store_explicit(&circuit->pause_ns, pause_ns, memory_order_relaxed);
        count(visit, COUNT_OPENED);
    }
    if (visit->transitions->count < TRANSITIONS_MAX)
        visit->transitions->at[visit->transitions->count++] = (struct transition){
            .from = (enum circuit_state)visit->word.state,
            .to = to,
            .reason = reason,
            .failures = visit->word.state == CIRCUIT_CLOSED ? consecutive_failures(visit, reason) : 0,
            .window = visit->window,
            .pause_ns = pause_ns,
            .refused = counters_sum(&circuit->counters, COUNT_REFUSED),
        };
}

/* Opens as of `at_ns`; all leases end. False: look again. */
static bool open_circuit(struct visit *visit, enum transition_reason reason, uint32_t step, uint64_t at_ns)
{
    uint64_t pause = backoff_opening_ns(visit->circuit, visit->settings, step, at_ns, visit->raw, visit->now_ns);
    struct lease_tokens tokens = lease_tokens(visit->circuit, visit->word.leases);

    if (!replace(visit, (struct word){.state = CIRCUIT_OPEN, .step = step, .deadline = at_ns + pause}))
        return false;
    lease_release_all(visit->circuit, &tokens);
    report(visit, CIRCUIT_OPEN, reason, at_ns, pause);
    return true;
}

/*
 * Re-opens a half-open circuit whose lease has run out, AS OF that lease's deadline: the state at a time does not
 * depend on when somebody looked. An hour later, the pause is long over and the next look finds a probe due.
 */
static bool open_expired(struct visit *visit)
{
    uint64_t deadline;

    if (!lease_expired(visit->circuit, visit->settings, visit->word.leases, visit->now_ns, &deadline))
        return false;
    if (open_circuit(visit, REASON_PROBE_TIMEOUT, word_one_more(visit->word.step, WORD_STEP_MAX), deadline))
        count(visit, COUNT_PROBES_FAILED);
    return true;
}

/* The same half-open word with other leases; the stamp keeps it from being mistaken for an earlier one. */
static struct word with_leases(struct word word, uint32_t leases)
{
    word.leases = leases;
    word.stamp++;
    return word;
}

/* --- admission --- */

static enum step take_ticket(struct ticket *ticket, const struct visit *visit, uint64_t generation, uint64_t token)
{
    *ticket = (struct ticket){.generation = generation, .token = token, .address = visit->caller->address};
    return token != 0 ? PROBES : PASSED;
}

static void note_token(const struct visit *visit, uint64_t token)
{
    /* Relaxed: for this very process, should it be jumped out of here. */
    if (visit->caller->token != NULL)
        atomic_store_explicit(visit->caller->token, token, memory_order_relaxed);
}

/* Takes a lease, and with it an open circuit to half-open: the first probe and the transition are one CAS. */
static enum step claim_probe(struct visit *visit, struct ticket *ticket)
{
    bool leaves_open = visit->word.state == CIRCUIT_OPEN;
    uint64_t token;
    int slot = lease_claim(visit->circuit, visit->caller, visit->word.leases, visit->now_ns,
                           visit->settings->probe_timeout_ns, &token);

    if (slot == LEASE_NONE) /* all stand, or others are between their claim and their CAS: one of them will probe */
        return REFUSED;

    note_token(visit, token);
    struct word next = with_leases(visit->word, visit->word.leases | 1u << slot);
    if (leaves_open)
        next = (struct word){.state = CIRCUIT_HALF_OPEN,
                             .step = visit->word.step,
                             .leases = 1u << slot,
                             .generation = serial_draw(visit->circuit, WORD_GENERATION_BITS)};
    if (!replace(visit, next)) {
        lease_release(visit->circuit, slot, token);
        note_token(visit, 0);
        return LOOK_AGAIN;
    }
    if (leaves_open)
        report(visit, CIRCUIT_HALF_OPEN, REASON_PAUSE_OVER, visit->now_ns, 0);
    return take_ticket(ticket, visit, next.generation, token);
}

/* Ends the leases of dead holders: neutral, no back-off step. False: there are none. */
static bool free_the_dead(const struct visit *visit)
{
    uint32_t dead = lease_dead(visit->circuit, visit->word.leases, visit->caller);

    if (dead == 0)
        return false;
    struct lease_tokens tokens = lease_tokens(visit->circuit, dead);
    if (replace(visit, with_leases(visit->word, visit->word.leases & ~dead)))
        lease_release_all(visit->circuit, &tokens);
    return true;
}

/* Joins a probe of the same process that has not tried this address yet. PASSED stands for "no such probe". */
static enum step join_probe(struct visit *visit, struct ticket *ticket)
{
    uint64_t token;
    int slot = lease_join(visit->circuit, visit->word.leases, visit->caller, &token);

    if (slot == LEASE_NONE)
        return PASSED;
    /*
     * The word is looked at after joining: if the lease still stands in it, whoever ends the lease does so after the
     * join. Other leases may have come and gone; the generation lasts as long as the lease.
     */
    look(visit);
    if (lease_find(visit->circuit, visit->word.leases & 1u << slot, token) != slot)
        return LOOK_AGAIN;
    note_token(visit, token);
    enum step step = take_ticket(ticket, visit, visit->word.generation, token);
    ticket->joined = true;
    return step;
}

static enum step admit_half_open(struct visit *visit, struct ticket *ticket)
{
    if (open_expired(visit) || free_the_dead(visit))
        return LOOK_AGAIN;

    enum step joined = join_probe(visit, ticket);
    if (joined != PASSED)
        return joined;
    /* One is always allowed, or no probe could ever close the circuit; more than there are slots find none. */
    uint32_t in_flight = (uint32_t)__builtin_popcount(visit->word.leases);
    if (in_flight != 0 && in_flight >= visit->settings->half_open_max_calls)
        return REFUSED;
    return claim_probe(visit, ticket);
}

static enum step admit_once(struct visit *visit, struct ticket *ticket)
{
    look(visit);
    switch (visit->word.state) {
    case CIRCUIT_CLOSED:
        return take_ticket(ticket, visit, visit->word.generation, 0);
    case CIRCUIT_OPEN:
        if (backoff_left_ns(visit->circuit, visit->settings, visit->word.deadline, visit->now_ns) > 0)
            return REFUSED;
        return claim_probe(visit, ticket);
    case CIRCUIT_HALF_OPEN:
        return admit_half_open(visit, ticket);
    default: /* corrupt: a fresh closed word; its new generation makes late whatever was admitted before */
        replace(visit, (struct word){.state = CIRCUIT_CLOSED,
                                     .generation = serial_draw(visit->circuit, WORD_GENERATION_BITS)});
        return LOOK_AGAIN;
    }
}

enum admission circuit_admit(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                             uint64_t now_ns, struct ticket *ticket, struct transitions *transitions)
{
    struct visit visit = {
        .circuit = circuit, .settings = settings, .caller = caller, .transitions = transitions, .now_ns = now_ns};
    enum step step = LOOK_AGAIN;

    transitions->count = 0;
    for (unsigned int looks = 0; step == LOOK_AGAIN && looks < LOOKS_MAX; looks++) {
        /* Two transitions are what one call can need; a third could come only of other calls' in between. */
        if (transitions->count == TRANSITIONS_MAX)
            break;
        step = admit_once(&visit, ticket);
    }

    if (step == PASSED || step == PROBES) {
        if (!caller->counts_itself)
            count(&visit, COUNT_ADMITTED);
        return step == PASSED ? ADMIT_PASS : ADMIT_PROBE;
    }
    enum admission refusal = visit.word.state == CIRCUIT_HALF_OPEN ? ADMIT_REFUSED_HALF_OPEN : ADMIT_REFUSED_OPEN;
    count(&visit, COUNT_REFUSED);
    count(&visit, counter_of_refusal(refusal));
    return refusal;
}

/* --- settlement --- */

/*
 * Adds the outcome to the window: once, however often the word has to be looked at. Should the circuit leave its
 * generation before the word is replaced, the outcome is late, and the window that has it is over.
 */
static void add_to_window(struct visit *visit, const struct outcome *outcome)
{
    enum window_class class = outcome->verdict == VERDICT_FAILURE ? WINDOW_FAILED
                              : outcome->slow                    ? WINDOW_SLOW
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

/* The outcome of a call that is no probe. */
static enum step settle_call(struct visit *visit, const struct ticket *ticket, const struct outcome *outcome)
{
    const uint32_t threshold = visit->settings->failure_threshold;
    struct word next = visit->word;

    if (next.state != CIRCUIT_CLOSED || next.generation != ticket->generation)
        return LATE;
    if (outcome->verdict == VERDICT_SUCCESS)
        next.failures = 0;
    if (outcome->verdict == VERDICT_FAILURE)
        next.failures = failures_with_one_more(visit);
    enum transition_reason reason = judge_rates(visit, outcome);
    /* `>=`: the threshold may have been lowered since. One that the counter can't reach counts as the counter's end. */
    if (outcome->verdict == VERDICT_FAILURE && threshold != 0 &&
        (next.failures >= threshold || next.failures == CIRCUIT_FAILURES_MAX))
        reason = REASON_FAILURE_THRESHOLD;
    if (reason != REASON_NONE)
        return open_circuit(visit, reason, 0, visit->now_ns) ? COUNTED : LOOK_AGAIN;
    return replace(visit, next) ? COUNTED : LOOK_AGAIN;
}

static enum step probe_succeeded(struct visit *visit, int slot)
{
    const uint32_t wanted = visit->settings->success_threshold;
    struct word next = with_leases(visit->word, visit->word.leases & ~(1u << slot));
    struct lease_tokens ended = lease_tokens(visit->circuit, 1u << slot);

    next.successes = word_one_more(next.successes, CIRCUIT_SUCCESSES_MAX);
    bool closes = next.successes >= wanted || next.successes == CIRCUIT_SUCCESSES_MAX;
    if (closes) {
        next = (struct word){.state = CIRCUIT_CLOSED, .generation = visit->word.generation};
        ended = lease_tokens(visit->circuit, visit->word.leases);
    }
    if (!replace(visit, next))
        return LOOK_AGAIN;
    lease_release_all(visit->circuit, &ended);
    count(visit, COUNT_PROBES_SUCCEEDED);
    if (closes)
        report(visit, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED, visit->now_ns, 0);
    return COUNTED;
}

static enum step probe_attempt_failed(struct visit *visit, int slot, const struct ticket *ticket,
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
    if (!open_circuit(visit, REASON_PROBE_FAILED, word_one_more(visit->word.step, WORD_STEP_MAX), visit->now_ns))
        return LOOK_AGAIN;
    count(visit, COUNT_PROBES_FAILED);
    return COUNTED;
}

static enum step probe_attempt_returned(struct visit *visit, int slot, const struct ticket *ticket)
{
    switch (lease_attempt_returned(visit->circuit, slot, ticket->token, ticket->address)) {
    case LEASE_GOES_ON:
        return COUNTED;
    case LEASE_LOST:
        return LOOK_AGAIN;
    case LEASE_DECIDED:
        break;
    }
    if (!replace(visit, with_leases(visit->word, visit->word.leases & ~(1u << slot))))
        return LOOK_AGAIN;
    lease_release(visit->circuit, slot, ticket->token);
    return COUNTED;
}

/*
 * The answer to a probe that has overrun its deadline. Its generation stands for "no later probe was admitted": each
 * transition writes over it. A word that has changed since, and with it perhaps the generation, is no longer replaced.
 */
static enum step settle_overrun(struct visit *visit, const struct ticket *ticket, struct outcome outcome)
{
    uint64_t overrun = atomic_load_explicit(&visit->circuit->overrun_generation, memory_order_relaxed);

    if (visit->word.state != CIRCUIT_OPEN || overrun != ticket->generation ||
        (outcome.verdict != VERDICT_SUCCESS && outcome.verdict != VERDICT_BUSINESS))
        return LATE;
    struct word next = {.state = CIRCUIT_CLOSED, .generation = serial_draw(visit->circuit, WORD_GENERATION_BITS)};
    if (!replace(visit, next))
        return LOOK_AGAIN;
    count(visit, COUNT_PROBES_SUCCEEDED);
    report(visit, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED, visit->now_ns, 0);
    return COUNTED;
}

/* The outcome of a probe's attempt: only the token of a standing lease decides. */
static enum step settle_probe(struct visit *visit, const struct ticket *ticket, struct outcome outcome)
{
    int slot;

    if (visit->word.state != CIRCUIT_HALF_OPEN)
        return settle_overrun(visit, ticket, outcome);
    slot = lease_find(visit->circuit, visit->word.leases, ticket->token);
    if (slot == LEASE_NONE)
        return LATE;
    /* The lease ran out before its outcome came: the probe failed at its deadline, as every observer has seen. */
    if (open_expired(visit))
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
    enum step step = LOOK_AGAIN;

    transitions->count = 0;
    for (unsigned int looks = 0; step == LOOK_AGAIN && looks < LOOKS_MAX; looks++) {
        look(&visit);
        step = ticket->token != 0 ? settle_probe(&visit, ticket, outcome)
                                  : settle_call(&visit, ticket, &outcome);
    }
    if (step != COUNTED) {
        count(&visit, COUNT_LATE);
        return SETTLED_LATE;
    }
    circuit_count_outcome(circuit, caller->shard, outcome);
    return SETTLED_COUNTED;
}
