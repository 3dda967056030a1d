/*
 * settle.c - one outcome's way to the circuit.
 */
#include "guard/settle.h"

#include "base/clock.h"
#include "base/frame.h"
#include "base/hot.h"
#include "guard/learning.h"
#include "guard/operator.h"
#include "guard/owners.h"
#include "guard/report.h"
#include "segment/circuits.h"

const struct settings *settings_in_force(const struct target *target, enum target_mode mode, struct settings *room)
{
    if (mode != MODE_CLOSED)
        return &target->breaker;
    *room = target->breaker;
    room->failure_threshold = room->failure_rate_permille = room->slow_call_rate_permille = 0;
    return room;
}

/* Who can't be asked now lives, as it did when it was asked last. */
static bool holder_alive(uint32_t holder, void *context)
{
    struct asking asking = {.left = 1, .about_lease = true, .real_ns = clock_real_ns()};

    return owner_ask(context, holder, &asking) != OWNER_IS_DEAD;
}

struct caller guard_caller(const struct guard *guard, unsigned int shard)
{
    return (struct caller){
        .holder = guard->holder,
        .shard = shard,
        .address = ADDRESS_NONE,
        .alive = holder_alive,
        .context = guard->segment,
    };
}

/* After other_answered was asked for the judgement, so that this failure is not its own excuse. */
static void note_address(struct circuit *circuit, int address, struct outcome outcome)
{
    /* An address that says "503" has answered. */
    if (outcome.verdict == VERDICT_SUCCESS || outcome.verdict == VERDICT_BUSINESS || outcome.kind == FAILURE_HTTP)
        circuit_address_answered(circuit, address);
    else if (outcome.kind != FAILURE_NONE)
        circuit_address_failed(circuit, address);
}

OWN_FRAME static enum settlement tell_circuit(const struct guard *guard, const struct target *target,
                                              unsigned int shard, const struct call_view *call,
                                              const struct ending *ending, struct circuit *circuit,
                                              struct transitions *transitions)
{
    struct caller caller = guard_caller(guard, shard);
    enum target_mode mode = force_mode(force_get(guard->segment, call->circuit, ending->at_ns), target);
    struct settings room;

    note_address(circuit, call->ticket.address, ending->outcome);
    caller.address = call->ticket.address;
    if (ending->outcome.verdict == VERDICT_FAILURE && call->ticket.token != 0)
        report_attempt(guard, call, ending);
    if (call->ticket.generation != SHADOW_GENERATION)
        return circuit_settle(circuit, settings_in_force(target, mode, &room), &caller, &call->ticket, ending->outcome,
                              ending->at_ns, transitions);
    circuit_count_outcome(circuit, shard, ending->outcome);
    transitions->count = 0;
    return SETTLED_COUNTED;
}

HOT OWN_FRAME void settle_wait(const struct segment *segment, uint32_t circuit, const struct wait *wait,
                               uint64_t now_ns)
{
    struct latency *latency = circuits_latency(segment, circuit);
    const struct circuit *at = circuits_at(segment, circuit);

    if (latency == NULL)
        return;
    if (wait->ends_call && latency_is_look_due(latency, now_ns))
        latency_note_in_flight(latency, counters_in_flight(&at->counters));
    latency_note(latency, wait, now_ns);
}

OWN_FRAME void settle_call(const struct guard *guard, const struct target *target, unsigned int shard,
                           const struct call_view *call, const struct ending *ending, uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, call->circuit);
    struct transitions transitions;
    struct wait wait = ending->wait;

    if (circuit == NULL) /* corrupt: there is nobody to tell */
        return;
    wait.ends_call = true;
    /* Only of answers are there so many that some stand for others. */
    if (wait.kind != WAIT_ANSWER)
        wait.stands_for = 1;
    settle_wait(guard->segment, call->circuit, &wait, now_ns);
    enum settlement settlement = tell_circuit(guard, target, shard, call, ending, circuit, &transitions);
    const bool late = settlement == SETTLED_LATE;
    learning_note_outcome(guard->segment, call, ending, late);
    if (target->all_recorded)
        report_outcome(guard, call, ending, late, now_ns);
    if (ending->outcome.verdict == VERDICT_FAILURE)
        report_failure(guard, call, ending, late, now_ns);
    else if (ending->outcome.slow && !late)
        report_slow(guard, call, ending, now_ns);
    if (transitions.count > 0 && transitions.at[0].from == CIRCUIT_CLOSED)
        report_opening(guard, call, &target->breaker, &transitions.at[0], ending->at_ns, now_ns);
    if (ending->outcome.verdict == VERDICT_NEUTRAL && ending->outcome.reason == NEUTRAL_LOCAL)
        report_local_fault(guard, call, ending, now_ns);
    report_transitions(guard, call->circuit, &transitions, call->injected, now_ns);
}

OWN_FRAME void settle_permit(const struct guard *guard, const struct target *target, unsigned int shard,
                             const struct call_view *call, uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, call->circuit);
    struct caller caller = guard_caller(guard, shard);
    struct transitions transitions;
    struct settings room;

    if (circuit == NULL || call->ticket.token == 0)
        return;
    enum target_mode mode = force_mode(force_get(guard->segment, call->circuit, now_ns), target);
    caller.address = call->ticket.address;
    circuit_return_probe(circuit, settings_in_force(target, mode, &room), &caller, &call->ticket, now_ns, &transitions);
    report_transitions(guard, call->circuit, &transitions, call->injected, now_ns);
}

OWN_FRAME const struct target *target_of_circuit(const struct guard *guard, uint32_t circuit)
{
    struct circuit_texts texts;

    if (guard->target_named == NULL || !circuits_texts(guard->segment, circuit, &texts))
        return NULL;
    return guard->target_named(texts.target, guard->context);
}

OWN_FRAME void settle_unknown(const struct guard *guard, unsigned int shard, const struct call_view *call,
                              uint64_t at_ns, uint64_t now_ns)
{
    /* Of a target that this policy does not have: a neutral outcome is counted, and no setting is asked for. */
    static const struct target nobodys = {.mode = MODE_ENFORCE};
    const struct ending ending = {.outcome = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN}, .at_ns = at_ns};
    struct circuit *circuit = circuits_at(guard->segment, call->circuit);

    if (circuit == NULL)
        return;
    if (call->ticket.token != 0) {
        counters_add(&circuit->counters, shard, COUNT_LATE);
        return;
    }
    const struct target *target = target_of_circuit(guard, call->circuit);
    settle_call(guard, target != NULL ? target : &nobodys, shard, call, &ending, now_ns);
}
