/*
 * event_text.c - the names of events, and what an event tells, for people.
 *
 * What a type of event tells is in one function: add_line_... . The command puts it behind the columns that all events
 * have (view/event_print.h).
 */
#include "segment/event.h"

#include <stdbool.h>
#include <string.h>

#include "base/units.h"
#include "base/errno_name.h"
#include "base/text.h"
#include "breaker/circuit.h"
#include "segment/event_agent.h"
#include "segment/event_duration.h"
#include "segment/event_facts.h"
#include "segment/forced.h"

const char *event_type_name(unsigned int type)
{
    static const char *const names[EVENT_TYPES] = {
        [EVENT_NONE] = "none",       [EVENT_OPEN] = "open",       [EVENT_HALF_OPEN] = "half-open",
        [EVENT_CLOSE] = "close",     [EVENT_FAILURE] = "failure", [EVENT_REFUSED] = "refused",
        [EVENT_PROBE] = "probe",     [EVENT_FORCED] = "forced",   [EVENT_RELOAD] = "reload",
        [EVENT_OUTCOME] = "outcome", [EVENT_HELD] = "held",       [EVENT_RETRY] = "retry",
        [EVENT_ALERT] = "alert",
    };
    return type < EVENT_TYPES ? names[type] : "unknown";
}

static void add_counted(struct text *text, uint64_t count, const char *one, const char *many)
{
    text_add_unsigned(text, count);
    text_add(text, count == 1 ? one : many);
}

/* "2 refused, 1 reset", in brackets; of more failures than there are kinds kept it is said so. */
static void add_kinds(struct text *text, uint64_t recent_kinds, uint32_t failures)
{
    struct kind_count counts[RECENT_KINDS];
    const unsigned int count = recent_kinds_counts(recent_kinds, counts);
    char label[FAILURE_LABEL_MAX];

    if (count == 0)
        return;
    text_add(text, " (");
    if (failures > RECENT_KINDS) {
        text_add(text, "the last ");
        text_add_unsigned(text, RECENT_KINDS);
        text_add(text, ": ");
    }
    for (unsigned int i = 0; i < count; i++) {
        text_add(text, i > 0 ? ", " : "");
        if (count > 1 || counts[i].failures != failures) {
            text_add_unsigned(text, counts[i].failures);
            text_add(text, " ");
        }
        text_add(text, kind_count_label(&counts[i], label));
    }
    text_add(text, ")");
}

/* What opened it: the rule, and what it went by. */
static void add_cause(struct text *text, const struct event *event, unsigned int reason, uint64_t recent_kinds)
{
    const bool by_slow = reason == REASON_SLOW_CALL_RATE;

    text_add(text, transition_reason_name(reason));
    if (by_slow || reason == REASON_FAILURE_RATE) {
        text_add(text, ", ");
        text_add_unsigned(text, by_slow ? event->window_slow : event->window_failed);
        text_add(text, " of ");
        add_counted(text, event->window_calls, " call ", " calls ");
        text_add(text, by_slow ? "slow" : "failed");
        if (!by_slow)
            add_kinds(text, recent_kinds, event->window_failed);
    } else if (event->failures > 0) {
        text_add(text, ", ");
        add_counted(text, event->failures, " failure", " failures");
        add_kinds(text, recent_kinds, event->failures);
    }
}

/* In brackets behind a kind of failure; nothing where there is none. */
static void add_error(struct text *text, int error)
{
    if (error == 0)
        return;
    text_add(text, " (");
    text_add_errno(text, error);
    text_add(text, ")");
}

static void add_attempts(struct text *text, const struct event *event)
{
    for (unsigned int i = 0; i < EVENT_ATTEMPTS && event->attempts[i].kind != FAILURE_NONE; i++) {
        const struct event_attempt *attempt = &event->attempts[i];
        char label[FAILURE_LABEL_MAX];
        text_add(text, i > 0 ? ", then " : ": ");
        text_add(text, failure_label(attempt->kind, attempt->http_status, label));
        add_error(text, attempt->error);
        text_add(text, " after ");
        event_add_duration(text, attempt->elapsed_ms);
    }
}

static void add_outage(struct text *text, const struct event *event)
{
    const struct event_outage *outage = &event->outage;

    text_add_unsigned(text, outage->refused);
    text_add(text, " refused, ");
    add_counted(text, outage->probes, " probe", " probes");
    if (outage->probes_failed > 0) {
        text_add(text, " (");
        text_add_unsigned(text, outage->probes_failed);
        text_add(text, " failed)");
    }
    text_add(text, "; cause: ");
    add_cause(text, event, outage->reason, outage->recent_kinds);
    if (outage->injected && !event->injected)
        text_add(text, ", injected");
}

/* Sooner after a limit has passed is no matter of who looked when. */
#define NOTICED_AT_ONCE_MS 10u

