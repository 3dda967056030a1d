/*
 * arrival.c - when a connection, or what its program waits for, has come. Of judgement.h.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include "base/clock.h"
#include "base/frame.h"
#include "base/hot.h"
#include "connection/races.h"
#include "connection/socket_state.h"
#include "connection/system.h"

/*
 * The program has seen something at last, and its call is beyond its limit. The kernel knows when it came: a program
 * whose event loop was blocked for a while is late itself, and not its peer. (Of a UNIX socket nothing is known. Of an
 * answer in many parts the last one is: whoever was blocked while a peer was sending can't be told from a late one.)
 */
uint64_t judgement_came_at(const struct connection *connection, enum seen seen, uint64_t now_ns, uint64_t due_ns)
{
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    if (connection_has(connection, CONNECTION_UNIX) || !judgement_is_same_socket(connection, fd))
        return now_ns;
    struct socket_state state = socket_state(fd, false);
    uint64_t timeout_ns = connection_target(connection)->response_timeout_ns;
    switch (seen) {
    case SEEN_BYTES:
        /* The request may have been on its way for long after the program had sent it. */
        if (connection_has(connection, CONNECTION_LARGE) && state.sent_ns < state.data_ns + timeout_ns)
            return due_ns - 1;
        return judgement_before(now_ns, state.data_ns);
    case SEEN_CONNECTED:
    case SEEN_END: /* it came with an acknowledgement, and nothing comes after it */
        return judgement_before(now_ns, state.quiet_ns);
    default:
        return now_ns;
    }
}

/*
 * Since when it is connected: now as a rule. One that was found connected and not asked for may have been so for long;
 * where the circuits' clock is not the kernel's, nobody can say for how long.
 */
static uint64_t connected_at(const struct connection *connection, bool found)
{
    uint64_t now_ns = clock_circuit_ns();
    uint64_t due_ns = guard_due(&connection->station->guard, connection->place.call);
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    if (now_ns < due_ns || connection_has(connection, CONNECTION_UNIX) || !judgement_is_same_socket(connection, fd))
        return now_ns;
    if (found && clock_is_replaced())
        return due_ns - 1;
    struct socket_state state = socket_state(fd, false);
    uint64_t came_ns = judgement_before(now_ns, state.quiet_ns);
    /* Where data has come the acknowledgement was later than the connection, and that is not known. */
    return state.data_in && came_ns >= due_ns ? due_ns - 1 : came_ns;
}

/* --- a connection to itself --- */

/* Not in line: only few have to be asked about. */
OWN_FRAME static bool has_own_address(const struct connection *connection)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    struct endpoint endpoint;
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    return sys.getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
           endpoint_from_sockaddr(&endpoint, (struct sockaddr *)&own, length) &&
           endpoint_hash(&endpoint) == connection->address_key;
}

bool judgement_meets_itself(struct connection *connection)
{
    if (!connection_has(connection, CONNECTION_MAY_LOOP))
        return false;
    if (has_own_address(connection))
        return true;
    connection_unmark(connection, CONNECTION_MAY_LOOP);
    return false;
}

void judgement_heard(struct connection *connection, const void *first, size_t count)
{
    if (connection_has(connection, CONNECTION_MAY_LOOP) && connection_hears_another(connection, first, count))
        connection_unmark(connection, CONNECTION_MAY_LOOP);
}

/* --- the connection --- */

HOT static void note_connected(struct connection *connection, const struct socket_state *state, bool found)
{
    if (connection_state(connection) != STATE_CONNECTING || judgement_phase(connection) != PHASE_CONNECTING)
        return;
    const struct target *target = connection_target(connection);
    struct guard *guard = &connection->station->guard;
    bool is_success = connect_is_success(&target->rules);
    bool has_met_a_peer = state && state->met_a_peer;
    if (has_met_a_peer && connection_has(connection, CONNECTION_MAY_LOOP))
        connection_unmark(connection, CONNECTION_MAY_LOOP);
    /* Where the kernel has not been asked it may wait until the call is judged. */
    if ((is_success || state) && judgement_meets_itself(connection)) {
        judgement_settle(connection, SEEN_REFUSED, 0, false);
        return;
    }
    connection_happens(connection, ON_CONNECTION);
    if (connection_has(connection, CONNECTION_SENT)) /* with Fast Open, before */
        connection_happens(connection, ON_REQUEST);
    races_connected(connection->place.circuit, connection->address_key);
    if (is_success) {
        judgement_settle(connection, SEEN_CONNECTED, 0, false);
        return;
    }
    const uint64_t real_ns = clock_real_ns();
    atomic_store_explicit(&connection->waiting_since_ns, real_ns, memory_order_relaxed);
    if (guard->takes_short_way && guard_connected_short(&connection->place, target, clock_circuit_at(real_ns)))
        return;
    guard_connected(guard, connection->place.call, target, connected_at(connection, found));
}

HOT void judgement_connected(struct connection *connection, const struct socket_state *state)
{
    note_connected(connection, state, false);
}

void judgement_found_connected(struct connection *connection, const struct socket_state *state)
{
    note_connected(connection, state, true);
}
