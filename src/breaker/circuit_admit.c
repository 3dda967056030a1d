/*
 * circuit_admit.c - whether a call may go, and as what: as any call, or as a probe.
 *
 * A word whose state bits are corrupt (WORD_BROKEN) is replaced by a fresh closed one.
 */
#include <stdatomic.h>

#include "breaker/backoff.h"
#include "breaker/circuit_visit.h"
#include "breaker/lease.h"

static enum visit_step take_ticket(struct ticket *ticket, const struct visit *visit, uint64_t generation,
                                   uint64_t token)
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
static enum visit_step claim_probe(struct visit *visit, struct ticket *ticket)
{
    bool leaves_open = visit->word.state == CIRCUIT_OPEN;
    uint64_t token;
    int slot = lease_claim(visit->circuit, visit->caller, visit->word.leases, visit->now_ns,
                           visit->settings->probe_timeout_ns, &token);

    /* Where none stands, all are between their claim and their CAS: one of them will probe, and may be joined then. */
    if (slot == LEASE_NONE)
        return visit->word.leases == 0 ? LOOK_AGAIN : REFUSED;

    note_token(visit, token);
    struct word next = word_with_leases(visit->word, visit->word.leases | 1u << slot);
    if (leaves_open)
        next = (struct word){.state = CIRCUIT_HALF_OPEN,
                             .step = visit->word.step,
                             .leases = 1u << slot,
                             .generation = serial_draw(visit->circuit, WORD_GENERATION_BITS)};
    if (!visit_replace(visit, next)) {
        lease_release(visit->circuit, slot, token);
        note_token(visit, 0);
        return LOOK_AGAIN;
    }
    visit_count(visit, COUNT_PROBES);
    if (leaves_open)
        visit_report(visit, CIRCUIT_HALF_OPEN, REASON_PAUSE_OVER, visit->now_ns, 0);
    return take_ticket(ticket, visit, next.generation, token);
}

/* Ends the leases of dead holders: neutral, no back-off step. False: there are none. */
static bool free_the_dead(const struct visit *visit)
{
    uint32_t dead = lease_dead(visit->circuit, visit->word.leases, visit->caller);

    if (dead == 0)
        return false;
    struct lease_tokens tokens = lease_tokens(visit->circuit, dead);
    if (visit_replace(visit, word_with_leases(visit->word, visit->word.leases & ~dead)))
        lease_release_all(visit->circuit, &tokens);
    return true;
}

/* Joins a probe of the same process that has not tried this address yet. PASSED stands for "no such probe". */
static enum visit_step join_probe(struct visit *visit, struct ticket *ticket)
{
    uint64_t token;
    int slot = lease_join(visit->circuit, visit->word.leases, visit->caller, &token);

    if (slot == LEASE_NONE)
        return PASSED;
    /*
     * The word is looked at after joining: if the lease still stands in it, whoever ends the lease does so after the
     * join. Other leases may have come and gone; the generation lasts as long as the lease.
     */
    visit_look(visit);
    if (lease_find(visit->circuit, visit->word.leases & 1u << slot, token) != slot)
        return LOOK_AGAIN;
    note_token(visit, token);
    enum visit_step step = take_ticket(ticket, visit, visit->word.generation, token);
    ticket->joined = true;
    return step;
}

static enum visit_step admit_half_open(struct visit *visit, struct ticket *ticket)
{
    if (visit_open_expired(visit) || free_the_dead(visit))
        return LOOK_AGAIN;

    enum visit_step joined = join_probe(visit, ticket);
    if (joined != PASSED)
        return joined;
    /* One is always allowed, or no probe could ever close the circuit; more than there are slots find none. */
    uint32_t in_flight = (uint32_t)__builtin_popcount(visit->word.leases);
    if (in_flight != 0 && in_flight >= visit->settings->half_open_max_calls)
        return REFUSED;
    return claim_probe(visit, ticket);
}

static enum visit_step admit_once(struct visit *visit, struct ticket *ticket)
{
    visit_look(visit);
    switch (visit->word.state) {
    case CIRCUIT_CLOSED:
        return take_ticket(ticket, visit, visit->word.generation, 0);
    case CIRCUIT_OPEN:
        if (visit->caller->unprobed || visit->caller->never_probes ||
            backoff_left_ns(visit->circuit, visit->settings, visit->word.deadline, visit->now_ns) > 0)
            return REFUSED;
        return claim_probe(visit, ticket);
    case CIRCUIT_HALF_OPEN:
        return visit->caller->never_probes ? REFUSED : admit_half_open(visit, ticket);
    default: /* corrupt: a fresh closed word; its new generation makes late whatever was admitted before */
        visit_replace(visit, (struct word){.state = CIRCUIT_CLOSED,
                                           .generation = serial_draw(visit->circuit, WORD_GENERATION_BITS)});
        return LOOK_AGAIN;
    }
}

enum admission circuit_admit(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                             uint64_t now_ns, struct ticket *ticket, struct transitions *transitions)
{
    struct visit visit = {
        .circuit = circuit, .settings = settings, .caller = caller, .transitions = transitions, .now_ns = now_ns};
    enum visit_step step = LOOK_AGAIN;

    transitions->count = 0;
    for (unsigned int looks = 0; step == LOOK_AGAIN && looks < VISIT_LOOKS_MAX; looks++) {
        /* Two transitions are what one call can need; a third could come only of other calls' in between. */
        if (transitions->count == TRANSITIONS_MAX)
            break;
        step = admit_once(&visit, ticket);
    }

    if (step == PASSED || step == PROBES) {
        if (!caller->counts_itself)
            visit_count(&visit, COUNT_ADMITTED);
        return step == PASSED ? ADMIT_PASS : ADMIT_PROBE;
    }
    enum admission refusal = visit.word.state == CIRCUIT_HALF_OPEN ? ADMIT_REFUSED_HALF_OPEN : ADMIT_REFUSED_OPEN;
    visit_count(&visit, COUNT_REFUSED);
    visit_count(&visit, counter_of_refusal(refusal));
    return refusal;
}

bool circuit_tend(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                  uint64_t now_ns, struct transitions *transitions)
{
    struct visit visit = {
        .circuit = circuit, .settings = settings, .caller = caller, .transitions = transitions, .now_ns = now_ns};
    bool again = true;

    transitions->count = 0;
    for (unsigned int looks = 0; again && looks < VISIT_LOOKS_MAX && transitions->count < TRANSITIONS_MAX; looks++) {
        visit_look(&visit);
        again = visit.word.state == CIRCUIT_HALF_OPEN && visit.word.leases != 0 &&
                (visit_open_expired(&visit) || free_the_dead(&visit));
    }
    return visit.word.state == CIRCUIT_HALF_OPEN && visit.word.leases != 0;
}
