/*
 * circuit.h - the breaker of one destination: closed, open or half-open.
 *
 * All that decides is in one 64-bit atomic word, so that nobody ever sees half a transition:
 *
 *   closed     state:2 | failures:16 | generation:46
 *   open       state:2 | step:5      | deadline:57        (ns, compared modulo 2^57: half of it is 2.2 years)
 *   half-open  state:2 | step:5      | leases:8 | successes:7 | stamp:8 | generation:34
 *
 * `step` is the back-off step, `leases` says which of the lease slots are probes in flight, `stamp` changes with
 * every change of a half-open word. The generation is a serial number drawn when a circuit leaves open; the circuit
 * keeps it when it closes. A call admitted under another generation than the present one changes nothing: it is late.
 *
 * The code reads no clock, makes no system call, allocates nothing and waits for nobody: time is an argument
 * (nanoseconds of CLOCK_MONOTONIC), whether a holder lives is asked through a function. It works in memory that
 * processes share and may be killed between any two instructions. Async-signal-safe throughout.
 */
#ifndef SOCKFUSE_BREAKER_CIRCUIT_H
#define SOCKFUSE_BREAKER_CIRCUIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit_model.h"
#include "breaker/outcome.h"

/* What admitted a call; kept until its outcome is settled. */
struct ticket {
    uint64_t generation;
    uint64_t token; /* of the lease that a probe holds; 0: no probe */
    int address;
    bool joined; /* admitted into a probe that was under way: its journal entry exists */
};

/* The circuit itself refuses as open or half-open; the rest is its surroundings'. Values are stored: append only. */
enum admission {
    ADMIT_PASS,
    ADMIT_PROBE,
    ADMIT_REFUSED_OPEN,
    ADMIT_REFUSED_HALF_OPEN, /* beside a probe */
    ADMIT_REFUSED_BULKHEAD,  /* the destination has as many connections as it may */
    ADMIT_REFUSED_FORCED,    /* by an operator's word */
    ADMIT_REFUSED_FLEET,     /* other hosts have it open */
    ADMISSIONS
};
_Static_assert(COUNT_REFUSED_BY + ADMISSIONS - ADMIT_REFUSED_OPEN <= COUNT_HTTP_STATUS, "refusals fit");

static inline bool admission_refuses(enum admission admission)
{
    return admission >= ADMIT_REFUSED_OPEN;
}

/* The counter of one kind of refusal; each refusal is counted there and in COUNT_REFUSED. */
static inline unsigned int counter_of_refusal(enum admission admission)
{
    return COUNT_REFUSED_BY + (unsigned int)admission - (unsigned int)ADMIT_REFUSED_OPEN;
}

/* The counter of transitions to a state. */
static inline unsigned int counter_of_state(enum circuit_state to)
{
    return to == CIRCUIT_OPEN ? COUNT_OPENED : to == CIRCUIT_HALF_OPEN ? COUNT_HALF_OPENED : COUNT_CLOSED;
}

/* A change of state, reported to the one caller that made it, for the journal. from == to: none happened. */
struct transition {
    enum circuit_state from, to;
    enum transition_reason {
        REASON_NONE,
        REASON_FAILURE_THRESHOLD, /* closed -> open */
        REASON_PAUSE_OVER,        /* open -> half-open */
        REASON_PROBE_FAILED,      /* half-open -> open */
        REASON_PROBE_TIMEOUT,     /* half-open -> open: a lease ran out */
        REASON_PROBE_SUCCEEDED,   /* half-open -> closed */
        REASON_FORCED,
        REASON_FAILURE_RATE,   /* closed -> open */
        REASON_SLOW_CALL_RATE, /* closed -> open */
        REASON_FORCE_ENDED,    /* the time of an operator's word was over */
        REASON_FLEET,          /* open -> closed: another host's probe succeeded */
        TRANSITION_REASONS
    } reason;
    uint32_t failures;           /* consecutive failures at an opening from closed */
    struct window_counts window; /* at an opening by a rate: what the window held */
    uint64_t pause_ns;           /* of an opening: the pause with its jitter */
    uint64_t refused;            /* calls refused so far; at an opening from closed, before it */
    uint64_t at_ns;              /* as of when; an opening may be found later */
    uint64_t recent_kinds;       /* at an opening from closed: of the failures that led to it (recent_kinds.h) */
    uint64_t by; /* from closed, its generation; from half-open to open, the token of the probe that failed; to closed,
                    the generation that it has from then on */
};
/* One call may make two transitions: a lease that ran out long ago re-opens the circuit, and its pause may be over. */
#define TRANSITIONS_MAX 2
struct transitions {
    unsigned int count;
    struct transition at[TRANSITIONS_MAX];
};

