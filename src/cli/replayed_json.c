/*
 * replayed_json.c - a replay for programs. The members are a contract with them: add, never change.
 *
 * See replayed.h. Times are in UTC.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/date.h"
#include "cli/cli.h"
#include "view/json.h"
#include "cli/recording.h"
#include "cli/replayed.h"

static void write_time(struct json *json, const char *key, uint64_t wall_ns)
{
    char time[32];
    time_rfc3339(wall_ns, time, sizeof time);
    json_string(json, key, time);
}

static void write_result(struct json *json, const struct sim_result *result, const struct recorded_result *recorded)
{
    const uint64_t dated = result->openings - result->undated_openings;
    json_unsigned(json, "openings", result->openings);
    if (dated > 0) {
        json_unsigned(json, "detect_ms", result->detect_ns / dated / NS_PER_MS);
        json_unsigned(json, "detect_longest_ms", result->longest_detect_ns / NS_PER_MS);
    } else {
        json_null(json, "detect_ms");
        json_null(json, "detect_longest_ms");
    }
    json_unsigned(json, "leaked", result->leaked);
    json_unsigned(json, "probes", result->probes);
    json_unsigned(json, "probes_failed", result->reopenings);
    if (recorded != NULL && !recorded->knows_refused)
        json_null(json, "refused");
    else
        json_unsigned(json, "refused", result->refused);
    if (recorded != NULL) {
        json_bool(json, "refused_at_least", recorded->refused_at_least);
        json_null(json, "refused_wrongly");
        json_null(json, "false_openings");
        json_null(json, "untold_openings");
        return;
    }
    json_unsigned(json, "refused_wrongly", result->refused_wrongly);
    json_unsigned(json, "false_openings", result->false_openings);
    json_unsigned(json, "untold_openings", result->untold_openings);
}

static void write_transition(struct json *json, const struct lane *lane, const struct sim_transition *made)
{
    json_open(json, NULL, '{');
    write_time(json, "time", recording_wall(lane, made->at_ns));
    json_unsigned(json, "mono_ns", made->at_ns - lane->shift_ns);
    json_string(json, "from", circuit_state_name(made->what.from));
    json_string(json, "to", circuit_state_name(made->what.to));
    json_string(json, "reason", transition_reason_name(made->what.reason));
    if (made->what.to == CIRCUIT_OPEN) {
        json_unsigned(json, "failures", made->what.failures);
        json_unsigned(json, "pause_ms", made->what.pause_ns / NS_PER_MS);
    }
    if (made->what.to == CIRCUIT_OPEN && made->what.from == CIRCUIT_CLOSED) {
        json_unsigned(json, "detect_ms", made->at_ns > made->since_ns ? (made->at_ns - made->since_ns) / NS_PER_MS : 0);
        if (made->succeeded + made->failed == 0)
            json_null(json, "false");
        else
            json_bool(json, "false", made->succeeded > made->failed);
    }
    json_close(json, '}');
}

/* `next` of each column goes through its transitions of the lane. */
static void write_transitions(struct json *json, const struct replay_column *column, const struct lane *lane,
                              size_t number)
{
    json_open(json, "transitions", '[');
    for (size_t i = 0; i < column->simulation.transition_count; i++)
        if (column->simulation.transitions[i].lane == number)
            write_transition(json, lane, &column->simulation.transitions[i]);
    json_close(json, ']');
}

static void write_lane(struct json *json, const struct replayed *replayed, size_t number)
{
    const struct lane *lane = &replayed->recording->lanes[number];
    const struct recorded_result *recorded = &replayed->recorded[number];
    json_open(json, NULL, '{');
    json_string(json, "policy", lane->policy[0] != '\0' ? lane->policy : NULL);
    json_string(json, "owner", lane->owner[0] != '\0' ? lane->owner : NULL);
    json_string(json, "target", lane->target);
    json_string(json, "destination", lane->destination);
    json_unsigned(json, "calls", recorded->result.calls);
    json_unsigned(json, "failed", recorded->result.failed);
    json_bool(json, "failures_alone", lane->has_failures_alone);
    json_unsigned(json, "inferred", lane->inferred);
    json_open(json, "recorded", '{');
    write_result(json, &recorded->result, recorded);
    json_close(json, '}');
    json_open(json, "replayed", '[');
    for (size_t i = 0; i < replayed->column_count; i++) {
        const struct replay_column *column = &replayed->columns[i];
        if (!replayed_knows(column, number))
            continue;
        json_open(json, NULL, '{');
        json_string(json, "policy", column->is_own ? lane->policy : column->name);
        json_string(json, "target", column->rules[number].target != NULL ? column->rules[number].target->name : NULL);
        write_result(json, &column->simulation.results[number], NULL);
        write_transitions(json, column, lane, number);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void write_total(struct json *json, const struct replayed *replayed)
{
    json_open(json, "total", '[');
    for (size_t i = 0; i < replayed->column_count; i++) {
        struct sim_result sum = {0};
        for (size_t lane = 0; lane < replayed->recording->lane_count; lane++)
            if (replayed_knows(&replayed->columns[i], lane))
                sim_result_add(&sum, &replayed->columns[i].simulation.results[lane]);
        json_open(json, NULL, '{');
        json_string(json, "policy", replayed->columns[i].is_own ? NULL : replayed->columns[i].name);
        write_result(json, &sum, NULL);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void replayed_json(const struct replayed *replayed)
{
    const struct recording *recording = replayed->recording;
    struct replay_notes notes;
    struct json json;
    json_start(&json, stdout);
    json_open(&json, NULL, '{');
    write_time(&json, "from", recording->from_ns);
    write_time(&json, "to", recording->to_ns);
    json_unsigned(&json, "events", recording->events);
    json_unsigned(&json, "bad_lines", recording->bad);
    json_open(&json, "circuits", '[');
    for (size_t i = 0; i < recording->lane_count; i++)
        write_lane(&json, replayed, i);
    json_close(&json, ']');
    write_total(&json, replayed);
    json_open(&json, "notes", '[');
    replay_notes_find(&notes, replayed);
    for (size_t i = 0; i < notes.count; i++)
        json_string(&json, NULL, notes.at[i]);
    replay_notes_free(&notes);
    json_close(&json, ']');
    json_close(&json, '}');
}
