/*
 * guard.c - admission and settlement of an engine's calls: joins a circuit, the records of calls, the journal.
 *
 * The circuit decides and counts; the record makes sure that of all who see a call's end one reports it. An attempt
 * that the mode of its target lets pass against the circuit's word bears a ticket that no circuit ever knew: what
 * becomes of it is counted and decides nothing.
 */
#include "segment/guard.h"

#include <stdatomic.h>

#include "segment/bulkhead.h"
#include "segment/circuits.h"
#include "segment/clock.h"
#include "segment/force.h"
#include "segment/layout.h"
#include "segment/overdue.h"
#include "segment/report.h"
#include "segment/settle.h"

/* A CAS of a call's state loses only to another step of the same call, of which there are few. */
#define STEPS_MAX 16u
#define TIDY_NS (10 * NS_PER_S)
/* Who is about to begin a call takes microseconds, or was jumped out of by a signal's handler and never will. */
#define RESERVED_NS NS_PER_S

/* The caller's own record; false for any other, for instance the parent's in a fork's child. */
static bool read_own(const struct guard *guard, uint32_t call, struct call_view *view)
{
    return calls_read(guard->segment, call, view) && view->owner == guard->holder;
}

/* --- admission --- */

static enum admission pass_unguarded(struct segment *segment)
{
    if (segment->map != NULL)
        atomic_fetch_add_explicit(&segment->map->unguarded, 1, memory_order_relaxed);
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
    bool may_refuse;
};

static struct handling handling_of(const struct guard *guard, const struct attempt *attempt, bool may_refuse)
{
    enum forced forced = force_get(guard->segment, attempt->circuit);

    return (struct handling){forced, force_mode(forced, attempt->target), may_refuse};
}

static enum admission refuse_always(const struct guard *guard, const struct attempt *attempt,
                                    const struct handling *handling, uint64_t now_ns)
{
    return refuse_unasked(guard, attempt,
                          handling->forced == FORCED_OPEN ? ADMIT_REFUSED_FORCED : ADMIT_REFUSED_OPEN, now_ns);
}

/*
 * It would have been refused and passes all the same: counted as refused, for that is what it would have been, and as
 * admitted, for it will have an outcome.
 */
static enum admission pass_as_shadow(struct circuit *circuit, const struct attempt *attempt, int address,
                                     struct ticket *ticket)
{
    counters_add(&circuit->counters, attempt->shard, COUNT_ADMITTED);
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

static enum admission ask_circuit(const struct guard *guard, const struct attempt *attempt, struct circuit *circuit,
                                  const struct handling *handling, uint64_t now_ns, struct ticket *ticket)
{
    struct caller caller = guard_caller(guard, attempt->shard);
    struct transitions transitions;
    struct settings room;

    caller.address = circuit_address_index(circuit, attempt->address_key);
    /* While the circuit is closed nobody asks for them. */
    if (!circuit_is_closed(circuit))
        caller.addresses = address_mask(circuit, attempt, caller.address);

    enum admission admission =
        circuit_admit(circuit, settings_in_force(attempt->target, handling->mode, &room), &caller, now_ns, ticket,
                      &transitions);
    report_transitions(guard, attempt->circuit, &transitions, false, now_ns);
    if (admission == ADMIT_PROBE && !ticket->joined)
        report_probe(guard, attempt->circuit, now_ns);
    if (admission == ADMIT_PASS || admission == ADMIT_PROBE)
        return admission;

    if (handling->may_refuse)
        refuse(guard, attempt, admission, now_ns);
    if (handling->may_refuse && handling->mode == MODE_ENFORCE)
        return admission;
    return pass_as_shadow(circuit, attempt, caller.address, ticket);
}

/*
 * No record: nobody will see how it ends. Settled at once, so that a probe's permit is not lost and the sums stay
 * right.
 */
static enum admission pass_without_record(struct guard *guard, const struct attempt *attempt,
                                          const struct ticket *ticket, uint64_t now_ns)
{
    struct call_view call = {.owner = guard->holder, .circuit = attempt->circuit, .ticket = *ticket};
    struct ending ending = {.outcome = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN}, .at_ns = now_ns};

    settle_call(guard, attempt->target, attempt->shard, &call, &ending, now_ns);
    return pass_unguarded(guard->segment);
}

