/*
 * event_agent.c - what an event of the agent's tells. See event_agent.h.
 */
#include "segment/event_agent.h"

#include "base/errno_name.h"
#include "policy/alert_value.h"
#include "segment/event_duration.h"
#include "segment/held.h"

/* What a health check saw: "connection refused" by its errno's name, a status, how a command ended. */
static void add_check_result(struct text *text, const struct event *event)
{
    if (event->http_status != 0) {
        text_add(text, " (http-");
        text_add_unsigned(text, event->http_status);
    } else if (event->failures != 0) {
        text_add(text, " (exit status ");
        text_add_unsigned(text, event->failures);
    } else if (event->error != 0) {
        text_add(text, " (");
        text_add(text, errno_name(event->error));
    } else {
        return;
    }
    text_add(text, ")");
}

void event_add_held(struct text *text, const struct event *event)
{
    static const char *const why[HOLD_REASONS] = {
        [HOLD_REASON_NONE] = "the agent said so",
        [HOLD_CHECK_FAILED] = "its health check fails",
        [HOLD_CHECK_PASSED] = "its health check passes",
        [HOLD_PATIENCE_OVER] = "its health check fails, but the patience with that is over",
        [HOLD_FLEET_OPEN] = "open in the fleet",
        [HOLD_FLEET_PROBE] = "this host probes for the fleet",
        [HOLD_FLEET_CLOSED] = "not open in the fleet any more",
        [HOLD_GIVEN_UP] = "the agent has no more to say",
        [HOLD_RAN_OUT] = "the agent did not say it again",
    };

    if (event->reason == HOLD_CHECK_PASSED) {
        text_add(text, why[HOLD_CHECK_PASSED]);
        text_add(text, event->pause_ns > 0 ? ": a probe in " : ": the next call is the probe");
        if (event->pause_ns > 0) {
            event_add_long_duration(text, event->pause_ns / NS_PER_MS);
            text_add(text, ", as its Retry-After asked");
        }
        return;
    }
    text_add(text, event->kind == HOLD_FLEET      ? "held open: "
                   : event->kind == HOLD_UNPROBED ? "not probed: "
                                                  : "let go: ");
    text_add(text, event->reason < HOLD_REASONS ? why[event->reason] : why[HOLD_REASON_NONE]);
    add_check_result(text, event);
    if (event->reason == HOLD_RAN_OUT) {
        text_add(text, ", ended ");
        event_add_long_duration(text, event->pause_ns / NS_PER_MS);
        text_add(text, " ago");
    }
}

const char *alert_end_name(unsigned int end)
{
    static const char *const names[ALERT_ENDS] = {
        [ALERT_FAILED] = "failed",           [ALERT_EXITED] = "exit-status",   [ALERT_SIGNALLED] = "signal",
        [ALERT_TIMED_OUT] = "timed-out",     [ALERT_TALKED] = "said-too-much", [ALERT_NOT_EXECUTED] = "not-executed",
        [ALERT_NOT_TRUSTED] = "not-trusted",
    };
    return end < ALERT_ENDS ? names[end] : "unknown";
}

void event_add_alert(struct text *text, const struct event *event)
{
    static const char *const why[ALERT_ENDS] = {
        [ALERT_FAILED] = "it is not known how",         [ALERT_EXITED] = "exit status ",
        [ALERT_SIGNALLED] = "ended by signal ",         [ALERT_TIMED_OUT] = "ended, for its time was over",
        [ALERT_TALKED] = "ended, for it said too much", [ALERT_NOT_EXECUTED] = "it can't be executed",
        [ALERT_NOT_TRUSTED] = "not executed",
    };
    const unsigned int end = event->reason < ALERT_ENDS ? event->reason : ALERT_FAILED;

    text_add(text, "of ");
    text_add(text, event->kind < ALERT_KINDS ? alert_kind_name(event->kind) : "unknown");
    text_add(text, " failed: ");
    text_add(text, why[end]);
    if (end == ALERT_EXITED || end == ALERT_SIGNALLED)
        text_add_unsigned(text, event->failures);
    if (end == ALERT_NOT_EXECUTED && event->error != 0) {
        text_add(text, " (");
        text_add_errno(text, event->error);
        text_add(text, ")");
    }
    if (event->said[0] != '\0') {
        text_add(text, ": ");
        text_add_printable(text, event->said);
    }
}
