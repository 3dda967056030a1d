/*
 * steady.c - the short way of calls while all is well. See steady.h.
 *
 * Each function looks first and writes only when nothing speaks against it. What it has looked at may change before it
 * writes; then the call counts as one that came a moment earlier, as on the long way.
 */
#include "segment/steady.h"

#include <stdatomic.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/force.h"
#include "segment/layout.h"
#include "segment/overdue.h"

/* Modes that let a closed circuit's calls pass, and count them by the target's own settings. */
static bool is_usual(const struct guard *guard, const struct target *target, uint32_t circuit)
{
    return (target->mode == MODE_ENFORCE || target->mode == MODE_OBSERVE) &&
           force_get(guard->segment, circuit) == FORCED_NONE;
}

bool steady_begin(struct guard *guard, const struct attempt *attempt, uint32_t call, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    struct circuit *circuit = circuits_at(segment, attempt->circuit);
    uint64_t due_ns = calls_due_after(now_ns, attempt->target->response_timeout_ns), generation;
    struct call_view last;

    if (circuit == NULL || overdue_is_possible(segment, attempt->circuit, now_ns) ||
        !is_usual(guard, attempt->target, attempt->circuit) || !circuit_is_quiet(circuit, &generation) ||
        !calls_read(segment, call, &last) || last.owner != guard->holder)
        return false;
    if (last.ticket.token != 0 || last.ticket.generation != generation ||
        !circuit_address_is(circuit, last.ticket.address, attempt->address_key))
        return false;
    counters_add(&circuit->counters, attempt->shard, COUNT_ADMITTED);
    if (!calls_repeat(segment, call, &last, PHASE_REQUESTED, now_ns, due_ns)) {
        /* Another thread of this process has begun the call, or one is about to: the long way knows what that is. */
        counters_take_back(&circuit->counters, attempt->shard, COUNT_ADMITTED);
        return false;
    }
    overdue_note(segment, attempt->circuit, due_ns);
    return true;
}

bool steady_answer(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                   const struct observation *observation, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    const struct settings *settings = &target->breaker;
    struct call_view view;
    uint64_t generation;

    if (observation->seen != SEEN_BYTES || observation->http_status != 0 || target->all_recorded ||
        (settings->slow_call_ns != 0 && observation->waited_ns > settings->slow_call_ns) ||
        !calls_read(segment, call, &view) || view.owner != guard->holder || !view.in_flight ||
        view.phase != PHASE_REQUESTED || view.ticket.token != 0)
        return false;
    struct circuit *circuit = circuits_at(segment, view.circuit);
    if (circuit == NULL || !is_usual(guard, target, view.circuit) || !circuit_is_quiet(circuit, &generation) ||
        view.ticket.generation != generation || !calls_settle(segment, call, &view, CALL_SETTLED))
        return false;
    circuit_address_answered(circuit, view.ticket.address);
    circuit_count_success(circuit, settings, shard, generation, now_ns);
    return true;
}
