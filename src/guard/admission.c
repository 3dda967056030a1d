/*
 * admission.c - guard_admit and guard_begin: whether an attempt, or a request on a kept connection, may go.
 *
 * The bulkhead is asked, then the circuit, which decides and counts; who may go gets a record, by which the end of the
 * call is found (guard.c). An attempt that the mode of its target lets pass against the circuit's word bears a ticket
 * that no circuit ever knew: what becomes of it is counted and decides nothing.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/hot.h"
#include "guard/dead_owners.h"
#include "guard/guard.h"
#include "guard/holding.h"
#include "guard/operator.h"
#include "guard/owners.h"
#include "guard/report.h"
#include "guard/settle.h"
#include "guard/tidying.h"
#include "segment/bulkhead.h"
#include "segment/circuit_evidence.h"
#include "segment/circuits.h"
#include "segment/layout.h"
#include "segment/processes.h"

/* How many owners are asked about by a call that finds no room. */
#define ASKED_IN_NEED 16u

static enum admission pass_unguarded(struct segment *segment, enum no_room kind)
{
    segment_note_no_room(segment, kind);
    return ADMIT_PASS;
}

static enum admission refuse(const struct guard *guard, const struct attempt *attempt, enum admission admission,
                             uint64_t now_ns)
{
    report_refusal(guard, attempt->circuit, admission, now_ns);
    return admission;
}

/* A refusal that is not the circuit's own: it is not asked. */
static enum admission refuse_unasked(const struct guard *guard, const struct attempt *attempt, enum admission admission,
                                     uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, attempt->circuit);

    if (circuit != NULL) {
        counters_add(&circuit->counters, attempt->shard, COUNT_REFUSED);
        counters_add(&circuit->counters, attempt->shard, counter_of_refusal(admission));
    }
    return refuse(guard, attempt, admission, now_ns);
}

/* How the attempt is to be handled, and by whose word. */
struct handling {
    enum forced forced;
    enum target_mode mode;
    enum hold hold; /* the agent's */
    bool may_refuse;
};

static struct handling handling_of(const struct guard *guard, const struct attempt *attempt, bool may_refuse,
                                   uint64_t now_ns)
{
    enum forced forced = force_obey(guard, attempt->circuit, attempt->target->mode, now_ns);

    enum hold hold = hold_obey(guard, attempt->circuit, forced, attempt->target->mode, now_ns);

    return (struct handling){forced, force_mode(forced, attempt->target), hold, may_refuse};
}

/* Whether it is refused whatever the circuit says. */
static bool is_refused_always(const struct handling *handling)
{
    return handling->may_refuse && (handling->mode == MODE_OPEN || handling->hold == HOLD_FLEET);
}

static enum admission refuse_always(const struct guard *guard, const struct attempt *attempt,
                                    const struct handling *handling, uint64_t now_ns)
{
    return refuse_unasked(guard, attempt,
                          handling->forced == FORCED_OPEN ? ADMIT_REFUSED_FORCED
                          : handling->hold == HOLD_FLEET  ? ADMIT_REFUSED_FLEET
                                                          : ADMIT_REFUSED_OPEN,
                          now_ns);
}

/*
 * It would have been refused and passes all the same: counted as refused, for that is what it would have been, and as
 * admitted (begin), for it will have an outcome.
 */
static enum admission pass_as_shadow(int address, struct ticket *ticket)
{
    *ticket = (struct ticket){.generation = SHADOW_GENERATION, .address = address};
    return ADMIT_PASS;
}

/* The addresses of the destination, each made known to the circuit: a probe has to try them all before it fails. */
static uint32_t address_mask(struct circuit *circuit, const struct attempt *attempt, int own)
{
    uint32_t mask = own >= 0 ? 1u << own : 0;
    size_t count = attempt->siblings != NULL ? attempt->sibling_count : 0;

    for (size_t i = 0; i < count && i < CIRCUIT_ADDRESSES; i++) {
        int address = circuit_address_index(circuit, attempt->siblings[i]);

        if (address >= 0)
            mask |= 1u << address;
    }
    return mask;
}

/* The attempt's place among the circuit's addresses, which it is made known to. */
HOT static int place_of_address(const struct guard *guard, const struct attempt *attempt, struct circuit *circuit)
{
    int address = circuit_address_index(circuit, attempt->address_key);

    evidence_note_address(&circuits_entry(guard->segment, attempt->circuit)->evidence, address, attempt->address_key,
                          attempt->endpoint);
    return address;
}

