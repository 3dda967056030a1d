/*
 * event.c - an event as JSON and as a line.
 *
 * What a type of event has beside the common fields is in one pair of functions for each form: add_json_... and
 * add_line_... . Names are cut so that every event fits into EVENT_JSON_MAX, whatever they hold.
 */
#include "segment/event.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/errno_name.h"
#include "base/text.h"
#include "breaker/circuit.h"
#include "segment/forced.h"

/* Room for each name in a JSON line, so that the rest of the line always fits. */
#define JSON_PROGRAM_MAX ((size_t)PROGRAM_NAME_MAX * 6)
#define JSON_TARGET_MAX ((size_t)TARGET_NAME_MAX * 4)
#define JSON_DESTINATION_MAX ((size_t)DESTINATION_MAX * 3)
_Static_assert(JSON_PROGRAM_MAX + JSON_TARGET_MAX + JSON_DESTINATION_MAX + 480 < EVENT_JSON_MAX,
               "480 for all the rest");

const char *event_type_name(unsigned int type)
{
    static const char *const names[EVENT_TYPES] = {
        [EVENT_NONE] = "none",       [EVENT_OPEN] = "open",       [EVENT_HALF_OPEN] = "half-open",
        [EVENT_CLOSE] = "close",     [EVENT_FAILURE] = "failure", [EVENT_REFUSED] = "refused",
        [EVENT_PROBE] = "probe",     [EVENT_FORCED] = "forced",   [EVENT_RELOAD] = "reload",
        [EVENT_OUTCOME] = "outcome",
    };
    return type < EVENT_TYPES ? names[type] : "unknown";
}

static bool is_transition(const struct event *event)
{
    return event->type == EVENT_OPEN || event->type == EVENT_HALF_OPEN || event->type == EVENT_CLOSE;
}

/* Nobody did it: the time of an operator's word was over, and a call noticed. */
static bool is_force_ended(const struct event *event)
{
    return event->type == EVENT_FORCED && event->reason == REASON_FORCE_ENDED;
}

/* What a user did with the command, whose name such an event need not keep: it keeps the user's in its place. */
static bool is_by_user(const struct event *event)
{
    return (event->type == EVENT_FORCED && !is_force_ended(event)) || event->type == EVENT_RELOAD;
}

static const char *program_of(const struct event *event)
{
    return is_by_user(event) ? "sockfuse" : event->program;
}

/* EVENT_REFUSED keeps an enum admission in `reason`. */
static enum admission refusal_of(const struct event *event)
{
    bool known = event->reason >= ADMIT_REFUSED_OPEN && event->reason < ADMISSIONS;

    return known ? (enum admission)event->reason : ADMIT_REFUSED_OPEN;
}

static void add_time(struct text *text, uint64_t wall_ns)
{
    char time[32];
    time_rfc3339(wall_ns, time, sizeof time);
    text_add(text, time);
}

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
    if (event->kind != FAILURE_NONE)
        add_string(text, "kind", failure_label(event->kind, event->http_status, label), SIZE_MAX);
    else
        add_null(text, "kind");
    if (event->reason != NEUTRAL_NONE)
        add_string(text, "reason", neutral_reason_name(event->reason), SIZE_MAX);
    else
        add_null(text, "reason");
    add_json_errno(text, event->error);
    if (event->http_status != 0)
        add_number(text, "http_status", event->http_status);
    else
        add_null(text, "http_status");
    add_number(text, "elapsed_ms", event->elapsed_ms);
    add_flag(text, "slow", event->slow);
    add_json_manner(text, event);
}

static void add_json_window(struct text *text, const struct event *event)
{
    text_add(text, ",\"window\":{\"calls\":");
    text_add_unsigned(text, event->window_calls);
    add_number(text, "failed", event->window_failed);
    add_number(text, "slow", event->window_slow);
    text_add(text, "}");
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
    add_number(text, "refused", event->refused);
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
    const bool ended = is_force_ended(event);
    const char *forced = forced_name(event->kind);

    if (ended)
        add_null(text, "user");
    else
        add_string(text, "user", event->program, JSON_PROGRAM_MAX);
    if (forced != NULL)
        add_string(text, "forced", forced, SIZE_MAX);
    else
        add_null(text, "forced");
    add_string(text, "from", circuit_state_name(event->from), SIZE_MAX);
    add_string(text, "to", circuit_state_name(event->to), SIZE_MAX);
    add_string(text, "reason", transition_reason_name(event->reason), SIZE_MAX);
    if (ended || event->pause_ns > 0)
        add_number(text, ended ? "ended_ago_ms" : "for_ms", event->pause_ns / NS_PER_MS);
}

