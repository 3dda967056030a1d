/*
 * rows.h - the circuits of one policy as an observer sees them now, in the policy's order: what `status` shows.
 *
 * All targets of the policy have a row from the start, also those that nobody has called yet. Reading changes nothing.
 */
#ifndef SOCKFUSE_VIEW_ROWS_H
#define SOCKFUSE_VIEW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "view/inflight.h"
#include "view/row_faults.h"
#include "view/row_fleet.h"
#include "view/row_outage.h"
#include "view/row_waits.h"
#include "view/running.h"
#include "view/select.h"
#include "view/timeouts.h"
#include "guard/holding.h"
#include "guard/operator.h"
#include "policy/policy.h"
#include "segment/event.h"

/* Why a circuit is history; an operator's word still stands in one that is not. */
enum ended {
    ENDED_NOT,
    ENDED_PROGRAMS, /* no program runs that could use it */
    ENDED_TARGET,   /* programs run, but none of their policies has such a target for it any more */
};

struct row {
    char target_name[TARGET_NAME_MAX];
    char destination[DESTINATION_MAX]; /* "": no destination is known yet, for the patterns leave it open */
    const struct target *target;       /* NULL: the policy has it no more, or could not be read */
    bool called;                       /* a circuit stands in the table; then: */
    uint32_t circuit;                  /* its index, as long as nobody else gets its place */
    enum ended ended;
    size_t order; /* where it stands among the others: by policy and target */
    struct circuit_view view;
    uint64_t counts[COUNTERS];
    uint32_t in_flight;        /* calls without an outcome yet */
    struct waiting waiting;    /* these, and those that were charged at their limit and go on */
    struct row_waits waits;    /* those that are over */
    struct learnt_view learnt; /* what they have taught */
    struct timeouts timeouts;
    enum forced forced;      /* an operator's word */
    uint64_t forced_left_ns; /* how much longer it holds; 0: until another one */
    enum hold hold;          /* the agent's, if calls go by it now */
    uint64_t held_left_ns;   /* it ends by itself then, unless the agent says it again */
    struct row_fleet fleet;  /* what its agent tells of the fleet */
    uint32_t connections;    /* that have a share of max_connections */
    struct row_faults faults;
    struct row_outage outage;
    bool has_failure, has_transition;
    struct event last_failure, last_transition;
};

struct rows {
    struct row *at;
    size_t count;
};

/*
 * Collects the rows of a policy: `policy` NULL: it could not be read, so that only what the segment holds is shown.
 * `now_ns` is the circuits' clock. Free them with rows_free, before the policy.
 */
void rows_collect(struct rows *rows, const struct segment *segment, const struct policy *policy, uint64_t now_ns);
/*
 * The same of what is in force in running processes: of a target that several of their policies have, the settings are
 * those that most of them run. What is over is marked. Before `running` is freed, too.
 */
void rows_collect_running(struct rows *rows, const struct segment *segment, const struct running *running,
                          uint64_t now_ns);
void rows_free(struct rows *rows);
/* Keeps those of one target's name or one destination, as circuits are called. False: there is none. */
bool rows_keep(struct rows *rows, const char *target_name, const char *destination);

/* Whether the policy has a circuit of that target for that destination, as circuits are called. */
bool rows_takes(const struct policy *policy, const char *target_name, const char *destination);

/* How its calls are handled: an operator's word goes before the target's mode. */
enum target_mode row_mode(const struct row *row);
/* The state that the next call meets: the mode can override the circuit's own. */
enum circuit_state row_state(const struct row *row);
/* The next call is the probe: the pause is over, or those who probed have died. */
bool row_probe_due(const struct row *row);
/* Whether the policy, as far as it is known, injects faults into calls of the row. */
bool row_rehearses(const struct row *row);
/* The most calls that waited at once, as far as anybody saw it. */
uint32_t row_most_waiting(const struct row *row);
/* Whether rates are judged now: the circuit is closed, and the policy is known and has one on. */
bool row_has_rates(const struct row *row);
/* `part` of `calls` in permille, rounded down; 0 of none. */
uint64_t rate_permille(uint64_t part, uint64_t calls);
/*
 * Milliseconds until the next probe, rounded up; false when the state is not open, or stays open by the target's
 * mode or an agent's hold.
 */
bool row_retry_in_ms(const struct row *row, uint64_t *ms);

#endif
