/*
 * backoff.c - how long a circuit stays open: reset timeout, back-off, jitter, what the destination asks for.
 *
 * Integers only (no floating point enters a host process) and all of it saturates: settings may be absurd, they come
 * from a file or from shared memory.
 */
#include "breaker/backoff.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "breaker/circuit.h"
#include "breaker/word.h"

/* A CAS loses only to another floor. More of them in a row than this are corrupt memory that never rests. */
#define LOOKS_MAX 4096u
/* Two floors that one clock has set do not lie further apart: the longest retry_after_max that there is. */
#define FLOORS_APART_MAX_NS SETTING_MAX_NS

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

/* The floor under pauses; 0: there is none, or none that can be believed. */
static uint64_t floor_of(const struct circuit *circuit, const struct settings *settings, uint64_t now_ns)
{
    /* Relaxed: whoever counts a failure has set its floor before; the word, which was loaded with acquire, tells so. */
    uint64_t not_before = atomic_load_explicit(&circuit->not_before_ns, memory_order_relaxed);
    bool is_strange = settings->retry_after_max_ns != 0 && not_before > now_ns &&
                      !time_can_be_ahead(not_before - now_ns, settings->retry_after_max_ns);

    return is_strange ? 0 : not_before;
}

static uint64_t ahead_of(uint64_t time_ns, uint64_t now_ns)
{
    return time_ns > now_ns ? at_most(time_ns - now_ns, BACKOFF_PAUSE_MAX_NS) : 0;
}

uint64_t backoff_opening_ns(const struct circuit *circuit, const struct settings *settings, unsigned int step,
                            uint64_t opened_ns, uint64_t word, uint64_t now_ns)
{
    uint64_t pause = backoff_pause_ns(settings, step, opened_ns, word);
    uint64_t held = ahead_of(floor_of(circuit, settings, now_ns), opened_ns);

    return pause > held ? pause : held;
}

/* The longest pause that the settings can make; where they say nothing, any. */
static uint64_t longest_ns(const struct settings *settings)
{
    uint64_t longest = at_most(settings->reset_timeout_max_ns, BACKOFF_PAUSE_MAX_NS);

    if (longest == 0)
        return BACKOFF_PAUSE_MAX_NS;
    return at_most(longest + permille_of(longest, settings->jitter_permille), BACKOFF_PAUSE_MAX_NS);
}

uint64_t backoff_left_ns(const struct circuit *circuit, const struct settings *settings, uint64_t deadline,
                         uint64_t now_ns)
{
    uint64_t left = word_until(deadline, now_ns);

    /* Relaxed: written right behind the word; until then the settings of its opening are those of the moment. */
    if (time_can_be_ahead(left, longest_ns(settings)) ||
        time_can_be_ahead(left, atomic_load_explicit(&circuit->pause_ns, memory_order_relaxed)) ||
        time_can_be_ahead(left, ahead_of(floor_of(circuit, settings, now_ns), now_ns)))
        return left;
    return 0;
}

uint64_t backoff_earliest_ns(const struct circuit *circuit, const struct settings *settings, uint64_t now_ns)
{
    return now_ns + ahead_of(floor_of(circuit, settings, now_ns), now_ns);
}

void circuit_hold_open(struct circuit *circuit, uint64_t not_before_ns)
{
    uint64_t known = atomic_load_explicit(&circuit->not_before_ns, memory_order_relaxed);

    /*
     * Relaxed: published by the release of the word, at the settlement that follows. Loses only to a later floor, but
     * not to one that is later than the same clock can have set.
     */
    for (unsigned int looks = 0; looks < LOOKS_MAX; looks++)
        if ((known >= not_before_ns && known - not_before_ns <= FLOORS_APART_MAX_NS) ||
            atomic_compare_exchange_strong_explicit(&circuit->not_before_ns, &known, not_before_ns,
                                                    memory_order_relaxed, memory_order_relaxed))
            return;
}
