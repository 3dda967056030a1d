/*
 * report.h - what a guarded call leaves behind for people: events in the journal, frozen evidence, lines in the log.
 *
 * Called by the one who made the transition or settled the call, so each is reported once. Private to src/guard, but
 * for report_reload. Async-signal-safe; system calls only for the log.
 */
#ifndef SOCKFUSE_GUARD_REPORT_H
#define SOCKFUSE_GUARD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "breaker/latency.h"
#include "guard/guard_model.h"
#include "segment/forced.h"
#include "segment/held.h"

/*
 * Each transition: journal, the circuit's frozen evidence, log. `injected`: by the outcome of a call that was given a
 * fault in rehearsal.
 */
void report_transitions(const struct guard *guard, uint32_t circuit, const struct transitions *transitions,
                        bool injected, uint64_t now_ns);

/* How a call ended, or was charged while it still hung: its outcome, and what there is to tell beside it. */
struct ending {
    struct outcome outcome;
    uint64_t at_ns;           /* circuits' clock */
    uint64_t elapsed_ns;      /* how long it had taken */
    int error;                /* errno, or 0 */
    unsigned int http_status; /* of the answer, or 0 */
    uint64_t retry_after_ns;  /* for which the answer asked not to be called, or 0 */
    enum overran overran;
    struct wait wait; /* it began as zeros: what is not said of it is that nobody was waited for */
};
/* A call of whatever outcome: journal. `late`: it did not count for the circuit's state. */
void report_outcome(const struct guard *guard, const struct call_view *call, const struct ending *ending, bool late,
                    uint64_t now_ns);
/* A failed call: journal, and the circuit's evidence, which has none that was late. */
void report_failure(const struct guard *guard, const struct call_view *call, const struct ending *ending, bool late,
                    uint64_t now_ns);

/* A success that was slow, where slow calls count: the circuit's evidence. */
void report_slow(const struct guard *guard, const struct call_view *call, const struct ending *ending, uint64_t now_ns);
/* The call's outcome opened its circuit, which was closed, as of `at_ns`: the circuit's evidence. */
void report_opening(const struct guard *guard, const struct call_view *call, const struct settings *settings,
                    const struct transition *transition, uint64_t at_ns, uint64_t now_ns);
/* An attempt of a probe has failed, which the circuit is told next: what a failed probe says of itself. */
void report_attempt(const struct guard *guard, const struct call_view *call, const struct ending *ending);
/* A call has failed on this side: the circuit's table of such faults. */
void report_local_fault(const struct guard *guard, const struct call_view *call, const struct ending *ending,
                        uint64_t now_ns);

/* An event of this process, to be filled by its type. All bytes are set: it goes into shared memory as it is. */
void report_start(struct event *event, const struct guard *guard, uint32_t circuit, enum event_type type,
                  uint64_t now_ns);

/* A call was admitted as a probe: journal. */
void report_probe(const struct guard *guard, uint32_t circuit, uint64_t now_ns);

/*
 * A call was refused, or would have been. The first one goes to the journal: after an opening, of a crowd at the
 * bulkhead, after an operator's word.
 */
void report_refusal(const struct guard *guard, uint32_t circuit, enum admission admission, uint64_t now_ns);

/* An operator forced a circuit, or gave it back: journal. */
struct forcing {
    enum forced forced;
    enum circuit_state from, to;
    uint64_t lasts_ns; /* until its end; 0: it has none */
    const char *host;  /* of the fleet, where it was said; NULL: it is of this host alone */
};
void report_forced(const struct guard *guard, const char *user, uint32_t circuit, const struct forcing *forcing,
                   uint64_t now_ns);
/* The time of an operator's word was over so long ago, and a call has noticed it: journal. */
void report_force_ended(const struct guard *guard, uint32_t circuit, enum circuit_state from, enum circuit_state to,
                        uint64_t ago_ns, uint64_t now_ns);

/* The agent holds a circuit, or does so no more; or its pause is over by what a health check saw: journal. */
struct held_report {
    enum hold hold; /* from now on */
    enum circuit_state from, to;
    enum hold_reason reason;
    int error;                             /* errno, or 0 */
    unsigned int http_status, exit_status; /* or 0 */
    const char *hosts;                     /* or NULL */
    uint64_t span_ns; /* HOLD_RAN_OUT: so long ago; HOLD_CHECK_PASSED: what the destination asked for of its pause */
};
void report_held(const struct guard *guard, uint32_t circuit, const struct held_report *held, uint64_t now_ns);

/* An operator handed an edited policy to the running processes: journal. */
void report_reload(const struct guard *guard, const char *user, uint64_t revision, uint64_t now_ns);

#endif
