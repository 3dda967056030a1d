/*
 * calls.c - the table of calls: beginning, reading, moving and settling them.
 *
 * Invariants: a record whose owner is 0 is not in flight, or was never used (number 0). Its fields are written only by
 * its owner, and only while it is claimed or reserved (calls_begin), but for the times, which are written before the
 * move to their phase. So who wins the CAS of an unsettled state word has read fields that belong to it.
 *
 * One step after the other, and what an end (a kill, a jump) between two leaves:
 *   claimed (owner, then CLAIMED)   nothing was counted; given back as it is
 *   its share marked, counted       bulkhead.c tells which, and goes on from there
 *   a probe's token noted           the lease stands or does not: its permit is given back by the token
 *   admitted is counted             a few instructions before the next step: the sums may miss it
 *   in flight (UNSETTLED)           neutral, unknown
 *   settled                         its outcome is counted a few steps later: the sums may miss it; a probe's permit
 *                                   goes back by the token when the record does
 *   the share counted off           bulkhead.c goes on from there
 *   free (owner 0)                  a hint may be wrong (call_claim.c)
 * A dead owner's records are found by dead_owners.c, a living one's that a jump has left by lost_calls.c.
 */
#include "segment/calls.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/hot.h"
#include "segment/call_record.h"
#include "segment/due.h"
#include "segment/processes.h"

uint32_t calls_limit(const struct segment *segment)
{
    /* seq_cst: see raise_high in call_claim.c. */
    uint32_t high = atomic_load_explicit(&segment->map->calls_high, memory_order_seq_cst);

    return high < segment->capacity.calls ? high : segment->capacity.calls;
}

/* --- a call's life --- */

void calls_name_circuit(struct segment *segment, uint32_t call, uint32_t circuit)
{
    if (call >= segment->capacity.calls)
        return;
    /* Only where it is another one: the line is many records'. Relaxed: published by what follows. */
    if (atomic_load_explicit(&segment->call_circuit[call], memory_order_relaxed) != circuit)
        atomic_store_explicit(&segment->call_circuit[call], circuit, memory_order_relaxed);
}

_Atomic uint64_t *calls_note_probe(struct segment *segment, uint32_t call, int address)
{
    struct call *record = record_at(segment, call);

    if (record == NULL)
        return NULL;
    /* Relaxed: for this process's own eyes (lost_calls.c). */
    atomic_store_explicit(&record->token, 0, memory_order_relaxed);
    atomic_store_explicit(&record->address, (uint32_t)(address + 1), memory_order_relaxed);
    return &record->token;
}

HOT void calls_note_due(const struct segment *segment, uint32_t call, uint64_t due_ns)
{
    if (due_ns == DUE_NEVER || call >= segment->capacity.calls)
        return;
    /* The group first: who finds the common word due finds the group so. */
    due_note(&segment->call_group[call / CALL_GROUP].due, due_ns);
    due_note(&segment->map->calls_due, due_ns);
}

HOT bool calls_fill(struct segment *segment, uint32_t call, const struct call_view *view, uint32_t circuit,
                    const struct ticket *ticket, uint64_t started_ns, uint64_t due_ns)
{
    struct call *record = record_at(segment, call);

    /* Looked at once before anything is written: after that a claimer would have to stand still here for seconds. */
    if (record == NULL || !state_is_taken(view->raw) ||
        atomic_load_explicit(&record->state, memory_order_relaxed) != view->raw)
        return false;
    atomic_store_explicit(&record->circuit, circuit, memory_order_relaxed);
    calls_name_circuit(segment, call, circuit);
    atomic_store_explicit(&record->generation, ticket->generation, memory_order_relaxed);
    atomic_store_explicit(&record->token, ticket->token, memory_order_relaxed);
    atomic_store_explicit(&record->address, (uint32_t)(ticket->address + 1), memory_order_relaxed);
    record_set_times(record, started_ns, due_ns);
    return true;
}

