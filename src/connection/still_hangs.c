/*
 * still_hangs.c - see still_hangs.h.
 */
#define _GNU_SOURCE
#include "connection/still_hangs.h"

#include "base/clock.h"
#include "connection/deferred.h"
#include "connection/judgement.h"
#include "connection/lineage.h"
#include "connection/socket_state.h"
#include "connection/upload.h"

/* Whether the peer has taken something of a large request within its limit, or the program pauses in it. */
static bool still_takes(struct connection *connection, int fd)
{
    struct guard *guard = &connection->station->guard;
    uint64_t now_ns = clock_circuit_ns(), timeout_ns = connection_target(connection)->response_timeout_ns, silent_ns;
    if (!upload_silence(connection, fd, &silent_ns) || silent_ns >= timeout_ns)
        return false;
    bool pauses = connection_has(connection, CONNECTION_BODY) && !socket_has_unsent(fd);
    guard_put_off(guard, connection->place.call, pauses ? DUE_NEVER : now_ns + timeout_ns - silent_ns);
    return true;
}

/* What the kernel says of a call that is overdue. */
static bool hangs(struct connection *connection, enum phase phase)
{
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    if (!judgement_is_same_socket(connection, fd))
        return !judgement_may_be_anothers(connection);
    if (phase != PHASE_CONNECTING) {
        descriptor entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
        if (!judgement_has_unread(connection, fd) && !judgement_was_answered(connection, fd))
            /* A child that reads would have settled it. */
            return (!judgement_may_be_anothers(connection) || lineage_is_waited_on(entry)) &&
                   !still_takes(connection, fd);
        guard_excuse(&connection->station->guard, connection->place.call);
        return false;
    }
    struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
    if (state.stage != SOCKET_CONNECTED && state.stage != SOCKET_PEER_DONE)
        return true;
    judgement_found_connected(connection, &state);
    return false;
}

bool still_hangs(uint32_t call, enum phase phase, void *context)
{
    struct station *station = context;
    uint32_t number = guard_number(&station->guard, call);
    if (number & HELD_NUMBER)
        return deferred_keeps(call, number);
    struct connection *connection = judgement_of_call(call, number, context);
    if (!connection)
        return false; /* on its way, or lost: it is found out in another look */
    bool of_stream;
    if (http2_still_hangs(connection, call, atomic_load_explicit(&connection->fd, memory_order_relaxed), &of_stream))
        return of_stream;
    return hangs(connection, phase);
}
