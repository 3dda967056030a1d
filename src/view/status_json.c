/*
 * status_json.c - what `sockfuse status --json` writes. The members are a contract with other programs: add, never
 * change.
 *
 * See status_json.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/errno_name.h"
#include "view/output.h"
#include "view/status_json.h"
#include "policy/identity.h"

static void write_counters(struct json *json, const struct row *row)
{
    static const struct {
        const char *key;
        enum counter counter;
    } counters[] = {
        {"admitted", COUNT_ADMITTED},
        {"succeeded", COUNT_SUCCEEDED},
        {"failed", COUNT_FAILED},
        {"neutral", COUNT_NEUTRAL},
        {"business", COUNT_BUSINESS},
        {"late", COUNT_LATE},
        {"refused", COUNT_REFUSED},
        {"probes_succeeded", COUNT_PROBES_SUCCEEDED},
        {"probes_failed", COUNT_PROBES_FAILED},
        {"opened", COUNT_OPENED},
        {"slow", COUNT_SLOW},
        {"injected", COUNT_INJECTED},
        {"fallback", COUNT_FALLBACK},
        {"retries", COUNT_RETRIES},
        {"retries_denied", COUNT_RETRIES_DENIED},
    };
    json_open(json, "counters", '{');
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        json_unsigned(json, counters[i].key, row->counts[counters[i].counter]);
    json_close(json, '}');
}

static void write_refusals(struct json *json, const struct row *row)
{
    json_open(json, "refused_by", '{');
    for (unsigned int by = ADMIT_REFUSED_OPEN; by < ADMISSIONS; by++)
        json_unsigned(json, admission_name(by), row->counts[counter_of_refusal((enum admission)by)]);
    json_close(json, '}');
}

static void write_kinds(struct json *json, const struct row *row)
{
    char label[FAILURE_LABEL_MAX];
    unsigned int status;
    json_open(json, "failures", '{');
    for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++) {
        if (kind != FAILURE_HTTP && row->counts[COUNT_FAILURE_KIND + kind] > 0)
            json_unsigned(json, failure_kind_name(kind), row->counts[COUNT_FAILURE_KIND + kind]);
    }
    for (unsigned int place = 0; counter_status(place, &status); place++) {
        if (row->counts[COUNT_HTTP_STATUS + place] > 0)
            json_unsigned(json, status != 0 ? failure_label(FAILURE_HTTP, status, label) : "http-other",
                          row->counts[COUNT_HTTP_STATUS + place]);
    }
    json_close(json, '}');
    json_open(json, "neutral", '{');
    for (unsigned int reason = 1; reason < NEUTRAL_REASONS; reason++) {
        if (row->counts[COUNT_NEUTRAL_REASON + reason] > 0)
            json_unsigned(json, neutral_reason_name(reason), row->counts[COUNT_NEUTRAL_REASON + reason]);
    }
    json_close(json, '}');
}

static void write_errno(struct json *json, int error)
{
    char buffer[32];
    struct text name;
    text_start(&name, buffer, sizeof buffer);
    text_add_errno(&name, error);
    json_string(json, "errno", error == 0 ? NULL : buffer);
}

static void write_last_failure(struct json *json, const struct row *row)
{
    const struct event *failure = &row->last_failure;
    char time[32], label[FAILURE_LABEL_MAX];
    if (!row->has_failure) {
        json_null(json, "last_failure");
        return;
    }
    time_rfc3339(failure->time_ns, time, sizeof time);
    json_open(json, "last_failure", '{');
    json_string(json, "kind", failure_label(failure->kind, failure->http_status, label));
    write_errno(json, failure->error);
    json_unsigned(json, "elapsed_ms", failure->elapsed_ms);
    json_unsigned(json, "pid", failure->pid);
    json_string(json, "program", failure->program);
    json_string(json, "time", time);
    json_close(json, '}');
}

/* Rates in percent, as the policy has them. */
static void write_window(struct json *json, const struct row *row)
{
    const struct window_counts *window = &row->view.window;
    if (!row_has_rates(row)) {
        json_null(json, "window");
        return;
    }
    json_open(json, "window", '{');
    json_unsigned(json, "calls", window->calls);
    json_unsigned(json, "failed", window->failed);
    json_unsigned(json, "slow", window->slow);
    json_tenths(json, "failure_rate", rate_permille(window->failed, window->calls));
    json_tenths(json, "slow_call_rate", rate_permille(window->slow, window->calls));
    json_close(json, '}');
}

/* Whether running programs go by different settings for its target. */
static bool settings_differ(const struct row *row, const struct running *running)
{
    char *keys = running_differ(running) ? differing_keys(running, row->target_name) : NULL;
    const bool differ = keys != NULL;
    free(keys);
    return differ;
}