/* Returns what the circuit says; `address`: the attempt's place among the circuit's addresses. */
OWN_FRAME static enum admission hear_circuit(const struct guard *guard, const struct attempt *attempt,
                                             struct circuit *circuit, const struct handling *handling, uint64_t now_ns,
                                             uint32_t call, struct ticket *ticket, struct transitions *transitions,
                                             int *address)
{
    struct caller caller = guard_caller(guard, attempt->shard);
    struct settings room;

    caller.counts_itself = true;
    caller.unprobed = handling->hold == HOLD_UNPROBED;
    caller.never_probes = attempt->is_retry;
    caller.address = place_of_address(guard, attempt, circuit);
    caller.token = calls_note_probe(guard->segment, call, caller.address);
    /* While the circuit is closed nobody asks for them. */
    if (!circuit_is_closed(circuit))
        caller.addresses = address_mask(circuit, attempt, caller.address);
    *address = caller.address;
    return circuit_admit(circuit, settings_in_force(attempt->target, handling->mode, &room), &caller, now_ns, ticket,
                         transitions);
}

/* `call`: the record that was claimed or reserved for it, or CALL_NONE. */
OWN_FRAME static enum admission ask_circuit(const struct guard *guard, const struct attempt *attempt,
                                            struct circuit *circuit, const struct handling *handling, uint64_t now_ns,
                                            uint32_t call, struct ticket *ticket)
{
    struct transitions transitions;
    int address;
    enum admission admission =
        hear_circuit(guard, attempt, circuit, handling, now_ns, call, ticket, &transitions, &address);

    report_transitions(guard, attempt->circuit, &transitions, false, now_ns);
    if (admission == ADMIT_PROBE && !ticket->joined)
        report_probe(guard, attempt->circuit, now_ns);
    if (admission == ADMIT_PASS || admission == ADMIT_PROBE)
        return admission;

    if (handling->may_refuse)
        refuse(guard, attempt, admission, now_ns);
    if (handling->may_refuse && handling->mode == MODE_ENFORCE)
        return admission;
    return pass_as_shadow(address, ticket);
}

/*
 * No record: nobody will see how it ends. Settled at once, so that a probe's permit is not lost and the sums stay
 * right.
 */
OWN_FRAME static enum admission pass_without_record(struct guard *guard, const struct attempt *attempt,
                                                    const struct ticket *ticket, uint64_t now_ns)
{
    struct call_view call = {.owner = guard->holder, .circuit = attempt->circuit, .ticket = *ticket};
    struct ending ending = {.outcome = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN}, .at_ns = now_ns};

    settle_call(guard, attempt->target, attempt->shard, &call, &ending, now_ns);
    return pass_unguarded(guard->segment, NO_ROOM_CONNECTIONS);
}

/* A record for a call that has not been admitted yet; `view` is what it begins from. */
OWN_FRAME static uint32_t claim_record(struct guard *guard, const struct attempt *attempt, uint64_t now_ns,
                                       struct call_view *view)
{
    struct segment *segment = guard->segment;
    uint32_t call = calls_claim(segment, guard->holder);

    if (call == CALL_NONE) {
        struct asking asking = {.left = ASKED_IN_NEED, .real_ns = clock_coarse_ns()};
        if (tidying_takes_turn(&guard->need_after_ns, asking.real_ns))
            owners_ask_some(segment, guard->holder, &asking);
        bury_some(guard, attempt->shard, now_ns);
        call = calls_claim(segment, guard->holder);
    }
    if (call == CALL_NONE || !calls_read_own(segment, call, guard->holder, view))
        return CALL_NONE;
    calls_name_circuit(segment, call, attempt->circuit);
    return call;
}

/* Whether the connection may be one more; its record then bears its share. Mode `closed` never refuses. */
static bool has_room(struct guard *guard, const struct attempt *attempt, const struct handling *handling,
                     uint64_t now_ns, uint32_t call)
{
    uint32_t limit = handling->mode == MODE_CLOSED ? BULKHEAD_UNLIMITED : attempt->target->max_connections;
    struct asking asking = {.left = ASKED_IN_NEED, .real_ns = clock_coarse_ns()};

    return bulkhead_take(guard->segment, attempt->circuit, call, limit) ||
           (tidying_takes_turn(&guard->need_after_ns, asking.real_ns) &&
            bury_sharers(guard, attempt->circuit, attempt->shard, now_ns, &asking) &&
            bulkhead_take(guard->segment, attempt->circuit, call, limit));
}

