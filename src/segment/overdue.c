/*
 * overdue.c - finding overdue calls, without a list of them.
 *
 * Each circuit has the time before which none of its calls is overdue. An admission that comes at or after that time
 * scans the table; it first moves the time a second on, so that it is the only one, and so that another will scan if
 * it is killed. A call that begins behind the scan's back takes away the mark SCANNING: then the scan does not know
 * the true minimum, leaves the second, and the next scan finds it. (The call's state is stored before the mark is
 * looked for, the mark is set before the states are read, all of it sequentially consistent: one of the two sees the
 * other.)
 */
#include "segment/overdue.h"

#include <stdatomic.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/clock.h"
#include "segment/layout.h"
#include "segment/settle.h"

#define RESCAN_NS NS_PER_S
#define SWEEP_NS NS_PER_S

/* The lowest bit of next_due_ns; times are rounded down to even nanoseconds. */
#define SCANNING UINT64_C(1)

static uint64_t later(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns < DUE_NEVER - now_ns ? now_ns + duration_ns : DUE_NEVER;
}

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void overdue_note_at(struct circuit_entry *entry, uint64_t due_ns)
{
    uint64_t known = atomic_load_explicit(&entry->next_due_ns, memory_order_seq_cst);

    due_ns &= ~SCANNING;
    while (due_ns < known || (known & SCANNING) != 0) {
        if (atomic_compare_exchange_weak_explicit(&entry->next_due_ns, &known, earlier_of(due_ns, known & ~SCANNING),
                                                  memory_order_seq_cst, memory_order_seq_cst))
            return;
    }
}

void overdue_note(struct segment *segment, uint32_t circuit, uint64_t due_ns)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);

    if (entry != NULL && due_ns != DUE_NEVER)
        overdue_note_at(entry, due_ns);
}

bool overdue_is_possible(const struct circuit_entry *entry, uint64_t now_ns)
{
    return now_ns >= atomic_load_explicit(&entry->next_due_ns, memory_order_relaxed);
}

/* One admission's look at the table. */
struct scan {
    struct guard *guard;
    const struct target *target;
    unsigned int shard;
    uint64_t now_ns;
    struct liveness liveness;
};

/*
 * A dead probe's call is late, and its lease is left to the next admission on its circuit, which knows what comes
 * first: a deadline that has passed (then the probe has failed, whenever its holder died: `timeout 5 curl` is killed
 * after a probe_timeout of a second), or the holder's death. Any other call is neutral, as of its own start: nothing is
 * known of it after that.
 */
static void bury_call(struct scan *scan, const struct call_view *view)
{
    struct ending ending = {.outcome = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_UNKNOWN},
                            .at_ns = view->started_ns};
    struct circuit *circuit = circuits_at(scan->guard->segment, view->circuit);

    if (view->ticket.token == 0)
        settle_call(scan->guard, scan->target, scan->shard, view, &ending, scan->now_ns);
    else if (circuit != NULL)
        counters_add(&circuit->counters, scan->shard, COUNT_LATE);
}

/* A dead owner's record: nobody can say how its call ended. */
static void bury(struct scan *scan, uint32_t call, const struct call_view *view)
{
    struct segment *segment = scan->guard->segment;

    if (view->in_flight) {
        if (!calls_settle(segment, call, view, CALL_SETTLED))
            return;
        bury_call(scan, view);
    }
    calls_release(segment, call, view->owner);
}

static void charge(struct scan *scan, uint32_t call, const struct call_view *view, enum overran overran)
{
    struct circuit *circuit = circuits_at(scan->guard->segment, view->circuit);
    if (circuit == NULL)
        return;
    struct observation observation = {
        .phase = view->phase,
        .seen = SEEN_OVERDUE,
        .other_answered = circuit_other_answered(circuit, view->ticket.address),
        .waited_ns = scan->now_ns > view->started_ns ? scan->now_ns - view->started_ns : 0,
    };
    struct ending ending = {
        .outcome = outcome_judge(&observation, &scan->target->rules),
        /* It failed when it became overdue: the state at a time does not depend on when somebody looked. */
        .at_ns = view->due_ns,
        .elapsed_ns = observation.waited_ns,
        .overran = overran,
    };

    if (ending.outcome.verdict == VERDICT_NONE || !calls_settle(scan->guard->segment, call, view, CALL_OVERDUE))
        return;
    counters_add(&circuit->counters, scan->shard, COUNT_OVERDUE);
    settle_call(scan->guard, scan->target, scan->shard, view, &ending, scan->now_ns);
}

