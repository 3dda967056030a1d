/*
 * event_json.c - an event as JSON.
 *
 * What a type of event has beside the common members is in one function: add_json_... . Names are cut so that every
 * event fits into EVENT_JSON_MAX, whatever they hold.
 */
#include "segment/event.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/errno_name.h"
#include "base/text.h"
#include "breaker/circuit.h"
#include "policy/alert_value.h"
#include "segment/event_facts.h"
#include "segment/forced.h"
#include "segment/held.h"

/* Room for each name in a JSON line, so that the rest of the line always fits. */
#define JSON_PROGRAM_MAX ((size_t)PROGRAM_NAME_MAX * 6)
#define JSON_TARGET_MAX ((size_t)TARGET_NAME_MAX * 4)
#define JSON_SAID_MAX ((size_t)EVENT_SAID_MAX * 6)
#define JSON_DESTINATION_MAX ((size_t)DESTINATION_MAX * 3)
_Static_assert(JSON_PROGRAM_MAX + JSON_TARGET_MAX + JSON_DESTINATION_MAX + 1600 < EVENT_JSON_MAX,
               "1600 for all the rest");

static void add_number(struct text *text, const char *key, uint64_t number)
{
    text_add(text, ",\"");
    text_add(text, key);
    text_add(text, "\":");
    text_add_unsigned(text, number);
}

static void add_string(struct text *text, const char *key, const char *string, size_t most)
{
    text_add(text, ",\"");
    text_add(text, key);
    text_add(text, "\":");
    text_add_json_cut(text, string, most);
}

static void add_null(struct text *text, const char *key)
{
    text_add(text, ",\"");
    text_add(text, key);
    text_add(text, "\":null");
}

/* NULL: none. */
static void add_string_or_null(struct text *text, const char *key, const char *string, size_t most)
{
    if (string != NULL)
        add_string(text, key, string, most);
    else
        add_null(text, key);
}

static void add_flag(struct text *text, const char *key, bool flag)
{
    text_add(text, ",\"");
    text_add(text, key);
    text_add(text, flag ? "\":true" : "\":false");
}

static void add_json_errno(struct text *text, int error)
{
    if (error == 0) {
        add_null(text, "errno");
        return;
    }
    text_add(text, ",\"errno\":\"");
    text_add_errno(text, error);
    text_add(text, "\"");
}

/* Of a failure and an outcome: whether it is its limit's, and whether it counted. */
static void add_json_manner(struct text *text, const struct event *event)
{
    add_flag(text, "overdue", event->overran == OVERRAN_HANGS);
    add_flag(text, "came", event->overran == OVERRAN_CAME);
    add_flag(text, "late", event->late);
    add_flag(text, "passed", event->passed);
    if (event->pause_ns > 0)
        add_number(text, "retry_after_ms", event->pause_ns / NS_PER_MS);
}

static void add_json_failure(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];
    add_string(text, "kind", failure_label(event->kind, event->http_status, label), SIZE_MAX);
    add_json_errno(text, event->error);
    add_number(text, "elapsed_ms", event->elapsed_ms);
    add_json_manner(text, event);
}

static void add_json_outcome(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];
    add_string(text, "verdict", verdict_name(event->verdict), SIZE_MAX);
    add_string_or_null(text, "kind",
                       event->kind != FAILURE_NONE ? failure_label(event->kind, event->http_status, label) : NULL,
                       SIZE_MAX);
    add_string_or_null(text, "reason", event->reason != NEUTRAL_NONE ? neutral_reason_name(event->reason) : NULL,
                       SIZE_MAX);
    add_json_errno(text, event->error);
    if (event->http_status != 0 && !status_is_grpc(event->http_status))
        add_number(text, "http_status", event->http_status);
    else
        add_null(text, "http_status");
    if (status_is_grpc(event->http_status))
        add_number(text, "grpc_status", event->http_status - GRPC_STATUS_BASE);
    add_number(text, "elapsed_ms", event->elapsed_ms);
    add_flag(text, "slow", event->slow);
    add_json_manner(text, event);
}

