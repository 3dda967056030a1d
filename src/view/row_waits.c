/*
 * row_waits.c - for how long the calls of a circuit have waited. See row_waits.h.
 */
#include "view/row_waits.h"

#include "base/clock.h"
#include "view/json.h"
#include "segment/circuits.h"

static struct span_summary summary_of(const struct distribution *distribution)
{
    return (struct span_summary){
        .count = distribution->total,
        .p50_ns = distribution_quantile(distribution, 500),
        .p95_ns = distribution_quantile(distribution, 950),
        .p99_ns = distribution_quantile(distribution, 990),
        .max_ns = distribution_quantile(distribution, 1000),
    };
}

void row_waits_read(struct row_waits *waits, const struct segment *segment, uint32_t circuit, uint64_t now_ns,
                    struct latency_view *view)
{
    latency_read(circuits_latency(segment, circuit), now_ns, view);
    *waits = (struct row_waits){
        .connects = summary_of(&view->connects),
        .answers = summary_of(&view->answers),
        .recent = summary_of(&view->recent),
        .recent_longest_ns = view->recent_longest_ns,
        .recent_calls = view->recent_calls,
        .recent_span_ns = view->recent_span_ns,
        .longest_ns = view->longest_ns,
        .waited_us = view->waited_us,
        .most_in_flight = view->most_in_flight,
    };
}

uint64_t row_waits_rate(const struct row_waits *waits)
{
    const uint64_t span_s = waits->recent_span_ns / NS_PER_S;
    const uint64_t rate = span_s > 0 ? (waits->recent_calls * 10 + span_s / 2) / span_s : 0;
    return rate == 0 && waits->recent_calls > 0 ? 1 : rate;
}

static void write_summary(struct json *json, const char *key, const struct span_summary *summary)
{
    json_open(json, key, '{');
    json_unsigned(json, "count", summary->count);
    if (summary->count > 0) {
        json_unsigned(json, "p50_us", summary->p50_ns / 1000);
        json_unsigned(json, "p95_us", summary->p95_ns / 1000);
        json_unsigned(json, "p99_us", summary->p99_ns / 1000);
    } else {
        json_null(json, "p50_us");
        json_null(json, "p95_us");
        json_null(json, "p99_us");
    }
}

static void write_longest(struct json *json, const struct span_summary *summary)
{
    if (summary->count > 0)
        json_unsigned(json, "max_us", summary->max_ns / 1000);
    else
        json_null(json, "max_us");
}

void row_waits_json(struct json *json, const struct row_waits *waits)
{
    json_open(json, "latency", '{');
    write_summary(json, "connect", &waits->connects);
    write_longest(json, &waits->connects);
    json_close(json, '}');
    write_summary(json, "first_byte", &waits->answers);
    write_longest(json, &waits->answers);
    json_close(json, '}');
    write_summary(json, "last_minute", &waits->recent);
    json_unsigned(json, "max_us", waits->recent_longest_ns / 1000);
    json_unsigned(json, "calls", waits->recent_calls);
    json_tenths(json, "calls_per_second", row_waits_rate(waits));
    json_close(json, '}');
    json_unsigned(json, "max_us", waits->longest_ns / 1000);
    json_unsigned(json, "waited_ms", waits->waited_us / 1000);
    json_close(json, '}');
}
