/*
 * pages.c - tables that are mapped when they are first used. See pages.h.
 */
#define _GNU_SOURCE
#include "connection/pages.h"

#include "base/hot.h"

#include <sys/mman.h>

SELDOM static void *map_pages(pages_root *root, size_t size)
{
    void *present = NULL;
    void *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(root, &present, fresh, memory_order_acq_rel, memory_order_acquire))
        return fresh;
    munmap(fresh, size); /* another thread was quicker */
    return present;
}

HOT void *pages_needed(pages_root *root, size_t size)
{
    void *present = pages_present(root);
    return LIKELY(present != NULL) ? present : map_pages(root, size);
}
