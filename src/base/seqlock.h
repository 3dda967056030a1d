/*
 * seqlock.h - a few words that belong together, written by one at a time and read by anybody, without waiting.
 *
 * For memory of one process. The version is even while the words stand and odd while somebody writes them. Who reads
 * looks at it before and behind: an even one, and the same, means that what was read in between is of one piece. Of
 * those who want to write at once one does: it makes the version odd by a CAS from what it has seen, and even again
 * with the next number. Nobody waits for anybody, and every step is bounded; async-signal-safe.
 *
 * The words go by words_load and words_store: each load acquires and each store releases, so who has read a word of a
 * writer's finds its odd version behind it. No fences: on x86 all of them are plain moves, and ThreadSanitizer knows of
 * none.
 *
 * What is left when the writer's thread dies, or a signal's handler jumps out of it, between two steps: an odd version,
 * over words of two states. Readers find nothing there, and writers leave it alone, until somebody who knows that it
 * must have been left takes it over (seqlock_begin from that odd version, or seqlock_seize). Whoever was only late finds
 * by its own CAS at the end that it has lost; a word that it still writes after the take-over can be mixed with the new
 * ones, so what is read must be harmless in any mixture.
 *
 * What lies in a segment does not go by this: there the writer can be another process, which is killed at any step, and
 * what tells a reader of a change is a word that says more than that: the claim of a process's place, the key of a
 * circuit's (its `hash`), a checksum over an event's stamp and words, where two writers can meet.
 */
#ifndef SOCKFUSE_BASE_SEQLOCK_H
#define SOCKFUSE_BASE_SEQLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing was ever written. */
struct seqlock {
    _Atomic uint32_t version;
};

static inline bool seqlock_is_written(uint32_t version)
{
    return version & 1;
}

/* False: it is just being written, or was left so. */
static inline bool seqlock_look(const struct seqlock *lock, uint32_t *version)
{
    *version = atomic_load_explicit(&lock->version, memory_order_acquire);
    return !seqlock_is_written(*version);
}

/* Whether what was read since that look is of one piece. */
static inline bool seqlock_stands(const struct seqlock *lock, uint32_t version)
{
    /* Relaxed: the words were acquired. */
    return atomic_load_explicit(&lock->version, memory_order_relaxed) == version;
}

/*
 * Begins to write what stood at that version: the writer's own version, or 0 if somebody else was faster. From an odd
 * one it takes over what was left behind.
 */
static inline uint32_t seqlock_begin(struct seqlock *lock, uint32_t version)
{
    const uint32_t mine = version + (seqlock_is_written(version) ? 2 : 1);

    /* Relaxed: the words' stores release it. */
    return atomic_compare_exchange_strong_explicit(&lock->version, &version, mine, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? mine
               : 0;
}

/* Begins to write whatever stands there; of those who did before nobody ends. For who has the words to himself. */
static inline uint32_t seqlock_seize(struct seqlock *lock)
{
    const uint32_t mine = (atomic_load_explicit(&lock->version, memory_order_relaxed) | 1) + 2;

    atomic_store_explicit(&lock->version, mine, memory_order_relaxed);
    return mine;
}

/* It stays odd if it was taken over meanwhile. */
static inline void seqlock_end(struct seqlock *lock, uint32_t mine)
{
    atomic_compare_exchange_strong_explicit(&lock->version, &mine, mine + 1, memory_order_release,
                                            memory_order_relaxed);
}

#endif
