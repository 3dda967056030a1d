/*
 * report.c - builds events and puts them where they belong.
 *
 * Whoever opens a circuit re-arms the note of its first refusal after the opening stands in the journal, so that the
 * two have that order there.
 */
#include "guard/report.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "segment/calls.h"
#include "segment/circuit_evidence.h"
#include "guard/outage_events.h"
#include "segment/circuits.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/local_faults.h"
#include "segment/outage.h"
#include "segment/processes.h"

/* An event is half a KiB: it is not to lie on the stack of whoever reports while that does something else. */
#define APART __attribute__((noinline, cold))

static void copy_text(char *copy, const char *text, size_t size)
{
    size_t length = strnlen(text, size - 1);

    memcpy(copy, text, length);
    copy[length] = '\0';
}

void report_start(struct event *event, const struct guard *guard, uint32_t circuit, enum event_type type,
                  uint64_t now_ns)
{
    memset(event, 0, sizeof *event);
    event->type = (uint8_t)type;
    event->time_ns = clock_wall_ns();
    event->mono_ns = now_ns;
    event->pid = guard->pid;
    copy_text(event->program, guard->program, sizeof event->program);
    circuits_copy_texts(guard->segment, circuit, event->target, event->destination);
}

/* Keeps an event in one of a circuit's two slots of its kind, in turn: one of them always stands. */
static void freeze(struct event_slot slots[2], _Atomic uint32_t *writes, const struct event *event)
{
    uint32_t number = atomic_fetch_add_explicit(writes, 1, memory_order_relaxed);

    /* A stamp is the number and 1, and must not be 0: 31 bits are enough to tell the later of two. */
    event_slot_write(&slots[number % 2], number & INT32_MAX, event);
}