static uint32_t claim_record(struct guard *guard, const struct attempt *attempt, uint64_t now_ns)
{
    uint32_t call = calls_claim(guard->segment, guard->holder);

    if (call == CALL_NONE && overdue_sweep(guard, attempt->target, attempt->shard, now_ns))
        call = calls_claim(guard->segment, guard->holder);
    return call;
}

/* Whether the connection may be one more; its record then bears its share. Mode `closed` never refuses. */
static bool has_room(const struct guard *guard, const struct attempt *attempt, const struct handling *handling,
                     uint32_t call)
{
    uint32_t limit = handling->mode == MODE_CLOSED ? BULKHEAD_UNLIMITED : attempt->target->max_connections;

    return bulkhead_take(guard->segment, attempt->circuit, call, limit);
}

static void give_record(struct guard *guard, uint32_t call, const struct target *target)
{
    bulkhead_give(guard->segment, call, target->max_connections);
    calls_release(guard->segment, call, guard->holder);
}

/*
 * The bulkhead and then the circuit are asked, in this order: one that finds no room takes no probe's lease. With a
 * limit the record comes first, for it bears the share; else it is claimed only for who was admitted.
 */
static enum admission ask_both(struct guard *guard, const struct attempt *attempt, struct circuit *circuit,
                               const struct handling *handling, uint64_t now_ns, uint32_t *call, struct ticket *ticket)
{
    const bool limited = attempt->target->max_connections != 0;
    enum admission admission = ADMIT_PASS;

    if (limited)
        *call = claim_record(guard, attempt, now_ns);
    if (*call != CALL_NONE && !has_room(guard, attempt, handling, *call)) {
        admission = refuse_unasked(guard, attempt, ADMIT_REFUSED_BULKHEAD, now_ns);
        if (handling->mode != MODE_ENFORCE)
            admission = pass_as_shadow(circuit, attempt, circuit_address_index(circuit, attempt->address_key), ticket);
    } else {
        admission = ask_circuit(guard, attempt, circuit, handling, now_ns, ticket);
    }
    if (admission_refuses(admission) && *call != CALL_NONE) {
        give_record(guard, *call, attempt->target);
        *call = CALL_NONE;
    } else if (!admission_refuses(admission) && !limited) {
        *call = claim_record(guard, attempt, now_ns);
    }
    return admission;
}

/*
 * Calls of processes that were killed, or have called exec, are given back as neutral by others' attempts, now and
 * then. Not while the circuit refuses: a refusal makes no system call.
 */