static void write_runs(struct json *json, const struct learnt_view *learnt)
{
    json_open(json, "failure_runs", '{');
    json_unsigned(json, "healed", learnt->healed);
    json_unsigned(json, "most_failures", learnt->most_failures);
    json_unsigned(json, "longest_ms", learnt->longest_ns / NS_PER_MS);
    json_unsigned(json, "present_failures", learnt->present.failures);
    json_unsigned(json, "present_ms", learnt->present.lasted_ns / NS_PER_MS);
    json_close(json, '}');
}

/* Of calls that passed against their circuit's word, what came of them. */
static void write_learnt(struct json *json, const struct row *row)
{
    const struct learnt_view *learnt = &row->learnt;
    write_runs(json, learnt);
    json_open(json, "would_have_refused", '{');
    for (unsigned int verdict = VERDICT_SUCCESS; verdict < VERDICTS; verdict++) {
        json_open(json, verdict_name(verdict), '{');
        json_unsigned(json, "calls", learnt->shadow_calls[verdict]);
        json_unsigned(json, "waited_ms", learnt->shadow_waited_ns[verdict] / NS_PER_MS);
        json_close(json, '}');
    }
    json_close(json, '}');
}

static void write_hold(struct json *json, const struct row *row)
{
    json_string(json, "held", held_name(row->hold));
    if (row->hold != HOLD_NONE)
        json_unsigned(json, "held_for_ms", (row->held_left_ns + NS_PER_MS - 1) / NS_PER_MS);
    else
        json_null(json, "held_for_ms");
}

static void write_circuit(struct json *json, const struct row *row, const struct running *running, uint64_t now_ns)
{
    static const char *const ends[] = {[ENDED_NOT] = NULL, [ENDED_PROGRAMS] = "programs", [ENDED_TARGET] = "target"};
    uint64_t retry_ms;
    json_open(json, NULL, '{');
    json_string(json, "target", row->target_name);
    json_string(json, "destination", row->destination);
    json_string(json, "state", circuit_state_name(row_state(row)));
    json_bool(json, "probe_due", row_probe_due(row));
    json_string(json, "ended", ends[row->ended]);
    json_string(json, "forced", forced_name(row->forced));
    if (row->forced_left_ns > 0)
        json_unsigned(json, "forced_ends_in_ms", (row->forced_left_ns + NS_PER_MS - 1) / NS_PER_MS);
    else
        json_null(json, "forced_ends_in_ms");
    write_hold(json, row);
    row_fleet_json(json, &row->fleet, row->target, now_ns);
    json_string(json, "mode", row->target != NULL ? target_mode_name(row->target->mode) : NULL);
    if (row->target != NULL)
        json_bool(json, "rehearsal", row_rehearses(row));
    else
        json_null(json, "rehearsal");
    json_string(json, "scope", row->target == NULL ? NULL : target_scope_name(row->target->scope));
    json_unsigned(json, "consecutive_failures", row->view.failures);
    if (row->target != NULL)
        json_unsigned(json, "failure_threshold", row->target->breaker.failure_threshold);
    else
        json_null(json, "failure_threshold");
    json_bool(json, "settings_differ", settings_differ(row, running));
    if (row_retry_in_ms(row, &retry_ms))
        json_unsigned(json, "retry_in_ms", retry_ms);
    else
        json_null(json, "retry_in_ms");
    json_unsigned(json, "in_flight", row->in_flight);
    json_unsigned(json, "waiting", row->waiting.calls);
    json_unsigned(json, "overdue", row->waiting.overdue);
    if (row->waiting.calls > 0)
        json_unsigned(json, "oldest_ms", row->waiting.oldest_ns / NS_PER_MS);
    else
        json_null(json, "oldest_ms");
    if (row->target != NULL && row->target->max_connections != 0) {
        json_unsigned(json, "connections", row->connections);
        json_unsigned(json, "max_connections", row->target->max_connections);
    } else {
        json_null(json, "connections");
        json_null(json, "max_connections");
    }
    json_unsigned(json, "most_waiting", row_most_waiting(row));
    row_waits_json(json, &row->waits);
    timeouts_json(json, "timeouts", &row->timeouts);
    write_learnt(json, row);
    write_window(json, row);
    write_counters(json, row);
    write_refusals(json, row);
    write_kinds(json, row);
    write_last_failure(json, row);
    row_faults_json(json, &row->faults);
    row_outage_json(json, &row->outage);
    json_close(json, '}');
}

