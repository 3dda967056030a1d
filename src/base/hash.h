/*
 * hash.h - the one hash of bytes and the one mixer of bits.
 *
 * Pure, without tables, byte by byte: programs of any word size that share a segment find the same numbers. What comes
 * out is stored in shared memory and decides a rehearsal's draws, so none of it may change. Everybody may use it; no
 * protection against those who choose their input. Async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_HASH_H
#define SOCKFUSE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bit: hash_bytes goes on from `hash`, or begins with HASH_BEGIN. Its bits are unevenly good. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++) /* NOLINTNEXTLINE(clang-analyzer-core.*): it takes wider elements for one byte */
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The step from one input of hash_spread to the next: 2^64 divided by the golden ratio, made odd. */
#define HASH_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): every bit of the input moves every bit of the result. */
static inline uint64_t hash_spread(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

#endif