size_t event_json(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    text_add(&text, "{\"time\":\"");
    add_time(&text, event->time_ns);
    text_add(&text, "\"");
    add_number(&text, "mono_ns", event->mono_ns);
    add_number(&text, "pid", event->pid);
    add_string(&text, "program", program_of(event), JSON_PROGRAM_MAX);
    add_string(&text, "target", event->target, JSON_TARGET_MAX);
    add_string(&text, "destination", event->destination, JSON_DESTINATION_MAX);
    add_string(&text, "event", event_type_name(event->type), SIZE_MAX);
    if (is_transition(event))
        add_json_transition(&text, event);
    else if (event->type == EVENT_FAILURE)
        add_json_failure(&text, event);
    else if (event->type == EVENT_OUTCOME)
        add_json_outcome(&text, event);
    else if (event->type == EVENT_REFUSED)
        add_string(&text, "reason", admission_name(refusal_of(event)), SIZE_MAX);
    else if (event->type == EVENT_FORCED)
        add_json_forced(&text, event);
    else if (event->type == EVENT_RELOAD)
        add_json_reload(&text, event);
    if (event->injected)
        text_add(&text, ",\"injected\":true");
    text_add(&text, "}\n");
    return text.cut ? 0 : text.length;
}

/* Fills with blanks up to a column, and at least one. */
static void add_column(struct text *text, size_t column)
{
    do
        text_add_bytes(text, " ", 1);
    while (text->length < column && !text->cut);
}

static void add_duration(struct text *text, uint64_t ms)
{
    if (ms < 1000) {
        text_add_unsigned(text, ms);
        text_add(text, "ms");
        return;
    }
    text_add_unsigned(text, ms / 1000);
    if (ms % 1000 / 100 > 0) {
        text_add(text, ".");
        text_add_unsigned(text, ms % 1000 / 100);
    }
    text_add(text, "s");
}

/* "10m", "1h30m", "7.3s": units that say nothing are left out. */
static void add_long_duration(struct text *text, uint64_t ms)
{
    static const struct {
        uint64_t ms;
        const char *name;
    } units[] = {{NS_PER_HOUR / NS_PER_MS, "h"}, {NS_PER_MINUTE / NS_PER_MS, "m"}};
    bool any = false;

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ms < units[i].ms)
            continue;
        text_add_unsigned(text, ms / units[i].ms);
        text_add(text, units[i].name);
        ms %= units[i].ms;
        any = true;
    }
    if (!any || ms > 0)
        add_duration(text, ms);
}

static void add_counted(struct text *text, uint64_t count, const char *one, const char *many)
{
    text_add_unsigned(text, count);
    text_add(text, count == 1 ? one : many);
}

/* What opened it. */
static void add_line_evidence(struct text *text, const struct event *event)
{
    bool by_slow = event->reason == REASON_SLOW_CALL_RATE;

    if (by_slow || event->reason == REASON_FAILURE_RATE) {
        text_add(text, ", ");
        text_add_unsigned(text, by_slow ? event->window_slow : event->window_failed);
        text_add(text, " of ");
        add_counted(text, event->window_calls, " call ", " calls ");
        text_add(text, by_slow ? "slow" : "failed");
    } else if (event->failures > 0) {
        text_add(text, ", ");
        add_counted(text, event->failures, " failure", " failures");
    }
}

static void add_line_transition(struct text *text, const struct event *event)
{
    text_add(text, circuit_state_name(event->from));
    text_add(text, " -> ");
    text_add(text, circuit_state_name(event->to));
    text_add(text, ", ");
    text_add(text, transition_reason_name(event->reason));
    if (event->to == CIRCUIT_OPEN) {
        add_line_evidence(text, event);
        text_add(text, ", pause ");
        add_duration(text, event->pause_ns / NS_PER_MS);
    }
    if (event->refused > 0) {
        text_add(text, ", ");
        text_add_unsigned(text, event->refused);
        text_add(text, " refused so far");
    }
}

