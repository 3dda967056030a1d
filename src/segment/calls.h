/*
 * calls.h - the records of guarded connections and of the call in flight on each.
 *
 * A record is free (owner 0), or its owner's from calls_claim to calls_release. Its state word carries the number of
 * the present call; nothing of a call changes without its state word changing too, so whoever read a call and then
 * wins the CAS of its state has read it whole. Between calls, and while free, a record is settled. Private to
 * src/segment and src/guard, but for CALL_NONE and what observers read; engines use guard.h. Async-signal-safe;
 * nothing waits; system calls only where said.
 */
#ifndef SOCKFUSE_SEGMENT_CALLS_H
#define SOCKFUSE_SEGMENT_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "breaker/outcome.h"
#include "segment/segment_model.h"

/* What an engine may know a record by: less than this. */
#define CALL_NUMBER_MAX (UINT32_C(1) << 31)
#define CALL_NONE UINT32_MAX
#define DUE_NEVER UINT64_MAX

/* A call as it was read, all of it from shared memory and range-checked. */
struct call_view {
    uint64_t raw; /* the state word: what a CAS expects */
    enum phase phase;
    enum call_settled settled;
    bool in_flight; /* unsettled, and begun */
    uint32_t owner, circuit;
    uint64_t due_ns, started_ns;
    uint64_t grace_ns; /* so much later than due_ns it is overdue to other processes than its own */
    struct ticket ticket;
    bool injected; /* it was given a fault in rehearsal */
};

/* When a wait that begins now is overdue; a timeout of 0 is none. */
static inline uint64_t calls_due_after(uint64_t now_ns, uint64_t timeout_ns)
{
    return timeout_ns != 0 && timeout_ns < DUE_NEVER - now_ns ? now_ns + timeout_ns : DUE_NEVER;
}

/* Which of the calls on its record a call is. */
uint32_t calls_number(const struct call_view *view);

/* A free record, taken for `holder`; CALL_NONE if there is none. */
uint32_t calls_claim(struct segment *segment, uint32_t holder);
/* The same; `raw`: the view's that calls_fill and calls_begin go by. */
uint32_t calls_claim_raw(struct segment *segment, uint32_t holder, uint64_t *raw);
/*
 * Begins the call on a record that was claimed or reserved, as `view` has it, in two steps, between which the caller
 * counts it: calls_fill writes all but its state, and calls_begin makes it known, also to those who look for what is
 * overdue. False: the caller was held up so long that the record was taken from it.
 */
bool calls_fill(struct segment *segment, uint32_t call, const struct call_view *view, uint32_t circuit,
                const struct ticket *ticket, uint64_t started_ns, uint64_t due_ns);
bool calls_begin(struct segment *segment, uint32_t call, const struct call_view *view, enum phase phase,
                 uint64_t due_ns);
/* A call that stands in the table is overdue from `due_ns` on; DUE_NEVER: nothing is noted. */
void calls_note_due(const struct segment *segment, uint32_t call, uint64_t due_ns);
/*
 * Notes to which address a call on the claimed or reserved record will go, and returns where a probe's token is to be
 * written, before its lease stands; NULL for CALL_NONE.
 */
_Atomic uint64_t *calls_note_probe(struct segment *segment, uint32_t call, int address);
/* Makes the record known to those who look for a circuit's, before its call begins. */
void calls_name_circuit(struct segment *segment, uint32_t call, uint32_t circuit);
/* Whether what comes of the record's calls is injected; until it is said otherwise, or the record is given back. */
void calls_mark_injected(struct segment *segment, uint32_t call, bool injected);
/*
 * Takes the next call of a record whose last one is settled, for one thread of those that want to; false for the
 * others. calls_begin begins it; if it comes to nothing, calls_settle with the same view gives it up.
 */
bool calls_reserve(struct segment *segment, uint32_t call, struct call_view *view);
/* Gives the record back if `owner` still has it and its call is not in flight. */
bool calls_release(struct segment *segment, uint32_t call, uint32_t owner);

/* False: no such record, or it is free. */
bool calls_read(const struct segment *segment, uint32_t call, struct call_view *view);
/* As calls_read, and false too if it is somebody else's, for instance the parent's in a fork's child. */
bool calls_read_own(const struct segment *segment, uint32_t call, uint32_t owner, struct call_view *view);
/*
 * For observers: a call that is waited for, in flight or charged while it hangs, of which no end was seen. Read whole:
 * what changes while it is read is read again, and at last left out. No system call.
 */
bool calls_read_waiting(const struct segment *segment, uint32_t call, struct call_view *view);
/*
 * Only how far the owner's call has come, for what is asked at every send and receive; false: settled, not begun, or
 * not `owner`'s.
 */
bool calls_phase(const struct segment *segment, uint32_t call, uint32_t owner, enum phase *phase);
/* Writes when the present wait began and when it is overdue, without grace; before its phase (calls_move). */
void calls_set_times(struct segment *segment, uint32_t call, uint64_t started_ns, uint64_t due_ns);
/* Where no phase follows: between the times and calls_note_due, as due.h has it. */
void calls_publish_times(struct segment *segment, uint32_t call);
void calls_set_grace(struct segment *segment, uint32_t call, uint64_t grace_ns);
/* The call that was read is overdue at another time; the next one on its record is left alone. */
void calls_put_off(struct segment *segment, uint32_t call, const struct call_view *view, uint64_t due_ns);
/* Moves the call that was read to another phase, or settles it; false if it has changed since. One of many wins. */
bool calls_move(struct segment *segment, uint32_t call, const struct call_view *view, enum phase phase);
bool calls_settle(struct segment *segment, uint32_t call, const struct call_view *view, enum call_settled settled);

/* Takes back a hint that the record is taken, if it is not: for who looks through the table (call_claim.c). */
void claim_hint(struct segment *segment, uint32_t call);

/* How many records are worth looking at: all in use lie below. */
uint32_t calls_limit(const struct segment *segment);

/* Calls in flight on a circuit whose owner is not known to be dead; for observers. System calls. */
uint32_t calls_in_flight(const struct segment *segment, uint32_t circuit);

/* Whether holders live, each asked once. Start with all zero. */
#define LIVENESS_PLACES 64u
struct liveness {
    uint32_t holder[LIVENESS_PLACES];
    bool alive[LIVENESS_PLACES];
};
bool liveness_ask(struct liveness *liveness, const struct segment *segment, uint32_t holder);

#endif
