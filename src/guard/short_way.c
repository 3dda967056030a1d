/*
 * short_way.c - the short way of a request and of its answer, while all is well.
 *
 * Nearly all calls of a busy client are of one kind: the circuit is well (closed, no failure counted), nobody has
 * forced it, nothing on it can be overdue, and the call's ticket is the one that the last call on the connection had.
 * For these guard_begin and guard_settle come to a few loads and a few atomic steps, and that is what stands here.
 *
 * Each function looks first, and writes only when nothing speaks against it. What it has looked at may change before
 * it writes; then the call counts as one that came a moment earlier, as on the long way.
 */
#include "base/frame.h"
#include "base/hot.h"
#include "guard/guard.h"
#include "guard/learning.h"
#include "guard/operator.h"
#include "guard/settle.h"
#include "segment/bulkhead.h"
#include "segment/call_record.h"
#include "segment/circuits.h"
#include "segment/due.h"
#include "segment/layout.h"

HOT bool guard_call_place(const struct guard *guard, uint32_t circuit, uint32_t call, struct call_place *place)
{
    place->entry = circuits_entry(guard->segment, circuit);
    place->record = record_at(guard->segment, call);
    place->segment = guard->segment;
    place->holder = guard->holder;
    place->circuit = circuit;
    atomic_store_explicit(&place->call, call, memory_order_relaxed);
    atomic_store_explicit(&place->measured, call * UINT32_C(0x9e3779b1), memory_order_relaxed);
    place_is_measured(place);
    return place->entry != NULL && place->record != NULL;
}

static inline uint32_t call_of(const struct call_place *place)
{
    return atomic_load_explicit(&place->call, memory_order_relaxed);
}

/* Whether the record is still the process's, for a call that nobody else has to judge. */
static inline bool is_own(const struct call_place *place)
{
    uint32_t call = call_of(place);

    return call != CALL_NONE &&
           atomic_load_explicit(&place->segment->call_owner[call], memory_order_acquire) == place->holder;
}

/*
 * Whether a closed circuit's calls pass, and count by the target's own settings. A word that is over is one that holds,
 * here, and so is a hold: on the long way the next call takes it away.
 */
static bool is_usual(const struct call_place *place, const struct target *target)
{
    return (target->mode == MODE_ENFORCE || target->mode == MODE_OBSERVE) && layout_is_unspoken(place->entry);
}

/* Whether the record is still this process's, and its last ticket that of the present circuit and of no probe. */
static inline bool has_present_ticket(const struct call_place *place, uint64_t *generation, uint64_t *state)
{
    const struct call *record = place->record;

    if (!circuit_is_well(&place->entry->circuit, generation) || !is_own(place))
        return false;
    /* Acquire: with the state come the fields. */
    *state = atomic_load_explicit(&record->state, memory_order_acquire);
    return atomic_load_explicit(&record->generation, memory_order_relaxed) == *generation &&
           atomic_load_explicit(&record->token, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&record->circuit, memory_order_relaxed) == place->circuit;
}

/* Neither in flight nor reserved; and a number that is not the last one before 0. */
static bool can_be_followed(uint64_t state)
{
    return state_settled(state) != CALL_UNSETTLED && !state_is_taken(state) && state_number(state) != UINT32_MAX;
}

/* --- the attempt's own call, up to its first request --- */

static inline bool is_in_flight(uint64_t state, enum phase phase)
{
    return state == state_pack(state_number(state), phase, CALL_UNSETTLED) && state_number(state) != 0;
}

/* From one phase to the next, in which it waits for an answer. */
static inline bool moves(const struct call_place *place, uint64_t state, enum phase next, const struct target *target,
                         uint64_t now_ns)
{
    const uint64_t due_ns = calls_due_after(now_ns, target->response_timeout_ns);

    record_set_times(place->record, now_ns, due_ns);
    if (!record_replace(place->record, state, state_pack(state_number(state), next, CALL_UNSETTLED)))
        return false;
    if (__builtin_expect(due_ns != DUE_NEVER, 0))
        calls_note_due(place->segment, call_of(place), due_ns);
    return true;
}

/* Seldom, and apart, so that the short way has no part of it. */
OWN_FRAME static void note_wait(const struct call_place *place, enum wait_kind kind, uint64_t waited_ns,
                                uint64_t now_ns)
{
    const struct wait wait = {
        .kind = kind, .ends_call = kind == WAIT_ANSWER, .stands_for = place_stands_for(place), .waited_ns = waited_ns};
    settle_wait(place->segment, place->circuit, &wait, now_ns);
    if (waited_ns >= LEARNT_LONG_NS)
        learning_note_long_wait(place->segment, place->holder, place->circuit,
                                kind == WAIT_CONNECT ? LEARNT_CONNECT : LEARNT_ANSWER, waited_ns);
}

