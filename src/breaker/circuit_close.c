/*
 * circuit_close.c - what is done to a circuit, or counted in it, past its own rules: an operator's close, a pause that
 * is over by what somebody else has seen, and the outcomes of calls that went against its word.
 *
 * No clock, no system call, nothing held, as everywhere in the circuit; of all that change the word at one moment one
 * wins.
 */
#include <stdatomic.h>

#include "breaker/backoff.h"
#include "breaker/circuit.h"
#include "breaker/lease.h"
#include "breaker/word.h"

/* A CAS loses only to somebody else's step. More of them in a row than this are corrupt memory that never rests. */
#define LOOKS_MAX 4096u

void circuit_close(struct circuit *circuit, uint64_t now_ns, struct transitions *transitions)
{
    struct word next = {.state = CIRCUIT_CLOSED};

    transitions->count = 0;
    for (unsigned int looks = 0; looks < LOOKS_MAX; looks++) {
        /* Acquire: with a lease's bit comes its token. */
        uint64_t raw = atomic_load_explicit(&circuit->word, memory_order_acquire);
        struct word word = word_unpack(raw);
        struct lease_tokens tokens = lease_tokens(circuit, word.leases);

        next.generation = serial_draw(circuit, WORD_GENERATION_BITS);
        /* The leases' slots are freed after the word says so. */
        if (!atomic_compare_exchange_strong_explicit(&circuit->word, &raw, word_pack(next), memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        lease_release_all(circuit, &tokens);
        /* What an answer had asked for before an operator knew better. */
        atomic_store_explicit(&circuit->not_before_ns, 0, memory_order_relaxed);
        if (word.state != CIRCUIT_OPEN && word.state != CIRCUIT_HALF_OPEN)
            return;
        atomic_store_explicit(&circuit->state_since_ns, now_ns, memory_order_relaxed);
        counters_add(&circuit->counters, 0, COUNT_CLOSED);
        transitions->at[transitions->count++] = (struct transition){
            .from = (enum circuit_state)word.state,
            .to = CIRCUIT_CLOSED,
            .reason = REASON_FORCED,
            .refused = counters_sum(&circuit->counters, COUNT_REFUSED),
            .at_ns = now_ns,
            .by = next.generation,
        };
        return;
    }
}

bool circuit_end_pause(struct circuit *circuit, const struct settings *settings, uint64_t now_ns)
{
    /* Acquire: with an opening comes the floor that was set before it. */
    uint64_t raw = atomic_load_explicit(&circuit->word, memory_order_acquire);
    struct word word = word_unpack(raw);
    const uint64_t earliest_ns = backoff_earliest_ns(circuit, settings, now_ns);

    if (word.state != CIRCUIT_OPEN || backoff_left_ns(circuit, settings, word.deadline, now_ns) <= earliest_ns - now_ns)
        return false;
    word.deadline = earliest_ns;
    /*
     * The word is the one that was read, or nothing happens: so it is this very pause that ends. Release, as any step of
     * the word; nothing was written before it.
     */
    return atomic_compare_exchange_strong_explicit(&circuit->word, &raw, word_pack(word), memory_order_acq_rel,
                                                   memory_order_relaxed);
}

void circuit_count_outcome(struct circuit *circuit, unsigned int shard, struct outcome outcome)
{
    switch (outcome.verdict) {
    case VERDICT_SUCCESS:
        counters_add(&circuit->counters, shard, COUNT_SUCCEEDED);
        if (outcome.slow)
            counters_add(&circuit->counters, shard, COUNT_SLOW);
        return;
    case VERDICT_BUSINESS:
        counters_add(&circuit->counters, shard, COUNT_BUSINESS);
        return;
    case VERDICT_FAILURE:
        counters_add(&circuit->counters, shard, COUNT_FAILED);
        if ((unsigned int)outcome.kind < FAILURE_KINDS)
            counters_add(&circuit->counters, shard, COUNT_FAILURE_KIND + (unsigned int)outcome.kind);
        if (outcome.kind == FAILURE_HTTP)
            counters_add(&circuit->counters, shard, counter_of_status(outcome.http_status));
        return;
    case VERDICT_NEUTRAL:
    case VERDICT_NONE:
        break;
    }
    counters_add(&circuit->counters, shard, COUNT_NEUTRAL);
    if ((unsigned int)outcome.reason < NEUTRAL_REASONS)
        counters_add(&circuit->counters, shard, COUNT_NEUTRAL_REASON + (unsigned int)outcome.reason);
}

const char *admission_name(unsigned int admission)
{
    static const char *const names[ADMISSIONS] = {
        [ADMIT_PASS] = "pass",
        [ADMIT_PROBE] = "probe",
        [ADMIT_REFUSED_OPEN] = "open",
        [ADMIT_REFUSED_HALF_OPEN] = "half-open",
        [ADMIT_REFUSED_BULKHEAD] = "bulkhead",
        [ADMIT_REFUSED_FORCED] = "forced",
        [ADMIT_REFUSED_FLEET] = "fleet",
    };

    return admission < ADMISSIONS ? names[admission] : "unknown";
}
