/*
 * evidence.c - what the kernel's word about a socket means for the call on it. Of judgement.h.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include "base/clock.h"
#include "connection/socket_state.h"
#include "connection/tls_watch.h"

/* What has come later than this after a request is no TLS session ticket. */
#define TICKETS_NS (50 * NS_PER_MS)
/* The kernel's clock for when data came goes in steps of a tick. */
#define DATA_STEP_NS (20 * NS_PER_MS)

/*
 * Whether data that the kernel has counted is this call's answer, whoever has read it: not in TLS that is seen, nor where
 * its records tell that it is none; and on a connection that is used again, or on which another preload has talked with a proxy, only if it came after the request, as far as
 * the kernel's steps tell.
 */
bool judgement_is_answer(const struct connection *connection, const struct socket_state *state)
{
    if (!state->data_in || connection_has(connection, CONNECTION_TLS_SEEN) ||
        connection_state(connection) == STATE_ANSWERING ||
        (connection_has(connection, CONNECTION_TLS) && tls_watch_is_silent(connection, state)))
        return false;
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    bool is_first = !connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_SWAPPED);
    return is_first || judgement_before(clock_real_ns(), state->data_ns) >= since_ns + DATA_STEP_NS;
}

bool judgement_was_answered(const struct connection *connection, int fd)
{
    struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
    return judgement_is_answer(connection, &state);
}

bool judgement_has_unread(const struct connection *connection, int fd)
{
    bool is_unix = connection_has(connection, CONNECTION_UNIX);
    bool answered = connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_GREETED);
    if (!socket_has_unread(fd)) {
        enum socket_stage stage = answered ? socket_state(fd, is_unix).stage : SOCKET_UNKNOWN;
        return stage == SOCKET_PEER_DONE || stage == SOCKET_DEAD;
    }
    if (answered || is_unix || !connection_has(connection, CONNECTION_TLS_SEEN))
        return true;
    /* Session tickets come by themselves within moments of the handshake, and with it of the first request. */
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    return judgement_before(clock_real_ns(), socket_state(fd, false).data_ns) >= since_ns + TICKETS_NS;
}

bool judgement_is_same_socket(const struct connection *connection, int fd)
{
    return connection->cookie == 0 || socket_cookie(fd) == connection->cookie;
}
