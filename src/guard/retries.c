/*
 * retries.c - see retries.h.
 */
#include "guard/retries.h"

#include "base/frame.h"
#include "guard/holding.h"
#include "guard/operator.h"
#include "guard/report.h"
#include "segment/circuits.h"
#include "segment/journal.h"
#include "segment/layout.h"

OWN_FRAME bool guard_may_retry(const struct guard *guard, uint32_t circuit, const struct target *target,
                               uint64_t now_ns)
{
    const struct circuit *at = circuits_at(guard->segment, circuit);

    if (at == NULL || !circuit_is_closed(at))
        return false;
    const enum forced forced = force_obey(guard, circuit, target->mode, now_ns);
    return force_mode(forced, target) == MODE_ENFORCE &&
           hold_obey(guard, circuit, forced, target->mode, now_ns) != HOLD_FLEET;
}

OWN_FRAME bool guard_take_retry(const struct guard *guard, uint32_t circuit, const struct target *target,
                                unsigned int shard, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    const struct latency *latency = circuits_latency(guard->segment, circuit);

    if (entry == NULL || latency == NULL)
        return false;
    if (retry_budget_take(&entry->retry_budget, latency, target->breaker.window, target->retry_budget_permille, now_ns))
        return true;
    counters_add(&entry->circuit.counters, shard, COUNT_RETRIES_DENIED);
    return false;
}

/* An event is half a KiB: it lies on the stack of nothing else. */
__attribute__((noinline, cold)) static void report(const struct guard *guard, uint32_t circuit,
                                                   const struct retry_report *retry, uint64_t now_ns)
{
    const uint64_t waited_ms = retry->waited_ns / NS_PER_MS;
    struct event event;

    report_start(&event, guard, circuit, EVENT_RETRY, now_ns);
    event.kind = (uint8_t)retry->kind;
    event.error = retry->error;
    event.elapsed_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
    event.failures = retry->number;
    event.retries_most = retry->most;
    journal_append(guard->segment, &event);
}

void guard_note_retry(const struct guard *guard, uint32_t circuit, unsigned int shard, const struct retry_report *retry,
                      uint64_t now_ns)
{
    struct circuit *at = circuits_at(guard->segment, circuit);

    if (at == NULL)
        return;
    counters_add(&at->counters, shard, COUNT_RETRIES);
    report(guard, circuit, retry, now_ns);
}
