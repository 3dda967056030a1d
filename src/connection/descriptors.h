/*
 * descriptors.h - what is known of each descriptor number:
 * nothing, what socket() was asked for, or a guarded connection.
 *
 * Chunks are mapped when something of a number in them is first known; nothing loops over RLIMIT_NOFILE. An entry is
 * one 64-bit word. Reading it is one load for numbers below 1,024, two below 65,536, and four for those beyond: the way
 * of an untracked descriptor through every wrapper. Async-signal-safe; no lock.
 */
#ifndef SOCKFUSE_CONNECTION_DESCRIPTORS_H
#define SOCKFUSE_CONNECTION_DESCRIPTORS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection/pages.h"

#define CHUNK_BITS 10
#define CHUNK_SIZE (1u << CHUNK_BITS)
#define DESCRIPTORS_MAX (1u << 30) /* what sysctl fs.nr_open can allow at the most, practically */

/*
 * An entry: connection + 1 in the high half (0: none), then the connection's serial number, then what socket() said.
 * Without a connection: how often the process had forked by then stands for the serial number, or, if the socket has
 * other numbers too, the tag of their group (sharers.h). 0 is a number of which nothing is known.
 */
typedef uint64_t descriptor;
#define DESCRIPTOR_STREAM UINT64_C(1) /* a stream socket of a family that we guard, not connected as far as we know */
#define DESCRIPTOR_OTHER UINT64_C(2)  /* some other socket: never guarded */
/* Of a STREAM, beside it: */
#define DESCRIPTOR_ELSEWHERE UINT64_C(4) /* it was connected to a fallback, and is not watched */
#define DESCRIPTOR_SHARED UINT64_C(8)    /* it has, or had, another number too: sharers.h */

struct descriptor_chunk {
    _Atomic uint64_t at[CHUNK_SIZE];
};
#define DESCRIPTORS_NEAR 64u /* chunks */
/* Roots. Nearly all descriptors are in the first chunk, which is at hand. */
extern struct descriptor_chunk descriptor_first;
extern pages_root descriptor_near[DESCRIPTORS_NEAR];

/* The same for a chunk that is far; NULL also for numbers that no descriptor has. */
struct descriptor_chunk *descriptor_far_chunk(uint32_t number);

/* NULL: not mapped. */
static inline struct descriptor_chunk *descriptor_chunk(uint32_t number)
{
    if (__builtin_expect(number == 0, 1))
        return &descriptor_first;
    return __builtin_expect(number < DESCRIPTORS_NEAR, 1) ? pages_present(&descriptor_near[number])
                                                          : descriptor_far_chunk(number);
}

static inline descriptor descriptor_get(int fd)
{
    struct descriptor_chunk *chunk = descriptor_chunk((unsigned int)fd >> CHUNK_BITS);
    /* acquire: a connection's fields were written before its entry was. */
    return chunk ? atomic_load_explicit(&chunk->at[(unsigned int)fd & (CHUNK_SIZE - 1)], memory_order_acquire) : 0;
}

/* The connection's number + 1, or 0. */
static inline uint32_t descriptor_connection(descriptor entry)
{
    return (uint32_t)(entry >> 32);
}

static inline descriptor descriptor_of_connection(uint32_t number, uint32_t serial)
{
    return (uint64_t)(number + 1) << 32 | (uint64_t)(serial & 0xffffffu) << 8 | DESCRIPTOR_STREAM;
}

static inline uint32_t descriptor_serial(descriptor entry)
{
    return (uint32_t)(entry >> 8) & 0xffffffu;
}

/* What is known of a number without a connection: DESCRIPTOR_…; 0: it has one, or nothing is known. */
static inline descriptor descriptor_hint(descriptor entry)
{
    return descriptor_connection(entry) ? 0 : entry & 0xffu;
}

static inline descriptor descriptor_of_hint(descriptor hint, uint32_t forks)
{
    return (uint64_t)(forks & 0xffffffu) << 8 | hint;
}

/* Sets an entry and returns the former one. Maps a chunk if need be (one system call); false if there is no memory. */
bool descriptor_set(int fd, descriptor entry, descriptor *former);
/* Changes an entry from what it was seen to be; false if it is another one by now. Maps nothing. */
bool descriptor_replace(int fd, descriptor seen, descriptor entry);
/* Takes the entry out: whoever gets a connection here is the one that closes it. */
descriptor descriptor_take(int fd);
/* The first number at or after `fd`, and not after `last`, of which something is known; -1: none. */
int descriptor_next(int fd, int last);

#endif
