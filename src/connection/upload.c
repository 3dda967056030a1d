/*
 * upload.c - requests that take time to be sent. See upload.h.
 */
#define _GNU_SOURCE
#include "connection/upload.h"

#include "base/clock.h"
#include "connection/socket_state.h"

void upload_begin(struct connection *connection)
{
    const uint32_t known = (uint32_t)CONNECTION_BODY | (uint32_t)CONNECTION_LARGE | (uint32_t)CONNECTION_SENDING;
    connection_set_request(connection, (struct http_request){0});
    if (atomic_load_explicit(&connection->properties, memory_order_relaxed) & known)
        atomic_fetch_and_explicit(&connection->properties, ~known, memory_order_relaxed);
}

void upload_is_whole(struct connection *connection)
{
    struct http_request request = {0};
    http_request_end(&request);
    connection_set_request(connection, request);
}

void upload_sending(struct connection *connection, size_t bytes)
{
    bool is_large = bytes >= UPLOAD_LARGE;
    if (!is_large && !connection_has(connection, CONNECTION_BODY))
        return;
    if (is_large) {
        connection_mark(connection, CONNECTION_LARGE);
        connection_mark(connection, CONNECTION_SENDING);
    }
    guard_sending(&connection->station->guard, connection->place.call, connection_target(connection), bytes,
                  clock_circuit_ns());
}

static uint64_t unsent(const struct connection *connection)
{
    return socket_unsent(atomic_load_explicit(&connection->fd, memory_order_relaxed));
}

/* Whether more of the request is to come behind these bytes. */
static bool follow(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    struct http_request request = connection_request(connection);
    for (size_t i = 0; vector && i < count && bytes > 0; i++) {
        size_t part = vector[i].iov_len < bytes ? vector[i].iov_len : bytes;
        http_request_read(&request, vector[i].iov_base, part);
        bytes -= part;
    }
    http_request_skip(&request, bytes);
    connection_set_request(connection, request);
    return http_request_is_open(&request);
}

void upload_sent(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    if (connection_has(connection, CONNECTION_SENDING))
        connection_unmark(connection, CONNECTION_SENDING);
    if (bytes >= UPLOAD_LARGE)
        connection_mark(connection, CONNECTION_LARGE);
    if (!connection_target(connection)->http_read || connection_has(connection, CONNECTION_STREAM))
        return;
    bool open = follow(connection, vector, count, bytes);
    if (open && !connection_has(connection, CONNECTION_BODY))
        connection_mark(connection, CONNECTION_BODY);
    else if (!open && connection_has(connection, CONNECTION_BODY))
        connection_unmark(connection, CONNECTION_BODY);
}

void upload_wait(struct connection *connection, uint64_t now_ns)
{
    const struct target *target = connection_target(connection);
    struct guard *guard = &connection->station->guard;
    uint32_t call = connection->place.call;
    if (connection_has(connection, CONNECTION_BODY)) {
        guard_request_goes_on(guard, call, target, now_ns);
        return;
    }
    guard_requested(guard, call, target, now_ns);
    if (connection_has(connection, CONNECTION_LARGE) && target->response_timeout_ns)
        guard_sending(guard, call, target, unsent(connection), now_ns);
}

void upload_stalled(struct connection *connection)
{
    struct guard *guard = &connection->station->guard;
    /* Only once: a program that tries again and again waits all the same. */
    if (connection_has(connection, CONNECTION_BODY) && guard_due(guard, connection->place.call) == DUE_NEVER)
        guard_sending(guard, connection->place.call, connection_target(connection), unsent(connection),
                      clock_circuit_ns());
}

/*
 * The peer of a full window answers its probes, so that an acknowledgement alone is no sign of progress, and a peer
 * that is gone is sent the same data again, so that data alone is none either: it is silent for as long as one of them
 * is missing. Once all is taken, the last data that was sent is the end of the request.
 */
bool upload_silence(const struct connection *connection, int fd, uint64_t *silent_ns)
{
    bool goes_on = connection_has(connection, CONNECTION_BODY);
    *silent_ns = 0;
    if (!goes_on && !connection_has(connection, CONNECTION_LARGE))
        return false;
    bool waits = socket_has_unsent(fd);
    if (!waits && goes_on)
        return true;
    if (connection_has(connection, CONNECTION_UNIX)) /* how much of it the peer has read nobody can say */
        return waits && connection_has(connection, CONNECTION_SENDING);
    struct socket_state state = socket_state(fd, false);
    if (state.stage != SOCKET_CONNECTED)
        return false;
    *silent_ns = waits && state.quiet_ns > state.sent_ns ? state.quiet_ns : state.sent_ns;
    return true;
}
