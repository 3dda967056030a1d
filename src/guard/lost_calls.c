/*
 * lost_calls.c - see lost_calls.h.
 *
 * A record is kept while the engine has it: by the number that the engine gave it (guard_name), it is asked whether
 * that still stands for the record. One that has no number yet was claimed a moment ago, by a thread that is about to
 * give it one, or was lost. Nobody can tell which, so it is marked with the round that found it so; if a later round, a
 * second on or more, finds that mark still there, it is lost. A thread that was only held up for so long finds its
 * record's state changed at its next step (calls_begin), and its call passes unguarded.
 *
 * A round looks at all owners in the compact list, a part at each attempt, and of this process's own records at their
 * numbers alone. In what order things are taken back is told in calls.c; it is the same when that is jumped out of, for
 * the next round goes on from there.
 */
#include "guard/lost_calls.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "guard/settle.h"
#include "segment/bulkhead.h"
#include "segment/call_record.h"
#include "segment/circuits.h"

#define ROUND_NS NS_PER_S
/* Records that one attempt looks at, and takes back at the most. */
#define LOOKED_AT 1024u
#define TAKEN_BACK 32u
#define MARKED CALL_NUMBER_MAX

/*
 * A probe's permit goes back by its token, and any other call is neutral, as of its start. Of a probe that had not
 * begun nothing is counted yet: it is admitted here, so that its end is one of a call.
 */
bool lost_calls_settle(const struct guard *guard, uint32_t call, struct call_view *view, const struct target *target,
                       unsigned int shard, uint64_t now_ns)
{
    const struct ending ending = {.outcome = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN}, .at_ns = now_ns};

    if (!calls_settle(guard->segment, call, view, CALL_SETTLED))
        return false;
    if (!view->in_flight) {
        view->circuit = atomic_load_explicit(&guard->segment->call_circuit[call], memory_order_relaxed);
        struct circuit *circuit = circuits_at(guard->segment, view->circuit);
        if (circuit == NULL || view->ticket.token == 0)
            return true;
        counters_add(&circuit->counters, shard, COUNT_ADMITTED);
    }
    if (target == NULL && view->ticket.token != 0)
        target = target_of_circuit(guard, view->circuit);
    if (target != NULL)
        settle_call(guard, target, shard, view, &ending, now_ns);
    else
        settle_unknown(guard, shard, view, view->started_ns, now_ns);
    return true;
}

static void take_back(const struct guard *guard, uint32_t call, unsigned int shard, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    struct call_view view;

    if (!calls_read_own(segment, call, guard->holder, &view))
        return;
    if (view.in_flight || state_is_taken(view.raw)) {
        if (!lost_calls_settle(guard, call, &view, NULL, shard, now_ns))
            return;
    } else if (view.ticket.token != 0) {
        const struct target *target = target_of_circuit(guard, view.circuit);
        if (target != NULL)
            settle_permit(guard, target, shard, &view, now_ns);
    }
    bulkhead_give(segment, call, guard->holder, 0);
    calls_release(segment, call, guard->holder);
}

/* Whether the record is lost by now. `round`: the present one. */
static bool is_lost(const struct guard *guard, uint32_t call, uint32_t round)
{
    struct call *record = &guard->segment->calls[call];
    uint32_t number = atomic_load_explicit(&record->number, memory_order_acquire);

    if ((number & MARKED) != 0 && number != round)
        return true;
    if (number == round || (number != 0 && guard->keeps(call, number, guard->context)))
        return false;
    /* Relaxed: if its owner gives it a number meanwhile, that stands. */
    atomic_compare_exchange_strong_explicit(&record->number, &number, round, memory_order_relaxed,
                                            memory_order_relaxed);
    return false;
}

/* Begins a round when it is time; returns it with how far it has come; 0: there is none. */
static uint64_t present_round(struct guard *guard, uint64_t real_ns)
{
    uint64_t round = atomic_load_explicit(&guard->lost_round, memory_order_relaxed);
    uint64_t after = atomic_load_explicit(&guard->lost_after_ns, memory_order_relaxed);

    if ((uint32_t)round < calls_limit(guard->segment) && round >> 32 != 0)
        return round;
    if (real_ns < after || !atomic_compare_exchange_strong_explicit(&guard->lost_after_ns, &after, real_ns + ROUND_NS,
                                                                    memory_order_relaxed, memory_order_relaxed))
        return 0;
    uint64_t next = (uint64_t)((uint32_t)((round >> 32) + 1) | MARKED) << 32;
    return atomic_compare_exchange_strong_explicit(&guard->lost_round, &round, next, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? next
               : 0;
}

bool lost_calls_is_due(const struct guard *guard, uint64_t real_ns)
{
    uint64_t round = atomic_load_explicit(&guard->lost_round, memory_order_relaxed);

    return guard->keeps != NULL && (real_ns >= atomic_load_explicit(&guard->lost_after_ns, memory_order_relaxed) ||
                                    ((uint32_t)round < calls_limit(guard->segment) && round >> 32 != 0));
}

void lost_calls_look(struct guard *guard, unsigned int shard, uint64_t now_ns, uint64_t real_ns)
{
    struct segment *segment = guard->segment;
    uint64_t round;

    if (guard->keeps == NULL || segment->map == NULL || (round = present_round(guard, real_ns)) == 0)
        return;
    const uint32_t limit = calls_limit(segment), first = (uint32_t)round;
    uint32_t end = limit - first > LOOKED_AT ? first + LOOKED_AT : limit, taken = 0, call = first;

    for (; call < end && taken < TAKEN_BACK; call++) {
        uint32_t owner = atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed);

        if (owner == 0)
            claim_hint(segment, call);
        if (owner != guard->holder || !is_lost(guard, call, (uint32_t)(round >> 32)))
            continue;
        take_back(guard, call, shard, now_ns);
        taken++;
    }
    /* Of several who do the same part one moves on. An empty table's round is over too. */
    atomic_compare_exchange_strong_explicit(&guard->lost_round, &round, (round & ~(uint64_t)UINT32_MAX) | call,
                                            memory_order_relaxed, memory_order_relaxed);
}
