/*
 * wrap_memory.c - mprotect: the one way by which a program makes its own data unreadable. See memory.h.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "connection/memory.h"
#include "preload/real.h"

int wrap_mprotect(void *at, size_t length, int protection)
{
    if (protection & PROT_READ)
        return real.mprotect(at, length, protection);
    memory_protected();
    int result = real.mprotect(at, length, protection);
    memory_protected(); /* what another thread has just found readable */
    return result;
}
