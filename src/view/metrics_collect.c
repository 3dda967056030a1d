/*
 * metrics_collect.c - what the circuits of a selection have counted, each once. See metrics_collect.h.
 */
#include "view/metrics_collect.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "breaker/latency.h"
#include "view/output.h"
#include "view/rows.h"
#include "view/running.h"
#include "segment/circuits.h"

static void read_faults(struct metered_circuit *circuit, const struct segment *segment, const struct row *row)
{
    struct local_fault_view faults[LOCAL_FAULTS];
    const struct circuit_entry *entry = circuits_entry(segment, row->circuit);
    const unsigned int count = entry != NULL ? local_faults_read(entry, faults) : 0;
    for (unsigned int i = 0; i < count; i++)
        metered_fault_add(circuit, faults[i].error, faults[i].count);
}

/* The circuit's place may have gone to another destination since the row was read: then nothing more is known. */
static void read_more(struct metered_circuit *circuit, const struct segment *segment, const struct row *row,
                      uint64_t now_ns, struct latency_view *room)
{
    struct circuit_texts texts;
    latency_read(circuits_latency(segment, row->circuit), now_ns, room);
    if (!circuits_texts(segment, row->circuit, &texts) || strcmp(texts.target, row->target_name) != 0 ||
        strcmp(texts.destination, row->destination) != 0)
        return;
    circuit->waited_us = room->waited_us;
    metered_waits_add(&circuit->connects, &room->connects);
    metered_waits_add(&circuit->answers, &room->answers);
    read_faults(circuit, segment, row);
}

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

static void add_row(struct metrics *metrics, const struct selected *selected, const struct running *running,
                    const struct row *row)
{
    struct metered_circuit *circuit = metrics_add_circuit(metrics);
    circuit->labels = metrics_labels(selected->user, selected->identity, row->target_name, row->destination);
    circuit->state = row_state(row);
    circuit->is_active = row->ended == ENDED_NOT && running->process_count > 0;
    circuit->is_forced = row->forced != FORCED_NONE;
    circuit->is_held = row->hold != HOLD_NONE;
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
    struct metered_policy *policy = metrics_add_policy(metrics);
    policy->labels = metrics_labels(selected->user, selected->identity, NULL, NULL);
    policy->processes = running->process_count;
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
                read_more(&metrics->circuits[metrics->circuit_count - 1], segment, &rows.at[i], now_ns, room);
        }
        rows_free(&rows);
        free(room);
    } else {
        warnx("%s: %s", selected->identity, running.file_why);
    }
    running_free(&running);
    return usable;
}
