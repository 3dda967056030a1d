/*
 * metrics_model.c - what `sockfuse metrics` tells, in the shape in which it is written. See metrics_model.h.
 */
#include "view/metrics_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "view/output.h"

/* --- labels ------------------------------------------------------------------------------------------------------- */

/* As both formats escape a label's value. A line's end can't be in it any more. */
static void add_label(FILE *out, const char *name, const char *value)
{
    char *safe = printable(value);
    fprintf(out, "%s=\"", name);
    for (const char *at = safe; *at != '\0'; at++) {
        if (*at == '\\' || *at == '"')
            fputc('\\', out);
        fputc(*at, out);
    }
    fputc('"', out);
    free(safe);
}

char *metrics_labels(const char *user, const char *policy, const char *target, const char *destination)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_text(&text, &length);
    add_label(out, "user", user);
    fputc(',', out);
    add_label(out, "policy", policy);
    if (target != NULL) {
        fputc(',', out);
        add_label(out, "target", target);
        fputc(',', out);
        add_label(out, "destination", destination);
    }
    close_text(out);
    return text;
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

/* What people set alarms by; the bound is the nearest border of the fine buckets, 1.6 % off at the most. */
static const uint64_t wanted_us[WAIT_BOUNDS] = {
    100,    250,    500,    1000,    2500,    5000,    10000,    25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000,
};

/* The first bucket that is not below it. */
static uint32_t bucket_behind(unsigned int bound)
{
    const uint64_t wanted_ns = wanted_us[bound] * NS_PER_US;
    const uint32_t bucket = histogram_bucket(wanted_ns);
    const uint64_t before_ns = wanted_ns - histogram_begin(bucket), after_ns = histogram_begin(bucket + 1) - wanted_ns;
    return before_ns <= after_ns ? bucket : bucket + 1;
}

uint64_t metrics_bound_ns(unsigned int bound)
{
    return histogram_begin(bucket_behind(bound));
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* Each of them only grows as long as the circuit lives: so does each bucket of which it is made. */
void metered_waits_add(struct metered_waits *waits, const struct distribution *distribution)
{
    unsigned int bound = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        const uint64_t count = distribution->counts[bucket];
        uint64_t took_us;
        while (bound < WAIT_BOUNDS && bucket == bucket_behind(bound))
            waits->below[bound++] = waits->count;
        if (__builtin_mul_overflow(count, histogram_middle(bucket) / NS_PER_US, &took_us))
            took_us = UINT64_MAX;
        waits->count = sum_of(waits->count, count);
        waits->sum_us = sum_of(waits->sum_us, took_us);
    }
}

struct metered_circuit *metrics_add_circuit(struct metrics *metrics)
{
    metrics->circuits = grow(metrics->circuits, metrics->circuit_count, sizeof *metrics->circuits);
    struct metered_circuit *circuit = &metrics->circuits[metrics->circuit_count];
    *circuit = (struct metered_circuit){.order = metrics->circuit_count++};
    return circuit;
}

struct metered_policy *metrics_add_policy(struct metrics *metrics)
{
    metrics->policies = grow(metrics->policies, metrics->policy_count, sizeof *metrics->policies);
    struct metered_policy *policy = &metrics->policies[metrics->policy_count];
    *policy = (struct metered_policy){.order = metrics->policy_count++};
    return policy;
}

/* --- one of a kind ------------------------------------------------------------------------------------------------ */

static int compare_labels(const char *left, const char *right, size_t left_order, size_t right_order)
{
    const int order = strcmp(left, right);
    return order != 0 ? order : left_order < right_order ? -1 : left_order > right_order;
}

static int compare_circuits(const void *a, const void *b)
{
    const struct metered_circuit *left = a, *right = b;
    return compare_labels(left->labels, right->labels, left->order, right->order);
}

static int compare_policies(const void *a, const void *b)
{
    const struct metered_policy *left = a, *right = b;
    return compare_labels(left->labels, right->labels, left->order, right->order);
}

static void merge_waits(struct metered_waits *waits, const struct metered_waits *more)
{
    for (unsigned int bound = 0; bound < WAIT_BOUNDS; bound++)
        waits->below[bound] = sum_of(waits->below[bound], more->below[bound]);
    waits->count = sum_of(waits->count, more->count);
    waits->sum_us = sum_of(waits->sum_us, more->sum_us);
}

