/*
 * descriptors.c - the table of descriptor numbers. See descriptors.h.
 */
#define _GNU_SOURCE
#include "connection/descriptors.h"

#include "base/hot.h"

#define FAR_BITS 10
#define FAR_SIZE (1u << FAR_BITS)

struct descriptor_chunk descriptor_first;
pages_root descriptor_near[DESCRIPTORS_NEAR];

/* Chunks beyond the near ones: two levels of pointers, which few processes ever map. */
struct far {
    pages_root at[FAR_SIZE];
};
static pages_root far_root;
_Static_assert(DESCRIPTORS_MAX >> CHUNK_BITS == FAR_SIZE * FAR_SIZE, "two levels reach all chunks");

/* No number at or above this one was ever known: walks end there, and one at exit reads no page for nothing. */
static _Atomic uint32_t numbers_end;

/* The pointers to this chunk and its neighbours; NULL: none of them is mapped. */
static struct far *far_neighbours(uint32_t number)
{
    struct far *far = pages_present(&far_root);
    return far ? pages_present(&far->at[number >> FAR_BITS]) : NULL;
}

struct descriptor_chunk *descriptor_far_chunk(uint32_t number)
{
    struct far *neighbours = number < DESCRIPTORS_MAX >> CHUNK_BITS ? far_neighbours(number) : NULL;
    return neighbours ? pages_present(&neighbours->at[number & (FAR_SIZE - 1)]) : NULL;
}

static pages_root *chunk_root(uint32_t number)
{
    if (number < DESCRIPTORS_NEAR)
        return &descriptor_near[number];
    struct far *far = pages_needed(&far_root, sizeof *far);
    struct far *neighbours = far ? pages_needed(&far->at[number >> FAR_BITS], sizeof *neighbours) : NULL;
    return neighbours ? &neighbours->at[number & (FAR_SIZE - 1)] : NULL;
}

static struct descriptor_chunk *chunk_map(uint32_t number)
{
    pages_root *root = chunk_root(number);
    return root ? pages_needed(root, sizeof(struct descriptor_chunk)) : NULL;
}

static void raise_end(int fd)
{
    uint32_t end = atomic_load_explicit(&numbers_end, memory_order_relaxed);
    while (end <= (uint32_t)fd && !atomic_compare_exchange_weak_explicit(&numbers_end, &end, (uint32_t)fd + 1,
                                                                         memory_order_relaxed, memory_order_relaxed)) {
    }
}

HOT bool descriptor_set(int fd, descriptor entry, descriptor *former)
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
    if (entry != 0)
        raise_end(fd);
    /* release: what the entry leads to is complete; acquire: so is what the former one leads to. */
    *former = atomic_exchange_explicit(&chunk->at[(unsigned int)fd & (CHUNK_SIZE - 1)], entry, memory_order_acq_rel);
    return true;
}

bool descriptor_replace(int fd, descriptor seen, descriptor entry)
{
    struct descriptor_chunk *chunk = descriptor_chunk((unsigned int)fd >> CHUNK_BITS);
    return chunk && atomic_compare_exchange_strong_explicit(&chunk->at[(unsigned int)fd & (CHUNK_SIZE - 1)], &seen,
                                                            entry, memory_order_acq_rel, memory_order_relaxed);
}

HOT descriptor descriptor_take(int fd)
{
    descriptor former = descriptor_get(fd); /* mostly nothing is known: then nothing is written */
    if (former)
        descriptor_set(fd, 0, &former);
    return former;
}

/* The next chunk that may be mapped, after one that is not. */
static uint32_t chunk_after(uint32_t number)
{
    bool none_near = number >= DESCRIPTORS_NEAR && !far_neighbours(number);
    return none_near ? ((number >> FAR_BITS) + 1) << FAR_BITS : number + 1;
}

int descriptor_next(int fd, int last)
{
    int64_t end = atomic_load_explicit(&numbers_end, memory_order_relaxed);
    int64_t at = fd < 0 ? 0 : fd;
    if ((int64_t)last < end)
        end = (int64_t)last + 1;
    while (at < end) {
        uint32_t number = (uint32_t)(at >> CHUNK_BITS);
        if (!descriptor_chunk(number)) {
            at = (int64_t)chunk_after(number) << CHUNK_BITS;
            continue;
        }
        if (descriptor_get((int)at))
            return (int)at;
        at++;
    }
    return -1;
}
