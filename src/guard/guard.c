/*
 * guard.c - a call's life after its admission (admission.c): joins its record, its circuit, the journal.
 *
 * The circuit counts; the record makes sure that of all who see a call's end one reports it.
 */
#include "guard/guard.h"

#include "base/clock.h"
#include "base/hot.h"
#include "guard/learning.h"
#include "guard/lost_calls.h"
#include "guard/overdue.h"
#include "guard/settle.h"
#include "segment/bulkhead.h"
#include "segment/call_record.h"
#include "segment/circuits.h"
#include "segment/processes.h"

/* A CAS of a call's state loses only to another step of the same call, of which there are few. */
#define STEPS_MAX 16u
/* Who is about to begin a call takes microseconds, or was jumped out of by a signal's handler and never will. */
#define RESERVED_NS NS_PER_S
/* A network that is slower than this is no better than none, to somebody who can't see what becomes of an upload. */
#define SLOW_BYTES_PER_S UINT64_C(65536)

static bool read_own(const struct guard *guard, uint32_t call, struct call_view *view)
{
    return calls_read_own(guard->segment, call, guard->holder, view);
}

static uint64_t due_in_phase(const struct target *target, enum phase phase, uint64_t now_ns)
{
    if (phase == PHASE_CONNECTED && connect_is_success(&target->rules))
        return DUE_NEVER;
    return calls_due_after(now_ns,
                           phase == PHASE_CONNECTING ? target->connect_timeout_ns : target->response_timeout_ns);
}

void guard_put_off(struct guard *guard, uint32_t call, uint64_t due_ns)
{
    struct call_view view;

    if (!read_own(guard, call, &view) || !view.in_flight)
        return;
    calls_put_off(guard->segment, call, &view, due_ns);
    calls_publish_times(guard->segment, call);
    calls_note_due(guard->segment, call, due_ns);
}

void guard_excuse(struct guard *guard, uint32_t call)
{
    guard_put_off(guard, call, DUE_NEVER);
}

uint64_t guard_due(const struct guard *guard, uint32_t call)
{
    struct call_view view;

    return read_own(guard, call, &view) && view.in_flight ? view.due_ns : DUE_NEVER;
}

static void note_connect(const struct guard *guard, const struct call_view *view, uint64_t now_ns)
{
    const struct wait wait = {
        .kind = WAIT_CONNECT, .stands_for = 1, .waited_ns = now_ns > view->started_ns ? now_ns - view->started_ns : 0};
    settle_wait(guard->segment, view->circuit, &wait, now_ns);
    if (wait.waited_ns >= LEARNT_LONG_NS)
        learning_note_long_wait(guard->segment, guard->holder, view->circuit, LEARNT_CONNECT, wait.waited_ns);
}

/* Brings a call at least to `phase`, and starts the wait of that phase, if it `waits` already. */
static void advance(struct guard *guard, uint32_t call, const struct target *target, enum phase phase, bool waits,
                    uint64_t now_ns)
{
    struct call_view view;

    for (unsigned int step = 0; step < STEPS_MAX; step++) {
        if (!read_own(guard, call, &view) || !view.in_flight)
            return;
        /* Of two threads, the later phase is right; its times too, whoever of the two wrote last. */
        enum phase next = view.phase > phase ? view.phase : phase;
        bool moves = next != view.phase;
        uint64_t due_ns = waits ? due_in_phase(target, next, now_ns) : DUE_NEVER;
        bool never = view.due_ns == DUE_NEVER && due_ns == DUE_NEVER;
        if (!moves && step == 0 && (phase < view.phase || phase == PHASE_CONNECTED || never))
            return;
        if (view.phase == PHASE_CONNECTING && now_ns >= view.due_ns) {
            overdue_charge_call(guard, target, call, call, &view, OVERRAN_CAME, now_ns);
            return;
        }

        calls_set_times(guard->segment, call, now_ns, due_ns);
        if (moves && !calls_move(guard->segment, call, &view, next))
            continue;
        if (moves && view.phase == PHASE_CONNECTING)
            note_connect(guard, &view, now_ns);
        if (!moves)
            calls_publish_times(guard->segment, call);
        calls_note_due(guard->segment, call, due_ns);
        return;
    }
}

void guard_connected(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns)
{
    advance(guard, call, target, PHASE_CONNECTED, true, now_ns);
}

void guard_requested(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns)
{
    advance(guard, call, target, PHASE_REQUESTED, true, now_ns);
}

