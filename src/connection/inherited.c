/*
 * inherited.c - an ancestor's connections in a fork's child. See inherited.h.
 */
#define _GNU_SOURCE
#include "connection/inherited.h"

#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "connection/socket_state.h"

/* The guard as the ancestor has it. False: the record is another connection's by now, or not in common memory. */
static bool find_owner(const struct connection *connection, struct guard *owner)
{
    struct station *station = connection->station;
    if (connection->place.call == CALL_NONE || segment_is_private(&station->segment))
        return false;
    *owner = (struct guard){
        .segment = &station->segment,
        .holder = connection->place.holder,
        .pid = lineage_pid(),
        .log = engine.log,
    };
    memcpy(owner->program, engine.program, sizeof owner->program);
    return guard_number(owner, connection->place.call) ==
           pool_name(atomic_load_explicit(&connection->entry, memory_order_relaxed));
}

static bool is_unix(const struct connection *connection)
{
    return connection_has(connection, CONNECTION_UNIX);
}

/* The present call. What was read of the answer to a former one is over. */
static bool find_call(struct connection *connection, struct guard *owner, struct guard_wait *wait)
{
    if (!find_owner(connection, owner) || !guard_wait(owner, connection->place.call, wait))
        return false;
    if (atomic_exchange_explicit(&connection->heard, wait->serial, memory_order_relaxed) != wait->serial &&
        !connection_http_is_fresh(connection))
        connection_reset_http(connection);
    return true;
}

static void settle(struct connection *connection, struct guard *owner, const struct guard_wait *wait, int fd,
                   struct observation *observation)
{
    uint64_t now_ns = clock_circuit_ns();
    if (judgement_meets_itself(connection))
        observation->seen = SEEN_REFUSED;
    bool answered = connection_has(connection, CONNECTION_REUSED) || connection_state(connection) == STATE_IDLE;
    observation->answered_before = answered && !connection_has(connection, CONNECTION_GREETED);
    observation->end_answers = connection_has(connection, CONNECTION_CLOSES);
    observation->waited_ns = now_ns > wait->since_ns ? now_ns - wait->since_ns : 0;
    /* As for the process itself: who comes to read late is late, and not the peer. */
    if (now_ns >= wait->due_ns && observation->seen == SEEN_BYTES && !is_unix(connection)) {
        uint64_t ago_ns = socket_state(fd, false).data_ns;
        observation->came_ns = now_ns > ago_ns ? now_ns - ago_ns : 1;
    }
    guard_settle(owner, connection->place.call, connection_target(connection), connection->place.call, observation,
                 now_ns);
    if (observation->seen == SEEN_BYTES)
        connection_mark(connection, CONNECTION_REUSED);
}

static void settle_bytes(struct connection *connection, struct guard *owner, const struct guard_wait *wait, int fd,
                         const struct http_head *head)
{
    struct observation observation = {.seen = SEEN_BYTES, .http_status = head ? head->status : 0};
    if (head && connection_target(connection)->retry_after)
        observation.retry_after_ns = judgement_retry_after_ns(head);
    settle(connection, owner, wait, fd, &observation);
}

static void read_on(struct connection *connection, struct guard *owner, const struct guard_wait *wait, int fd,
                    const struct iovec *vector, size_t count, size_t bytes, bool peeked)
{
    struct http_head head;
    enum http_progress progress = judgement_read_head(connection, vector, count, bytes, peeked, &head);
    if (progress != HTTP_MORE)
        settle_bytes(connection, owner, wait, fd, progress == HTTP_KNOWN ? &head : NULL);
}

static void bytes_came(struct connection *connection, struct guard *owner, const struct guard_wait *wait, int fd,
                       size_t bytes, const struct received *received, enum tls_doing doing)
{
    if (!connection_has(connection, CONNECTION_TLS)) {
        read_on(connection, owner, wait, fd, received->flags & MSG_TRUNC ? NULL : received->vector, received->count,
                bytes, received->flags & MSG_PEEK);
        return;
    }
    if (doing != TLS_NOTHING)
        connection_mark(connection, CONNECTION_TLS_SEEN);
    if (!connection_has(connection, CONNECTION_TLS_SEEN))
        settle_bytes(connection, owner, wait, fd, NULL);
}

/*
 * Only what is certain to be the peer's doing: the ancestor may have shut the connection, and has its own view of that.
 */
