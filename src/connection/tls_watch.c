/*
 * tls_watch.c - one reader of records for each connection that needs one. See tls_watch.h.
 */
#define _GNU_SOURCE
#include "connection/tls_watch.h"

#include <sys/syscall.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/judgement.h"
#include "connection/system.h"

#define TRIES 1024u
#define TRIES_PER_YIELD 64u

struct watch {
    _Atomic uint64_t entry; /* of the connection */
    _Atomic bool is_taken;  /* somebody is at the records */
    _Atomic bool is_over;   /* nothing more is to be learnt, or can be */
    struct tls_records records;
};

/* A root: the chunks' roots, as those of the connections themselves; mapped when there is something to follow. */
static pages_root chunks;

/* The connection's place; NULL: there is none. */
static struct watch *place_of(const struct connection *connection, bool make)
{
    const uint32_t number = descriptor_connection(atomic_load_explicit(&connection->entry, memory_order_relaxed)) - 1;
    if (number >= POOL_MAX)
        return NULL;
    pages_root *roots = make ? pages_needed(&chunks, POOL_CHUNKS * sizeof(pages_root)) : pages_present(&chunks);
    if (!roots)
        return NULL;
    pages_root *root = &roots[number / POOL_CHUNK];
    struct watch *chunk = make ? pages_needed(root, POOL_CHUNK * sizeof(struct watch)) : pages_present(root);
    return chunk ? &chunk[number % POOL_CHUNK] : NULL;
}

/*
 * A program reads and writes in two threads, so the other one may be at it, for a moment: it is given that. Not for
 * ever: it may be the one that a signal's handler has interrupted, or jumped out of.
 */
