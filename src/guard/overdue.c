/*
 * overdue.c - finding overdue calls, without a list of them and without a walk over all.
 *
 * One word says before which time no call is overdue, and one for each group of records the same of the group (due.h).
 * An admission that comes at or after the common time looks at the groups whose own time has come: there at all calls
 * of its own circuit, by the compact list of the records' circuits, and, as far as its bounds go, at the others. Many
 * may look at the same time; of all who find a call overdue, the one who wins the CAS of its state charges it. What a
 * look leaves undone leaves the words as they are, so that the next admission goes on.
 *
 * A call that hangs and can't be charged now (its owner knows better, or its target is unknown to this process's
 * policy) is put off: looked at again a second later, by whoever comes then.
 */
#include "guard/overdue.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/frame.h"
#include "guard/dead_owners.h"
#include "guard/settle.h"
#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/due.h"
#include "segment/layout.h"

#define PUT_OFF_NS NS_PER_S
/* What one admission does at the most: calls of its own circuit, and of the others. */
#define OWN_MAX 64u
#define OTHERS_MAX 8u
/* Of its own circuit's calls each may have another owner, who must be known to live before the call is charged. */
#define OWN_ASKED OWN_MAX

/* One admission's look. */
struct scan {
    struct guard *guard;
    const struct attempt *attempt;
    uint64_t now_ns;
    uint32_t own_left, others_left;
    struct asking *asking; /* for the others' sake */
    struct asking own;
    bool refusing;
};

static uint64_t later(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns < DUE_NEVER - now_ns ? now_ns + duration_ns : DUE_NEVER;
}

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

OWN_FRAME void overdue_charge_call(const struct guard *guard, const struct target *target, unsigned int shard,
                                   uint32_t call, const struct call_view *view, enum overran overran, uint64_t now_ns)
{
    struct circuit *circuit = circuits_at(guard->segment, view->circuit);
    if (circuit == NULL)
        return;
    struct observation observation = {
        .phase = view->phase,
        .seen = SEEN_OVERDUE,
        .other_answered = circuit_other_answered(circuit, view->ticket.address),
        .waited_ns = now_ns > view->started_ns ? now_ns - view->started_ns : 0,
    };
    struct ending ending = {
        .outcome = outcome_judge(&observation, &target->rules),
        /* It failed when it became overdue: the state at a time does not depend on when somebody looked. */
        .at_ns = view->due_ns,
        .elapsed_ns = observation.waited_ns,
        .overran = overran,
        .wait = {.kind = WAIT_IN_VAIN,
                 .waited_ns = view->due_ns > view->started_ns ? view->due_ns - view->started_ns : 0},
    };

    if (ending.outcome.verdict == VERDICT_NONE || !calls_settle(guard->segment, call, view, CALL_OVERDUE))
        return;
    counters_add(&circuit->counters, shard, COUNT_OVERDUE);
    settle_call(guard, target, shard, view, &ending, now_ns);
}

/* Returns when the call is to be looked at again. */
static uint64_t charge(const struct scan *scan, const struct target *target, uint32_t call,
                       const struct call_view *view)
{
    overdue_charge_call(scan->guard, target, scan->attempt->shard, call, view, OVERRAN_HANGS, scan->now_ns);
    return DUE_NEVER;
}

/* An overdue call of this very process: does it hang? The engine may have moved it by then. */
static uint64_t charge_own(struct scan *scan, const struct target *target, uint32_t call, struct call_view *view)
{
    struct guard *guard = scan->guard;

    /* The engine asks the kernel; a refusal does so only where it may. */
    if (scan->refusing && guard->still_hangs != NULL && scan->asking->left == 0)
        return view->due_ns;
    if (guard->still_hangs == NULL || guard->still_hangs(call, view->phase, guard->context))
        return charge(scan, target, call, view);
    if (!calls_read(guard->segment, call, view) || !view->in_flight)
        return DUE_NEVER;
    return view->due_ns > scan->now_ns ? view->due_ns : later(scan->now_ns, PUT_OFF_NS);
}

/* Whether one more call may be treated: of the own circuit until that is open. */
static bool may_treat(struct scan *scan, bool own)
{
    uint32_t *left = own ? &scan->own_left : &scan->others_left;

    if (*left == 0)
        return false;
    --*left;
    return true;
}

