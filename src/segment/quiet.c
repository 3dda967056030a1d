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
#include "segment/circuits.h"
#include "segment/force.h"
#include "segment/guard.h"
#include "segment/overdue.h"
#include "segment/record.h"

/* Whether a closed circuit's calls pass, and count by the target's own settings. */
static bool is_usual(const struct guard *guard, const struct target *target, uint32_t circuit)
{
    return (target->mode == MODE_ENFORCE || target->mode == MODE_OBSERVE) &&
           force_get(guard->segment, circuit) == FORCED_NONE;
}

/* This process's record, if it and its last ticket are this circuit's present one's, and no probe's; else NULL. */
static inline __attribute__((always_inline)) struct call *record_of(const struct guard *guard, const struct quiet_call *call, struct circuit *circuit,
                              uint64_t *generation, uint64_t *state)
{
    struct call *record = record_at(guard->segment, call->record);

    if (circuit == NULL || record == NULL || !is_usual(guard, call->target, call->circuit) ||
        !circuit_is_quiet(circuit, generation) ||
        atomic_load_explicit(&record->owner, memory_order_acquire) != guard->holder)
        return NULL;
    /* Acquire: with the state come the fields. */
    *state = atomic_load_explicit(&record->state, memory_order_acquire);
    if (atomic_load_explicit(&record->generation, memory_order_relaxed) != *generation ||
        atomic_load_explicit(&record->token, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&record->circuit, memory_order_relaxed) != call->circuit)
        return NULL;
    return record;
}

/* Neither in flight nor reserved; and a number that is not the last one before 0. */
static bool can_be_followed(uint64_t state)
{
    return state_settled(state) != CALL_UNSETTLED && state_settled(state) != CALL_RESERVED &&
           state_number(state) != UINT32_MAX;
}

bool guard_begin_quietly(struct guard *guard, const struct quiet_call *call, uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, call->circuit);
    uint64_t due_ns = calls_due_after(now_ns, call->target->response_timeout_ns), generation, state;
    struct call *record = record_of(guard, call, circuit, &generation, &state);

    if (record == NULL || !can_be_followed(state) || overdue_is_possible(guard->segment, call->circuit, now_ns) ||
        !circuit_address_is(circuit, record_address(record), call->address_key))
        return false;
    counters_add(&circuit->counters, call->record, COUNT_ADMITTED);
    record_set_times(record, now_ns, due_ns);
    if (!record_replace(record, state, state_pack(state_number(state) + 1, PHASE_REQUESTED, CALL_UNSETTLED))) {
        /* Another thread of this process has begun the call, or is about to: what then follows, guard_begin knows. */
        counters_take_back(&circuit->counters, call->record, COUNT_ADMITTED);
        return false;
    }
    if (due_ns != DUE_NEVER)
        overdue_note(guard->segment, call->circuit, due_ns);
    return true;
}

bool guard_settle_quietly(struct guard *guard, const struct quiet_call *call, uint64_t waited_ns, uint64_t now_ns)
{
    const struct settings *settings = &call->target->breaker;
    struct circuit *circuit = circuits_at(guard->segment, call->circuit);
    uint64_t generation, state;
    struct call *record = record_of(guard, call, circuit, &generation, &state);

    if (record == NULL || call->target->all_recorded ||
        (settings->slow_call_ns != 0 && waited_ns > settings->slow_call_ns) ||
        state != state_pack(state_number(state), PHASE_REQUESTED, CALL_UNSETTLED) ||
        !record_replace(record, state, state_pack(state_number(state), PHASE_ANSWERED, CALL_SETTLED)))
        return false;
    circuit_address_answered(circuit, record_address(record));
    circuit_count_success(circuit, settings, call->record, generation, now_ns);
    return true;
}
