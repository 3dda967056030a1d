/*
 * circuit_visit.h - one call's visit to a circuit: look at the word, decide what follows, replace it by one CAS.
 *
 * If the CAS loses, somebody else was faster, so look again. The winner of a CAS that changes the state, and nobody
 * else, reports and counts the transition. Nothing needs undoing when a process dies between two instructions: before
 * the CAS nothing has happened but a claimed lease slot (lease.c takes it back), after it only observers' hints and
 * counts are missing. Private to src/breaker, for circuit_admit.c and circuit_settle.c.
 */
#ifndef SOCKFUSE_BREAKER_CIRCUIT_VISIT_H
#define SOCKFUSE_BREAKER_CIRCUIT_VISIT_H

#include "breaker/circuit.h"
#include "breaker/word.h"

/*
 * Looks in one call. A look is repeated only after somebody else changed the word, or after a step of our own (at
 * most a few), so this bound is met only if corrupt or hostile memory never comes to rest; then the call is refused,
 * or is late.
 */
#define VISIT_LOOKS_MAX 4096u

/* One call's view of a circuit. */
struct visit {
    struct circuit *circuit;
    const struct settings *settings;
    const struct caller *caller;
    struct transitions *transitions;
    uint64_t now_ns;
    bool in_window;              /* its outcome has been added there */
    bool has_kind;               /* its kind has been added to the circuit's recent ones */
    struct window_counts window; /* what the window held when it was judged */
    uint64_t recent_kinds;       /* with its own, as it found them */
    uint64_t refused, by;        /* for the transition */
    uint64_t raw;                /* the word as it was found */
    struct word word;            /* the same, taken apart */
};

/* What a look led to. */
enum visit_step { LOOK_AGAIN, PASSED, PROBES, REFUSED, COUNTED, LATE };

/* Loads the word, with acquire, and takes it apart. */
void visit_look(struct visit *visit);
/* Replaces the word that was found. False: it is another one by now. */
bool visit_replace(const struct visit *visit, struct word next);
/* Adds one to a counter, in the caller's shard. */
void visit_count(const struct visit *visit, unsigned int counter);
/* The consecutive failures with the one that is being settled. */
uint32_t visit_failures(const struct visit *visit);
/* For the winner of a CAS that changed the state: hints for observers, counts, and the record for the journal. */
void visit_report(struct visit *visit, enum circuit_state to, enum transition_reason reason, uint64_t at_ns,
                  uint64_t pause_ns);
/* Opens as of `at_ns`, `by` as the transition has it; all leases end. False: look again. */
bool visit_open(struct visit *visit, enum transition_reason reason, uint32_t step, uint64_t at_ns, uint64_t by);
/*
 * Re-opens a half-open circuit whose lease has run out, AS OF that lease's deadline: the state at a time does not
 * depend on when somebody looked. An hour later, the pause is long over and the next look finds a probe due. False:
 * none has; true: look again.
 */
bool visit_open_expired(struct visit *visit);

/* The same half-open word with other leases; the stamp keeps it from being mistaken for an earlier one. */
static inline struct word word_with_leases(struct word word, uint32_t leases)
{
    word.leases = leases;
    word.stamp++;
    return word;
}

#endif