static uint64_t treat(struct scan *scan, uint32_t call, struct call_view *view)
{
    struct guard *guard = scan->guard;
    const bool own = view->circuit == scan->attempt->circuit && scan->own_left > 0;
    const struct target *target =
        view->circuit == scan->attempt->circuit ? scan->attempt->target : target_of_circuit(guard, view->circuit);

    if (!may_treat(scan, own))
        return view->due_ns;
    if (view->owner == guard->holder)
        return target != NULL ? charge_own(scan, target, call, view) : later(scan->now_ns, PUT_OFF_NS);
    switch (owner_ask(guard->segment, view->owner, own ? &scan->own : scan->asking)) {
    case OWNER_IS_DEAD:
        bury_record(guard, call, view, scan->attempt->shard, scan->now_ns);
        return DUE_NEVER;
    case OWNER_UNASKED:
        return view->due_ns;
    case OWNER_LIVES:
        break;
    }
    uint64_t next_ns = target != NULL ? charge(scan, target, call, view) : later(scan->now_ns, PUT_OFF_NS);
    if (own && circuit_is_open(circuits_at(guard->segment, view->circuit)))
        scan->own_left = 0;
    return next_ns;
}

/* Looks at one record; returns when it should be looked at again. */
static uint64_t look_at(struct scan *scan, uint32_t call)
{
    struct call_view view;

    if (!calls_read(scan->guard->segment, call, &view) || !view.in_flight)
        return DUE_NEVER;
    uint64_t due_ns = view.owner == scan->guard->holder ? view.due_ns : later(view.due_ns, view.grace_ns);
    return due_ns > scan->now_ns ? due_ns : treat(scan, call, &view);
}

OWN_FRAME static void look_at_group(struct scan *scan, uint32_t group)
{
    struct segment *segment = scan->guard->segment;
    _Atomic uint64_t *due = &segment->call_group[group].due;
    const uint64_t mark = due_look(due);
    const uint32_t first = group * CALL_GROUP, limit = segment->capacity.calls;
    uint64_t next_ns = DUE_NEVER;
    bool all = true;

    for (uint32_t call = first; call < first + CALL_GROUP && call < limit; call++) {
        /* seq_cst as in calls_read: who claims it behind this look begins its call behind it. */
        if (atomic_load_explicit(&segment->call_owner[call], memory_order_seq_cst) == 0)
            continue;
        if (scan->others_left == 0) {
            all = false;
            if (scan->own_left == 0)
                return;
            if (atomic_load_explicit(&segment->call_circuit[call], memory_order_relaxed) != scan->attempt->circuit)
                continue;
        }
        next_ns = earlier_of(next_ns, look_at(scan, call));
    }
    if (all)
        due_looked(due, mark, next_ns);
}

OWN_FRAME void overdue_charge(struct guard *guard, const struct attempt *attempt, bool refusing, uint64_t now_ns,
                              struct asking *asking)
{
    struct segment *segment = guard->segment;

    if (segment->map == NULL || !due_has_come(&segment->map->calls_due, now_ns))
        return;
    struct scan scan = {
        .guard = guard,
        .attempt = attempt,
        .now_ns = now_ns,
        .own_left = refusing ? 0 : OWN_MAX,
        .others_left = OTHERS_MAX,
        .asking = asking,
        .own = {.left = OWN_ASKED, .real_ns = asking->real_ns},
        .refusing = refusing,
    };
    const uint64_t mark = due_look(&segment->map->calls_due);
    const uint32_t groups = (calls_limit(segment) + CALL_GROUP - 1) / CALL_GROUP;
    uint32_t first = atomic_load_explicit(&segment->map->calls_cursor, memory_order_relaxed), cursor = first;
    uint64_t next_ns = DUE_NEVER;

    for (uint32_t i = 0; i < groups; i++) {
        const uint32_t group = (first + i) % groups;
        _Atomic uint64_t *due = &segment->call_group[group].due;

        if (due_has_come(due, now_ns) && (scan.own_left > 0 || scan.others_left > 0)) {
            look_at_group(&scan, group);
            if (scan.others_left > 0)
                cursor = group;
        }
        /* seq_cst: behind the mark. */
        next_ns = earlier_of(next_ns, due_time(atomic_load_explicit(due, memory_order_seq_cst)));
    }
    if (cursor != first)
        atomic_store_explicit(&segment->map->calls_cursor, cursor, memory_order_relaxed);
    due_looked(&segment->map->calls_due, mark, next_ns);
}