static uint32_t count32(uint64_t count)
{
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static uint32_t milliseconds(uint64_t ns)
{
    return count32(ns / NS_PER_MS);
}

static enum event_type transition_event(enum circuit_state to)
{
    switch (to) {
    case CIRCUIT_OPEN:
        return EVENT_OPEN;
    case CIRCUIT_HALF_OPEN:
        return EVENT_HALF_OPEN;
    case CIRCUIT_CLOSED:
        break;
    }
    return EVENT_CLOSE;
}

static size_t line_of(const void *event, char *line, size_t size)
{
    return event_json(event, line, size);
}

APART static void report_transition(const struct guard *guard, uint32_t circuit, const struct transition *transition,
                                    bool injected, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    struct event event;

    report_start(&event, guard, circuit, transition_event(transition->to), now_ns);
    event.from = (uint8_t)transition->from;
    event.to = (uint8_t)transition->to;
    event.reason = (uint8_t)transition->reason;
    event.injected = injected;
    event.failures = transition->failures;
    event.window_calls = count32(transition->window.calls);
    event.window_failed = count32(transition->window.failed);
    event.window_slow = count32(transition->window.slow);
    event.pause_ns = transition->pause_ns;
    event.refused = transition->refused;
    event.elapsed_ms = now_ns > transition->at_ns ? milliseconds(now_ns - transition->at_ns) : 0;
    if (entry != NULL)
        outage_tell(entry, transition, &event);
    journal_append(guard->segment, &event);
    if (entry != NULL) {
        freeze(entry->transitions, &entry->transition_writes, &event);
        if (transition->to == CIRCUIT_OPEN)
            /* Release: a refusal that finds the note armed is journalled behind the opening. */
            atomic_store_explicit(&entry->refusal_noted, 0, memory_order_release);
    }
    if (guard->log != NULL && guard->log[0] != '\0' && !log_append_made(guard->log, line_of, &event, EVENT_JSON_MAX))
        segment_note_log_lost(guard->segment);
}

void report_transitions(const struct guard *guard, uint32_t circuit, const struct transitions *transitions,
                        bool injected, uint64_t now_ns)
{
    for (unsigned int i = 0; i < transitions->count && i < TRANSITIONS_MAX; i++)
        report_transition(guard, circuit, &transitions->at[i], injected, now_ns);
}

/* What an outcome and a failure have both. */
static void start_ended(struct event *event, const struct guard *guard, enum event_type type,
                        const struct call_view *call, const struct ending *ending, uint64_t now_ns)
{
    struct process_view owner;

    report_start(event, guard, call->circuit, type, now_ns);
    event->kind = (uint8_t)ending->outcome.kind;
    event->error = ending->error;
    event->elapsed_ms = milliseconds(ending->elapsed_ns);
    event->pause_ns = ending->retry_after_ns;
    event->overran = (uint8_t)ending->overran;
    event->injected = call->injected;
    if (call->owner != guard->holder) {
        bool known = process_describe(guard->segment, call->owner, &owner);

        event->pid = known ? owner.pid : 0;
        copy_text(event->program, known ? owner.program : "", sizeof event->program);
    }
}

APART void report_outcome(const struct guard *guard, const struct call_view *call, const struct ending *ending,
                          bool late, uint64_t now_ns)
{
    struct event event;

    start_ended(&event, guard, EVENT_OUTCOME, call, ending, now_ns);
    event.late = late;
    event.passed = call->ticket.generation == SHADOW_GENERATION;
    event.verdict = (uint8_t)ending->outcome.verdict;
    event.reason = (uint8_t)ending->outcome.reason;
    event.slow = ending->outcome.slow;
    event.http_status = (uint16_t)ending->http_status;
    journal_append(guard->segment, &event);
}

/* In which ring of the circuit's evidence a call's end is kept. */
static enum evidence_ring ring_of(const struct call_view *call)
{
    if (call->ticket.generation == SHADOW_GENERATION)
        return EVIDENCE_OBSERVED;
    return call->ticket.token != 0 ? EVIDENCE_PROBES : EVIDENCE_CLOSED;
}

static uint32_t lower_half_of_address(const struct guard *guard, const struct call_view *call)
{
    const struct circuit *circuit = circuits_at(guard->segment, call->circuit);

    return circuit != NULL ? (uint32_t)circuit_address_key(circuit, call->ticket.address) : 0;
}

/* Keeps an end as evidence of the circuit's: a failure, or a success that was slow. */
static void keep(const struct guard *guard, const struct call_view *call, const struct ending *ending,
                 const struct event *event)
{
    struct evidence evidence = {
        .time_ns = event->time_ns,
        .mono_ns = event->mono_ns,
        .counted_ns = ending->at_ns,
        .elapsed_ns = ending->elapsed_ns,
        .pid = event->pid,
        .number = calls_number(call),
        .address = lower_half_of_address(guard, call),
        .generation = (uint32_t)call->ticket.generation,
        .error = (int16_t)ending->error,
        .http_status = (uint16_t)ending->http_status,
        .kind = event->kind,
        .overran = event->overran,
        .phase = (uint8_t)call->phase,
        .marks = (uint8_t)((call->injected ? EVIDENCE_INJECTED : 0) | (ending->outcome.slow ? EVIDENCE_SLOW : 0)),
    };

    memcpy(evidence.program, event->program, sizeof evidence.program);
    evidence_note(guard->segment, call->circuit, ring_of(call), &evidence);
}

APART void report_failure(const struct guard *guard, const struct call_view *call, const struct ending *ending,
                          bool late, uint64_t now_ns)
{
    struct event event;

    start_ended(&event, guard, EVENT_FAILURE, call, ending, now_ns);
    event.late = late;
    event.passed = call->ticket.generation == SHADOW_GENERATION;
    event.http_status = (uint16_t)ending->outcome.http_status;
    journal_append(guard->segment, &event);
    if (!late)
        keep(guard, call, ending, &event);
}

APART void report_slow(const struct guard *guard, const struct call_view *call, const struct ending *ending,
                       uint64_t now_ns)
{
    struct event event;

    start_ended(&event, guard, EVENT_OUTCOME, call, ending, now_ns);
    keep(guard, call, ending, &event);
}

APART void report_opening(const struct guard *guard, const struct call_view *call, const struct settings *settings,
                          const struct transition *transition, uint64_t at_ns, uint64_t now_ns)
{
    struct opening opening = {
        .time_ns = clock_wall_ns(),
        .mono_ns = now_ns,
        .counted_ns = at_ns,
        .pause_ns = transition->pause_ns,
        .window = settings->window,
        .slow_call_ns = settings->slow_call_ns,
        .failure_threshold = settings->failure_threshold,
        .minimum_calls = settings->minimum_calls,
        .failure_rate_permille = settings->failure_rate_permille,
        .slow_call_rate_permille = settings->slow_call_rate_permille,
        .failures = transition->failures,
        .window_calls = count32(transition->window.calls),
        .window_failed = count32(transition->window.failed),
        .window_slow = count32(transition->window.slow),
        .pid = guard->pid,
        .generation = (uint32_t)call->ticket.generation,
        .reason = (uint8_t)transition->reason,
        .injected = call->injected,
    };

    memcpy(opening.program, guard->program, sizeof opening.program);
    evidence_note_opening(guard->segment, call->circuit, &opening);
}

void report_attempt(const struct guard *guard, const struct call_view *call, const struct ending *ending)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, call->circuit);
    const struct event_attempt attempt = {
        .elapsed_ms = milliseconds(ending->elapsed_ns),
        .http_status = (uint16_t)ending->outcome.http_status,
        .kind = (uint8_t)ending->outcome.kind,
        .error = ending->error > 0 && ending->error <= UINT8_MAX ? (uint8_t)ending->error : 0,
    };

    if (entry != NULL)
        outage_note_attempt(entry, call->ticket.token, &attempt);
}

