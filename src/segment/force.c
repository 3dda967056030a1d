/*
 * force.c - an operator's word over a live circuit.
 *
 * The word is set before the circuit is closed, so that no outcome in between opens it again, and the journal comes
 * last: whoever reads there that a circuit was forced finds it so. A command that is killed in the middle leaves the
 * word without its event.
 */
#include "segment/force.h"

#include <stdatomic.h>
#include <stddef.h>

#include "segment/circuits.h"
#include "segment/layout.h"
#include "segment/report.h"

enum forced force_get(const struct segment *segment, uint32_t circuit)
{
    const struct circuit_entry *entry = circuits_entry(segment, circuit);
    /* Relaxed: nothing else is read by it; who asks a moment too early is answered as of that moment. */
    uint32_t word = entry != NULL ? atomic_load_explicit(&entry->forced, memory_order_relaxed) : FORCED_NONE;

    return word < FORCED_WORDS ? (enum forced)word : FORCED_NONE;
}

enum target_mode force_mode(enum forced forced, const struct target *target)
{
    switch (forced) {
    case FORCED_OPEN:
        return MODE_OPEN;
    case FORCED_CLOSED:
        return MODE_CLOSED;
    default:
        return target->mode;
    }
}

/* The state that a call meets. */
static enum circuit_state state_met(const struct circuit *circuit, enum forced forced, enum target_mode mode,
                                    uint64_t now_ns)
{
    static const struct settings unknown; /* they decide only how long the pause after an expired probe is */
    struct circuit_view view;

    if (forced == FORCED_OPEN || (forced == FORCED_NONE && mode == MODE_OPEN))
        return CIRCUIT_OPEN;
    if (forced == FORCED_CLOSED || mode == MODE_CLOSED)
        return CIRCUIT_CLOSED;
    circuit_observe(circuit, &unknown, now_ns, &view);
    return view.state;
}

enum forced force_set(const struct guard *guard, const char *user, uint32_t circuit, enum forced forced,
                      enum target_mode mode, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    struct transitions transitions;

    if (entry == NULL)
        return FORCED_NONE;
    enum forced former = force_get(guard->segment, circuit);
    enum circuit_state from = state_met(&entry->circuit, former, mode, now_ns);
    atomic_store_explicit(&entry->forced, (uint32_t)forced, memory_order_release);
    if (forced == FORCED_CLOSED) {
        circuit_close(&entry->circuit, now_ns, &transitions);
        report_transitions(guard, circuit, &transitions, false, now_ns);
    }
    report_forced(guard, user, circuit, forced, from, state_met(&entry->circuit, forced, mode, now_ns), now_ns);
    return former;
}

const char *forced_name(unsigned int forced)
{
    return forced == FORCED_OPEN ? "open" : forced == FORCED_CLOSED ? "closed" : NULL;
}