/* By now /proc may be gone; then this process's lock alone has to do. */
OWN_FRAME static void introduce(struct guard *guard)
{
    if (process_introduce(guard->segment, guard->holder))
        atomic_store_explicit(&guard->is_brief, false, memory_order_relaxed);
}

static void give_record(struct guard *guard, uint32_t call, const struct call_view *view, const struct target *target)
{
    /* Not if it was taken from us: then it is another's by now. */
    if (!calls_settle(guard->segment, call, view, CALL_SETTLED))
        return;
    bulkhead_give(guard->segment, call, guard->holder, target->max_connections);
    calls_release(guard->segment, call, guard->holder);
}

/*
 * The bulkhead and then the circuit are asked, in this order: one that finds no room takes no probe's lease. The record
 * comes first: it bears the share, and by it what a jump leaves is found. A plain refusal needs none. Not in line: what
 * it needs of the stack is not to lie there while overdue calls are charged.
 */
OWN_FRAME static enum admission ask_both(struct guard *guard, const struct attempt *attempt, struct circuit *circuit,
                                         const struct handling *handling, uint64_t now_ns, uint32_t *call,
                                         struct call_view *view, struct ticket *ticket)
{
    const bool limited = attempt->target->max_connections != 0;
    enum admission admission = ADMIT_PASS;

    if (limited || handling->mode != MODE_ENFORCE ||
        !(circuit_is_blocked(circuit, now_ns) || (handling->hold == HOLD_UNPROBED && circuit_is_open(circuit))))
        *call = claim_record(guard, attempt, now_ns, view);
    if (limited && *call != CALL_NONE && !has_room(guard, attempt, handling, now_ns, *call)) {
        admission = refuse_unasked(guard, attempt, ADMIT_REFUSED_BULKHEAD, now_ns);
        if (handling->mode != MODE_ENFORCE)
            admission = pass_as_shadow(circuit_address_index(circuit, attempt->address_key), ticket);
    } else {
        admission = ask_circuit(guard, attempt, circuit, handling, now_ns, *call, ticket);
    }
    if (admission_refuses(admission) && *call != CALL_NONE) {
        give_record(guard, *call, view, attempt->target);
        *call = CALL_NONE;
    } else if (!admission_refuses(admission) && *call == CALL_NONE) {
        *call = claim_record(guard, attempt, now_ns, view);
    }
    return admission;
}

/* The call is admitted: counts it, beside the step that makes it known. */
HOT static bool begin(struct guard *guard, const struct attempt *attempt, struct circuit *circuit, uint32_t call,
                      const struct call_view *view, const struct ticket *ticket, enum phase phase, uint64_t now_ns)
{
    const struct target *target = attempt->target;
    uint64_t timeout_ns = phase == PHASE_CONNECTING ? target->connect_timeout_ns : target->response_timeout_ns;

    if (__builtin_expect(atomic_load_explicit(&guard->is_brief, memory_order_relaxed), 0))
        introduce(guard);
    uint64_t due_ns = calls_due_after(now_ns, timeout_ns);
    bool is_ours = calls_fill(guard->segment, call, view, attempt->circuit, ticket, now_ns, due_ns);

    counters_add(&circuit->counters, attempt->shard, COUNT_ADMITTED);
    return is_ours && calls_begin(guard->segment, call, view, phase, due_ns);
}

/* --- the short way --- */

/* Whether no more is to be asked than the circuit, and it says yes: it is closed. */
static bool passes_plainly(const struct guard *guard, const struct attempt *attempt, const struct circuit *circuit,
                           uint64_t *generation)
{
    const struct target *target = attempt->target;

    return (target->mode == MODE_ENFORCE || target->mode == MODE_OBSERVE) && target->max_connections == 0 &&
           layout_is_unspoken(circuits_entry(guard->segment, attempt->circuit)) && circuit_is_well(circuit, generation);
}

/*
 * What an admission comes to as a rule: nobody has left anything to do, and the circuit is closed. Few lines of code,
 * for most of what an attempt costs is that they are not in the cache. False: nothing was done.
 */
HOT static bool admit_short(struct guard *guard, const struct attempt *attempt, struct circuit *circuit,
                            uint64_t now_ns, uint32_t *call, enum admission *admission)
{
    struct segment *segment = guard->segment;
    struct ticket ticket = {.address = ADDRESS_NONE};
    struct call_view view;

    if (!guard->takes_short_way || circuit == NULL || !passes_plainly(guard, attempt, circuit, &ticket.generation) ||
        tidying_is_due(guard, now_ns) || (*call = calls_claim_raw(segment, guard->holder, &view.raw)) == CALL_NONE)
        return false;
    ticket.address = place_of_address(guard, attempt, circuit);
    *admission = ADMIT_PASS;
    if (!begin(guard, attempt, circuit, *call, &view, &ticket, PHASE_CONNECTING, now_ns)) {
        *call = CALL_NONE;
        *admission = pass_without_record(guard, attempt, &ticket, now_ns);
    }
    return true;
}

