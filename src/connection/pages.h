/*
 * pages.h - tables of this process that are mapped when they are first used.
 *
 * What lies in .bss is in every process that loads the library, also in one without a policy: it counts against its
 * RLIMIT_DATA, and mlockall(2) makes memory of it. So a table that is larger than a few pages has a root, which leads
 * nowhere until somebody has something to write into it. It is never unmapped. Lock-free, async-signal-safe; errno is
 * kept by the callers.
 */
#ifndef SOCKFUSE_CONNECTION_PAGES_H
#define SOCKFUSE_CONNECTION_PAGES_H

#include <stdatomic.h>
#include <stddef.h>

/* A pointer to a table, with the table's type known to those alone who read it. */
typedef _Atomic(void *) pages_root;

/* The table, or NULL: nobody has written into it yet. */
static inline void *pages_present(const pages_root *root)
{
    /* acquire: whoever mapped it may have written into it since. */
    return atomic_load_explicit(root, memory_order_acquire);
}

/* The table, mapped (zeros) if it is not yet: one system call. NULL: there is no memory; the next one tries again. */
void *pages_needed(pages_root *root, size_t size);

#endif
