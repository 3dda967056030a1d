/*
 * all_well.c - a circuit on which nothing is wrong: what is asked of it and told to it for every call, in few steps.
 *
 * All this is what circuit_admit and circuit_settle come to on a closed circuit without a failure; they decide
 * everything else. No clock, no lock.
 */
#include <stdatomic.h>

#include "base/hot.h"
#include "breaker/circuit.h"
#include "breaker/window.h"
#include "breaker/word.h"

_Static_assert(CIRCUIT_CLOSED == 0 && WORD_FAILURES_SHIFT == WORD_CLOSED_GENERATION_BITS,
               "such a circuit's word is its generation");

bool circuit_is_closed(const struct circuit *circuit)
{
    /* Relaxed: a hint about one moment, which nothing else is read by. */
    return word_unpack(atomic_load_explicit(&circuit->word, memory_order_relaxed)).state == CIRCUIT_CLOSED;
}

bool circuit_is_open(const struct circuit *circuit)
{
    return word_unpack(atomic_load_explicit(&circuit->word, memory_order_relaxed)).state == CIRCUIT_OPEN;
}

bool circuit_is_blocked(const struct circuit *circuit, uint64_t now_ns)
{
    struct word word = word_unpack(atomic_load_explicit(&circuit->word, memory_order_relaxed));

    return word.state == CIRCUIT_OPEN && word_until(word.deadline, now_ns) > 0;
}

bool circuit_is_well(const struct circuit *circuit, uint64_t *generation)
{
    uint64_t raw = atomic_load_explicit(&circuit->word, memory_order_acquire);

    /* Above the generation stand the failures, and the state, which is 0. */
    if (generation != NULL)
        *generation = raw & WORD_LOW_BITS(WORD_CLOSED_GENERATION_BITS);
    return raw >> WORD_CLOSED_GENERATION_BITS == 0;
}

HOT void circuit_count_success(struct circuit *circuit, const struct settings *settings, unsigned int shard,
                               uint64_t generation, uint64_t now_ns)
{
    if (window_is_used(settings))
        window_add_success(circuit, settings, shard, generation, now_ns);
    counters_add(&circuit->counters, shard, COUNT_SUCCEEDED);
}
