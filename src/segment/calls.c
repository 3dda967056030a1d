/*
 * calls.c - the table of calls: claiming, reading, moving and giving back records.
 *
 * Invariants: a record whose owner is 0 is settled, or was never used (number 0). Its fields are written only by its
 * owner, and only while it is settled (calls_begin), but for the times, which are written before the move to their
 * phase. So who wins the CAS of an unsettled state word has read fields that belong to it.
 */
#include "segment/calls.h"

#include <stdatomic.h>

#include "segment/process.h"
#include "segment/record.h"

/* So many places around the hint are looked at before the table grows: long-lived connections need not be passed by. */
#define CLAIM_LOOKS 64u

uint32_t calls_limit(const struct segment *segment)
{
    /* seq_cst: see claim_above. */
    uint32_t high = atomic_load_explicit(&segment->map->calls_high, memory_order_seq_cst);

    return high < segment->capacity.calls ? high : segment->capacity.calls;
}

/* --- claiming --- */

static bool claim_at(struct segment *segment, uint32_t call, uint32_t holder)
{
    struct call *record = &segment->calls[call];
    uint32_t owner = atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed);

    /* Acquire: the former owner's settling is seen, so that the number goes on from it. */
    if (owner != 0 || !atomic_compare_exchange_strong_explicit(&segment->call_owner[call], &owner, holder,
                                                               memory_order_acquire, memory_order_relaxed))
        return false;
    if (atomic_load_explicit(&record->injected, memory_order_relaxed) != 0)
        atomic_store_explicit(&record->injected, 0, memory_order_relaxed);
    /* One that a dead owner left; what it stands for is counted anew when that matters (bulkhead.c). */
    atomic_store_explicit(&record->share, 0, memory_order_relaxed);
    return true;
}

/* Looks at `looks` places from `first` on, round the `limit` places in use. */
static uint32_t claim_among(struct segment *segment, uint32_t holder, uint32_t first, uint32_t looks, uint32_t limit)
{
    for (uint32_t i = 0; i < looks; i++) {
        uint32_t call = (first + i) % limit;

        if (claim_at(segment, call, holder)) {
            atomic_store_explicit(&segment->map->calls_hint, call + 1, memory_order_relaxed);
            return call;
        }
    }
    return CALL_NONE;
}

/* Takes the first place that was never used. */
static uint32_t claim_above(struct segment *segment, uint32_t holder)
{
    for (uint32_t call = calls_limit(segment); call < segment->capacity.calls; call++) {
        bool claimed = claim_at(segment, call, holder);
        uint32_t high = call;

        /*
         * Raised by whoever finds it too low: the one who claimed the place may have been killed in between. seq_cst as
         * in calls_begin: a scan that is not told of the call that begins here sees the place.
         */
        while (high <= call && !atomic_compare_exchange_weak_explicit(&segment->map->calls_high, &high, call + 1,
                                                                      memory_order_seq_cst, memory_order_relaxed)) {
        }
        if (claimed)
            return call;
    }
    return CALL_NONE;
}

uint32_t calls_claim(struct segment *segment, uint32_t holder)
{
    if (segment->map == NULL || holder == 0)
        return CALL_NONE;

    uint32_t limit = calls_limit(segment), call = CALL_NONE;
    uint32_t hint = atomic_load_explicit(&segment->map->calls_hint, memory_order_relaxed);
    if (hint >= limit)
        hint = 0;
    if (limit > 0)
        call = claim_among(segment, holder, hint, limit < CLAIM_LOOKS ? limit : CLAIM_LOOKS, limit);
    if (call == CALL_NONE)
        call = claim_above(segment, holder);
    if (call == CALL_NONE && limit > 0)
        call = claim_among(segment, holder, hint, calls_limit(segment), calls_limit(segment));
    return call;
}

void calls_begin(struct segment *segment, uint32_t call, uint32_t circuit, const struct ticket *ticket,
                 enum phase phase, uint64_t started_ns, uint64_t due_ns)
{
    struct call *record = record_at(segment, call);

    if (record == NULL)
        return;
    uint32_t number = state_number(atomic_load_explicit(&record->state, memory_order_relaxed)) + 1;
    if (number == 0)
        number = 1;
    atomic_store_explicit(&record->circuit, circuit, memory_order_relaxed);
    atomic_store_explicit(&record->generation, ticket->generation, memory_order_relaxed);
    atomic_store_explicit(&record->token, ticket->token, memory_order_relaxed);
    atomic_store_explicit(&record->address, (uint32_t)(ticket->address + 1), memory_order_relaxed);
    calls_set_times(segment, call, started_ns, due_ns);
    /*
     * Release: with the state come the fields. seq_cst: and before the next due time is looked at, so that a scan that
     * passed this record already is told (overdue.c).
     */
    atomic_store_explicit(&record->state, state_pack(number, phase, CALL_UNSETTLED), memory_order_seq_cst);
}

void calls_mark_injected(struct segment *segment, uint32_t call)
{
    struct call *record = record_at(segment, call);

    if (record != NULL)
        /* Relaxed: who settles the call before it is seen has settled nothing that was injected yet. */
        atomic_store_explicit(&record->injected, 1, memory_order_relaxed);
}

