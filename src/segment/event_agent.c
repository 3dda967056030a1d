/*
 * event_agent.c - what an event of the agent's tells. See event_agent.h.
 */
#include "segment/event_agent.h"

#include <string.h>

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

/* Who did it, of the fleet. */
static void add_hosts(struct text *text, const struct event *event)
{
    char hosts[sizeof event->hosts + 1] = "";

    memcpy(hosts, event->hosts, sizeof event->hosts);
    if (hosts[0] == '\0')
        return;
    text_add(text, event->reason == HOLD_FLEET_OPEN ? ", by votes of " : ", by ");
    text_add_printable(text, hosts);
}

void event_add_fleet_host(struct text *text, const struct event *event)
{
    char host[sizeof event->hosts + 1] = "";

    memcpy(host, event->hosts, sizeof event->hosts);
    if (host[0] == '\0')
        return;
    text_add(text, " at ");
    text_add_printable(text, host);
    text_add(text, " (fleet)");
}

void event_add_held(struct text *text, const struct event *event)
{
    if (event->reason == HOLD_CHECK_PASSED) {
        text_add(text, hold_reason_words(HOLD_CHECK_PASSED));
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
    text_add(text, hold_reason_words(event->reason));
    add_hosts(text, event);
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
