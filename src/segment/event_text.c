/*
 * event_text.c - the names of events, and an event as a line for people.
 *
 * What a type of event has behind the common columns is in one function: add_line_... .
 */
#include "segment/event.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/errno_name.h"
#include "base/text.h"
#include "breaker/circuit.h"
#include "segment/event_facts.h"
#include "segment/forced.h"

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
    text_add(text, why[event_refusal(event)]);
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
    if (event_is_force_ended(event)) {
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

/* What happened, without when, where and to whom. */
static void add_what(struct text *text, const struct event *event)
{
    if (event_is_transition(event)) {
        add_line_transition(text, event);
    } else if (event->type == EVENT_FAILURE) {
        add_line_failure(text, event);
    } else if (event->type == EVENT_OUTCOME) {
        add_line_outcome(text, event);
    } else if (event->type == EVENT_REFUSED) {
        add_line_refusal(text, event);
    } else if (event->type == EVENT_FORCED) {
        add_line_forced(text, event);
    } else if (event->type == EVENT_RELOAD) {
        add_line_reload(text, event);
    } else if (event->type == EVENT_PROBE) {
        text_add(text, "probe admitted");
    }
    if (event->injected)
        text_add(text, ", injected");
}

size_t event_what(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    add_what(&text, event);
    return text_whole(&text);
}

size_t event_line(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    event_add_time(&text, event->time_ns);
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
        text_add_printable(&text, event_program(event));
        text_add(&text, "[");
        text_add_unsigned(&text, event->pid);
        text_add(&text, "]");
    }
    add_column(&text, 90);
    add_what(&text, event);
    while (text.length > 0 && buffer[text.length - 1] == ' ')
        buffer[--text.length] = '\0';
    text_add(&text, "\n");
    return text.cut ? 0 : text.length;
}