HOT enum admission guard_admit(struct guard *guard, const struct attempt *attempt, uint64_t now_ns, uint32_t *call)
{
    struct segment *segment = guard->segment;
    struct circuit *circuit = circuits_at(segment, attempt->circuit);
    enum admission admission;
    struct call_view view;
    struct ticket ticket;

    *call = CALL_NONE;
    if (admit_short(guard, attempt, circuit, now_ns, call, &admission))
        return admission;
    tidying_do_some(guard, attempt, circuit, now_ns);
    const struct handling handling = handling_of(guard, attempt, true, now_ns);
    if (is_refused_always(&handling))
        return refuse_always(guard, attempt, &handling, now_ns);
    if (circuit == NULL)
        return pass_unguarded(segment, NO_ROOM_CIRCUITS);

    admission = ask_both(guard, attempt, circuit, &handling, now_ns, call, &view, &ticket);
    if (admission_refuses(admission))
        return admission;
    if (*call == CALL_NONE) {
        counters_add(&circuit->counters, attempt->shard, COUNT_ADMITTED);
        return pass_without_record(guard, attempt, &ticket, now_ns);
    }
    if (!begin(guard, attempt, circuit, *call, &view, &ticket, PHASE_CONNECTING, now_ns)) {
        *call = CALL_NONE;
        return pass_without_record(guard, attempt, &ticket, now_ns);
    }
    return admission;
}

enum admission guard_begin(struct guard *guard, const struct attempt *attempt, uint32_t call, uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, attempt->circuit);
    struct call_view view;
    struct ticket ticket;

    tidying_do_some(guard, attempt, circuit, now_ns);
    const struct handling handling = handling_of(guard, attempt, attempt_may_be_refused(attempt), now_ns);
    if (is_refused_always(&handling))
        return refuse_always(guard, attempt, &handling, now_ns);
    if (circuit == NULL || !calls_read_own(guard->segment, call, guard->holder, &view))
        return pass_unguarded(guard->segment, circuit == NULL ? NO_ROOM_CIRCUITS : NO_ROOM_CONNECTIONS);
    /* Of threads that send at the same moment one begins the call, and the others' bytes are more of its request. */
    if (!calls_reserve(guard->segment, call, &view))
        return ADMIT_PASS;
    calls_set_times(guard->segment, call, now_ns, DUE_NEVER); /* since when: guard_settle frees it one day */

    enum admission admission = ask_circuit(guard, attempt, circuit, &handling, now_ns, call, &ticket);
    if (admission_refuses(admission)) {
        calls_settle(guard->segment, call, &view, CALL_SETTLED);
        return admission;
    }
    if (!begin(guard, attempt, circuit, call, &view, &ticket, PHASE_REQUESTED, now_ns))
        return pass_without_record(guard, attempt, &ticket, now_ns);
    return admission;
}

enum admission guard_begin_beside(struct guard *guard, const struct attempt *attempt, uint64_t now_ns, uint32_t *call)
{
    struct circuit *circuit = circuits_at(guard->segment, attempt->circuit);
    struct call_view view;
    struct ticket ticket;

    *call = CALL_NONE;
    tidying_do_some(guard, attempt, circuit, now_ns);
    const struct handling handling = handling_of(guard, attempt, attempt_may_be_refused(attempt), now_ns);
    if (is_refused_always(&handling))
        return refuse_always(guard, attempt, &handling, now_ns);
    if (circuit == NULL || (*call = claim_record(guard, attempt, now_ns, &view)) == CALL_NONE)
        return pass_unguarded(guard->segment, circuit == NULL ? NO_ROOM_CIRCUITS : NO_ROOM_CONNECTIONS);

    enum admission admission = ask_circuit(guard, attempt, circuit, &handling, now_ns, *call, &ticket);
    if (admission_refuses(admission))
        give_record(guard, *call, &view, attempt->target);
    else if (begin(guard, attempt, circuit, *call, &view, &ticket, PHASE_REQUESTED, now_ns))
        return admission;
    else
        admission = pass_without_record(guard, attempt, &ticket, now_ns);
    *call = CALL_NONE;
    return admission;
}