HOT bool calls_begin(struct segment *segment, uint32_t call, const struct call_view *view, enum phase phase,
                     uint64_t due_ns)
{
    /*
     * With the state come the fields. seq_cst: and before the due words are read, so that a look that passed this
     * record already is told (due.h).
     */
    if (!record_replace(&segment->calls[call], view->raw, state_pack(state_number(view->raw), phase, CALL_UNSETTLED)))
        return false;
    calls_note_due(segment, call, due_ns);
    return true;
}

void calls_mark_injected(struct segment *segment, uint32_t call, bool injected)
{
    struct call *record = record_at(segment, call);

    if (record != NULL)
        /* Relaxed: who settles the call before it is seen has settled nothing that was injected yet. */
        atomic_store_explicit(&record->injected, injected, memory_order_relaxed);
}

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
    /* seq_cst: see calls_publish_times. */
    view->due_ns = atomic_load_explicit(&record->due_ns, memory_order_seq_cst);
    view->started_ns = atomic_load_explicit(&record->started_ns, memory_order_relaxed);
    view->grace_ns = atomic_load_explicit(&record->grace_s, memory_order_relaxed) * NS_PER_S;
    view->ticket.generation = atomic_load_explicit(&record->generation, memory_order_relaxed);
    view->ticket.token = atomic_load_explicit(&record->token, memory_order_relaxed);
    view->ticket.joined = false;
    view->injected = atomic_load_explicit(&record->injected, memory_order_relaxed) != 0;
    view->ticket.address = record_address(record);
    return true;
}

/* Whoever writes faster than it can be read is about to be seen in another state. */
#define WHOLE_TRIES 8u

bool calls_read_waiting(const struct segment *segment, uint32_t call, struct call_view *view)
{
    const struct call *record = record_at(segment, call);

    for (unsigned int tries = 0; tries < WHOLE_TRIES; tries++) {
        if (!calls_read(segment, call, view) || (!view->in_flight && view->settled != CALL_OVERDUE))
            return false;
        /* Acquire: before the state and the owner are looked at again. */
        view->circuit = atomic_load_explicit(&record->circuit, memory_order_acquire);
        view->started_ns = atomic_load_explicit(&record->started_ns, memory_order_acquire);
        view->due_ns = atomic_load_explicit(&record->due_ns, memory_order_acquire);
        view->ticket.token = atomic_load_explicit(&record->token, memory_order_acquire);
        if (atomic_load_explicit(&record->state, memory_order_acquire) == view->raw &&
            atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed) == view->owner)
            return true;
    }
    return false;
}

uint32_t calls_number(const struct call_view *view)
{
    return state_number(view->raw);
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

void calls_publish_times(struct segment *segment, uint32_t call)
{
    struct call *record = record_at(segment, call);

    /* A change that changes nothing, where a fence would do: ThreadSanitizer knows of no fences. */
    if (record != NULL)
        atomic_fetch_add_explicit(&record->due_ns, 0, memory_order_seq_cst);
}

void calls_set_grace(struct segment *segment, uint32_t call, uint64_t grace_ns)
{
    struct call *record = record_at(segment, call);
    uint64_t grace_s = grace_ns / NS_PER_S + (grace_ns % NS_PER_S != 0);

    if (record != NULL) /* Relaxed, as in record_set_times. */
        atomic_store_explicit(&record->grace_s, grace_s < UINT16_MAX ? (uint16_t)grace_s : UINT16_MAX,
                              memory_order_relaxed);
}

void calls_put_off(struct segment *segment, uint32_t call, const struct call_view *view, uint64_t due_ns)
{
    struct call *record = record_at(segment, call);
    uint64_t expected = view->due_ns;

    /* Relaxed, like all times; another call has another time. */
    if (record != NULL)
        atomic_compare_exchange_strong_explicit(&record->due_ns, &expected, due_ns, memory_order_relaxed,
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
    uint64_t reserved = state_pack(state_next_number(view->raw), PHASE_ANSWERED, CALL_RESERVED);

    if (view->in_flight || state_is_taken(view->raw) || !state_replace(segment, call, view->raw, reserved))
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
