/*
 * bulkhead.c - shares of a circuit, and their number.
 *
 * A share is marked in its record before it is counted, and is counted off before the mark goes. So at any time the
 * marks of the living are at least as many as the count says rightly: a count that is too high (somebody was killed
 * with his share, or in between) is put right by counting the marks, and one that is too low can't be. The word's upper
 * half changes with every step: a recount whose marks were read while somebody took or gave is thrown away.
 */
#include "segment/bulkhead.h"

#include <stdatomic.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/clock.h"
#include "segment/layout.h"
#include "segment/report.h"

#define RECOUNT_NS (10 * NS_PER_MS)
/* A CAS loses only to another connection's step; then the place may be free again, and a new look is due. */
#define LOOKS_MAX 256u
/* Recounts in one take: beyond the first they are needed only where others take or give meanwhile. */
#define RECOUNTS_MAX 4u

/* A record's share: how far it is, and the circuit's index + 1. 0: none. */
#define SHARE_PENDING (UINT32_C(1) << 30) /* marked, perhaps not counted yet */
#define SHARE_HELD (UINT32_C(2) << 30)
#define SHARE_GIVING (UINT32_C(3) << 30)  /* perhaps counted off already */
#define SHARE_CIRCUIT ((UINT32_C(1) << 30) - 1)
_Static_assert(CAPACITY_CIRCUITS_MAX < SHARE_CIRCUIT, "a circuit's index fits");

static uint64_t with_count(uint64_t word, uint32_t count)
{
    return ((word >> 32) + 1) << 32 | count;
}

static bool replace(struct circuit_entry *entry, uint64_t word, uint32_t count)
{
    /*
     * Release: who reads this count reads the mark that was set before it. Acquire: the mark goes only behind it.
     */
    return atomic_compare_exchange_strong_explicit(&entry->connections, &word, with_count(word, count),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* --- counting anew --- */

/*
 * The shares of the circuit whose owners live, but that of `except`. `*unsettled`: some of them are just being taken or
 * given, so that the number may be too high.
 */
static uint32_t count_marks(const struct segment *segment, uint32_t circuit, uint32_t except, bool *unsettled)
{
    struct liveness liveness = {0};
    uint32_t count = 0;

    *unsettled = false;
    for (uint32_t call = 0; call < calls_limit(segment); call++) {
        const struct call *record = &segment->calls[call];
        uint32_t share = atomic_load_explicit(&record->share, memory_order_acquire);
        uint32_t owner = atomic_load_explicit(&segment->call_owner[call], memory_order_acquire);

        if ((share & SHARE_CIRCUIT) != circuit + 1 || owner == 0 || call == except ||
            !liveness_ask(&liveness, segment, owner))
            continue;
        count++;
        if ((share & ~SHARE_CIRCUIT) != SHARE_HELD)
            *unsettled = true;
    }
    return count;
}

uint32_t bulkhead_count(const struct segment *segment, uint32_t circuit)
{
    bool unsettled;

    if (segment->map == NULL || circuit >= segment->capacity.circuits)
        return 0;
    return count_marks(segment, circuit, CALL_NONE, &unsettled);
}

/* Whether it is this one's turn to count anew; many that are refused at the same moment need one count. */
static bool takes_turn(struct circuit_entry *entry)
{
    uint64_t now_ns = clock_real_ns(), last_ns = atomic_load_explicit(&entry->recounted_ns, memory_order_relaxed);

    /* A time that lies ahead (of another time name space, or corrupt) is long ago as well. */
    return now_ns - last_ns >= RECOUNT_NS &&
           atomic_compare_exchange_strong_explicit(&entry->recounted_ns, &last_ns, now_ns, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* The word holds the shares of the living, as of `word`. False: they are no fewer than it says. */
static bool recount(struct segment *segment, uint32_t circuit, uint32_t call, uint64_t word)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);
    bool unsettled;
    uint32_t count = count_marks(segment, circuit, call, &unsettled);

    if (unsettled) /* the next one that would be refused looks again at once */
        atomic_store_explicit(&entry->recounted_ns, 0, memory_order_relaxed);
    if (count >= (uint32_t)word)
        return false;
    replace(entry, word, count);
    return true;
}

/* --- taking and giving --- */

bool bulkhead_take(struct segment *segment, uint32_t circuit, uint32_t call, uint32_t limit)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);
    bool has_turn = false;
    unsigned int recounts = 0;

    if (entry == NULL || call >= segment->capacity.calls)
        return true;
    struct call *record = &segment->calls[call];
    /* There are no more records. A count beyond them is rubbish. */
    const uint32_t most = limit < segment->capacity.calls ? limit : segment->capacity.calls;
    atomic_store_explicit(&record->share, SHARE_PENDING | (circuit + 1), memory_order_release);
    for (unsigned int look = 0; look < LOOKS_MAX; look++) {
        /* Acquire: with the count come the marks of those that are in it. */
        uint64_t word = atomic_load_explicit(&entry->connections, memory_order_acquire);

        if ((uint32_t)word < most) {
            if (!replace(entry, word, (uint32_t)word + 1))
                continue;
            atomic_store_explicit(&record->share, SHARE_HELD | (circuit + 1), memory_order_release);
            return true;
        }
        has_turn = has_turn || takes_turn(entry);
        if (!has_turn || recounts++ == RECOUNTS_MAX || !recount(segment, circuit, call, word))
            break;
    }
    atomic_store_explicit(&record->share, 0, memory_order_release);
    return false;
}

void bulkhead_give(struct segment *segment, uint32_t call, uint32_t limit)
{
    if (segment->map == NULL || call >= segment->capacity.calls)
        return;
    struct call *record = &segment->calls[call];
    uint32_t share = atomic_load_explicit(&record->share, memory_order_acquire);
    struct circuit_entry *entry = circuits_entry(segment, (share & SHARE_CIRCUIT) - 1);

    if ((share & ~SHARE_CIRCUIT) != SHARE_HELD || entry == NULL ||
        !atomic_compare_exchange_strong_explicit(&record->share, &share, share | SHARE_GIVING, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return;
    for (unsigned int look = 0; look < LOOKS_MAX; look++) {
        uint64_t word = atomic_load_explicit(&entry->connections, memory_order_relaxed);
        uint32_t count = (uint32_t)word;

        if (count != 0 && !replace(entry, word, count - 1))
            continue;
        /* The crowd is over when half of the places are free: the next one that is refused is news again. */
        if (count != 0 && count - 1 == limit / 2)
            report_crowd_over(entry);
        break;
    }
    atomic_store_explicit(&record->share, 0, memory_order_release);
}

void bulkhead_doubt(struct segment *segment, uint32_t call)
{
    uint32_t share = atomic_load_explicit(&segment->calls[call].share, memory_order_acquire);
    struct circuit_entry *entry = circuits_entry(segment, (share & SHARE_CIRCUIT) - 1);

    if (entry != NULL)
        atomic_store_explicit(&entry->recounted_ns, 0, memory_order_relaxed);
}
