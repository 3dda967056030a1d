/*
 * guard.h - the way from an engine to a circuit and back.
 *
 * An engine (the preload) asks guard_admit before each attempt, tells how the call goes on (guard_connected,
 * guard_requested), and what it saw of the end (guard_settle). A call that hangs longer than its target allows is
 * found by the next admission in any process, and charged. Whoever settles a call's record first reports its outcome:
 * it is reported once. Async-signal-safe; nothing is held, nothing waits. System calls only where said. errno may
 * change.
 */
#ifndef SOCKFUSE_GUARD_GUARD_H
#define SOCKFUSE_GUARD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard/guard_model.h"

/*
 * May this attempt go? First charges what is overdue. ADMIT_PASS and ADMIT_PROBE take a record: `*call`, or CALL_NONE
 * when the table is full (then the attempt passes unguarded, and is counted). The mode of the target is obeyed:
 * observe and closed never refuse, open always does; an operator's word (operator.h) goes before it. With
 * max_connections the record bears a share of them (bulkhead.h). No system call unless somebody else's lease or an
 * overdue call stands in the way, the table of calls is full, or a transition goes to the log.
 */
enum admission guard_admit(struct guard *guard, const struct attempt *attempt, uint64_t now_ns, uint32_t *call);

/*
 * May the next request go, on a connection whose last call is settled? As guard_admit, but the record is there already
 * and nothing has to be connected: the call begins in PHASE_REQUESTED. With `existing = allow` it is never refused. Of
 * several threads that ask at once one begins the call; the others pass, for theirs is more of the same request.
 */
enum admission guard_begin(struct guard *guard, const struct attempt *attempt, uint32_t call, uint64_t now_ns);

/*
 * The same for a request beside others on a connection whose record has a call in flight: as guard_admit it takes a
 * record of its own, and as guard_begin it begins in PHASE_REQUESTED. It is no further connection (max_connections).
 */
enum admission guard_begin_beside(struct guard *guard, const struct attempt *attempt, uint64_t now_ns, uint32_t *call);
/* Whether the call passed though its circuit, or an operator, said no. */
bool guard_passes_against(const struct guard *guard, uint32_t call);

/*
 * Whether an attempt to that circuit would be refused now, without making one. Counts nothing. No system call, unless
 * an operator's word has just come to its end.
 */
enum prospect { PROSPECT_REFUSED, PROSPECT_PROBE, PROSPECT_PASS };
enum prospect guard_prospect(const struct guard *guard, uint32_t circuit, const struct target *target, uint64_t now_ns);

/*
 * The short ways of guard_begin, guard_requested and guard_settle for what a busy client does most: a request on a
 * connection that has answered before, or the first one on a connection, and the first byte of its answer, if that is
 * no failure by itself (no HTTP, or a status that says nothing bad). They come to a pass, to a wait and to a success.
 * False: nothing was done, for something is not as usual, and the long way is to be gone. `now_ns` may lie a few milliseconds back. The places in the segment are looked up once for a
 * connection, while the guard has its holder; guard_call_place is false if there are none.
 */
struct call_place {
    struct circuit_entry *entry;
    struct call *record;
    struct segment *segment;
    uint32_t holder, circuit;
    _Atomic uint32_t call;     /* CALL_NONE when somebody else has it to judge */
    _Atomic uint32_t measured; /* by what the next wait is drawn:25 | what the present one stands for:7 */
};
bool guard_call_place(const struct guard *guard, uint32_t circuit, uint32_t call, struct call_place *place);
/* The attempt is connected, in time. */
bool guard_connected_short(const struct call_place *place, const struct target *target, uint64_t now_ns);
/* Whether the call is the attempt's still, which is connected and waits for the first request. */
bool guard_is_connected_short(const struct call_place *place);
bool guard_request_short(const struct call_place *place, const struct target *target, uint64_t now_ns);
bool guard_begin_short(const struct call_place *place, const struct target *target, uint64_t address_key,
                       uint64_t now_ns);
/* Of guard_forget: the call is over, and leaves nothing but its record, which goes back. No time is needed for it. */
bool guard_forget_short(const struct call_place *place);
bool guard_settle_short(const struct call_place *place, const struct target *target, uint64_t waited_ns,
                        uint64_t now_ns);

/*
 * Reading the time well costs more than the rest of a short way, so of a busy connection's waits some are measured, and
 * stand for others (latency.h): each that `is_first` in a while, and of the rest one of 64, by chance, so that no order
 * in which a program asks is mistaken for all of it. Returns what the wait that begins now stands for; 0: it is not
 * measured.
 */
