/*
 * life.c - the turns of a connection's life: connected, requested, ended. See life.h.
 */
#define _GNU_SOURCE
#include "preload/life.h"

#include <errno.h>
#include <sched.h>

#include "preload/held.h"
#include "preload/lineage.h"
#include "preload/siblings.h"
#include "preload/socket_state.h"
#include "segment/clock.h"

/* A shutdown of the sending side this long before the close was the end of the request, not of the program's patience. */
#define HALF_CLOSE_NS (100 * NS_PER_MS)

struct connection *life_of_anybody(descriptor entry)
{
    uint32_t number = descriptor_connection(entry);
    if (!number)
        return NULL;
    struct connection *connection = pool_at(number - 1);
    if (!connection)
        return NULL;
    uint32_t serial = atomic_load_explicit(&connection->serial, memory_order_relaxed);
    return descriptor_of_connection(number - 1, serial) == entry ? connection : NULL;
}

struct connection *life_of(descriptor entry)
{
    struct connection *connection = life_of_anybody(entry);
    return connection && connection->epoch == lineage_epoch() ? connection : NULL;
}

unsigned int life_shard(void)
{
    int cpu = sched_getcpu();
    return cpu < 0 ? 0 : (unsigned int)cpu;
}

enum phase life_phase(const struct connection *connection)
{
    bool settled = false;
    enum phase phase = guard_phase(&connection->station->guard, connection->call, &settled);
    return settled ? PHASE_ANSWERED : phase;
}

void life_connected(struct connection *connection)
{
    if (life_phase(connection) != PHASE_CONNECTING)
        return;
    connection_mark(connection, CONNECTION_CONNECTED);
    siblings_connected(connection->circuit, connection->address_key);
    atomic_store_explicit(&connection->waiting_since_ns, clock_real_ns(), memory_order_relaxed);
    if (connection->target->rules.connect_is_success)
        life_settle(connection, SEEN_CONNECTED, 0, false);
    else
        guard_connected(&connection->station->guard, connection->call, connection->target, clock_circuit_ns());
}

void life_requested(struct connection *connection)
{
    uint64_t now_ns = clock_real_ns();
    connection_mark(connection, CONNECTION_SENT);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    if (connection->target->response_timeout_ns && clock_is_replaced())
        now_ns = clock_circuit_ns();
    guard_requested(&connection->station->guard, connection->call, connection->target, now_ns);
}

/* How long the program has waited for what it waits for now. */
static uint64_t waited_ns(const struct connection *connection)
{
    uint64_t now = clock_real_ns();
    uint64_t since = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    uint64_t shut = atomic_load_explicit(&connection->shut_write_ns, memory_order_relaxed);
    if (shut > since && now - shut > HALF_CLOSE_NS)
        since = shut;
    return now > since ? now - since : 0;
}

void life_settle(struct connection *connection, enum seen seen, int error, bool at_once)
{
    struct observation observation = {
        .seen = seen,
        .error = error,
        .at_once = at_once,
        .answered_before = connection_has(connection, CONNECTION_REUSED),
        .own_end = connection_has(connection, CONNECTION_SHUT_READ) ||
                   (connection_has(connection, CONNECTION_SHUT_WRITE) && !connection_has(connection, CONNECTION_SENT)),
        .waited_ns = waited_ns(connection),
    };
    if (seen == SEEN_GAVE_UP)
        observation.sibling_won = siblings_won(connection->circuit, connection->address_key, connection->raced_since);
    bool answered = seen == SEEN_BYTES || seen == SEEN_CONNECTED;
    connection_mark(connection, answered ? CONNECTION_ANSWERED : CONNECTION_FAILED);
    if (!answered && connection->sibling_count > 1 && held_take(connection, &observation))
        return;
    guard_settle(&connection->station->guard, connection->call, connection->target, life_shard(), &observation,
                 clock_circuit_ns());
}

void life_came_late(struct connection *connection, enum seen seen, int error)
{
    if (!connection_has(connection, CONNECTION_ANSWERED) && !connection_has(connection, CONNECTION_FAILED))
        life_settle(connection, seen, error, false);
}