/* As an object of its own, of which this is all. */
static void add_json_kinds(struct text *text, uint64_t recent_kinds)
{
    struct kind_count counts[RECENT_KINDS];
    const unsigned int count = recent_kinds_counts(recent_kinds, counts);
    char label[FAILURE_LABEL_MAX];

    text_add(text, ",\"kinds\":{");
    for (unsigned int i = 0; i < count; i++) {
        text_add(text, i > 0 ? ",\"" : "\"");
        text_add(text, kind_count_label(&counts[i], label));
        text_add(text, "\":");
        text_add_unsigned(text, counts[i].failures);
    }
    text_add(text, "}");
}

static void add_json_attempts(struct text *text, const struct event *event)
{
    text_add(text, ",\"attempts\":[");
    for (unsigned int i = 0; i < EVENT_ATTEMPTS && event->attempts[i].kind != FAILURE_NONE; i++) {
        const struct event_attempt *attempt = &event->attempts[i];
        char label[FAILURE_LABEL_MAX];
        text_add(text, i > 0 ? ",{\"kind\":\"" : "{\"kind\":\"");
        text_add(text, failure_label(attempt->kind, attempt->http_status, label));
        text_add(text, "\"");
        add_json_errno(text, attempt->error);
        add_number(text, "elapsed_ms", attempt->elapsed_ms);
        text_add(text, "}");
    }
    text_add(text, "]");
}

static void add_json_window(struct text *text, const struct event *event)
{
    text_add(text, ",\"window\":{\"calls\":");
    text_add_unsigned(text, event->window_calls);
    add_number(text, "failed", event->window_failed);
    add_number(text, "slow", event->window_slow);
    text_add(text, "}");
}

static void add_json_outage(struct text *text, const struct event *event)
{
    const struct event_outage *outage = &event->outage;

    if (!outage->is_known) {
        add_null(text, "outage");
        return;
    }
    text_add(text, ",\"outage\":{\"since\":\"");
    event_add_time(text, outage->time_ns);
    text_add(text, "\"");
    add_number(text, "lasted_ms", outage->lasted_ns / NS_PER_MS);
    add_number(text, "refused", outage->refused);
    add_number(text, "probes", outage->probes);
    add_number(text, "probes_failed", outage->probes_failed);
    text_add(text, ",\"cause\":{\"reason\":\"");
    text_add(text, transition_reason_name(outage->reason));
    text_add(text, "\"");
    add_number(text, "failures", event->failures);
    add_json_kinds(text, outage->recent_kinds);
    if (event->window_calls > 0)
        add_json_window(text, event);
    add_flag(text, "injected", outage->injected);
    text_add(text, "}}");
}

static void add_json_transition(struct text *text, const struct event *event)
{
    add_string(text, "from", circuit_state_name(event->from), SIZE_MAX);
    add_string(text, "to", circuit_state_name(event->to), SIZE_MAX);
    add_string(text, "reason", transition_reason_name(event->reason), SIZE_MAX);
    if (event->to == CIRCUIT_OPEN) {
        add_number(text, "failures", event->failures);
        add_number(text, "pause_ms", event->pause_ns / NS_PER_MS);
        if (event->window_calls > 0)
            add_json_window(text, event);
    }
    /* The last words are the type's, whatever the states are. */
    if (event->type == EVENT_OPEN && event->from == CIRCUIT_CLOSED)
        add_json_kinds(text, event->recent_kinds);
    else if (event->type == EVENT_OPEN)
        add_json_attempts(text, event);
    add_number(text, "refused", event->refused);
    if (event->elapsed_ms > 0)
        add_number(text, "noticed_after_ms", event->elapsed_ms);
    if (event->type == EVENT_CLOSE)
        add_json_outage(text, event);
}

static void add_json_retry(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];

    add_number(text, "number", event->failures);
    add_number(text, "of", event->retries_most);
    add_string(text, "kind", failure_label(event->kind, 0, label), SIZE_MAX);
    add_json_errno(text, event->error);
    add_number(text, "waited_ms", event->elapsed_ms);
}

static void add_json_reload(struct text *text, const struct event *event)
{
    add_string(text, "user", event->program, JSON_PROGRAM_MAX);
    text_add(text, ",\"policy_revision\":\"");
    text_add_hex(text, event->refused, 16);
    text_add(text, "\"");
}

