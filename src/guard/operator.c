/*
 * operator.c - an operator's word over a live circuit.
 *
 * The word is set before the circuit is closed, so that no outcome in between opens it again, and the journal comes
 * last: whoever reads there that a circuit was forced finds it so. A command that is killed in the middle leaves the
 * word without its event.
 */
#include "guard/operator.h"

#include <stdatomic.h>
#include <stddef.h>

#include "guard/report.h"
#include "segment/circuits.h"
#include "segment/layout.h"

struct force force_read(const struct segment *segment, uint32_t circuit, uint64_t now_ns)
{
    const struct circuit_entry *entry = circuits_entry(segment, circuit);

    /* Relaxed: nothing else is read by it; who asks a moment too early is answered as of that moment. */
    return forced_unpack(entry != NULL ? atomic_load_explicit(&entry->forced, memory_order_relaxed) : 0, now_ns);
}

enum forced force_get(const struct segment *segment, uint32_t circuit, uint64_t now_ns)
{
    return force_read(segment, circuit, now_ns).word;
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

enum circuit_state force_state(const struct segment *segment, uint32_t circuit, enum forced forced,
                               enum target_mode mode, uint64_t now_ns)
{
    const struct circuit *at = circuits_at(segment, circuit);

    return at != NULL ? state_met(at, forced, mode, now_ns) : CIRCUIT_CLOSED;
}

/* Takes away what is over; whoever does notes it. `word` is what was read. */
static void take_away(const struct guard *guard, uint32_t circuit, struct circuit_entry *entry, uint64_t word,
                      enum target_mode mode, uint64_t now_ns)
{
    const struct force force = forced_unpack(word, 0); /* what it was; FORCED_NONE: corrupt */

    /* Relaxed: the word stands alone. It fails when an operator said another one, or another call was here. */
    if (force.word == FORCED_NONE ||
        !atomic_compare_exchange_strong_explicit(&entry->forced, &word, 0, memory_order_relaxed, memory_order_relaxed))
        return;
    report_force_ended(guard, circuit, state_met(&entry->circuit, force.word, mode, now_ns),
                       state_met(&entry->circuit, FORCED_NONE, mode, now_ns), now_ns - force.end_ns, now_ns);
}

enum forced force_obey(const struct guard *guard, uint32_t circuit, enum target_mode mode, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    uint64_t word = entry != NULL ? atomic_load_explicit(&entry->forced, memory_order_relaxed) : 0;
    enum forced forced = forced_unpack(word, now_ns).word;

    if (__builtin_expect(word != 0, 0) && forced == FORCED_NONE)
        take_away(guard, circuit, entry, word, mode, now_ns);
    return forced;
}

struct force force_set(const struct guard *guard, const char *user, uint32_t circuit, struct force force,
                       enum target_mode mode, uint64_t now_ns)
{
    return force_set_by(guard, user, NULL, circuit, force, mode, now_ns);
}

struct force force_set_by(const struct guard *guard, const char *user, const char *host, uint32_t circuit,
                          struct force force, enum target_mode mode, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    struct transitions transitions;

    if (entry == NULL)
        return (struct force){FORCED_NONE, 0};
    force_obey(guard, circuit, mode, now_ns); /* an end that no call has noted yet comes before */
    uint64_t former_word = atomic_load_explicit(&entry->forced, memory_order_relaxed);
    enum circuit_state from = state_met(&entry->circuit, forced_unpack(former_word, now_ns).word, mode, now_ns);
    struct force former =
        forced_unpack(atomic_exchange_explicit(&entry->forced, forced_pack(force), memory_order_release), now_ns);
    if (force.word == FORCED_CLOSED) {
        circuit_close(&entry->circuit, now_ns, &transitions);
        report_transitions(guard, circuit, &transitions, false, now_ns);
    }
    const struct forcing forcing = {
        .forced = force.word,
        .from = from,
        .to = state_met(&entry->circuit, force.word, mode, now_ns),
        .lasts_ns = force.end_ns > now_ns ? force.end_ns - now_ns : 0,
        .host = host,
    };
    report_forced(guard, user, circuit, &forcing, now_ns);
    return former;
}
