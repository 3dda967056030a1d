/*
 * backoff.c - how long a circuit stays open: reset timeout, back-off, jitter, what the destination asks for.
 *
 * Integers only (no floating point enters a host process) and all of it saturates: settings may be absurd, they come
 * from a file or from shared memory.
 */
#include "breaker/backoff.h"

#include <stdatomic.h>

#include "breaker/hash.h"

#define PERMILLE 1000u

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* value x permille / 1000, rounded down, at most BACKOFF_PAUSE_MAX_NS. `value` is no larger than that itself. */
static uint64_t permille_of(uint64_t value, uint32_t permille)
{
    uint64_t whole = value / PERMILLE;
    uint64_t rest = value % PERMILLE * permille / PERMILLE; /* below 2^32 */

    if (permille != 0 && whole > BACKOFF_PAUSE_MAX_NS / permille)
        return BACKOFF_PAUSE_MAX_NS;
    return at_most(whole * permille + rest, BACKOFF_PAUSE_MAX_NS);
}

uint64_t circuit_pause_ns(const struct settings *settings, unsigned int step)
{
    uint64_t longest = at_most(settings->reset_timeout_max_ns, BACKOFF_PAUSE_MAX_NS);
    uint64_t pause = at_most(settings->reset_timeout_ns, longest);

    /* A multiplier below 1 would shorten pauses: that is no back-off, so it is taken as 1. */
    if (settings->backoff_permille <= PERMILLE)
        return pause;
    for (unsigned int i = 0; i < step && pause < longest; i++) {
        uint64_t longer = at_most(permille_of(pause, settings->backoff_permille), longest);

        if (longer == pause) /* too short to grow by rounding down: it never will */
            break;
        pause = longer;
    }
    return pause;
}

uint64_t backoff_pause_ns(const struct settings *settings, unsigned int step, uint64_t opened_ns, uint64_t word)
{
    uint64_t pause = circuit_pause_ns(settings, step);
    uint64_t spread = permille_of(pause, settings->jitter_permille);
    uint64_t chance = hash_spread((opened_ns ^ hash_spread(word + HASH_STEP)) + HASH_STEP);

    return at_most(pause + chance % (spread + 1), BACKOFF_PAUSE_MAX_NS);
}

uint64_t backoff_opening_ns(const struct circuit *circuit, const struct settings *settings, unsigned int step,
                            uint64_t opened_ns, uint64_t word)
{
    uint64_t pause = backoff_pause_ns(settings, step, opened_ns, word);
    /* Relaxed: whoever counts a failure has set its floor before; the word, which was loaded with acquire, tells so. */
    uint64_t not_before = atomic_load_explicit(&circuit->not_before_ns, memory_order_relaxed);
    uint64_t held = not_before > opened_ns ? at_most(not_before - opened_ns, BACKOFF_PAUSE_MAX_NS) : 0;

    return pause > held ? pause : held;
}

void circuit_hold_open(struct circuit *circuit, uint64_t not_before_ns)
{
    uint64_t known = atomic_load_explicit(&circuit->not_before_ns, memory_order_relaxed);

    /* Relaxed: published by the release of the word, at the settlement that follows. Loses only to a later floor. */
    while (known < not_before_ns &&
           !atomic_compare_exchange_strong_explicit(&circuit->not_before_ns, &known, not_before_ns,
                                                    memory_order_relaxed, memory_order_relaxed))
        ;
}
