/*
 * holding.c - what the agent has a circuit do. See holding.h.
 *
 * As with an operator's word the hold comes first and the journal last: whoever reads there that a circuit is held
 * finds it so. An agent that is killed in between leaves a hold without its event, which ends like any other.
 */
#include "guard/holding.h"

#include <stdatomic.h>
#include <stddef.h>

#include "guard/report.h"
#include "segment/circuits.h"
#include "segment/layout.h"

/* A CAS loses only to another agent, or to a call that takes away what is over. */
#define STEPS_MAX 16u

static uint64_t word_of(const struct circuit_entry *entry)
{
    /* Relaxed: nothing else is read by it; who asks a moment too early is answered as of that moment. */
    return entry != NULL ? atomic_load_explicit(&entry->held, memory_order_relaxed) : 0;
}

struct held hold_read(const struct segment *segment, uint32_t circuit, uint64_t now_ns)
{
    return held_unpack(word_of(circuits_entry(segment, circuit)), now_ns);
}

enum hold hold_obeyed(enum hold hold, enum forced forced, enum target_mode mode)
{
    return forced == FORCED_NONE && mode == MODE_ENFORCE ? hold : HOLD_NONE;
}

/* The state that a call meets under that hold. */
static enum circuit_state state_met(const struct guard *guard, uint32_t circuit, enum hold hold, enum target_mode mode,
                                    uint64_t now_ns)
{
    const enum forced forced = force_get(guard->segment, circuit, now_ns);

    return hold_obeyed(hold, forced, mode) == HOLD_FLEET ? CIRCUIT_OPEN
                                                         : force_state(guard->segment, circuit, forced, mode, now_ns);
}

/* How much of its pause an open circuit has left, as the destination asked for it. */
static uint64_t pause_left_ns(const struct guard *guard, uint32_t circuit, uint64_t now_ns)
{
    static const struct settings unknown; /* no probe is under way, where this is asked */
    struct circuit_view view;

    circuit_observe(circuits_at(guard->segment, circuit), &unknown, now_ns, &view);
    return view.state == CIRCUIT_OPEN ? view.retry_in_ns : 0;
}

static void report(const struct guard *guard, uint32_t circuit, enum hold before, enum hold after,
                   const struct hold_cause *cause, uint64_t ago_ns, enum target_mode mode, uint64_t now_ns)
{
    const struct held_report held = {
        .hold = after,
        .from = state_met(guard, circuit, before, mode, now_ns),
        .to = state_met(guard, circuit, after, mode, now_ns),
        .reason = cause->reason,
        .error = cause->error,
        .http_status = cause->http_status,
        .exit_status = cause->exit_status,
        .hosts = cause->hosts,
        .span_ns = cause->reason == HOLD_CHECK_PASSED ? pause_left_ns(guard, circuit, now_ns) : ago_ns,
    };
    report_held(guard, circuit, &held, now_ns);
}

/* Relaxed, as all of this word: it stands alone. */
static bool replace(struct circuit_entry *entry, uint64_t *word, uint64_t next)
{
    return atomic_compare_exchange_strong_explicit(&entry->held, word, next, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Takes away what holds no more; whoever does notes it. What could not be believed goes without a word. */
static void take_away(const struct guard *guard, uint32_t circuit, struct circuit_entry *entry, uint64_t word,
                      enum target_mode mode, uint64_t now_ns)
{
    const struct hold_cause ran_out = {.reason = HOLD_RAN_OUT};
    uint64_t ago_ns = 0;
    const enum hold ended = held_ended(word, now_ns, &ago_ns);

    if (replace(entry, &word, 0) && ended != HOLD_NONE)
        report(guard, circuit, ended, HOLD_NONE, &ran_out, ago_ns, mode, now_ns);
}

enum hold hold_obey(const struct guard *guard, uint32_t circuit, enum forced forced, enum target_mode mode,
                    uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    const uint64_t word = word_of(entry);

    if (__builtin_expect(word == 0, 1))
        return HOLD_NONE;
    const enum hold hold = held_unpack(word, now_ns).hold;
    if (hold == HOLD_NONE)
        take_away(guard, circuit, entry, word, mode, now_ns);
    return hold_obeyed(hold, forced, mode);
}

bool hold_set(const struct guard *guard, uint32_t circuit, enum hold hold, uint64_t lasts_ns,
              const struct hold_cause *cause, enum target_mode mode, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    const uint64_t next =
        held_pack((struct held){hold, now_ns + (lasts_ns < HOLD_AHEAD_MAX_NS ? lasts_ns : HOLD_AHEAD_MAX_NS)});

    if (entry == NULL)
        return false;
    hold_obey(guard, circuit, FORCED_NONE, mode, now_ns); /* an end that no call has noted yet comes before */
    uint64_t word = word_of(entry);
    for (unsigned int step = 0; step < STEPS_MAX; step++) {
        const enum hold before = held_unpack(word, now_ns).hold;
        if (before == HOLD_FLEET && hold != HOLD_FLEET)
            return false;
        if (!replace(entry, &word, next))
            continue;
        if (before != hold)
            report(guard, circuit, before, hold, cause, 0, mode, now_ns);
        return true;
    }
    return false;
}

bool hold_end(const struct guard *guard, uint32_t circuit, enum hold hold, const struct hold_cause *cause,
              enum target_mode mode, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);

    if (entry == NULL)
        return false;
    hold_obey(guard, circuit, FORCED_NONE, mode, now_ns);
    uint64_t word = word_of(entry);
    for (unsigned int step = 0; step < STEPS_MAX; step++) {
        if (held_unpack(word, now_ns).hold != hold)
            return false;
        if (!replace(entry, &word, 0))
            continue;
        report(guard, circuit, hold, HOLD_NONE, cause, 0, mode, now_ns);
        return true;
    }
    return false;
}

bool hold_end_pause(const struct guard *guard, uint32_t circuit, const struct target *target,
                    const struct hold_cause *cause, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);

    if (entry == NULL)
        return false;
    const bool ended = circuit_end_pause(&entry->circuit, &target->breaker, now_ns);
    if (hold_end(guard, circuit, HOLD_UNPROBED, cause, target->mode, now_ns))
        return true;
    if (ended) {
        const enum hold hold = hold_read(guard->segment, circuit, now_ns).hold;
        report(guard, circuit, hold, hold, cause, 0, target->mode, now_ns);
    }
    return ended;
}

void hold_note(const struct guard *guard, uint32_t circuit, const struct hold_cause *cause, enum target_mode mode,
               uint64_t now_ns)
{
    const enum hold hold = hold_read(guard->segment, circuit, now_ns).hold;

    if (hold != HOLD_NONE)
        report(guard, circuit, hold, hold, cause, 0, mode, now_ns);
}

void hold_close(const struct guard *guard, uint32_t circuit, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(guard->segment, circuit);
    struct transitions transitions;

    if (entry == NULL)
        return;
    circuit_close(&entry->circuit, now_ns, &transitions);
    for (unsigned int i = 0; i < transitions.count; i++)
        transitions.at[i].reason = REASON_FLEET;
    report_transitions(guard, circuit, &transitions, false, now_ns);
}