void guard_request_goes_on(struct guard *guard, uint32_t call, const struct target *target, uint64_t now_ns)
{
    advance(guard, call, target, PHASE_REQUESTED, false, now_ns);
}

void guard_sending(struct guard *guard, uint32_t call, const struct target *target, uint64_t bytes, uint64_t now_ns)
{
    struct call_view view;

    if (target->response_timeout_ns == 0 || !read_own(guard, call, &view) || !view.in_flight ||
        view.phase == PHASE_CONNECTING)
        return;
    if (view.due_ns == DUE_NEVER) {
        uint64_t due_ns = due_in_phase(target, view.phase, now_ns);
        calls_set_times(guard->segment, call, now_ns, due_ns);
        calls_publish_times(guard->segment, call);
        calls_note_due(guard->segment, call, due_ns);
    }
    calls_set_grace(guard->segment, call, bytes < UINT32_MAX ? bytes * NS_PER_S / SLOW_BYTES_PER_S : DUE_NEVER);
}

HOT enum phase guard_phase(const struct guard *guard, uint32_t call, bool *settled)
{
    enum phase phase = PHASE_ANSWERED;

    *settled = !calls_phase(guard->segment, call, guard->holder, &phase);
    return *settled ? PHASE_ANSWERED : phase;
}

HOT bool guard_name(const struct guard *guard, uint32_t call, uint32_t number)
{
    struct call *record = record_at(guard->segment, call);

    if (record == NULL ||
        atomic_load_explicit(&guard->segment->call_owner[call], memory_order_relaxed) != guard->holder)
        return false;
    /* Release: who finds the number finds what it stands for. */
    atomic_store_explicit(&record->number, number, memory_order_release);
    return true;
}

uint32_t guard_number(const struct guard *guard, uint32_t call)
{
    const struct call *record = record_at(guard->segment, call);

    if (record == NULL ||
        atomic_load_explicit(&guard->segment->call_owner[call], memory_order_relaxed) != guard->holder)
        return 0;
    uint32_t number = atomic_load_explicit(&record->number, memory_order_acquire);
    return number < CALL_NUMBER_MAX ? number : 0;
}

bool guard_is_over(const struct guard *guard, uint32_t call)
{
    struct call_view view;

    return read_own(guard, call, &view) && (view.settled == CALL_SETTLED || view.settled == CALL_OVERDUE_ENDED);
}

/* What came ended the wait, whatever its outcome is. */
static enum wait_kind kind_of_wait(const struct observation *observation)
{
    return observation->seen == SEEN_BYTES       ? WAIT_ANSWER
           : observation->seen == SEEN_CONNECTED ? WAIT_CONNECT
                                                 : WAIT_IN_VAIN;
}

/* The real end of a call that was charged while it hung: it has its one outcome, so this is counted apart, once. */
static void note_real_end(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard,
                          const struct call_view *view, const struct observation *observation, uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, view->circuit);
    const struct wait wait = {.kind = kind_of_wait(observation),
                              .stands_for = 1,
                              .waited_ns = observation->waited_ns,
                              .noted_ns = view->due_ns > view->started_ns ? view->due_ns - view->started_ns : 0};

    if (circuit == NULL || !calls_settle(guard->segment, call, view, CALL_OVERDUE_ENDED))
        return;
    counters_add(&circuit->counters, shard, COUNT_OVERDUE_ENDED);
    settle_wait(guard->segment, view->circuit, &wait, now_ns);
    learning_note_end(guard, target, view, observation);
    learning_note_wait_beyond(guard->segment, view, &wait);
}

/* Until when an answer asks to be left alone, as far as the target goes along with that. */
static uint64_t free_again(const struct target *target, uint64_t retry_after_ns, uint64_t now_ns)
{
    uint64_t most_ns = target->breaker.retry_after_max_ns;
    uint64_t wait_ns = retry_after_ns < most_ns ? retry_after_ns : most_ns;

    return wait_ns < UINT64_MAX - now_ns ? now_ns + wait_ns : UINT64_MAX;
}

/* A connection alone is no answer. */
static bool is_slow(const struct observation *observation, struct outcome outcome, const struct settings *settings)
{
    return settings->slow_call_ns != 0 && outcome.verdict == VERDICT_SUCCESS && observation->seen == SEEN_BYTES &&
           observation->waited_ns > settings->slow_call_ns;
}