/* As text: numbers above 2^53 do not survive every reader of JSON. */
static void write_revision(struct json *json, const char *key, uint64_t revision)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, revision);
    json_string(json, key, text);
}

static void write_processes(struct json *json, const struct running *running)
{
    json_open(json, "processes", '[');
    for (size_t i = 0; i < running->process_count; i++) {
        const struct process_view *process = &running->processes[i];
        char time[32];
        time_rfc3339(process->attached_ns, time, sizeof time);
        json_open(json, NULL, '{');
        json_unsigned(json, "pid", process->pid);
        json_string(json, "program", process->program);
        json_string(json, "attached", time);
        write_revision(json, "policy_revision", process->revision);
        if (running->file != NULL)
            json_bool(json, "current", process->revision == running->file->revision);
        else
            json_null(json, "current");
        json_bool(json, "takes_reload", !process->keeps_policy);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* What is in force: the revisions that programs run, and how many run each. */
static void write_running(struct json *json, const struct running *running)
{
    char time[32];
    json_bool(json, "active", running->process_count > 0);
    time_rfc3339(running->seen_ns, time, sizeof time);
    json_string(json, "last_seen", running->ended && running->seen_ns != 0 ? time : NULL);
    json_string(json, "policy_error", running->file_why);
    json_open(json, "running", '[');
    for (size_t i = 0; i < running->edition_count; i++) {
        const struct edition *edition = &running->editions[i];
        json_open(json, NULL, '{');
        write_revision(json, "policy_revision", edition->revision);
        json_unsigned(json, "processes", edition->programs);
        json_bool(json, "known", edition->policy != NULL);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* What there was no room for, of how much. */
static void write_no_room(struct json *json, const struct segment *segment)
{
    static const char *const names[NO_ROOM_KINDS] = {"circuits", "connections", "processes"};
    json_open(json, "no_room", '{');
    for (unsigned int kind = 0; kind < NO_ROOM_KINDS; kind++)
        json_unsigned(json, names[kind], segment_no_room(segment, (enum no_room)kind));
    json_close(json, '}');
    if (segment->map == NULL) {
        json_null(json, "capacity");
        return;
    }
    json_open(json, "capacity", '{');
    json_unsigned(json, "circuits", segment->capacity.circuits);
    json_unsigned(json, "connections", segment->capacity.calls);
    json_unsigned(json, "processes", segment->capacity.processes);
    json_unsigned(json, "events", segment->capacity.events);
    json_close(json, '}');
}

/* What the policy is made of: the file, and what the command line of `run` said besides. */
static void write_parts(struct json *json, const char *text)
{
    struct identity identity;
    if (!identity_read(&identity, text))
        return;
    json_string(json, "file", identity.path);
    json_open(json, "patterns", '[');
    for (char **pattern = identity.patterns; pattern != NULL && *pattern != NULL; pattern++)
        json_string(json, NULL, *pattern);
    json_close(json, ']');
    json_open(json, "options", '{');
    for (char **option = identity.options; option != NULL && *option != NULL; option++) {
        char *equals = strchr(*option, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        json_string(json, *option, equals + 1);
    }
    json_close(json, '}');
    identity_free(&identity);
}

void status_json(struct json *json, const struct selected *selected, const struct running *running,
                 const struct rows *rows)
{
    const struct policy *policy = running->file;
    const uint64_t now_ns = clock_circuit_ns();
    bool is_in_fleet = false;
    for (size_t i = 0; i < rows->count; i++)
        is_in_fleet = is_in_fleet || (rows->at[i].target != NULL && rows->at[i].target->scope == SCOPE_FLEET);
    json_open(json, NULL, '{');
    json_string(json, "policy", selected->identity);
    write_parts(json, selected->identity);
    json_string(json, "user", selected->user);
    json_string(json, "segment", selected->segment.map != NULL ? selected->segment.path : NULL);
    if (policy != NULL)
        write_revision(json, "policy_revision", policy->revision);
    else
        json_null(json, "policy_revision");
    write_running(json, running);
    json_unsigned(json, "unguarded", selected->segment.map != NULL ? segment_unguarded(&selected->segment) : 0);
    write_no_room(json, &selected->segment);
    json_unsigned(json, "log_lost", segment_log_lost(&selected->segment));
    json_unsigned(json, "apart", segment_apart(&selected->segment));
    fleet_link_json(json, &selected->segment, is_in_fleet, now_ns);
    json_open(json, "circuits", '[');
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->at[i].destination[0] != '\0')
            write_circuit(json, &rows->at[i], running, now_ns);
    }
    json_close(json, ']');
    write_processes(json, running);
    json_close(json, '}');
}
