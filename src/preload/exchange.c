/*
 * exchange.c - requests and answers on a guarded connection: what send, recv and SO_ERROR tell.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "preload/life.h"
#include "preload/socket_state.h"
#include "segment/clock.h"

/* The connection, if its number still stands for it after the real call. */
static struct connection *still(descriptor entry, int fd)
{
    return descriptor_get(fd) == entry ? life_of(entry) : NULL;
}

/* Errors that come from the peer or the way to it; all others are the program's own affair, and the call goes on. */
static bool is_from_peer(int error)
{
    switch (error) {
    case ECONNRESET:
    case ECONNABORTED:
    case ECONNREFUSED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
        return true;
    default:
        return false;
    }
}

/* Takes the marks of the last call's end away: one of several threads that send at once gets them, and begins the next call. */
static uint32_t take_end(struct connection *connection)
{
    const uint32_t ends = (uint32_t)CONNECTION_ANSWERED | (uint32_t)CONNECTION_FAILED;
    return atomic_fetch_and_explicit(&connection->flags, ~ends, memory_order_acq_rel) & ends;
}

int connection_sending(descriptor entry, int fd)
{
    struct connection *connection = still(entry, fd);
    if (!connection || life_phase(connection) != PHASE_ANSWERED || !connection_has(connection, CONNECTION_CONNECTED) ||
        connection_has(connection, CONNECTION_SHUT_WRITE) || connection->call == CALL_NONE)
        return 0;
    uint32_t end = take_end(connection);
    if (!end)
        return 0; /* charged as overdue, and its real end is still to come */
    struct attempt attempt = {
        .target = connection->target,
        .circuit = connection->circuit,
        .address_key = connection->address_key,
        .shard = life_shard(),
    };
    uint64_t real_ns = clock_real_ns();
    uint64_t now_ns = clock_is_replaced() ? clock_circuit_ns() : real_ns;
    enum admission admission = guard_begin(&connection->station->guard, &attempt, connection->call, now_ns);
    if (admission == ADMIT_REFUSED_OPEN || admission == ADMIT_REFUSED_HALF_OPEN) {
        atomic_fetch_or_explicit(&connection->flags, end, memory_order_relaxed);
        return ECONNRESET;
    }
    if (end & (uint32_t)CONNECTION_ANSWERED)
        connection_mark(connection, CONNECTION_REUSED);
    atomic_fetch_and_explicit(&connection->flags, ~(uint32_t)CONNECTION_SENT, memory_order_relaxed);
    atomic_store_explicit(&connection->waiting_since_ns, real_ns, memory_order_relaxed);
    return 0;
}

void connection_sent(descriptor entry, int fd, ssize_t result, int error, int flags)
{
    (void)flags;
    struct connection *connection = still(entry, fd);
    if (!connection)
        return;
    enum phase phase = life_phase(connection);
    if (phase == PHASE_ANSWERED)
        return;
    if (result < 0) {
        bool own = error == EPIPE && connection_has(connection, CONNECTION_SHUT_WRITE);
        if (is_from_peer(error) && !own)
            life_ended(connection, fd, SEEN_ERROR, error);
        return;
    }
    if (result == 0)
        return;
    if (phase == PHASE_CONNECTING) {
        /* With Fast Open the first send succeeds into a black hole. */
        if (connection_has(connection, CONNECTION_FAST_OPEN) && socket_state(fd, false).stage == SOCKET_PENDING) {
            connection_mark(connection, CONNECTION_SENT);
            return;
        }
        life_connected(connection);
    }
    life_requested(connection);
}

void connection_received(descriptor entry, int fd, ssize_t result, int error, size_t wanted, int flags)
{
    struct connection *connection = still(entry, fd);
    if (!connection || (flags & MSG_ERRQUEUE))
        return;
    enum phase phase = life_phase(connection);
    if (phase == PHASE_ANSWERED) {
        if (result >= 0 || is_from_peer(error))
            life_came_late(connection, result > 0 ? SEEN_BYTES : SEEN_END, 0);
        return;
    }
    if (result > 0) {
        life_connected(connection);
        life_settle(connection, SEEN_BYTES, 0, false);
    } else if (result == 0) {
        if (wanted > 0)
            life_ended(connection, fd, SEEN_END, 0);
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
        /* A blocking receive ends so when its SO_RCVTIMEO ran out. One that is shorter than abandon_after is a program's tick. */
        uint64_t since = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
        if (!(flags & MSG_DONTWAIT) && phase != PHASE_CONNECTING && socket_blocks(fd) &&
            clock_real_ns() - since >= connection->target->rules.abandon_after_ns)
            life_ended(connection, fd, SEEN_WAIT_ENDED, 0);
    } else if (is_from_peer(error)) {
        life_ended(connection, fd, SEEN_ERROR, error);
    }
}

void connection_error_read(descriptor entry, int fd, int pending)
{
    struct connection *connection = still(entry, fd);
    if (!connection)
        return;
    enum phase phase = life_phase(connection);
    if (phase == PHASE_ANSWERED) {
        if (pending)
            life_came_late(connection, SEEN_ERROR, pending);
        return;
    }
    if (pending) {
        life_ended(connection, fd, SEEN_ERROR, pending);
    } else if (phase == PHASE_CONNECTING) {
        /* No error alone proves nothing: it is the same while the attempt is pending. */
        enum socket_stage stage = socket_state(fd, connection_has(connection, CONNECTION_UNIX)).stage;
        if (stage == SOCKET_CONNECTED || stage == SOCKET_PEER_DONE)
            life_connected(connection);
    }
}