static void ended(struct connection *connection, struct guard *owner, const struct guard_wait *wait, int fd,
                  enum seen seen, int error)
{
    const uint32_t own = (uint32_t)CONNECTION_SHUT_READ | (uint32_t)CONNECTION_SHUT_WRITE |
                         (uint32_t)CONNECTION_REJECTED | (uint32_t)CONNECTION_FAULTY;
    struct observation observation = {.seen = seen, .error = error};
    struct http_reader reader = connection_http(connection);
    struct http_head head;
    if (http_has_begun(&reader)) {
        bool known = http_break(&reader, &head) == HTTP_KNOWN;
        settle_bytes(connection, owner, wait, fd, known ? &head : NULL);
        return;
    }
    if ((atomic_load_explicit(&connection->properties, memory_order_relaxed) & own) || is_unix(connection) ||
        !judgement_is_same_socket(connection, fd) ||
        socket_state(fd, false).stage != (seen == SEEN_END ? SOCKET_PEER_DONE : SOCKET_DEAD))
        return;
    settle(connection, owner, wait, fd, &observation);
}

void inherited_receiving(struct connection *connection)
{
    lineage_wait_on(atomic_load_explicit(&connection->entry, memory_order_relaxed));
}

OWN_FRAME void inherited_received(struct connection *connection, int fd, ssize_t result, int error,
                                  const struct received *received, enum tls_doing doing)
{
    struct guard owner;
    struct guard_wait wait;
    lineage_take_over(atomic_load_explicit(&connection->entry, memory_order_relaxed));
    if (connection_has(connection, CONNECTION_HTTP2) || !find_call(connection, &owner, &wait))
        return; /* whose streams what comes belongs to, the ancestor alone knows */
    if (result > 0)
        bytes_came(connection, &owner, &wait, fd, (size_t)result, received, doing);
    else if (result == 0 && received->wanted > 0)
        ended(connection, &owner, &wait, fd, SEEN_END, 0);
    else if (result < 0 && outcome_is_from_peer(error))
        ended(connection, &owner, &wait, fd, SEEN_ERROR, error);
}

OWN_FRAME void inherited_answered(struct connection *connection, int fd, const struct iovec *vector)
{
    struct guard owner;
    struct guard_wait wait;
    if (!connection_has(connection, CONNECTION_HTTP2) && find_call(connection, &owner, &wait))
        read_on(connection, &owner, &wait, fd, vector, 1, vector->iov_len, false);
}

OWN_FRAME void inherited_sent(struct connection *connection)
{
    const struct target *target = connection_target(connection);
    struct guard owner;
    struct guard_wait wait;
    lineage_take_over(atomic_load_explicit(&connection->entry, memory_order_relaxed));
    if (!find_owner(connection, &owner) || !guard_wait(&owner, connection->place.call, &wait))
        return;
    uint64_t now_ns = clock_circuit_ns();
    if (wait.phase == PHASE_CONNECTING)
        guard_connected(&owner, connection->place.call, target, now_ns);
    else if (wait.due_ns != DUE_NEVER)
        guard_put_off(&owner, connection->place.call, now_ns + target->response_timeout_ns);
}

OWN_FRAME bool inherited_goes_on(const struct connection *connection)
{
    struct guard owner;
    struct guard_wait wait;
    if (!find_owner(connection, &owner) || !guard_wait(&owner, connection->place.call, &wait))
        return false;
    return connection_has(connection, CONNECTION_PASSED) ||
           (wait.phase != PHASE_REQUESTED && guard_probes(&owner, connection->place.call));
}

OWN_FRAME void inherited_handed(struct connection *connection, int fd)
{
    struct guard owner;
    struct guard_wait wait;
    lineage_take_over(atomic_load_explicit(&connection->entry, memory_order_relaxed));
    if (!find_owner(connection, &owner) || !guard_wait(&owner, connection->place.call, &wait) ||
        !judgement_is_same_socket(connection, fd) || socket_state(fd, is_unix(connection)).stage != SOCKET_CONNECTED)
        return;
    uint64_t now_ns = clock_circuit_ns();
    if (wait.phase == PHASE_CONNECTING)
        guard_connected(&owner, connection->place.call, connection_target(connection), now_ns);
    guard_hand_on(&owner, connection->place.call, connection_target(connection), connection->place.call, now_ns);
}