/* What came after the limit counts as of the limit. The times are the circuits', as those of calls that still hang. */
static void date_back(struct ending *ending, const struct observation *observation, const struct call_view *view,
                      uint64_t came_ns)
{
    bool is_timeout =
        ending->outcome.kind == FAILURE_CONNECT_TIMEOUT || ending->outcome.kind == FAILURE_RESPONSE_TIMEOUT;

    if (!observation->after_limit || !is_timeout)
        return;
    ending->at_ns = view->due_ns;
    ending->elapsed_ns = came_ns > view->started_ns ? came_ns - view->started_ns : 0;
    if (observation->seen == SEEN_BYTES || observation->seen == SEEN_CONNECTED)
        ending->overran = OVERRAN_CAME;
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
            lost_calls_settle(guard, call, &view, target, shard, now_ns);
        if (!view.in_flight && view.settled != CALL_OVERDUE)
            return nothing;
        struct circuit *circuit = circuits_at(guard->segment, view.circuit);
        if (circuit == NULL)
            return nothing;

        uint64_t came_ns = observation->came_ns != 0 ? observation->came_ns : now_ns;
        observation->phase = view.phase;
        observation->is_probe = view.ticket.token != 0;
        observation->after_limit = came_ns >= view.due_ns;
        /* An answer needs no excuse. */
        observation->other_answered =
            observation->seen != SEEN_BYTES && circuit_other_answered(circuit, view.ticket.address);
        struct outcome outcome = outcome_judge(observation, &target->rules);
        if (outcome.verdict == VERDICT_NONE)
            return nothing;
        outcome.slow = is_slow(observation, outcome, &target->breaker);
        if (!view.in_flight) {
            note_real_end(guard, call, target, shard, &view, observation, now_ns);
            return nothing;
        }
        if (!calls_settle(guard->segment, call, &view, CALL_SETTLED))
            continue;
        learning_note_end(guard, target, &view, observation);
        if (observation->retry_after_ns > 0)
            circuit_hold_open(circuit, free_again(target, observation->retry_after_ns, now_ns));
        struct ending ending = {.outcome = outcome,
                                .at_ns = now_ns,
                                .elapsed_ns = observation->waited_ns,
                                .error = observation->error,
                                .http_status = observation->seen == SEEN_BYTES ? observation->http_status : 0,
                                .retry_after_ns = observation->retry_after_ns,
                                .wait = {.kind = kind_of_wait(observation),
                                         .stands_for = observation->stands_for,
                                         .waited_ns = observation->waited_ns}};
        date_back(&ending, observation, &view, came_ns);
        settle_call(guard, target, shard, &view, &ending, now_ns);
        return outcome;
    }
    return nothing;
}

void guard_unshare(const struct guard *guard, uint32_t call, const struct target *target)
{
    bulkhead_give(guard->segment, call, guard->holder, target->max_connections);
}

bool guard_hand_on(struct guard *guard, uint32_t call, const struct target *target, unsigned int shard, uint64_t now_ns)
{
    struct observation handed = {.seen = SEEN_HANDED};
    struct call_view view;

    if (guard_settle(guard, call, target, shard, &handed, now_ns).verdict != VERDICT_NONE)
        return true;
    if (read_own(guard, call, &view) && view.phase != PHASE_CONNECTING)
        guard_excuse(guard, call);
    return false;
}

bool guard_probes(const struct guard *guard, uint32_t call)
{
    struct call_view view;

    return read_own(guard, call, &view) && view.in_flight && view.ticket.token != 0;
}

bool guard_wait(const struct guard *guard, uint32_t call, struct guard_wait *wait)
{
    struct call_view view;

    if (!read_own(guard, call, &view) || (!view.in_flight && view.settled != CALL_OVERDUE))
        return false;
    *wait = (struct guard_wait){view.started_ns, view.due_ns, calls_number(&view), view.phase};
    return true;
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
        } else if (view.settled == CALL_RESERVED) {
            if (!lost_calls_settle(guard, call, &view, target, shard, now_ns))
                continue;
        } else {
            settle_permit(guard, target, shard, &view, now_ns);
        }
        bulkhead_give(guard->segment, call, guard->holder, target->max_connections);
        calls_release(guard->segment, call, guard->holder);
        return;
    }
}

void guard_disown(struct segment *segment, uint32_t holder)
{
    struct call_view view;

    process_leave(segment, holder); /* so the leases are a dead process's, which the next admission takes back */
    for (uint32_t call = 0; call < calls_limit(segment); call++) {
        if (!calls_read_own(segment, call, holder, &view))
            continue;
        if (view.in_flight)
            calls_settle(segment, call, &view, CALL_SETTLED);
        bulkhead_give(segment, call, holder, 0);
        calls_release(segment, call, holder);
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
