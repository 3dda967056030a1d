/*
 * wrap_loader.c - dlopen and dlmopen without RTLD_DEEPBIND.
 *
 * A library that is loaded with it binds straight to libc and is hidden from every preload: PHP loads all its
 * extensions so. The real function looks at its caller (search paths, name spaces), so these two must end in a jump.
 */
#define _GNU_SOURCE
#include "preload/real.h"

JUMPS void *wrap_dlopen(const char *file, int flags)
{
    JUMP real.dlopen(file, flags & ~RTLD_DEEPBIND);
}

JUMPS void *wrap_dlmopen(Lmid_t space, const char *file, int flags)
{
    JUMP real.dlmopen(space, file, flags & ~RTLD_DEEPBIND);
}