static void add_json_forced(struct text *text, const struct event *event)
{
    const bool ended = event_is_force_ended(event);
    const char *forced = forced_name(event->kind);

    add_string_or_null(text, "user", ended ? NULL : event->program, JSON_PROGRAM_MAX);
    add_string_or_null(text, "forced", forced, SIZE_MAX);
    add_string(text, "from", circuit_state_name(event->from), SIZE_MAX);
    add_string(text, "to", circuit_state_name(event->to), SIZE_MAX);
    add_string(text, "reason", transition_reason_name(event->reason), SIZE_MAX);
    if (ended || event->pause_ns > 0)
        add_number(text, ended ? "ended_ago_ms" : "for_ms", event->pause_ns / NS_PER_MS);
    if (event->hosts[0] != '\0')
        add_string(text, "hosts", event->hosts, sizeof event->hosts);
}

/* A number of which 0 is none. */
static void add_number_or_null(struct text *text, const char *key, uint64_t number)
{
    if (number != 0)
        add_number(text, key, number);
    else
        add_null(text, key);
}

static void add_json_held(struct text *text, const struct event *event)
{
    const char *held = held_name(event->kind);

    add_string_or_null(text, "held", held, SIZE_MAX);
    add_string(text, "from", circuit_state_name(event->from), SIZE_MAX);
    add_string(text, "to", circuit_state_name(event->to), SIZE_MAX);
    add_string(text, "reason", hold_reason_name(event->reason), SIZE_MAX);
    add_json_errno(text, event->error);
    add_number_or_null(text, "http_status", event->http_status);
    add_number_or_null(text, "exit_status", event->failures);
    if (event->reason == HOLD_RAN_OUT)
        add_number(text, "ended_ago_ms", event->pause_ns / NS_PER_MS);
    else if (event->pause_ns > 0)
        add_number(text, "left_ms", event->pause_ns / NS_PER_MS);
    if (event->hosts[0] != '\0')
        add_string(text, "hosts", event->hosts, sizeof event->hosts);
}

static void add_json_alert(struct text *text, const struct event *event)
{
    const bool known = event->kind < ALERT_KINDS;

    add_string(text, "alert", known ? alert_kind_name(event->kind) : "unknown", SIZE_MAX);
    add_string(text, "reason", alert_end_name(event->reason), SIZE_MAX);
    add_json_errno(text, event->error);
    add_number_or_null(text, "exit_status", event->reason == ALERT_EXITED ? event->failures : 0);
    add_number_or_null(text, "signal", event->reason == ALERT_SIGNALLED ? event->failures : 0);
    add_string_or_null(text, "said", event->said[0] != '\0' ? event->said : NULL, JSON_SAID_MAX);
    add_number(text, "left_out", event->refused);
}

size_t event_json(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    text_add(&text, "{\"time\":\"");
    event_add_time(&text, event->time_ns);
    text_add(&text, "\"");
    add_number(&text, "mono_ns", event->mono_ns);
    add_number(&text, "pid", event->pid);
    add_string(&text, "program", event_program(event), JSON_PROGRAM_MAX);
    add_string(&text, "target", event->target, JSON_TARGET_MAX);
    add_string(&text, "destination", event->destination, JSON_DESTINATION_MAX);
    add_string(&text, "event", event_type_name(event->type), SIZE_MAX);
    if (event_is_transition(event))
        add_json_transition(&text, event);
    else if (event->type == EVENT_FAILURE)
        add_json_failure(&text, event);
    else if (event->type == EVENT_OUTCOME)
        add_json_outcome(&text, event);
    else if (event->type == EVENT_REFUSED)
        add_string(&text, "reason", admission_name(event_refusal(event)), SIZE_MAX);
    else if (event->type == EVENT_RETRY)
        add_json_retry(&text, event);
    else if (event->type == EVENT_FORCED)
        add_json_forced(&text, event);
    else if (event->type == EVENT_HELD)
        add_json_held(&text, event);
    else if (event->type == EVENT_ALERT)
        add_json_alert(&text, event);
    else if (event->type == EVENT_RELOAD)
        add_json_reload(&text, event);
    if (event->injected)
        text_add(&text, ",\"injected\":true");
    text_add(&text, "}\n");
    return text.cut ? 0 : text.length;
}
