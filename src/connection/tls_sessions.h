/*
 * tls_sessions.h - which connection a TLS session speaks over, and what the library is doing for it just now.
 *
 * Inside TLS the bytes on the wire tell nothing: after a TLS 1.3 handshake the server sends session tickets by itself,
 * so even a hung one "answers". Where the program links its TLS library dynamically, SSL_read and its relatives tell
 * what is an answer. Which descriptor a session uses is seen from inside: it is the one that this thread sends or
 * receives on during the call (SSL_get_fd is -1 where the program brings its own BIO, as curl does). A siglongjmp out
 * of a TLS call leaves a mark behind; it is believed only for connections that speak TLS by their bytes, and
 * overwritten by the next call.
 */
#ifndef SOCKFUSE_CONNECTION_TLS_SESSIONS_H
#define SOCKFUSE_CONNECTION_TLS_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "connection/descriptors.h"
#include "connection/engine.h"

enum tls_doing { TLS_NOTHING, TLS_HANDSHAKE, TLS_READ, TLS_WRITE };

struct tls_thread {
    const void *session; /* the session that this thread works for, or NULL */
    enum tls_doing doing;
    descriptor entry; /* the guarded connection that it used last, or 0 */
    int fd;
};
/* Initial-exec: no allocation at a thread's first use. */
extern __thread struct tls_thread tls_thread;

/* Around a call into the TLS library. `outer` keeps what was there: a callback of one session may use another. */
static inline void tls_enter(const void *session, enum tls_doing doing, struct tls_thread *outer)
{
    if (!atomic_load_explicit(&engine.meets_tls, memory_order_relaxed))
        atomic_store_explicit(&engine.meets_tls, true, memory_order_relaxed);
    *outer = tls_thread;
    tls_thread = (struct tls_thread){session, doing, 0, -1};
}
/* Returns the entry of the session's connection (0: not guarded or not known), and its descriptor. */
descriptor tls_leave(const struct tls_thread *outer, int *fd);

/* The entry of the session's connection, as it last used one, and its descriptor; 0: not guarded or not known. */
descriptor tls_connection(const void *session, int *fd);

/* Whether this thread is inside a TLS library. One load of a line that is at hand, where the program has none. */
static inline bool tls_is_at_work(void)
{
    return __builtin_expect(atomic_load_explicit(&engine.meets_tls, memory_order_relaxed), 0) && tls_thread.session;
}

/* For wrappers of sends and receives: a guarded connection is used. What for? */
static inline enum tls_doing tls_uses(descriptor entry, int fd)
{
    if (!tls_thread.session)
        return TLS_NOTHING;
    tls_thread.entry = entry;
    tls_thread.fd = fd;
    return tls_thread.doing;
}

/* Whether bytes that are sent begin a TLS record (RFC 8446, 5.1);
 * `hello`: one of the handshake, as a connection begins with. */
static inline bool tls_is_record(const void *bytes, size_t count, bool hello)
{
    const unsigned char *byte = bytes;
    return count >= 3 && byte[1] == 3 && byte[2] <= 4 && (hello ? byte[0] == 22 : byte[0] >= 20 && byte[0] <= 23);
}

/*
 * Whether a record of the handshake is an alert: in plain (RFC 8446, 6), or encrypted by TLS 1.3, where its length
 * gives it away: two bytes, the type, and a tag of 16. What else a client encrypts in the handshake is longer.
 */
static inline bool tls_is_alert(const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    return tls_is_record(bytes, count, false) &&
           (byte[0] == 21 || (count >= 5 && byte[0] == 23 && byte[3] == 0 && byte[4] == 2 + 1 + 16));
}

#endif
