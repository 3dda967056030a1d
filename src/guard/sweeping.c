/*
 * sweeping.c - see sweeping.h.
 */
#include "guard/sweeping.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "guard/dead_owners.h"
#include "guard/holding.h"
#include "guard/operator.h"
#include "guard/overdue.h"
#include "guard/owners.h"
#include "guard/report.h"
#include "guard/settle.h"
#include "segment/circuits.h"
#include "segment/due.h"
#include "segment/layout.h"

/* What one sweep does at the most: owners that it asks about, and parts as large as an admission's. */
#define ASKED_MAX 16u
#define PARTS_MAX 64u

/* A sweep is no attempt: no circuit is its own. */
static const struct attempt no_attempt = {.circuit = CIRCUIT_INDEX_NONE};

void sweeping_charge(struct guard *guard, uint64_t now_ns)
{
    struct segment *segment = guard->segment;
    struct asking asking = {.left = ASKED_MAX, .real_ns = clock_coarse_ns()};

    owners_ask_some(segment, 0, &asking);
    asking.left = ASKED_MAX;
    for (unsigned int part = 0; part < PARTS_MAX && bury_is_due(segment); part++)
        bury_some(guard, 0, now_ns);
    for (unsigned int part = 0; part < PARTS_MAX && due_has_come(&segment->map->calls_due, now_ns); part++)
        overdue_charge(guard, &no_attempt, true, now_ns, &asking);
}

/* Whether a word that stands will end by itself. */
static bool has_an_end(const struct guard *guard, uint32_t circuit, uint64_t now_ns)
{
    return force_read(guard->segment, circuit, now_ns).end_ns != 0 ||
           hold_read(guard->segment, circuit, now_ns).hold != HOLD_NONE;
}

static bool tend(struct guard *guard, uint32_t circuit, const struct target *target, uint64_t now_ns)
{
    const struct caller caller = guard_caller(guard, 0);
    const enum forced forced = force_obey(guard, circuit, target->mode, now_ns);
    struct transitions transitions;
    struct settings room;

    hold_obey(guard, circuit, forced, target->mode, now_ns);
    const bool probes =
        circuit_tend(circuits_at(guard->segment, circuit), settings_in_force(target, force_mode(forced, target), &room),
                     &caller, now_ns, &transitions);
    report_transitions(guard, circuit, &transitions, false, now_ns);
    return probes || has_an_end(guard, circuit, now_ns);
}

bool sweeping_tend(struct guard *guard, uint64_t now_ns)
{
    struct circuit_texts texts;
    uint32_t cursor = 0, circuit;
    bool more = false;

    while ((circuit = circuits_next(guard->segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE) {
        const struct target *target = target_of_circuit(guard, circuit);
        if (target != NULL)
            more = tend(guard, circuit, target, now_ns) || more;
    }
    return more;
}