/* Some closes are missed (by a raw system call, by another thread): is the number still that socket? */
static bool is_same_socket(const struct connection *connection, int fd)
{
    return connection->cookie == 0 || socket_cookie(fd) == connection->cookie;
}

void life_ended(struct connection *connection, int fd, enum seen seen, int error)
{
    if (seen != SEEN_BYTES) {
        if (!is_same_socket(connection, fd))
            return;
        struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
        /* On a connection that is used again, the kernel's count of data says nothing of this call. */
        if (state.data_in && !connection_has(connection, CONNECTION_REUSED))
            seen = SEEN_BYTES;
        else if (state.stage != SOCKET_PENDING && seen == SEEN_END)
            life_connected(connection);
    }
    life_settle(connection, seen, error, false);
}

/* Attempts to the destination's other addresses that were connected without the program having asked: they make this one a loser. */
static void look_for_winners(const struct connection *loser)
{
    for (uint32_t i = 0; i < pool_high(); i++) {
        struct connection *other = pool_at(i);
        if (!other || other == loser || other->epoch != loser->epoch || other->circuit != loser->circuit ||
            other->address_key == loser->address_key || !atomic_load_explicit(&other->aliases, memory_order_relaxed) ||
            life_phase(other) != PHASE_CONNECTING)
            continue;
        int fd = atomic_load_explicit(&other->fd, memory_order_relaxed);
        if (is_same_socket(other, fd) &&
            socket_state(fd, connection_has(other, CONNECTION_UNIX)).stage == SOCKET_CONNECTED)
            life_connected(other);
    }
}

void life_judge_end(struct connection *connection, int fd, bool gave_up)
{
    bool is_unix = connection_has(connection, CONNECTION_UNIX);
    if (life_phase(connection) == PHASE_ANSWERED) {
        life_came_late(connection, SEEN_GAVE_UP, 0);
        return;
    }
    if (!is_same_socket(connection, fd))
        return;
    struct socket_state state = socket_state(fd, is_unix);
    enum seen seen = SEEN_GAVE_UP;
    int error = 0;

    if ((state.stage == SOCKET_CONNECTED || state.stage == SOCKET_PEER_DONE) && life_phase(connection) == PHASE_CONNECTING) {
        life_connected(connection); /* success leaves no trace in many programs */
        /* It has waited for its server to speak since then, not since now. */
        atomic_store_explicit(&connection->waiting_since_ns, clock_real_ns() - state.quiet_ns, memory_order_relaxed);
    }
    if (life_phase(connection) == PHASE_CONNECTED && state.data_out && !connection_has(connection, CONNECTION_SENT)) {
        /* Sent by stdio, unseen: when is not known, so the wait counts from the connection. */
        connection_mark(connection, CONNECTION_SENT);
        guard_requested(&connection->station->guard, connection->call, connection->target, clock_circuit_ns());
    }
    enum phase phase = life_phase(connection);
    if (connection_has(connection, CONNECTION_REUSED) ? socket_has_unread(fd) : state.data_in) {
        seen = SEEN_BYTES;
    } else if (state.stage == SOCKET_DEAD) {
        error = is_unix ? state.error : socket_take_error(fd);
        if (error)
            seen = SEEN_ERROR;
        else if (phase != PHASE_CONNECTING)
            seen = SEEN_END; /* both sides had shut down, and no byte had come */
        else
            return; /* the error was taken by somebody we did not see */
    } else if (state.stage == SOCKET_PEER_DONE) {
        /* A program that sent nothing and looks no longer: it only wanted to see a connection, unless it has waited. */
        if (phase == PHASE_REQUESTED || waited_ns(connection) >= connection->target->rules.abandon_after_ns)
            seen = SEEN_END;
    }
    if (seen == SEEN_GAVE_UP) {
        if (!gave_up)
            return;
        if (state.stage == SOCKET_UNKNOWN && phase == PHASE_CONNECTING)
            return; /* the kernel says nothing of this protocol */
        if (phase == PHASE_CONNECTING)
            look_for_winners(connection);
    }
    life_settle(connection, seen, error, false);
}

void life_forget(struct connection *connection)
{
    if (connection->epoch == lineage_epoch())
        guard_forget(&connection->station->guard, connection->call, connection->target, life_shard(), clock_circuit_ns());
}
