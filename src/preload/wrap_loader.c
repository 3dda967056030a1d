/*
 * wrap_loader.c - dlopen and dlmopen without RTLD_DEEPBIND.
 *
 * A library that is loaded with it binds straight to libc and is hidden from every preload: PHP loads all its
 * extensions so. Only where we guard: to a plugin that brings its own functions the flag means what it says, and a
 * program that is left alone keeps it. The real function looks at its caller (search paths, name spaces), so these two
 * must end in a jump.
 */
#define _GNU_SOURCE
#include "base/libc.h"
#include "connection/engine.h"
#include "preload/real.h"

#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0 /* a libc that does not know it */
#endif

static inline int without_deepbind(int flags)
{
    return engine_ready() ? flags & ~RTLD_DEEPBIND : flags;
}

JUMPS void *wrap_dlopen(const char *file, int flags)
{
    JUMP real.dlopen(file, without_deepbind(flags));
}

#if LIBC_HAS_DLMOPEN
JUMPS void *wrap_dlmopen(Lmid_t space, const char *file, int flags)
{
    JUMP real.dlmopen(space, file, without_deepbind(flags));
}
#endif