HOT bool guard_connected_short(const struct call_place *place, const struct target *target, uint64_t now_ns)
{
    const struct call *record = place->record;
    uint64_t state, started_ns;

    if (!is_own(place) || connect_is_success(&target->rules))
        return false;
    state = atomic_load_explicit(&record->state, memory_order_acquire);
    started_ns = atomic_load_explicit(&record->started_ns, memory_order_relaxed);
    if (!is_in_flight(state, PHASE_CONNECTING) ||
        now_ns >= atomic_load_explicit(&record->due_ns, memory_order_relaxed) ||
        !moves(place, state, PHASE_CONNECTED, target, now_ns))
        return false;
    const uint64_t waited_ns = now_ns > started_ns ? now_ns - started_ns : 0;
    if (UNLIKELY(place_stands_for(place) != 0 || waited_ns >= LATENCY_LONG_NS))
        note_wait(place, WAIT_CONNECT, waited_ns, now_ns);
    return true;
}

bool guard_is_connected_short(const struct call_place *place)
{
    /* Relaxed: nothing else is read by it. */
    return is_own(place) &&
           is_in_flight(atomic_load_explicit(&place->record->state, memory_order_relaxed), PHASE_CONNECTED);
}

HOT bool guard_request_short(const struct call_place *place, const struct target *target, uint64_t now_ns)
{
    if (!is_own(place))
        return false;
    const uint64_t state = atomic_load_explicit(&place->record->state, memory_order_acquire);
    return is_in_flight(state, PHASE_CONNECTED) && moves(place, state, PHASE_REQUESTED, target, now_ns);
}

/* --- further calls --- */

HOT bool guard_begin_short(const struct call_place *place, const struct target *target, uint64_t address_key,
                           uint64_t now_ns)
{
    struct circuit *circuit = &place->entry->circuit;
    uint64_t due_ns = calls_due_after(now_ns, target->response_timeout_ns), generation, state;

    if (!is_usual(place, target) || !has_present_ticket(place, &generation, &state) || !can_be_followed(state) ||
        due_has_come(&place->segment->map->calls_due, now_ns) ||
        !circuit_address_is(circuit, record_address(place->record), address_key))
        return false;
    counters_add(&circuit->counters, call_of(place), COUNT_ADMITTED);
    record_set_times(place->record, now_ns, due_ns);
    if (!record_replace(place->record, state, state_pack(state_number(state) + 1, PHASE_REQUESTED, CALL_UNSETTLED))) {
        /* Another thread of this process has begun the call, or is about to: what then follows, guard_begin knows. */
        counters_take_back(&circuit->counters, call_of(place), COUNT_ADMITTED);
        return false;
    }
    if (__builtin_expect(due_ns != DUE_NEVER, 0))
        calls_note_due(place->segment, call_of(place), due_ns);
    return true;
}

HOT bool guard_forget_short(const struct call_place *place)
{
    const struct call *record = place->record;
    uint64_t state;

    if (!is_own(place))
        return false;
    state = atomic_load_explicit(&record->state, memory_order_acquire);
    if (state_settled(state) == CALL_UNSETTLED || state_is_taken(state) ||
        atomic_load_explicit(&record->token, memory_order_relaxed) != 0 ||
        bulkhead_has_share(place->segment, call_of(place)))
        return false;
    return calls_release(place->segment, call_of(place), place->holder);
}

HOT bool guard_settle_short(const struct call_place *place, const struct target *target, uint64_t waited_ns,
                            uint64_t now_ns)
{
    const struct settings *settings = &target->breaker;
    struct circuit *circuit = &place->entry->circuit;
    uint64_t generation, state;

    if (!is_usual(place, target) || target->all_recorded ||
        (settings->slow_call_ns != 0 && waited_ns > settings->slow_call_ns) ||
        now_ns >= atomic_load_explicit(&place->record->due_ns, memory_order_relaxed) ||
        !has_present_ticket(place, &generation, &state) ||
        state != state_pack(state_number(state), PHASE_REQUESTED, CALL_UNSETTLED) ||
        !record_replace(place->record, state, state_pack(state_number(state), PHASE_ANSWERED, CALL_SETTLED)))
        return false;
    if (__builtin_expect(place_stands_for(place) != 0 || waited_ns >= LATENCY_LONG_NS, 0))
        note_wait(place, WAIT_ANSWER, waited_ns, now_ns);
    if (__builtin_expect(circuit_has_neighbours(circuit), 0))
        circuit_address_answered(circuit, record_address(place->record));
    circuit_count_success(circuit, settings, call_of(place), generation, now_ns);
    return true;
}