static void add_line_transition(struct text *text, const struct event *event)
{
    if (event->type == EVENT_OPEN && event->from == CIRCUIT_CLOSED)
        add_cause(text, event, event->reason, event->recent_kinds);
    else
        text_add(text, transition_reason_name(event->reason));
    if (event->type == EVENT_OPEN) {
        if (event->from != CIRCUIT_CLOSED)
            add_attempts(text, event);
        text_add(text, ", pause ");
        event_add_duration(text, event->pause_ns / NS_PER_MS);
        if (event->elapsed_ms >= NOTICED_AT_ONCE_MS) {
            text_add(text, ", noticed ");
            event_add_duration(text, event->elapsed_ms);
            text_add(text, " later");
        }
    }
    if (event->type == EVENT_CLOSE && event->outage.is_known) {
        text_add(text, ", outage of ");
        event_add_long_duration(text, event->outage.lasted_ns / NS_PER_MS);
        text_add(text, " is over: ");
        add_outage(text, event);
    }
}

/* How it ended, and when. */
static void add_line_end(struct text *text, const struct event *event)
{
    add_error(text, event->error);
    text_add(text, event->overran == OVERRAN_HANGS  ? ", still hangs after "
                   : event->overran == OVERRAN_CAME ? ", came after "
                                                    : " after ");
    event_add_duration(text, event->elapsed_ms);
    if (event->slow)
        text_add(text, ", slow");
    if (event->pause_ns > 0) {
        text_add(text, ", Retry-After ");
        event_add_long_duration(text, event->pause_ns / NS_PER_MS);
    }
    if (event->late)
        text_add(text, "; it came too late to count");
    else if (event->passed)
        text_add(text, "; it does not count: the circuit was open, and let it pass");
}

static void add_line_failure(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];
    text_add(text, failure_label(event->kind, event->http_status, label));
    add_line_end(text, event);
}

/* Why what is neutral does not count. */
static const char *neutral_meaning(unsigned int reason)
{
    static const char *const meanings[NEUTRAL_REASONS] = {
        [NEUTRAL_LOCAL] = "the fault is on this side",    [NEUTRAL_CANCELLED] = "the program gave it up early",
        [NEUTRAL_SIBLING] = "another attempt won",        [NEUTRAL_ADDRESS] = "another address answers",
        [NEUTRAL_STALE] = "the connection had been idle", [NEUTRAL_UNLISTED] = "its kind is not in `failures`",
        [NEUTRAL_UNKNOWN] = "nobody saw how it ended",
    };

    return reason < NEUTRAL_REASONS && meanings[reason] != NULL ? meanings[reason] : "it is neutral";
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
        text_add(text, ", ");
        text_add(text, failure_label(FAILURE_HTTP, event->http_status, label));
    }
    add_line_end(text, event);
    if (event->verdict == VERDICT_NEUTRAL) {
        text_add(text, "; it does not count: ");
        text_add(text, neutral_meaning(event->reason));
    }
}

static void add_line_refusal(struct text *text, const struct event *event)
{
    static const char *const why[ADMISSIONS] = {
        [ADMIT_REFUSED_OPEN] = "circuit open",
        [ADMIT_REFUSED_HALF_OPEN] = "circuit half-open",
        [ADMIT_REFUSED_BULKHEAD] = "max_connections met",
        [ADMIT_REFUSED_FORCED] = "circuit forced open",
        [ADMIT_REFUSED_FLEET] = "circuit open in the fleet",
    };

    text_add(text, "refused at once, ");
    text_add(text, why[event_refusal(event)]);
}

static void add_line_retry(struct text *text, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];

    text_add_unsigned(text, event->failures);
    text_add(text, " of ");
    text_add_unsigned(text, event->retries_most);
    text_add(text, ", ");
    event_add_duration(text, event->elapsed_ms);
    text_add(text, " after ");
    text_add(text, failure_label(event->kind, 0, label));
    add_error(text, event->error);
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
        event_add_long_duration(text, event->pause_ns / NS_PER_MS);
        text_add(text, " ago");
        return;
    }
    if (event->pause_ns > 0) {
        text_add(text, " for ");
        event_add_long_duration(text, event->pause_ns / NS_PER_MS);
    }
    add_line_user(text, event);
    event_add_fleet_host(text, event);
}

size_t event_outage_text(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    add_outage(&text, event);
    return text_whole(&text);
}

size_t event_what(const struct event *event, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    if (event_is_transition(event)) {
        add_line_transition(&text, event);
    } else if (event->type == EVENT_FAILURE) {
        add_line_failure(&text, event);
    } else if (event->type == EVENT_OUTCOME) {
        add_line_outcome(&text, event);
    } else if (event->type == EVENT_REFUSED) {
        add_line_refusal(&text, event);
    } else if (event->type == EVENT_FORCED) {
        add_line_forced(&text, event);
    } else if (event->type == EVENT_HELD) {
        event_add_held(&text, event);
    } else if (event->type == EVENT_ALERT) {
        event_add_alert(&text, event);
    } else if (event->type == EVENT_RELOAD) {
        add_line_reload(&text, event);
    } else if (event->type == EVENT_RETRY) {
        add_line_retry(&text, event);
    } else if (event->type == EVENT_PROBE) {
        text_add(&text, "admitted");
    }
    if (event->injected)
        text_add(&text, ", injected");
    return text_whole(&text);
}
