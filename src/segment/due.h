/*
 * due.h - a word that says before which time nothing of what it stands for is due.
 *
 * One stands for all calls of the segment, and one for each group of records (layout.h). A word is a lower bound: what
 * begins lowers it (due_note), and who looks through all that it stands for may raise it (due_look, due_looked). It
 * reads due:44 | changes:19 | looking:1, the time in units of about a millisecond, rounded down.
 *
 * Raising is the danger: something may begin behind the looker's back. So who looks sets `looking` before reading
 * anything, and what begins stores its own state before it reads the word, all sequentially consistent: if the looker
 * did not see the state, the one who began sees `looking`, takes it away, and the looker raises nothing. Several may
 * look at once under one mark; the first to be done raises. Each change of a word counts up, so that no mark is taken
 * for a later one. Who is killed or jumps away while looking leaves the mark: the next looker goes on under it.
 */
#ifndef SOCKFUSE_SEGMENT_DUE_H
#define SOCKFUSE_SEGMENT_DUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DUE_UNIT_BITS 20
#define DUE_LOOKING UINT64_C(1)
/* A CAS loses only to another step. More of them in a row than this are corrupt memory that never rests. */
#define DUE_TRIES_MAX 4096u
#define DUE_CHANGE UINT64_C(2)
#define DUE_REST ((UINT64_C(1) << DUE_UNIT_BITS) - 1)

/* The time in a word, as a lower bound. The last unit is never. */
static inline uint64_t due_time(uint64_t word)
{
    uint64_t due_ns = word & ~DUE_REST;

    return due_ns == ~DUE_REST ? UINT64_MAX : due_ns;
}

/* Whether something may be due by now. One load. */
static inline bool due_has_come(const _Atomic uint64_t *word, uint64_t now_ns)
{
    return now_ns >= due_time(atomic_load_explicit(word, memory_order_relaxed));
}

static inline uint64_t due_changed(uint64_t word, uint64_t due_ns)
{
    return (due_ns & ~DUE_REST) | ((word + DUE_CHANGE) & DUE_REST & ~DUE_LOOKING);
}

/* What has just been made to stand there is due at `due_ns`. Mostly one load. */
static inline void due_note(_Atomic uint64_t *word, uint64_t due_ns)
{
    uint64_t known = atomic_load_explicit(word, memory_order_seq_cst);

    for (unsigned int tries = 0; tries < DUE_TRIES_MAX; tries++) {
        if ((due_ns & ~DUE_REST) >= (known & ~DUE_REST) && (known & DUE_LOOKING) == 0)
            return;
        uint64_t earlier_ns = due_ns < (known & ~DUE_REST) ? due_ns : known;

        if (atomic_compare_exchange_weak_explicit(word, &known, due_changed(known, earlier_ns), memory_order_seq_cst,
                                                  memory_order_seq_cst))
            return;
    }
}

/* Begins a look at all that the word stands for; returns the mark for due_looked. */
static inline uint64_t due_look(_Atomic uint64_t *word)
{
    uint64_t known = atomic_load_explicit(word, memory_order_seq_cst);

    for (unsigned int tries = 0; (known & DUE_LOOKING) == 0 && tries < DUE_TRIES_MAX; tries++) {
        uint64_t marked = due_changed(known, known) | DUE_LOOKING;

        if (atomic_compare_exchange_weak_explicit(word, &known, marked, memory_order_seq_cst, memory_order_seq_cst))
            return marked;
    }
    return known | DUE_LOOKING; /* no mark that stands: nothing is raised by it */
}

/* The look is over: nothing that was seen is due before `next_ns`. */
static inline void due_looked(_Atomic uint64_t *word, uint64_t mark, uint64_t next_ns)
{
    uint64_t expected = mark;

    if (!atomic_compare_exchange_strong_explicit(word, &expected, due_changed(mark, next_ns), memory_order_seq_cst,
                                                 memory_order_relaxed))
        due_note(word, next_ns);
}

#endif