void overdue_charge_call(struct guard *guard, uint32_t call, const struct target *target, const struct call_view *view,
                         uint64_t now_ns)
{
    struct scan scan = {.guard = guard, .target = target, .shard = call, .now_ns = now_ns};

    charge(&scan, call, view, OVERRAN_CAME);
}

/* Whether the engine knows that an overdue call of this very process does not hang; it may have moved it by then. */
static bool is_known_to_live(const struct guard *guard, uint32_t call, const struct call_view *view)
{
    return guard->still_hangs != NULL && !guard->still_hangs(call, view->phase, guard->context);
}

/* Looks at one call of the circuit; returns when it should be looked at again. */
static uint64_t scan_call(struct scan *scan, uint32_t call, struct call_view *view)
{
    struct guard *guard = scan->guard;

    if (!view->in_flight)
        return DUE_NEVER;
    if (view->due_ns > scan->now_ns)
        return view->due_ns;
    if (view->owner != guard->holder) {
        if (!liveness_ask(&scan->liveness, guard->segment, view->owner)) {
            bury(scan, call, view);
            return DUE_NEVER;
        }
    } else if (is_known_to_live(guard, call, view)) {
        if (!calls_read(guard->segment, call, view) || !view->in_flight)
            return DUE_NEVER;
        return view->due_ns > scan->now_ns ? view->due_ns : later(scan->now_ns, RESCAN_NS);
    }
    charge(scan, call, view, OVERRAN_HANGS);
    return DUE_NEVER;
}

void overdue_charge(struct guard *guard, const struct target *target, unsigned int shard, uint32_t circuit,
                    uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    uint64_t due, mark = later(now_ns, RESCAN_NS) | SCANNING, next = DUE_NEVER;

    if (entry == NULL)
        return;
    due = atomic_load_explicit(&entry->next_due_ns, memory_order_relaxed);
    if (now_ns < due || !atomic_compare_exchange_strong_explicit(&entry->next_due_ns, &due, mark, memory_order_seq_cst,
                                                                 memory_order_relaxed))
        return;

    struct scan scan = {.guard = guard, .target = target, .shard = shard, .now_ns = now_ns};
    for (uint32_t call = 0; call < calls_limit(guard->segment); call++) {
        struct call_view view;

        if (calls_read(guard->segment, call, &view) && view.circuit == circuit)
            next = earlier_of(next, scan_call(&scan, call, &view));
    }
    next &= ~SCANNING;
    if (!atomic_compare_exchange_strong_explicit(&entry->next_due_ns, &mark, next, memory_order_seq_cst,
                                                 memory_order_relaxed))
        overdue_note_at(entry, next);
}

bool overdue_sweep(struct guard *guard, const struct target *target, unsigned int shard, uint64_t now_ns)
{
    uint64_t after = atomic_load_explicit(&guard->sweep_after_ns, memory_order_relaxed), real_ns = clock_real_ns();
    struct scan scan = {.guard = guard, .target = target, .shard = shard, .now_ns = now_ns};

    if (real_ns < after ||
        !atomic_compare_exchange_strong_explicit(&guard->sweep_after_ns, &after, later(real_ns, SWEEP_NS),
                                                 memory_order_relaxed, memory_order_relaxed))
        return false;
    for (uint32_t call = 0; call < calls_limit(guard->segment); call++) {
        struct call_view view;

        if (calls_read(guard->segment, call, &view) && view.owner != guard->holder &&
            !liveness_ask(&scan.liveness, guard->segment, view.owner))
            bury(&scan, call, &view);
    }
    return true;
}
