/*
 * row_outage.c - an outage, for people and as JSON. See row_outage.h.
 */
#include "view/row_outage.h"

#include "base/date.h"
#include "base/units.h"
#include "breaker/circuit.h"
#include "breaker/recent_kinds.h"
#include "view/output.h"
#include "segment/circuits.h"
#include "segment/outage.h"

static uint64_t difference(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

void row_outage_read(struct row_outage *outage, const struct segment *segment, uint32_t circuit, uint64_t now_ns)
{
    const struct circuit_entry *entry = circuits_entry(segment, circuit);
    struct outage_start start;
    *outage = (struct row_outage){.is_known = false};
    if (entry == NULL || !outage_lasts(entry, &start)) {
        outage->is_known = circuits_last_transition(segment, circuit, &outage->event) &&
                           outage->event.type == EVENT_CLOSE && outage->event.outage.is_known;
        return;
    }
    const struct counters *counters = &circuits_at(segment, circuit)->counters;
    outage->is_known = outage->lasts = true;
    outage->event = (struct event){
        .type = EVENT_CLOSE,
        .failures = start.failures,
        .window_calls = start.window_calls,
        .window_failed = start.window_failed,
        .window_slow = start.window_slow,
        .outage =
            {
                .lasted_ns = difference(now_ns, start.at_ns),
                .time_ns = start.time_ns,
                .refused = difference(counters_sum(counters, COUNT_REFUSED), start.refused),
                .recent_kinds = start.recent_kinds,
                .probes = (uint32_t)difference(counters_sum(counters, COUNT_PROBES), start.probes),
                .probes_failed = (uint32_t)difference(counters_sum(counters, COUNT_PROBES_FAILED), start.probes_failed),
                .is_known = true,
                .reason = (uint8_t)start.reason,
                .injected = start.injected != 0,
            },
    };
}

char *row_outage_text(const struct row_outage *outage)
{
    char text[EVENT_JSON_MAX];
    event_outage_text(&outage->event, text, sizeof text);
    return copy_text(text);
}

static void write_outage_cause(struct json *json, const struct event *event)
{
    struct kind_count counts[RECENT_KINDS];
    const unsigned int count = recent_kinds_counts(event->outage.recent_kinds, counts);
    char label[FAILURE_LABEL_MAX];
    json_open(json, "cause", '{');
    json_string(json, "reason", transition_reason_name(event->outage.reason));
    json_unsigned(json, "failures", event->failures);
    json_open(json, "kinds", '{');
    for (unsigned int i = 0; i < count; i++)
        json_unsigned(json, kind_count_label(&counts[i], label), counts[i].failures);
    json_close(json, '}');
    if (event->window_calls > 0) {
        json_open(json, "window", '{');
        json_unsigned(json, "calls", event->window_calls);
        json_unsigned(json, "failed", event->window_failed);
        json_unsigned(json, "slow", event->window_slow);
        json_close(json, '}');
    }
    json_bool(json, "injected", event->outage.injected);
    json_close(json, '}');
}

void row_outage_json(struct json *json, const struct row_outage *outage)
{
    const struct event_outage *of = &outage->event.outage;
    char time[32];
    if (!outage->lasts) {
        json_null(json, "outage");
        return;
    }
    time_rfc3339(of->time_ns, time, sizeof time);
    json_open(json, "outage", '{');
    json_string(json, "since", time);
    json_unsigned(json, "lasted_ms", of->lasted_ns / NS_PER_MS);
    json_unsigned(json, "refused", of->refused);
    json_unsigned(json, "probes", of->probes);
    json_unsigned(json, "probes_failed", of->probes_failed);
    write_outage_cause(json, &outage->event);
    json_close(json, '}');
}