static bool try_take(struct watch *watch)
{
    for (unsigned int i = 0; i < TRIES; i++) {
        /* acquire: what the former one did */
        if (!atomic_exchange_explicit(&watch->is_taken, true, memory_order_acquire))
            return true;
        if (i % TRIES_PER_YIELD == TRIES_PER_YIELD - 1)
            sys.syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    return false;
}

static void leave(struct watch *watch)
{
    atomic_store_explicit(&watch->is_taken, false, memory_order_release);
}

/* The connection's reader, for this thread alone until it leaves it. NULL: nothing is to be followed. */
static struct watch *take(const struct connection *connection)
{
    struct watch *watch = place_of(connection, false);
    if (!watch ||
        atomic_load_explicit(&watch->entry, memory_order_relaxed) !=
            atomic_load_explicit(&connection->entry, memory_order_relaxed) ||
        atomic_load_explicit(&watch->is_over, memory_order_relaxed))
        return NULL;
    if (try_take(watch))
        return watch;
    atomic_store_explicit(&watch->is_over, true, memory_order_relaxed); /* what it goes by is torn */
    return NULL;
}

/* As take, and to be followed no longer once all is known. */
static enum tls_standing standing_of(struct watch *watch)
{
    const enum tls_standing standing = tls_records_standing(&watch->records);
    if (standing == RECORDS_LOST || standing == RECORDS_ANSWERED)
        atomic_store_explicit(&watch->is_over, true, memory_order_relaxed);
    return standing;
}

SELDOM void tls_watch_begin(struct connection *connection)
{
    struct watch *watch = place_of(connection, true);
    const descriptor entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
    if (!watch || connection_has(connection, CONNECTION_UNIX) || !try_take(watch))
        return;
    if (atomic_load_explicit(&watch->entry, memory_order_relaxed) != entry) {
        watch->records = (struct tls_records){0};
        atomic_store_explicit(&watch->is_over, false, memory_order_relaxed);
        atomic_store_explicit(&watch->entry, entry, memory_order_relaxed);
    }
    leave(watch);
}

SELDOM void tls_watch_sending(struct connection *connection, int fd)
{
    struct watch *watch = take(connection);
    if (!watch)
        return;
    if (!watch->records.has_asked)
        tls_records_sending(&watch->records, watch->records.in.bytes + socket_unread(fd));
    leave(watch);
}

SELDOM void tls_watch_sent(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    struct watch *watch = take(connection);
    if (!watch)
        return;
    for (size_t i = 0; vector && i < count && bytes > 0; i++) {
        const size_t part = vector[i].iov_len < bytes ? vector[i].iov_len : bytes;
        tls_records_sent(&watch->records, vector[i].iov_base, part);
        bytes -= part;
    }
    if (bytes > 0)
        tls_records_lose(&watch->records);
    tls_records_send_is_over(&watch->records);
    if (standing_of(watch) == RECORDS_REJECTED)
        connection_mark(connection, CONNECTION_REJECTED);
    leave(watch);
}

static void read_what_came(struct tls_records *records, size_t bytes, const struct received *received)
{
    for (size_t i = 0; received->vector && i < received->count && bytes > 0; i++) {
        const size_t part = received->vector[i].iov_len < bytes ? received->vector[i].iov_len : bytes;
        tls_records_came(records, received->vector[i].iov_base, part);
        bytes -= part;
    }
    if (bytes > 0)
        tls_records_lose(records);
}

/* A call that nothing is asked by, as far as is known, or that is perhaps answered, is not overdue; one that is known
 * to have asked is, from now on. */
static void note_due(struct connection *connection, enum tls_standing former, enum tls_standing standing)
{
    struct guard *guard = &connection->station->guard;
    const uint64_t timeout_ns = connection_target(connection)->response_timeout_ns;
    if (standing == RECORDS_READY || standing == RECORDS_HELD)
        guard_excuse(guard, connection->place.call);
    else if (standing == RECORDS_ASKED && former == RECORDS_HELD && timeout_ns)
        guard_put_off(guard, connection->place.call, clock_circuit_ns() + timeout_ns);
}

SELDOM bool tls_watch_holds(struct connection *connection, size_t bytes, const struct received *received)
{
    struct watch *watch = take(connection);
    if (!watch)
        return false;
    const enum tls_standing former = tls_records_standing(&watch->records);
    if (received->flags & MSG_TRUNC)
        tls_records_lose(&watch->records);
    else if (!(received->flags & MSG_PEEK))
        read_what_came(&watch->records, bytes, received);
    const enum tls_standing standing = standing_of(watch);
    leave(watch);
    if (standing == RECORDS_LOST || standing == RECORDS_ANSWERED)
        return false;
    note_due(connection, former, standing);
    return true;
}

SELDOM void tls_watch_look(struct connection *connection)
{
    struct watch *watch = place_of(connection, false);
    if (!watch || atomic_load_explicit(&watch->entry, memory_order_relaxed) !=
                      atomic_load_explicit(&connection->entry, memory_order_relaxed))
        return;
    enum tls_standing standing = RECORDS_LOST;
    bool has_come = true;
    if (!atomic_load_explicit(&watch->is_over, memory_order_relaxed) && try_take(watch)) {
        standing = standing_of(watch);
        has_come = watch->records.in.bytes > 0;
        leave(watch);
    }
    if (standing != RECORDS_LOST && standing != RECORDS_ANSWERED)
        note_due(connection, standing, standing);
    else if (has_come)
        judgement_settle(connection, SEEN_BYTES, 0, false);
}

SELDOM bool tls_watch_is_silent(const struct connection *connection, const struct socket_state *state)
{
    struct watch *watch = take(connection);
    if (!watch)
        return false;
    const enum tls_standing standing = tls_records_standing(&watch->records);
    /* The peer's end is counted as a byte. */
    const bool may_have_ended = state->stage == SOCKET_PEER_DONE || state->stage == SOCKET_DEAD;
    const bool saw_all = tls_records_saw_all(&watch->records, state->bytes_in) ||
                         (may_have_ended && tls_records_saw_all(&watch->records, state->bytes_in - 1));
    leave(watch);
    return standing == RECORDS_REJECTED || (standing == RECORDS_ASKED && saw_all);
}