/* How it ended, and when. */
static void add_line_end(struct text *text, const struct event *event)
{
    if (event->error != 0) {
        text_add(text, " (");
        text_add_errno(text, event->error);
        text_add(text, ")");
    }
    text_add(text, event->overran == OVERRAN_HANGS  ? ", still hangs after "
                   : event->overran == OVERRAN_CAME ? ", came after "
                                                    : " after ");
    add_duration(text, event->elapsed_ms);
    if (event->slow)
        text_add(text, ", slow");
    if (event->late)
        text_add(text, ", too late to count");
}

static void add_line_failure(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];
    text_add(text, failure_label(event->kind, event->http_status, label));
    add_line_end(text, event);
}

static void add_line_outcome(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];
    text_add(text, verdict_name(event->verdict));
    if (event->reason != NEUTRAL_NONE) {
        text_add(text, ", ");
        text_add(text, neutral_reason_name(event->reason));
    }
    if (event->kind != FAILURE_NONE) {
        text_add(text, ", ");
        text_add(text, failure_label(event->kind, event->http_status, label));
    } else if (event->http_status != 0) {
        text_add(text, ", http-");
        text_add_unsigned(text, event->http_status);
    }
    add_line_end(text, event);
}

static void add_line_refusal(struct text *text, const struct event *event)
{
    static const char *const why[ADMISSIONS] = {
        [ADMIT_REFUSED_OPEN] = "circuit open",
        [ADMIT_REFUSED_HALF_OPEN] = "circuit half-open",
        [ADMIT_REFUSED_BULKHEAD] = "max_connections met",
        [ADMIT_REFUSED_FORCED] = "circuit forced open",
    };

    text_add(text, "refused at once, ");
    text_add(text, why[refusal_of(event)]);
}

static void add_line_user(struct text *text, const struct event *event)
{
    text_add(text, ", by ");
    text_add_printable(text, event->program);
}

static void add_line_reload(struct text *text, const struct event *event)
{
    text_add(text, "policy revision ");
    text_add_hex(text, event->refused, 16);
    text_add(text, " handed over");
    add_line_user(text, event);
}

static void add_line_forced(struct text *text, const struct event *event)
{
    const char *forced = forced_name(event->kind);

    text_add(text, forced != NULL ? "forced " : "given back, ");
    text_add(text, forced != NULL ? forced : circuit_state_name(event->to));
    if (is_force_ended(event)) {
        text_add(text, ", its time was over ");
        add_long_duration(text, event->pause_ns / NS_PER_MS);
        text_add(text, " ago");
        return;
    }
    if (event->pause_ns > 0) {
        text_add(text, " for ");
        add_long_duration(text, event->pause_ns / NS_PER_MS);
    }
    add_line_user(text, event);
}

size_t event_line(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    add_time(&text, event->time_ns);
    text_add(&text, "  ");
    text_add(&text, event_type_name(event->type));
    add_column(&text, 37);
    text_add_printable(&text, event->destination);
    if (event->target[0] != '\0' && strcmp(event->target, event->destination) != 0) {
        text_add(&text, " (");
        text_add_printable(&text, event->target);
        text_add(&text, ")");
    }
    add_column(&text, 70);
    if (event->program[0] != '\0' || event->pid != 0) {
        text_add_printable(&text, program_of(event));
        text_add(&text, "[");
        text_add_unsigned(&text, event->pid);
        text_add(&text, "]");
    }
    add_column(&text, 90);
    if (is_transition(event)) {
        add_line_transition(&text, event);
    } else if (event->type == EVENT_FAILURE) {
        add_line_failure(&text, event);
    } else if (event->type == EVENT_OUTCOME) {
        add_line_outcome(&text, event);
    } else if (event->type == EVENT_REFUSED) {
        add_line_refusal(&text, event);
    } else if (event->type == EVENT_FORCED) {
        add_line_forced(&text, event);
    } else if (event->type == EVENT_RELOAD) {
        add_line_reload(&text, event);
    } else if (event->type == EVENT_PROBE) {
        text_add(&text, "probe admitted");
    }
    if (event->injected)
        text_add(&text, ", injected");
    while (text.length > 0 && buffer[text.length - 1] == ' ')
        buffer[--text.length] = '\0';
    text_add(&text, "\n");
    return text.cut ? 0 : text.length;
}