static void tidy(struct guard *guard, const struct attempt *attempt, const struct circuit *circuit, uint64_t now_ns)
{
    uint64_t after = atomic_load_explicit(&guard->tidy_after_ns, memory_order_relaxed);

    if (now_ns < after || !circuit_is_closed(circuit) ||
        !atomic_compare_exchange_strong_explicit(&guard->tidy_after_ns, &after, now_ns + TIDY_NS, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    overdue_sweep(guard, attempt->target, attempt->shard, now_ns);
}

enum admission guard_admit(struct guard *guard, const struct attempt *attempt, uint64_t now_ns, uint32_t *call)
{
    const struct target *target = attempt->target;
    struct segment *segment = guard->segment;
    struct circuit *circuit = circuits_at(segment, attempt->circuit);
    struct ticket ticket;

    *call = CALL_NONE;
    overdue_charge(guard, target, attempt->shard, attempt->circuit, now_ns);
    const struct handling handling = handling_of(guard, attempt, true);
    if (handling.mode == MODE_OPEN)
        return refuse_always(guard, attempt, &handling, now_ns);
    if (circuit == NULL)
        return pass_unguarded(segment);
    tidy(guard, attempt, circuit, now_ns);

    enum admission admission = ask_both(guard, attempt, circuit, &handling, now_ns, call, &ticket);
    if (admission_refuses(admission))
        return admission;
    if (*call == CALL_NONE)
        return pass_without_record(guard, attempt, &ticket, now_ns);

    uint64_t due_ns = calls_due_after(now_ns, target->connect_timeout_ns);
    calls_begin(segment, *call, attempt->circuit, &ticket, PHASE_CONNECTING, now_ns, due_ns);
    overdue_note(segment, attempt->circuit, due_ns);
    return admission;
}

enum admission guard_begin(struct guard *guard, const struct attempt *attempt, uint32_t call, uint64_t now_ns)
{
    const struct target *target = attempt->target;
    struct circuit *circuit = circuits_at(guard->segment, attempt->circuit);
    struct call_view view;
    struct ticket ticket;

    overdue_charge(guard, target, attempt->shard, attempt->circuit, now_ns);
    const struct handling handling = handling_of(guard, attempt, !target->existing_allowed);
    if (handling.mode == MODE_OPEN && handling.may_refuse)
        return refuse_always(guard, attempt, &handling, now_ns);
    if (circuit == NULL || !read_own(guard, call, &view))
        return pass_unguarded(guard->segment);
    /* Of threads that send at the same moment one begins the call, and the others' bytes are more of its request. */
    if (!calls_reserve(guard->segment, call, &view))
        return ADMIT_PASS;
    calls_set_times(guard->segment, call, now_ns, DUE_NEVER); /* since when: see RESERVED_NS */

    enum admission admission = ask_circuit(guard, attempt, circuit, &handling, now_ns, &ticket);
    if (admission_refuses(admission)) {
        calls_settle(guard->segment, call, &view, CALL_SETTLED);
        return admission;
    }
    uint64_t due_ns = calls_due_after(now_ns, target->response_timeout_ns);
    calls_begin(guard->segment, call, attempt->circuit, &ticket, PHASE_REQUESTED, now_ns, due_ns);
    overdue_note(guard->segment, attempt->circuit, due_ns);
    return admission;
}

/* --- the call's life --- */

static uint64_t due_in_phase(const struct target *target, enum phase phase, uint64_t now_ns)
{
    if (phase == PHASE_CONNECTED && target->rules.connect_is_success)
        return DUE_NEVER;
    return calls_due_after(now_ns,
                           phase == PHASE_CONNECTING ? target->connect_timeout_ns : target->response_timeout_ns);
}

/* Brings a call at least to `phase`, and starts the wait of that phase. */
static void advance(struct guard *guard, uint32_t call, const struct target *target, enum phase phase, uint64_t now_ns)
{
    struct call_view view;

    for (unsigned int step = 0; step < STEPS_MAX; step++) {
        if (!read_own(guard, call, &view) || !view.in_flight)
            return;
        /* Of two threads, the later phase is right; its times too, whoever of the two wrote last. */
        enum phase next = view.phase > phase ? view.phase : phase;
        bool moves = next != view.phase;
        if (!moves && step == 0 && (phase < view.phase || phase == PHASE_CONNECTED || view.due_ns == DUE_NEVER))
            return;

        uint64_t due_ns = due_in_phase(target, next, now_ns);
        calls_set_times(guard->segment, call, now_ns, due_ns);
        if (moves && !calls_move(guard->segment, call, &view, next))
            continue;
        overdue_note(guard->segment, view.circuit, due_ns);
        return;
    }
}

void guard_connected(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns)
{
    advance(guard, call, target, PHASE_CONNECTED, now_ns);
}

void guard_requested(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns)
{
    advance(guard, call, target, PHASE_REQUESTED, now_ns);
}

enum phase guard_phase(const struct guard *guard, uint32_t call, bool *settled)
{
    enum phase phase = PHASE_ANSWERED;

    *settled = !calls_phase(guard->segment, call, guard->holder, &phase);
    return *settled ? PHASE_ANSWERED : phase;
}

bool guard_is_over(const struct guard *guard, uint32_t call)
{
    struct call_view view;

    return read_own(guard, call, &view) && (view.settled == CALL_SETTLED || view.settled == CALL_OVERDUE_ENDED);
}

/* The real end of a call that was charged while it hung: it has its one outcome, so this is counted apart, once. */
static void note_real_end(struct guard *guard, uint32_t call, unsigned int shard, const struct call_view *view)
{
    struct circuit *circuit = circuits_at(guard->segment, view->circuit);

    if (circuit != NULL && calls_settle(guard->segment, call, view, CALL_OVERDUE_ENDED))
        counters_add(&circuit->counters, shard, COUNT_OVERDUE_ENDED);
}

/* Until when an answer asks to be left alone, as far as the target goes along with that. */
static uint64_t free_again(const struct target *target, uint64_t retry_after_ns, uint64_t now_ns)
{
    uint64_t wait_ns = retry_after_ns < target->retry_after_max_ns ? retry_after_ns : target->retry_after_max_ns;

    return wait_ns < UINT64_MAX - now_ns ? now_ns + wait_ns : UINT64_MAX;
}

/* A connection alone is no answer. */
static bool is_slow(const struct observation *observation, struct outcome outcome, const struct settings *settings)
{
    return settings->slow_call_ns != 0 && outcome.verdict == VERDICT_SUCCESS && observation->seen == SEEN_BYTES &&
           observation->waited_ns > settings->slow_call_ns;
}

struct outcome guard_settle(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                            struct observation *observation, uint64_t now_ns)
{
    const struct outcome nothing = {.verdict = VERDICT_NONE};
    struct call_view view;

    for (unsigned int step = 0; step < STEPS_MAX; step++) {
        if (!read_own(guard, call, &view))
            return nothing;
        if (view.settled == CALL_RESERVED && now_ns > view.started_ns && now_ns - view.started_ns >= RESERVED_NS)
            calls_settle(guard->segment, call, &view, CALL_SETTLED);
        if (!view.in_flight && view.settled != CALL_OVERDUE)
            return nothing;
        struct circuit *circuit = circuits_at(guard->segment, view.circuit);
        if (circuit == NULL)
            return nothing;

        observation->phase = view.phase;
        /* An answer needs no excuse. */
        observation->other_answered =
            observation->seen != SEEN_BYTES && circuit_other_answered(circuit, view.ticket.address);
        struct outcome outcome = outcome_judge(observation, &target->rules);
        if (outcome.verdict == VERDICT_NONE)
            return nothing;
        outcome.slow = is_slow(observation, outcome, &target->breaker);
        if (!view.in_flight) {
            note_real_end(guard, call, shard, &view);
            return nothing;
        }
        if (!calls_settle(guard->segment, call, &view, CALL_SETTLED))
            continue;
        if (observation->retry_after_ns > 0)
            circuit_hold_open(circuit, free_again(target, observation->retry_after_ns, now_ns));
        struct ending ending = {.outcome = outcome,
                                .at_ns = now_ns,
                                .elapsed_ns = observation->waited_ns,
                                .error = observation->seen == SEEN_ERROR ? observation->error : 0,
                                .http_status = observation->seen == SEEN_BYTES ? observation->http_status : 0};
        settle_call(guard, target, shard, &view, &ending, now_ns);
        return outcome;
    }
    return nothing;
}

void guard_forget(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard, uint64_t now_ns)
{
    struct ending ending = {.outcome = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN}, .at_ns = now_ns};
    struct call_view view;

    for (unsigned int step = 0; step < STEPS_MAX && read_own(guard, call, &view); step++) {
        if (view.in_flight) {
            if (!calls_settle(guard->segment, call, &view, CALL_SETTLED))
                continue;
            settle_call(guard, target, shard, &view, &ending, now_ns);
        }
        give_record(guard, call, target);
        return;
    }
}

bool guard_waits_for_siblings(struct guard *guard, uint32_t call, const struct target *target,
                              const struct observation *observation, const uint64_t *siblings, size_t count,
                              uint64_t address_key)
{
    struct observation seen = *observation;
    struct call_view view;
    bool may_answer = false;

    if (!read_own(guard, call, &view) || !view.in_flight || view.phase != PHASE_CONNECTING || view.ticket.token != 0)
        return false;
    struct circuit *circuit = circuits_at(guard->segment, view.circuit);
    if (circuit == NULL)
        return false;
    seen.phase = view.phase;
    seen.other_answered = circuit_other_answered(circuit, view.ticket.address);
    if (outcome_judge(&seen, &target->rules).verdict != VERDICT_FAILURE)
        return false;
    for (size_t i = 0; i < count && !may_answer; i++)
        may_answer = siblings[i] != address_key && circuit_address_may_answer(circuit, siblings[i]);
    if (may_answer)
        circuit_address_failed(circuit, view.ticket.address);
    return may_answer;
}