/* How a settled outcome was taken. */
enum settlement {
    SETTLED_COUNTED, /* it counted for the state */
    SETTLED_LATE,    /* its generation or lease is over: counted as late, nothing else */
};

/*
 * Asks for a call at `now_ns`. Fills `ticket` when the answer is ADMIT_PASS or ADMIT_PROBE, and `transitions` always.
 * Counts admitted or refused. Never blocks. A refused call has no ticket and is never settled.
 */
enum admission circuit_admit(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                             uint64_t now_ns, struct ticket *ticket, struct transitions *transitions);

/*
 * Reports an admitted call's outcome, once. VERDICT_NONE is not for here. `now_ns` is when the outcome was found.
 * Counts the outcome (succeeded, failed with its kind, neutral with its reason, business, late) in the caller's shard.
 * Anybody may settle for anybody: the ticket decides, not the caller's holder. A probe's outcome that comes AT its
 * lease's deadline or after is late, and the probe failed at the deadline, whether or not anybody looked in between.
 * But the peer that then answers is slow, not dead: a success closes the circuit, unless a later probe was admitted.
 */
enum settlement circuit_settle(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                               const struct ticket *ticket, struct outcome outcome, uint64_t now_ns,
                               struct transitions *transitions);

/*
 * Of a probe's attempt that was settled, but perhaps not reported: if its lease stands, its permit goes back. Counts
 * nothing. Does nothing for one that was reported.
 */
void circuit_return_probe(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                          const struct ticket *ticket, uint64_t now_ns, struct transitions *transitions);

/*
 * Puts a floor under the pause: an opening from now on, also one as of a lease's deadline, does not end before
 * `not_before_ns` (circuits' clock); of several floors the latest holds. An opening that has been stays as it is, so
 * this comes BEFORE the settlement of the outcome that asked for it. Changes no state. For Retry-After. A floor that
 * lies further ahead than retry_after_max, of another time name space or corrupt, is not believed.
 */
void circuit_hold_open(struct circuit *circuit, uint64_t not_before_ns);

/* What an observer sees at `now_ns`; reading changes nothing. */
struct circuit_view {
    enum circuit_state state; /* an open circuit whose pause is over stays CIRCUIT_OPEN with probe_due set; a
                                   half-open one whose lease ran out is shown as what the next call will find */
    bool probe_due;
    uint32_t failures;           /* consecutive failures while closed */
    uint32_t successes;          /* successful probes while half-open */
    uint32_t probes;             /* in flight */
    uint32_t step;               /* back-off step */
    uint64_t retry_in_ns;        /* until the next probe; 0: now or not open */
    uint64_t since_ns;           /* when the last transition was */
    uint64_t generation;         /* 0 while open */
    struct window_counts window; /* while closed: what the rates are of; 0 where no rate is on */
};
void circuit_observe(const struct circuit *circuit, const struct settings *settings, uint64_t now_ns,
                     struct circuit_view *view);
/*
 * Leaves the probes of dead processes out of a view that was just made: with none left, a half-open circuit's next call
 * is the probe.
 */
void circuit_observe_holders(const struct circuit *circuit, holder_alive_fn *alive, void *context,
                             struct circuit_view *view);

/*
 * One load each, for what is dear to do for every call: closed; open; open, and its pause not over; closed, and no
 * failure counted. A call that passes a circuit that is well has a ticket of that generation (which may be NULL: not asked
 * for).
 */
