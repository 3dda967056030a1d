/*
 * prospect.c - what the circuit's word would be, or was, without asking it: guard_prospect, guard_passes_against. Counts
 * nothing.
 */
#include "guard/guard.h"
#include "guard/holding.h"
#include "guard/operator.h"
#include "segment/bulkhead.h"
#include "segment/circuits.h"

bool guard_passes_against(const struct guard *guard, uint32_t call)
{
    struct call_view view;

    return calls_read_own(guard->segment, call, guard->holder, &view) && view.ticket.generation == SHADOW_GENERATION;
}

enum prospect guard_prospect(const struct guard *guard, uint32_t circuit, const struct target *target, uint64_t now_ns)
{
    const struct circuit *at = circuits_at(guard->segment, circuit);
    enum forced forced = force_obey(guard, circuit, target->mode, now_ns);
    enum target_mode mode = force_mode(forced, target);
    enum hold hold = hold_obey(guard, circuit, forced, target->mode, now_ns);
    struct circuit_view view;

    if (at == NULL || (mode != MODE_ENFORCE && mode != MODE_OPEN))
        return PROSPECT_PASS;
    if (mode == MODE_OPEN || hold == HOLD_FLEET ||
        (target->max_connections > 0 && bulkhead_counted(guard->segment, circuit) >= target->max_connections))
        return PROSPECT_REFUSED;
    circuit_observe(at, &target->breaker, now_ns, &view);
    if (view.state == CIRCUIT_CLOSED)
        return PROSPECT_PASS;
    return view.state == CIRCUIT_OPEN && view.probe_due && hold != HOLD_UNPROBED ? PROSPECT_PROBE : PROSPECT_REFUSED;
}
