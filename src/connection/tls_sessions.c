/*
 * tls_sessions.c - sessions and their connections. See tls_sessions.h.
 */
#define _GNU_SOURCE
#include "connection/tls_sessions.h"

#include <stdatomic.h>
#include <stdint.h>

#include "connection/pages.h"

#define SESSIONS 1024u /* that are remembered; a further one is learned anew when it uses its descriptor */
#define LOOKS 8u

__thread struct tls_thread tls_thread;

/* Which entry a session used last: for reads that the library serves from its own buffer.
 * A stale pair is told by the entry's serial. */
struct pair {
    _Atomic uintptr_t session;
    _Atomic uint64_t entry;
    _Atomic int fd;
};
static pages_root table; /* of SESSIONS pairs */

static struct pair *place_of(const void *session, bool make)
{
    struct pair *pairs = make ? pages_needed(&table, SESSIONS * sizeof *pairs) : pages_present(&table);
    if (!pairs)
        return NULL;
    uintptr_t key = (uintptr_t)session;
    size_t first = (size_t)((key >> 4) * 0x9e3779b9u) % SESSIONS;
    for (size_t i = 0; i < LOOKS; i++) {
        struct pair *pair = &pairs[(first + i) % SESSIONS];
        uintptr_t found = atomic_load_explicit(&pair->session, memory_order_relaxed);
        if (found == key)
            return pair;
        if (found == 0 && make &&
            atomic_compare_exchange_strong_explicit(&pair->session, &found, key, memory_order_relaxed,
                                                    memory_order_relaxed))
            return pair;
    }
    if (!make)
        return NULL;
    atomic_store_explicit(&pairs[first].session, key, memory_order_relaxed); /* somebody's place has to serve */
    return &pairs[first];
}

descriptor tls_leave(const struct tls_thread *outer, int *fd)
{
    struct tls_thread inner = tls_thread;
    tls_thread = *outer;
    if (inner.entry) {
        struct pair *pair = place_of(inner.session, true);
        if (pair && atomic_load_explicit(&pair->entry, memory_order_relaxed) != inner.entry) {
            atomic_store_explicit(&pair->fd, inner.fd, memory_order_relaxed);
            atomic_store_explicit(&pair->entry, inner.entry, memory_order_release);
        }
        *fd = inner.fd;
        return inner.entry;
    }
    return tls_connection(inner.session, fd);
}

descriptor tls_connection(const void *session, int *fd)
{
    struct pair *pair = place_of(session, false);
    if (!pair)
        return 0;
    descriptor entry = atomic_load_explicit(&pair->entry, memory_order_acquire);
    *fd = atomic_load_explicit(&pair->fd, memory_order_relaxed);
    return entry;
}