bool circuit_is_closed(const struct circuit *circuit);
bool circuit_is_open(const struct circuit *circuit);
bool circuit_is_blocked(const struct circuit *circuit, uint64_t now_ns);
bool circuit_is_well(const struct circuit *circuit, uint64_t *generation);
/* What circuit_settle comes to for a success, not slow, of a generation in which the circuit was just seen well. */
void circuit_count_success(struct circuit *circuit, const struct settings *settings, unsigned int shard,
                           uint64_t generation, uint64_t now_ns);

/*
 * Makes a circuit that is well and that nobody uses another destination's: closed, counters and addresses forgotten, under a
 * generation of its own, so that the outcome of a call that was admitted before is late.
 */
void circuit_reset(struct circuit *circuit);

/* The pause at back-off step `step`, without jitter: reset_timeout x multiplier^step, at most reset_timeout_max. */
uint64_t circuit_pause_ns(const struct settings *settings, unsigned int step);

/*
 * The index of the address with that key (a hash, not 0) among the circuit's addresses; a new one takes a free place,
 * or the one that was used the longest time ago. ADDRESS_NONE if no place could be taken.
 */
int circuit_address_index(struct circuit *circuit, uint64_t key);
/* Whether the address with that key still has this place. */
bool circuit_address_is(const struct circuit *circuit, int address, uint64_t key);
/* The key of the address that has this place now; 0: none. For observers. */
uint64_t circuit_address_key(const struct circuit *circuit, int address);
/*
 * Notes that the address answered. Writes only at the first answer that has a neighbour, and when a neighbour failed
 * since the last one; a destination with one address never writes.
 */
void circuit_address_answered(struct circuit *circuit, int address);
/* Whether the destination has more than one address, so that there may be something to note. */
static inline bool circuit_has_neighbours(const struct circuit *circuit)
{
    return atomic_load_explicit(&circuit->addresses[1].key, memory_order_relaxed) != 0; /* they fill up in order */
}
/*
 * Whether another address answered since this one last failed; asked BEFORE circuit_address_failed notes this
 * failure.
 */
bool circuit_other_answered(const struct circuit *circuit, int address);
void circuit_address_failed(struct circuit *circuit, int address);
/*
 * Whether the address with that key may answer, for all that is known: it was never heard of, never failed, or answered
 * since it last failed.
 */
bool circuit_address_may_answer(const struct circuit *circuit, uint64_t key);

/*
 * Closes the circuit at once, whatever it is, with no failure counted, under a new generation: what was admitted before
 * is late, probes in flight too, the window is empty, and no floor is under a pause. `transitions` has the
 * close if the circuit was not closed.
 */
void circuit_close(struct circuit *circuit, uint64_t now_ns, struct transitions *transitions);

/*
 * An open circuit's pause is over now, and the next call is the probe; but not before the time until which the
 * destination asked to be left alone (circuit_hold_open). The back-off step stays. One step, and no transition. False:
 * it is not open, its pause was over or can't be shorter, or somebody else was faster.
 */
bool circuit_end_pause(struct circuit *circuit, const struct settings *settings, uint64_t now_ns);

/*
 * What the next admission would mend in a half-open circuit, before there is one: it opens again as of the deadline of
 * a probe that has passed, and the lease of a dead holder is free. Returns whether probes are still in flight.
 */
bool circuit_tend(struct circuit *circuit, const struct settings *settings, const struct caller *caller,
                  uint64_t now_ns, struct transitions *transitions);

/* Counts a real outcome that the circuit must not go by: of a call that passed against its word. */
void circuit_count_outcome(struct circuit *circuit, unsigned int shard, struct outcome outcome);

const char *circuit_state_name(unsigned int state);      /* "closed", "open", "half-open" */
const char *admission_name(unsigned int admission);      /* of a refusal: "open", "half-open", "bulkhead", … */
const char *transition_reason_name(unsigned int reason); /* "failure-threshold", "pause-over", … */

#endif
