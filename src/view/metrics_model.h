/*
 * metrics_model.h - what `sockfuse metrics` tells of circuits and policies, in the shape in which it is written.
 *
 * Labels stand as they are written: escaped, and with whatever could drive a terminal shown as \xNN. So two circuits
 * that would be told apart by nothing have the same labels, and are one here.
 */
#ifndef SOCKFUSE_VIEW_METRICS_MODEL_H
#define SOCKFUSE_VIEW_METRICS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "breaker/counters.h"
#include "breaker/histogram.h"
#include "segment/local_faults.h"
#include "segment/segment_model.h"

#define WAIT_BOUNDS 18u
/* Of a circuit in two files: what finds no place of its own is among the others. */
#define METERED_FAULTS (2 * LOCAL_FAULTS)

/* How many waits were shorter than each bound, and all of them; their sum, by the middles of the fine buckets. */
struct metered_waits {
    uint64_t below[WAIT_BOUNDS], count, sum_us;
};

/* Calls that failed by one error of this host's; 0: several others. */
struct metered_fault {
    int error;
    uint64_t count;
};

struct metered_circuit {
    char *labels; /* user, policy, target, destination */
    size_t order; /* as it was found */
    enum circuit_state state;
    bool is_active; /* a running program can use it */
    bool is_forced, is_held;
    uint32_t failures;
    uint64_t counts[COUNTERS];
    uint32_t in_flight, waiting, overdue, most_waiting;
    uint64_t oldest_ns, waited_us;
    bool has_limit; /* max_connections */
    uint32_t connections, max_connections;
    uint32_t statuses; /* a bit for each place of COUNT_HTTP_STATUS that the policy lists */
    struct metered_waits connects, answers;
    struct metered_fault faults[METERED_FAULTS];
    unsigned int fault_count;
};

struct metered_policy {
    char *labels; /* user, policy */
    size_t order;
    uint64_t processes, no_room[NO_ROOM_KINDS], apart, log_lost;
};

struct metrics {
    struct metered_circuit *circuits;
    struct metered_policy *policies;
    size_t circuit_count, policy_count;
    size_t unreadable; /* segments and folders that could not be looked into */
};

/* The labels of a policy; and of a circuit, unless `target` is NULL. To be freed, or to be given to what follows. */
char *metrics_labels(const char *user, const char *policy, const char *target, const char *destination);
/* One more, as zeros; it moves with the next one. */
struct metered_circuit *metrics_add_circuit(struct metrics *metrics);
struct metered_policy *metrics_add_policy(struct metrics *metrics);
/* After the last one: what has the same labels is added up, and all stands in the order of the labels. */
void metrics_merge(struct metrics *metrics);
void metrics_free(struct metrics *metrics);

/* As local_faults.h counts: each error once. */
void metered_fault_add(struct metered_circuit *circuit, int error, uint64_t count);

/* The bounds of metered_waits, ascending: each stands where a bucket of histogram.h begins. */
uint64_t metrics_bound_ns(unsigned int bound);
/* Into one that began as zeros, and once. */
void metered_waits_add(struct metered_waits *waits, const struct distribution *distribution);

#endif
