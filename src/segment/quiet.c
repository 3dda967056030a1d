/*
 * quiet.c - the short way of a request on a kept connection and of its answer, while all is well.
 *
 * Nearly all calls of a busy client are of one kind: the circuit is quiet (closed, no failure counted), nobody has
 * forced it, nothing on it can be overdue, and the call's ticket is the one that the last call on the connection had.
 * For these guard_begin and guard_settle come to a few loads and a few atomic steps, and that is what stands here.
 *
 * Each function looks first, and writes only when nothing speaks against it. What it has looked at may change before
 * it writes; then the call counts as one that came a moment earlier, as on the long way.
 */
#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/force.h"
#include "segment/guard.h"
#include "segment/overdue.h"

/* Whether a closed circuit's calls pass, and count by the target's own settings. */
static bool is_usual(const struct guard *guard, const struct target *target, uint32_t circuit)
{
    return (target->mode == MODE_ENFORCE || target->mode == MODE_OBSERVE) &&
           force_get(guard->segment, circuit) == FORCED_NONE;
}

bool guard_begin_quietly(struct guard *guard, const struct attempt *attempt, uint32_t call, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    struct circuit *circuit = circuits_at(segment, attempt->circuit);
    uint64_t due_ns = calls_due_after(now_ns, attempt->target->response_timeout_ns), generation;
    struct call_glance last;

    if (circuit == NULL || !is_usual(guard, attempt->target, attempt->circuit) ||
        overdue_is_possible(segment, attempt->circuit, now_ns) || !circuit_is_quiet(circuit, &generation) ||
        !calls_peek(segment, call, guard->holder, &last) || last.generation != generation ||
        !circuit_address_is(circuit, last.address, attempt->address_key))
        return false;
    counters_add(&circuit->counters, attempt->shard, COUNT_ADMITTED);
    if (!calls_repeat(segment, call, &last, now_ns, due_ns)) {
        /* Another thread of this process has begun the call, or is about to: what then follows, guard_begin knows. */
        counters_take_back(&circuit->counters, attempt->shard, COUNT_ADMITTED);
        return false;
    }
    if (due_ns != DUE_NEVER)
        overdue_note(segment, attempt->circuit, due_ns);
    return true;
}

bool guard_settle_quietly(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                          uint64_t waited_ns, uint64_t now_ns)
{
    const struct settings *settings = &target->breaker;
    struct call_glance glance;
    uint64_t generation;

    if (target->all_recorded || (settings->slow_call_ns != 0 && waited_ns > settings->slow_call_ns) ||
        !calls_peek(guard->segment, call, guard->holder, &glance) || !is_usual(guard, target, glance.circuit))
        return false;
    struct circuit *circuit = circuits_at(guard->segment, glance.circuit);
    if (circuit == NULL || !circuit_is_quiet(circuit, &generation) || glance.generation != generation ||
        !calls_answer(guard->segment, call, &glance))
        return false;
    circuit_address_answered(circuit, glance.address);
    circuit_count_success(circuit, settings, shard, generation, now_ns);
    return true;
}