#define MEASURED_OF_MANY 64u
#define MEASURED_MASK 127u
static inline uint32_t place_measures(struct call_place *place, bool is_first)
{
    uint32_t word = atomic_load_explicit(&place->measured, memory_order_relaxed) & ~MEASURED_MASK;

    word = (word * 1664525u + 1013904351u) & ~MEASURED_MASK; /* of full period, without the lower bits too */
    const uint32_t stands_for = is_first ? 1 : word >> 26 == 0 ? MEASURED_OF_MANY : 0;
    atomic_store_explicit(&place->measured, word | stands_for, memory_order_relaxed);
    return stands_for;
}
/* Of an attempt that has just begun: what the waits for its connection and for its first answer stand for. */
static inline void place_stands(struct call_place *place, uint32_t stands_for)
{
    uint32_t word = atomic_load_explicit(&place->measured, memory_order_relaxed) & ~MEASURED_MASK;

    atomic_store_explicit(&place->measured, word | stands_for, memory_order_relaxed);
}
/* The present wait's time is read well: it stands for itself. */
static inline void place_is_measured(struct call_place *place)
{
    place_stands(place, 1);
}
static inline uint32_t place_stands_for(const struct call_place *place)
{
    return atomic_load_explicit(&place->measured, memory_order_relaxed) & MEASURED_MASK;
}

/*
 * The attempt is connected, nothing is sent; `now_ns`: since when. AT connect_timeout or later it is charged as overdue
 * was, though it goes on. Idempotent; ignored when the call is settled.
 */
void guard_connected(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns);
/*
 * (More of) a request was sent on an established connection; the wait for the answer begins anew. On a settled call it
 * does nothing.
 */
void guard_requested(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns);

/*
 * Part of a request was sent, of which more is to come: the wait for the answer has not begun, and nothing is overdue
 * until more is sent.
 */
void guard_request_goes_on(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns);
/*
 * So many bytes are on their way, or about to be: if no wait runs one begins, and other processes, which can't see
 * whether the peer takes them, leave it the time of a slow network for it.
 */
void guard_sending(struct guard *guard, uint32_t call, const struct target *target, uint64_t bytes, uint64_t now_ns);

/*
 * What this process's call waits for has come and lies unread, or its request is not complete: it is never overdue. Or
 * the peer takes what is sent: not before that time.
 */
void guard_excuse(struct guard *guard, uint32_t call);
void guard_put_off(struct guard *guard, uint32_t call, uint64_t due_ns);
/* When this process's call in flight is overdue; DUE_NEVER: it is not, or it is settled. */
uint64_t guard_due(const struct guard *guard, uint32_t call);

/* The connection is gone, though its call is still to be judged: its share (max_connections) goes back. */
void guard_unshare(const struct guard *guard, uint32_t call, const struct target *target);

/*
 * Judges what was seen and settles the call if that ends it: outcome, journal, log. What came (`came_ns`, or now) AT
 * the call's limit or later is the failure that it was overdue for, as of then, whether or not anybody looked.
 * `observation.phase`, `other_answered` and `after_limit` are filled here. Returns the outcome; VERDICT_NONE if nothing
 * was decided, or if the call had been settled before (answered; or charged as overdue: then its real end is counted
 * apart, see COUNT_OVERDUE_ENDED).
 */
struct outcome guard_settle(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                            struct observation *observation, uint64_t now_ns);

/*
 * What the engine knows the record by from now on (not 0, less than CALL_NUMBER_MAX); and what that is, 0 if it was
 * not told or the record is not this process's. Only the process itself reads it: it is to be checked all the same.
 */
bool guard_name(const struct guard *guard, uint32_t call, uint32_t number);
uint32_t guard_number(const struct guard *guard, uint32_t call);

/*
 * The connection is another program's from now on. A probe that is connected has succeeded by that: true. Any other
 * call stands, and if it is connected it is never overdue: nobody here sees its answer.
 */
bool guard_hand_on(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                   uint64_t now_ns);
/* Whether a probe is in flight on the record. */
bool guard_probes(const struct guard *guard, uint32_t call);

/*
 * The present wait of a call that is in flight, or was charged as overdue: since when and until when (circuits' clock),
 * and which of the record's calls it is. False: there is none.
 */
struct guard_wait {
    uint64_t since_ns, due_ns;
    uint32_t serial;
    enum phase phase;
};
bool guard_wait(const struct guard *guard, uint32_t call, struct guard_wait *wait);

/* Whether a call is over: settled, and not as an overdue one whose real end is still to come. */
bool guard_is_over(const struct guard *guard, uint32_t call);
/* The present phase of a call; PHASE_ANSWERED also for one that an overdue charge has settled (`*settled` tells). */
enum phase guard_phase(const struct guard *guard, uint32_t call, bool *settled);

/*
 * A failed attempt to one of several addresses, of which others were never tried or answer for all that is known:
 * whether its judgement should wait until the program tries one of those, or does not. Notes the address as failed if
 * so. Never for a probe, whose lease sees to it. The call stays in flight, and is overdue in the end.
 */
bool guard_waits_for_siblings(struct guard *guard, uint32_t call, const struct target *target,
                              const struct observation *observation, const uint64_t *siblings, size_t count,
                              uint64_t address_key);

/*
 * In a fork's child, of its copy of a private segment: the calls, shares and leases of `holder` are its parent's and
 * none here. What the circuits have learned stays. Idempotent; several threads may do it. No system call.
 */
void guard_disown(struct segment *segment, uint32_t holder);

/* The connection is over: its record goes back. A call that is still unsettled then is neutral, unknown. */
void guard_forget(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard, uint64_t now_ns);

#endif