APART void report_local_fault(const struct guard *guard, const struct call_view *call, const struct ending *ending,
                              uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, call->circuit);
    struct local_fault_view fault = {.error = ending->error, .time_ns = clock_wall_ns(), .mono_ns = now_ns};
    struct process_view owner;

    if (entry == NULL)
        return;
    if (call->owner == guard->holder) {
        fault.pid = guard->pid;
        copy_text(fault.program, guard->program, sizeof fault.program);
    } else if (process_describe(guard->segment, call->owner, &owner)) {
        fault.pid = owner.pid;
        copy_text(fault.program, owner.program, sizeof fault.program);
    }
    local_fault_note(entry, &fault);
}

APART void report_probe(const struct guard *guard, uint32_t circuit, uint64_t now_ns)
{
    struct event event;

    report_start(&event, guard, circuit, EVENT_PROBE, now_ns);
    journal_append(guard->segment, &event);
}

static uint32_t note_of(enum admission admission)
{
    switch (admission) {
    case ADMIT_REFUSED_BULKHEAD:
        return REFUSAL_NOTE_CROWD;
    case ADMIT_REFUSED_FORCED:
        return REFUSAL_NOTE_FORCED;
    case ADMIT_REFUSED_FLEET:
        return REFUSAL_NOTE_FLEET;
    default:
        return REFUSAL_NOTE_OPEN;
    }
}

APART void report_refusal(const struct guard *guard, uint32_t circuit, enum admission admission, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    const uint32_t note = note_of(admission);
    struct event event;

    /*
     * Refusals are many: a load is all that they cost. Of those that find the note missing one writes. Acquire: see
     * report_transition.
     */
    if (entry == NULL || (atomic_load_explicit(&entry->refusal_noted, memory_order_relaxed) & note) != 0 ||
        (atomic_fetch_or_explicit(&entry->refusal_noted, note, memory_order_acquire) & note) != 0)
        return;
    report_start(&event, guard, circuit, EVENT_REFUSED, now_ns);
    event.reason = (uint8_t)admission;
    journal_append(guard->segment, &event);
}

/* The first refusal by a word, or a hold, that stands from now on is a first one. */
static void rearm(const struct guard *guard, uint32_t circuit, enum refusal_note note)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);

    if (entry != NULL)
        atomic_fetch_and_explicit(&entry->refusal_noted, ~(uint32_t)note, memory_order_release);
}

APART void report_forced(const struct guard *guard, const char *user, uint32_t circuit, const struct forcing *forcing,
                         uint64_t now_ns)
{
    struct event event;

    report_start(&event, guard, circuit, EVENT_FORCED, now_ns);
    copy_text(event.program, user, sizeof event.program);
    event.from = (uint8_t)forcing->from;
    event.to = (uint8_t)forcing->to;
    event.reason = REASON_FORCED;
    event.kind = (uint8_t)forcing->forced;
    event.pause_ns = forcing->lasts_ns;
    if (forcing->host != NULL)
        copy_text(event.hosts, forcing->host, sizeof event.hosts);
    journal_append(guard->segment, &event);
    rearm(guard, circuit, REFUSAL_NOTE_FORCED);
}

APART void report_force_ended(const struct guard *guard, uint32_t circuit, enum circuit_state from,
                              enum circuit_state to, uint64_t ago_ns, uint64_t now_ns)
{
    struct event event;

    report_start(&event, guard, circuit, EVENT_FORCED, now_ns);
    event.from = (uint8_t)from;
    event.to = (uint8_t)to;
    event.reason = REASON_FORCE_ENDED;
    event.kind = FORCED_NONE;
    event.pause_ns = ago_ns;
    journal_append(guard->segment, &event);
    rearm(guard, circuit, REFUSAL_NOTE_FORCED);
}

APART void report_held(const struct guard *guard, uint32_t circuit, const struct held_report *held, uint64_t now_ns)
{
    struct event event;

    report_start(&event, guard, circuit, EVENT_HELD, now_ns);
    event.from = (uint8_t)held->from;
    event.to = (uint8_t)held->to;
    event.reason = (uint8_t)held->reason;
    event.kind = (uint8_t)held->hold;
    event.error = held->error;
    event.http_status = (uint16_t)held->http_status;
    event.failures = held->exit_status;
    event.pause_ns = held->span_ns;
    if (held->hosts != NULL)
        copy_text(event.hosts, held->hosts, sizeof event.hosts);
    journal_append(guard->segment, &event);
    if (held->hold == HOLD_FLEET)
        rearm(guard, circuit, REFUSAL_NOTE_FLEET);
}

APART void report_reload(const struct guard *guard, const char *user, uint64_t revision, uint64_t now_ns)
{
    struct event event;

    report_start(&event, guard, CIRCUIT_INDEX_NONE, EVENT_RELOAD, now_ns);
    copy_text(event.program, user, sizeof event.program);
    event.refused = revision;
    journal_append(guard->segment, &event);
}
