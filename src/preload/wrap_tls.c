/*
 * wrap_tls.c - OpenSSL's and GnuTLS's reads, writes and handshakes.
 *
 * The library's own sends and receives go through our wrappers of send and recv: those see which connection it is, and
 * take care of failures. Here is told what plaintext came: that is the answer. None of these functions is
 * async-signal-safe in its own library, so looking the real one up (foreign_functions.h) may allocate and lock.
 */
#define _GNU_SOURCE
#include "connection/tls_sessions.h"
#include "preload/foreign_functions.h"
#include "preload/real.h"
#include "preload/wrapper.h"

/* The real function `meant`, for whoever called the wrapper. */
#define FIND(name)                                                                                                     \
    static _Alignas(64) struct foreign_callers callers;                                                                \
    typeof(&wrap_##name) meant = (typeof(&wrap_##name))foreign_function(&callers, #name, __builtin_return_address(0),  \
                                                                        (const void *)wrap_##name)

static void read_done(const struct tls_thread *outer, const void *buffer, size_t got)
{
    int error = errno, fd = -1;
    descriptor entry = tls_leave(outer, &fd);
    if (entry && got > 0)
        connection_answered(entry, fd, buffer, got);
    errno = error;
}

/* Where HTTP/2 is spoken, what is to be written may be refused: it has to be asked before. */
static void write_begins(const void *session, const void *buffer, size_t count, struct tls_thread *outer)
{
    tls_enter(session, TLS_WRITE, outer);
    if (!atomic_load_explicit(&engine.meets_http2, memory_order_relaxed) || count == 0 || !buffer)
        return;
    int error = errno, fd = -1;
    descriptor entry = tls_connection(session, &fd);
    if (entry)
        connection_asking(entry, fd, buffer, count);
    errno = error;
}

static void write_done(const struct tls_thread *outer, const void *buffer, size_t sent)
{
    int error = errno, fd = -1;
    bool kept = !tls_thread.entry;
    descriptor entry = tls_leave(outer, &fd);
    if (entry && sent > 0)
        connection_asked(entry, fd, buffer, sent, kept);
    errno = error;
}

#define HANDSHAKE(name)                                                                                                \
    int wrap_##name(void *session)                                                                                     \
    {                                                                                                                  \
        FIND(name);                                                                                                    \
        struct tls_thread outer;                                                                                       \
        if (!meant)                                                                                                    \
            return -1;                                                                                                 \
        tls_enter(session, TLS_HANDSHAKE, &outer);                                                                     \
        int result = meant(session);                                                                                   \
        read_done(&outer, NULL, 0);                                                                                    \
        return result;                                                                                                 \
    }
HANDSHAKE(SSL_connect)
HANDSHAKE(SSL_do_handshake)
HANDSHAKE(gnutls_handshake)

int wrap_SSL_read(void *session, void *buffer, int count)
{
    FIND(SSL_read);
    struct tls_thread outer;
    if (!meant)
        return -1;
    tls_enter(session, TLS_READ, &outer);
    int got = meant(session, buffer, count);
    read_done(&outer, buffer, got > 0 ? (size_t)got : 0);
    return got;
}

int wrap_SSL_read_ex(void *session, void *buffer, size_t count, size_t *got)
{
    FIND(SSL_read_ex);
    struct tls_thread outer;
    if (!meant)
        return 0;
    tls_enter(session, TLS_READ, &outer);
    int result = meant(session, buffer, count, got);
    read_done(&outer, buffer, result == 1 ? *got : 0);
    return result;
}

ssize_t wrap_gnutls_record_recv(void *session, void *buffer, size_t count)
{
    FIND(gnutls_record_recv);
    struct tls_thread outer;
    if (!meant)
        return -1;
    tls_enter(session, TLS_READ, &outer);
    ssize_t got = meant(session, buffer, count);
    read_done(&outer, buffer, got > 0 ? (size_t)got : 0);
    return got;
}

int wrap_SSL_write(void *session, const void *buffer, int count)
{
    FIND(SSL_write);
    struct tls_thread outer;
    if (!meant)
        return -1;
    write_begins(session, buffer, count > 0 ? (size_t)count : 0, &outer);
    int sent = meant(session, buffer, count);
    write_done(&outer, buffer, sent > 0 ? (size_t)sent : 0);
    return sent;
}

int wrap_SSL_write_ex(void *session, const void *buffer, size_t count, size_t *sent)
{
    FIND(SSL_write_ex);
    struct tls_thread outer;
    if (!meant)
        return 0;
    write_begins(session, buffer, count, &outer);
    int result = meant(session, buffer, count, sent);
    write_done(&outer, buffer, result == 1 ? *sent : 0);
    return result;
}

ssize_t wrap_gnutls_record_send(void *session, const void *buffer, size_t count)
{
    FIND(gnutls_record_send);
    struct tls_thread outer;
    if (!meant)
        return -1;
    write_begins(session, buffer, count, &outer);
    ssize_t sent = meant(session, buffer, count);
    write_done(&outer, buffer, sent > 0 ? (size_t)sent : 0);
    return sent;
}
