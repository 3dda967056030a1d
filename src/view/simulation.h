/*
 * simulation.h - recorded calls through the circuit's own code, under any policy, on a clock of their own.
 *
 * Each call asks circuit_admit when it began and is told to circuit_settle when it ended, or at the limit that the
 * policy sets it, in the order of time; so pauses, windows and leases run as they would have. What a call came to is
 * judged anew by the policy's own rules. A call that would have been refused goes on as a recording alone: it tells
 * whether the destination lived meanwhile. For `replay` and `explain`. No clock, no system call; memory for the calls
 * that are in flight at once, and for what came of it.
 */
#ifndef SOCKFUSE_VIEW_SIMULATION_H
#define SOCKFUSE_VIEW_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "policy/policy_model.h"

/* One recorded call. */
struct sim_call {
    uint64_t began_ns, ended_ns; /* circuits' clock */
    uint64_t retry_after_ns;     /* for which its answer asked not to be called; 0: it did not, or it is not known */
    uint32_t lane;               /* whose it is: a destination as it was recorded */
    uint32_t pid;
    uint16_t http_status; /* of the answer, if it is known */
    uint8_t verdict;      /* as it was recorded: enum verdict */
    uint8_t kind;         /* enum failure_kind */
    uint8_t reason;       /* enum neutral_reason */
    bool is_slow;         /* it took longer than the recording policy's slow_call */
    uint8_t marks;        /* the recording's own (recording.h) */
};

/* What a policy makes of a lane's calls. */
struct sim_rule {
    const struct target *target; /* NULL: it does not guard them, so all of them go */
    size_t circuit;              /* lanes with the same number share one */
};

/* A change of state. Of an opening from closed, also what it is worth. */
struct sim_transition {
    uint64_t at_ns;
    uint32_t lane; /* of the call that made it */
    struct transition what;
    uint64_t since_ns;          /* when the first call began of the run of failures (or of slow calls) that it ends */
    uint32_t succeeded, failed; /* recorded calls that began in its pause, and had an outcome */
};

/* What came of a lane's calls. */
struct sim_result {
    uint64_t calls, failed; /* recorded; by the policy's rules */
    uint64_t openings, reopenings, false_openings;
    uint64_t untold_openings;              /* nothing is recorded of their pauses */
    uint64_t undated_openings;             /* recorded ones: since when it failed is not known */
    uint64_t detect_ns, longest_detect_ns; /* of all others together */
    uint64_t leaked;                       /* admitted and failed, behind the first failure of a run; probes apart */
    uint64_t probes;
    uint64_t refused, refused_wrongly; /* of them, those whose recorded outcome was a success */
};

struct simulation {
    struct sim_result *results; /* one for each lane */
    struct sim_transition *transitions;
    size_t transition_count;
};

/*
 * `calls` in the order in which they began; each one's lane is less than `lanes`, and its rule's circuit less than
 * `lanes`. Free it with simulation_free.
 */
void simulation_run(struct simulation *simulation, const struct sim_call *calls, size_t count,
                    const struct sim_rule *rules, size_t lanes);
void simulation_free(struct simulation *simulation);

/* Adds what came of another lane. */
void sim_result_add(struct sim_result *sum, const struct sim_result *result);

/*
 * What a recorded call means by a target's rules, and when that is known: at its limit, if it took longer. Never later
 * than it ended.
 */
struct outcome sim_judge(const struct sim_call *call, const struct target *target, uint64_t *known_ns);

/* For sorting: by beginning, then by end. */
int sim_call_compare(const void *a, const void *b);

#endif