/* The place of an error; the last one, which is that of all others, when there is none left. */
static struct metered_fault *fault_of(struct metered_circuit *circuit, int error)
{
    for (unsigned int i = 0; i < circuit->fault_count; i++)
        if (circuit->faults[i].error == error)
            return &circuit->faults[i];
    if (circuit->fault_count >= METERED_FAULTS - 1 && error != 0)
        return fault_of(circuit, 0);
    struct metered_fault *fault = &circuit->faults[circuit->fault_count++];
    *fault = (struct metered_fault){.error = error};
    return fault;
}

void metered_fault_add(struct metered_circuit *circuit, int error, uint64_t count)
{
    struct metered_fault *fault = fault_of(circuit, error);
    fault->count = sum_of(fault->count, count);
}

/* Of two places of one circuit, or two segments of one policy: the sums, and the worse of what is no sum. */
static void merge_circuit(struct metered_circuit *circuit, const struct metered_circuit *more)
{
    /* closed, half-open, open */
    static const unsigned int badness[] = {[CIRCUIT_CLOSED] = 0, [CIRCUIT_HALF_OPEN] = 1, [CIRCUIT_OPEN] = 2};
    if (badness[more->state] > badness[circuit->state])
        circuit->state = more->state;
    circuit->is_active = circuit->is_active || more->is_active;
    circuit->is_forced = circuit->is_forced || more->is_forced;
    circuit->is_held = circuit->is_held || more->is_held;
    circuit->failures = more->failures > circuit->failures ? more->failures : circuit->failures;
    for (unsigned int i = 0; i < COUNTERS; i++)
        circuit->counts[i] = sum_of(circuit->counts[i], more->counts[i]);
    circuit->in_flight += more->in_flight;
    circuit->waiting += more->waiting;
    circuit->overdue += more->overdue;
    circuit->most_waiting = more->most_waiting > circuit->most_waiting ? more->most_waiting : circuit->most_waiting;
    circuit->oldest_ns = more->oldest_ns > circuit->oldest_ns ? more->oldest_ns : circuit->oldest_ns;
    circuit->waited_us = sum_of(circuit->waited_us, more->waited_us);
    circuit->connections += more->connections;
    circuit->has_limit = circuit->has_limit || more->has_limit;
    circuit->max_connections += more->max_connections;
    circuit->statuses |= more->statuses;
    merge_waits(&circuit->connects, &more->connects);
    merge_waits(&circuit->answers, &more->answers);
    for (unsigned int i = 0; i < more->fault_count; i++)
        metered_fault_add(circuit, more->faults[i].error, more->faults[i].count);
}

static void merge_policy(struct metered_policy *policy, const struct metered_policy *more)
{
    policy->processes += more->processes;
    for (unsigned int kind = 0; kind < NO_ROOM_KINDS; kind++)
        policy->no_room[kind] = sum_of(policy->no_room[kind], more->no_room[kind]);
    policy->apart = sum_of(policy->apart, more->apart);
    policy->log_lost = sum_of(policy->log_lost, more->log_lost);
}

void metrics_merge(struct metrics *metrics)
{
    size_t kept = 0;
    if (metrics->circuit_count > 0)
        qsort(metrics->circuits, metrics->circuit_count, sizeof *metrics->circuits, compare_circuits);
    for (size_t i = 0; i < metrics->circuit_count; i++) {
        struct metered_circuit *circuit = &metrics->circuits[i];
        if (kept > 0 && strcmp(metrics->circuits[kept - 1].labels, circuit->labels) == 0) {
            merge_circuit(&metrics->circuits[kept - 1], circuit);
            free(circuit->labels);
        } else {
            metrics->circuits[kept++] = *circuit;
        }
    }
    metrics->circuit_count = kept;
    kept = 0;
    if (metrics->policy_count > 0)
        qsort(metrics->policies, metrics->policy_count, sizeof *metrics->policies, compare_policies);
    for (size_t i = 0; i < metrics->policy_count; i++) {
        struct metered_policy *policy = &metrics->policies[i];
        if (kept > 0 && strcmp(metrics->policies[kept - 1].labels, policy->labels) == 0) {
            merge_policy(&metrics->policies[kept - 1], policy);
            free(policy->labels);
        } else {
            metrics->policies[kept++] = *policy;
        }
    }
    metrics->policy_count = kept;
}

void metrics_free(struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->circuit_count; i++)
        free(metrics->circuits[i].labels);
    for (size_t i = 0; i < metrics->policy_count; i++)
        free(metrics->policies[i].labels);
    free(metrics->circuits);
    free(metrics->policies);
    *metrics = (struct metrics){.circuits = NULL};
}
