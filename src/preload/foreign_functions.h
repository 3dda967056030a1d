/*
 * foreign_functions.h - functions of libraries that the program brought along: which one the code at an address means.
 *
 * For wrap_tls.c. Two versions of a TLS library may live in one process, and both may leave it, with the plugin that
 * brought them; another plugin may then lie where the first one was. So what was found for a caller is believed only
 * until the dynamic linker unloads something, whatever it is. Not async-signal-safe, as the functions themselves are
 * not: each call asks the linker under its lock of the list of objects, and a caller's first one looks up.
 */
#ifndef SOCKFUSE_PRELOAD_FOREIGN_FUNCTIONS_H
#define SOCKFUSE_PRELOAD_FOREIGN_FUNCTIONS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/seqlock.h"

#define FOREIGN_CALLERS 32u

/* What was found for callers of one function; zero at the start. With all places taken it is looked up each time. */
struct foreign_callers {
    struct foreign_caller {
        struct seqlock lock;       /* at version 0 it was never written */
        _Atomic uint64_t found[3]; /* struct found */
    } at[FOREIGN_CALLERS];
};

/*
 * The function of that name as the code at `caller` would have found it without `ours`: through that object's own
 * libraries (Python's _ssl is loaded out of the global scope), then those behind us. A function that ends in a jump to
 * ours has its own caller's address here, which may know nothing of the library: then it is the first one that has it.
 * 0: it is nowhere.
 */
uintptr_t foreign_function(struct foreign_callers *callers, const char *name, const void *caller, const void *ours);

#endif
