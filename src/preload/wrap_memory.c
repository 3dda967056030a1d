/*
 * wrap_memory.c - the ways by which a program takes its own data away, or makes it unreadable. See memory.h.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "preload/memory.h"
#include "preload/real.h"

JUMPS int wrap_mprotect(void *at, size_t length, int protection)
{
    if (!(protection & PROT_READ))
        memory_goes(at, length);
    JUMP real.mprotect(at, length, protection);
}

#if __GLIBC_PREREQ(2, 27)
JUMPS int wrap_pkey_mprotect(void *at, size_t length, int protection, int key)
{
    memory_goes(at, length); /* what the key permits changes without a call */
    JUMP real.pkey_mprotect(at, length, protection, key);
}
#endif

JUMPS int wrap_munmap(void *at, size_t length)
{
    memory_goes(at, length);
    JUMP real.munmap(at, length);
}

JUMPS void *wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (flags & MAP_FIXED)
        memory_goes(at, length);
    JUMP real.mmap(at, length, protection, flags, fd, offset);
}

JUMPS void *wrap_mmap64(void *at, size_t length, int protection, int flags, int fd, off64_t offset)
{
    if (flags & MAP_FIXED)
        memory_goes(at, length);
    JUMP real.mmap64(at, length, protection, flags, fd, offset);
}

JUMPS void *wrap_mremap(void *at, size_t length, size_t new_length, int flags, void *to)
{
    memory_goes(at, length);
    if (flags & MREMAP_FIXED)
        memory_goes(to, new_length);
    JUMP real.mremap(at, length, new_length, flags, to);
}
