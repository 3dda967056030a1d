/*
 * stamped.h - a few words in shared memory under a stamp and a checksum: what is read is of one piece, or not there.
 *
 * A slot is written in this order: stamp 0, checksum, the words, stamp. Each store releases, so whoever reads the new
 * stamp reads the words behind it. Two writers meet in one slot only when one of them slept meanwhile; then words may be
 * mixed, and the checksum over stamp and words tells. A writer that is killed leaves stamp 0, or what does not fit.
 * Nobody waits. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_STAMPED_H
#define SOCKFUSE_SEGMENT_STAMPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

/* Before the words in their slot: 0 while they are written, else 1 + their number; modulo 2^32. */
struct stamp {
    _Atomic uint32_t stamp;
    _Atomic uint32_t checksum;
};
_Static_assert(sizeof(struct stamp) == 8, "the same in 32 and 64 bit");

/* By how many a writer can have been overtaken; a stamp from further ahead is rubbish, and is written over. */
#define OVERTAKEN_MAX (UINT32_C(1) << 20)

/* Of words and their stamp; `bytes` is a multiple of 4. */
static inline uint32_t stamped_checksum(const void *words, size_t bytes, uint32_t stamp)
{
    uint32_t sum = stamp ^ UINT32_C(0x5bd1e995);
    for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)words + at, sizeof word);
        sum = (sum ^ word) * UINT32_C(0x9e3779b1);
        sum ^= sum >> 15;
    }
    return sum;
}

static inline uint32_t stamp_of(uint64_t number)
{
    return (uint32_t)(number + 1);
}

/* Of two writers the one with the higher number stays. `to` lies on a word's boundary behind its stamp. */
static inline void stamped_write(struct stamp *slot, void *to, const void *from, size_t bytes, uint64_t number)
{
    const uint32_t stamp = stamp_of(number);
    const uint32_t present = atomic_load_explicit(&slot->stamp, memory_order_relaxed);
    /* A writer that was overtaken leaves the newer one alone. (The difference is right over the wrap of 32 bits.) */
    if (present != 0 && present != stamp && present - stamp < OVERTAKEN_MAX)
        return;
    atomic_store_explicit(&slot->stamp, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->checksum, stamped_checksum(from, bytes, stamp), memory_order_release);
    shared_store(to, from, bytes);
    atomic_store_explicit(&slot->stamp, stamp, memory_order_release);
}

/* False: nothing stands there. `*stamp`: which one was read. */
static inline bool stamped_read(const struct stamp *slot, void *to, const void *from, size_t bytes, uint32_t *stamp)
{
    *stamp = atomic_load_explicit(&slot->stamp, memory_order_acquire);
    if (*stamp == 0)
        return false;
    const uint32_t checksum = atomic_load_explicit(&slot->checksum, memory_order_acquire);
    shared_load(to, from, bytes);
    /* The words were acquired, so this load is not done before them. */
    return atomic_load_explicit(&slot->stamp, memory_order_relaxed) == *stamp &&
           stamped_checksum(to, bytes, *stamp) == checksum;
}

#endif