bool calls_release(struct segment *segment, uint32_t call, uint32_t owner)
{
    struct call *record = record_at(segment, call);

    if (record == NULL || owner == 0 || state_in_flight(atomic_load_explicit(&record->state, memory_order_relaxed)))
        return false;
    /* Release: the next owner sees the settled state. */
    if (!atomic_compare_exchange_strong_explicit(&segment->call_owner[call], &owner, 0, memory_order_release,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&segment->map->calls_hint, call, memory_order_relaxed);
    return true;
}

/* --- a call's life --- */

bool calls_read(const struct segment *segment, uint32_t call, struct call_view *view)
{
    const struct call *record = record_at(segment, call);

    if (record == NULL)
        return false;
    view->owner = atomic_load_explicit(&segment->call_owner[call], memory_order_acquire);
    if (view->owner == 0)
        return false;
    /* Acquire: with the state come the fields; seq_cst as in calls_begin. */
    view->raw = atomic_load_explicit(&record->state, memory_order_seq_cst);
    view->phase = state_phase(view->raw);
    view->settled = state_settled(view->raw);
    view->in_flight = state_in_flight(view->raw);
    view->circuit = atomic_load_explicit(&record->circuit, memory_order_relaxed);
    view->due_ns = atomic_load_explicit(&record->due_ns, memory_order_relaxed);
    view->started_ns = atomic_load_explicit(&record->started_ns, memory_order_relaxed);
    view->ticket.generation = atomic_load_explicit(&record->generation, memory_order_relaxed);
    view->ticket.token = atomic_load_explicit(&record->token, memory_order_relaxed);
    view->ticket.joined = false;
    view->injected = atomic_load_explicit(&record->injected, memory_order_relaxed) != 0;
    view->ticket.address = record_address(record);
    return true;
}

bool calls_read_own(const struct segment *segment, uint32_t call, uint32_t owner, struct call_view *view)
{
    return calls_read(segment, call, view) && view->owner == owner;
}

bool calls_phase(const struct segment *segment, uint32_t call, uint32_t owner, enum phase *phase)
{
    const struct call *record = record_at(segment, call);

    if (record == NULL || atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed) != owner)
        return false;
    /* Relaxed: nothing else is read by it. */
    uint64_t state = atomic_load_explicit(&record->state, memory_order_relaxed);
    *phase = state_phase(state);
    return state_in_flight(state);
}

void calls_set_times(struct segment *segment, uint32_t call, uint64_t started_ns, uint64_t due_ns)
{
    struct call *record = record_at(segment, call);

    if (record != NULL)
        record_set_times(record, started_ns, due_ns);
}

void calls_excuse(struct segment *segment, uint32_t call, const struct call_view *view)
{
    struct call *record = record_at(segment, call);
    uint64_t due_ns = view->due_ns;

    /* Relaxed, like all times; another call has another time. */
    if (record != NULL)
        atomic_compare_exchange_strong_explicit(&record->due_ns, &due_ns, DUE_NEVER, memory_order_relaxed,
                                                memory_order_relaxed);
}

static bool state_replace(struct segment *segment, uint32_t call, uint64_t expected, uint64_t desired)
{
    struct call *record = record_at(segment, call);

    return record != NULL && record_replace(record, expected, desired);
}

bool calls_move(struct segment *segment, uint32_t call, const struct call_view *view, enum phase phase)
{
    return state_replace(segment, call, view->raw, state_pack(state_number(view->raw), phase, view->settled));
}

bool calls_settle(struct segment *segment, uint32_t call, const struct call_view *view, enum call_settled settled)
{
    /* The phase of an overdue call stays: what ends it later is judged by it. */
    enum phase phase = settled == CALL_SETTLED ? PHASE_ANSWERED : view->phase;

    return state_replace(segment, call, view->raw, state_pack(state_number(view->raw), phase, settled));
}

bool calls_reserve(struct segment *segment, uint32_t call, struct call_view *view)
{
    uint64_t reserved = state_pack(state_number(view->raw) + 1, PHASE_ANSWERED, CALL_RESERVED);

    if (view->in_flight || view->settled == CALL_RESERVED || !state_replace(segment, call, view->raw, reserved))
        return false;
    view->raw = reserved;
    return true;
}

/* --- owners --- */

bool liveness_ask(struct liveness *liveness, const struct segment *segment, uint32_t holder)
{
    /* Neighbours in the table of processes get neighbouring places; the low bits of a holder are its epoch. */
    uint32_t place = (holder >> 20 ^ holder) % LIVENESS_PLACES;

    if (liveness->holder[place] != holder) {
        liveness->alive[place] = process_alive(segment, holder);
        liveness->holder[place] = holder;
    }
    return liveness->alive[place];
}

bool calls_refer_to(struct segment *segment, uint32_t circuit)
{
    struct liveness liveness = {0};

    for (uint32_t call = 0; call < calls_limit(segment); call++) {
        struct call_view view;

        if (!calls_read(segment, call, &view) || view.circuit != circuit)
            continue;
        if (liveness_ask(&liveness, segment, view.owner))
            return true;
        /* Uncounted, for the circuit's counts go too. */
        if (!view.in_flight || calls_settle(segment, call, &view, CALL_SETTLED))
            calls_release(segment, call, view.owner);
    }
    return false;
}

uint32_t calls_in_flight(const struct segment *segment, uint32_t circuit)
{
    struct liveness liveness = {0};
    uint32_t count = 0;

    if (segment->map == NULL)
        return 0;
    for (uint32_t call = 0; call < calls_limit(segment); call++) {
        struct call_view view;

        if (calls_read(segment, call, &view) && view.circuit == circuit && view.in_flight &&
            liveness_ask(&liveness, segment, view.owner))
            count++;
    }
    return count;
}
