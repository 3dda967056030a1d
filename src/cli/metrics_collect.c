/*
 * metrics_collect.c - what the circuits of a selection have counted, each once. See metrics_collect.h.
 */
#include "cli/metrics_collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "breaker/latency.h"
#include "cli/cli.h"
#include "cli/rows.h"
#include "cli/running.h"
#include "segment/circuits.h"

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

/* Those of a policy; and of a circuit, unless `target` is NULL. To be freed. */
static char *labels_of(const struct selected *selected, const char *target, const char *destination)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        no_memory();
    add_label(out, "user", selected->user);
    fputc(',', out);
    add_label(out, "policy", selected->identity);
    if (target != NULL) {
        fputc(',', out);
        add_label(out, "target", target);
        fputc(',', out);
        add_label(out, "destination", destination);
    }
    if (fclose(out) != 0)
        no_memory();
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
static void add_waits(struct metered_waits *waits, const struct distribution *distribution)
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

/* The circuit's place may have gone to another destination since the row was read: then nothing is known of its waits. */
static void read_waits(struct metered_circuit *circuit, const struct segment *segment, const struct row *row,
                       uint64_t now_ns, struct latency_view *room)
{
    struct circuit_texts texts;
    latency_read(circuits_latency(segment, row->circuit), now_ns, room);
    if (!circuits_texts(segment, row->circuit, &texts) || strcmp(texts.target, row->target_name) != 0 ||
        strcmp(texts.destination, row->destination) != 0)
        return;
    circuit->waited_us = room->waited_us;
    add_waits(&circuit->connects, &room->connects);
    add_waits(&circuit->answers, &room->answers);
}

/* --- collecting --------------------------------------------------------------------------------------------------- */

/* The statuses of their own counter that the policy has as failures: these are told from the start. */
static uint32_t listed_statuses(const struct target *target)
{
    uint32_t listed = 0;
    unsigned int status;
    for (unsigned int place = 0; target != NULL && counter_status(place, &status); place++) {
        const struct outcome_rules *rules = &target->rules;
        for (uint32_t i = 0; i < rules->http_failure_count; i++) {
            if (status >= rules->http_failures[i].first && status <= rules->http_failures[i].last)
                listed |= UINT32_C(1) << place;
        }
    }
    return listed;
}

static struct metered_circuit *add_circuit(struct metrics *metrics)
{
    metrics->circuits = grow(metrics->circuits, metrics->circuit_count, sizeof *metrics->circuits);
    struct metered_circuit *circuit = &metrics->circuits[metrics->circuit_count];
    *circuit = (struct metered_circuit){.order = metrics->circuit_count++};
    return circuit;
}

static void add_row(struct metrics *metrics, const struct selected *selected, const struct running *running,
                    const struct row *row)
{
    struct metered_circuit *circuit = add_circuit(metrics);
    circuit->labels = labels_of(selected, row->target_name, row->destination);
    circuit->state = row_state(row);
    circuit->is_active = row->ended == ENDED_NOT && running->process_count > 0;
    circuit->is_forced = row->forced != FORCED_NONE;
    circuit->failures = row->view.failures;
    memcpy(circuit->counts, row->counts, sizeof circuit->counts);
    circuit->in_flight = row->in_flight;
    circuit->waiting = row->waiting.calls;
    circuit->overdue = row->waiting.overdue;
    circuit->oldest_ns = row->waiting.oldest_ns;
    circuit->most_waiting = row_most_waiting(row);
    circuit->has_limit = row->target != NULL && row->target->max_connections != 0;
    if (circuit->has_limit)
        circuit->max_connections = row->target->max_connections;
    circuit->connections = row->connections;
    circuit->statuses = listed_statuses(row->target);
}

static void add_policy(struct metrics *metrics, const struct selected *selected, const struct running *running)
{
    const struct segment *segment = &selected->segment;
    metrics->policies = grow(metrics->policies, metrics->policy_count, sizeof *metrics->policies);
    struct metered_policy *policy = &metrics->policies[metrics->policy_count];
    *policy = (struct metered_policy){
        .labels = labels_of(selected, NULL, NULL),
        .order = metrics->policy_count++,
        .processes = running->process_count,
    };
    if (segment->map == NULL)
        return;
    for (unsigned int kind = 0; kind < NO_ROOM_KINDS; kind++)
        policy->no_room[kind] = segment_no_room(segment, (enum no_room)kind);
    policy->apart = segment_apart(segment);
    policy->log_lost = segment_log_lost(segment);
}

bool metrics_add(struct metrics *metrics, const struct selected *selected, uint64_t now_ns)
{
    const struct segment *segment = &selected->segment;
    struct running running;
    struct rows rows;
    running_collect(&running, selected);
    const bool usable = running.file != NULL || segment->map != NULL;
    if (usable) {
        struct latency_view *room = allocate(1, sizeof *room);
        rows_collect_running(&rows, segment, &running, now_ns);
        add_policy(metrics, selected, &running);
        for (size_t i = 0; i < rows.count; i++) {
            add_row(metrics, selected, &running, &rows.at[i]);
            if (rows.at[i].called)
                read_waits(&metrics->circuits[metrics->circuit_count - 1], segment, &rows.at[i], now_ns, room);
        }
        rows_free(&rows);
        free(room);
    } else {
        warnx("%s: %s", selected->identity, running.file_why);
    }
    running_free(&running);
    return usable;
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

/* Of two places of one circuit, or two segments of one policy: the sums, and the worse of what is no sum. */
static void merge_circuit(struct metered_circuit *circuit, const struct metered_circuit *more)
{
    /* closed, half-open, open */
    static const unsigned int badness[] = {[CIRCUIT_CLOSED] = 0, [CIRCUIT_HALF_OPEN] = 1, [CIRCUIT_OPEN] = 2};
    if (badness[more->state] > badness[circuit->state])
        circuit->state = more->state;
    circuit->is_active = circuit->is_active || more->is_active;
    circuit->is_forced = circuit->is_forced || more->is_forced;
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
