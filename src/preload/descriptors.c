/*
 * descriptors.c - the table of descriptor numbers. See descriptors.h.
 */
#define _GNU_SOURCE
#include "preload/descriptors.h"

#include <sys/mman.h>

struct descriptor_chunk descriptor_first;
_Atomic(struct descriptor_chunk *) descriptor_chunks[DESCRIPTORS_MAX >> CHUNK_BITS];

/* The highest chunk that was ever mapped: walks end there. */
static _Atomic uint32_t highest_chunk;

static struct descriptor_chunk *chunk_map(uint32_t number)
{
    void *fresh =
        mmap(NULL, sizeof(struct descriptor_chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    struct descriptor_chunk *present = NULL;
    if (!atomic_compare_exchange_strong_explicit(&descriptor_chunks[number], &present, fresh, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        munmap(fresh, sizeof(struct descriptor_chunk)); /* another thread was quicker */
        return present;
    }
    uint32_t highest = atomic_load_explicit(&highest_chunk, memory_order_relaxed);
    while (highest < number && !atomic_compare_exchange_weak_explicit(&highest_chunk, &highest, number,
                                                                      memory_order_relaxed, memory_order_relaxed)) {
    }
    return fresh;
}

bool descriptor_set(int fd, descriptor entry, descriptor *former)
{
    *former = 0;
    if ((unsigned int)fd >= DESCRIPTORS_MAX)
        return false;
    uint32_t number = (unsigned int)fd >> CHUNK_BITS;
    struct descriptor_chunk *chunk = descriptor_chunk(number);
    if (!chunk) {
        if (entry == 0)
            return true; /* nothing to forget */
        chunk = chunk_map(number);
        if (!chunk)
            return false;
    }
    /* release: what the entry leads to is complete; acquire: so is what the former one leads to. */
    *former = atomic_exchange_explicit(&chunk->at[(unsigned int)fd & (CHUNK_SIZE - 1)], entry, memory_order_acq_rel);
    return true;
}

bool descriptor_replace(int fd, descriptor seen, descriptor entry)
{
    struct descriptor_chunk *chunk =
        (unsigned int)fd < DESCRIPTORS_MAX ? descriptor_chunk((unsigned int)fd >> CHUNK_BITS) : NULL;
    return chunk && atomic_compare_exchange_strong_explicit(&chunk->at[(unsigned int)fd & (CHUNK_SIZE - 1)], &seen,
                                                            entry, memory_order_acq_rel, memory_order_relaxed);
}

descriptor descriptor_take(int fd)
{
    descriptor former = descriptor_get(fd); /* mostly nothing is known: then nothing is written */
    if (former)
        descriptor_set(fd, 0, &former);
    return former;
}

int descriptor_next(int fd, int last)
{
    uint32_t highest = atomic_load_explicit(&highest_chunk, memory_order_relaxed);
    int64_t end = (int64_t)(highest + 1) << CHUNK_BITS;
    int64_t at = fd < 0 ? 0 : fd;
    if ((int64_t)last < end)
        end = (int64_t)last + 1;
    while (at < end) {
        if (!descriptor_chunk((uint32_t)(at >> CHUNK_BITS))) {
            at = ((at >> CHUNK_BITS) + 1) << CHUNK_BITS;
            continue;
        }
        if (descriptor_get((int)at))
            return (int)at;
        at++;
    }
    return -1;
}
