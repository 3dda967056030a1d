/*
 * fallback_connections.c - connections at the fallback, and the way back from there. See fallback_connections.h.
 */
#define _GNU_SOURCE
#include "connection/fallback_connections.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "breaker/http.h"
#include "connection/lineage.h"
#include "connection/socket_swap.h"

OWN_FRAME descriptor aside_track(int fd, const struct attempt *attempt, const struct policy *policy,
                                 struct station *station)
{
    descriptor former;
    struct connection *connection = judgement_enrol(station, policy, attempt->target, fd);
    if (!connection)
        return 0;
    memset(&connection->place, 0, sizeof connection->place);
    connection->place.circuit = attempt->circuit;
    connection->place.call = CALL_NONE;
    connection_happens(connection, ON_DIVERSION);
    descriptor entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
    pool_publish(connection);
    if (!lineage_is_lent() && descriptor_set(fd, entry, &former)) {
        judgement_take_number(connection, fd, former);
        return entry;
    }
    judgement_dismiss(connection);
    return 0;
}

/* Notes whether a socket without a connection is at its fallback; what else is known of it stays. */
static void set_elsewhere(int fd, bool is_there)
{
    descriptor former, entry = descriptor_get(fd);
    descriptor known = entry ? entry : descriptor_of_hint(DESCRIPTOR_STREAM, lineage_forks());
    if (!(descriptor_hint(known) & DESCRIPTOR_STREAM))
        return; /* another thread has closed it, and the number is another socket's */
    known = is_there ? known | DESCRIPTOR_ELSEWHERE : known & ~DESCRIPTOR_ELSEWHERE;
    if (entry)
        descriptor_replace(fd, entry, known);
    else
        descriptor_set(fd, known, &former);
}

bool aside_stands(descriptor entry)
{
    const struct connection *connection = judgement_of_anybody(entry);
    return connection ? state_is_aside(connection_state(connection)) : descriptor_hint(entry) & DESCRIPTOR_ELSEWHERE;
}

enum passage aside_further_connect(int fd, const struct sockaddr *address, socklen_t length,
                                   struct attempt_ticket *ticket)
{
    ticket->fallback = true;
    ticket->entry = descriptor_get(fd);
    if (length < sizeof address->sa_family || address->sa_family != AF_UNSPEC)
        return PASSAGE_ELSEWHERE;
    if (descriptor_connection(ticket->entry))
        judgement_part(ticket->entry, fd);
    else
        set_elsewhere(fd, false); /* dissolves the association */
    return PASSAGE_FREE;
}

void aside_returned(const struct attempt_ticket *ticket, int result, int error)
{
    bool stays = result >= 0 || error == EISCONN || error == EINPROGRESS || error == EALREADY || error == EINTR;
    if (!descriptor_connection(ticket->entry))
        set_elsewhere(ticket->fd, stays);
    else if (descriptor_get(ticket->fd) == ticket->entry && !stays)
        judgement_part(ticket->entry, ticket->fd);
    else if (descriptor_get(ticket->fd) == ticket->entry && judgement_of(ticket->entry))
        swap_follow(judgement_of(ticket->entry), ticket->fd);
}

/*
 * Of those whose circuit is due for a probe one goes back at a time, for it is by its new attempt that the probe is
 * made. Circuits that share a place wait for each other.
 */
#define RETURN_PLACES 64u
#define RETURN_NS NS_PER_S
static _Atomic uint64_t returned_ns[RETURN_PLACES]; /* real clock; a root of this file alone */

static bool takes_turn(uint32_t circuit, uint64_t real_ns)
{
    _Atomic uint64_t *last = &returned_ns[circuit % RETURN_PLACES];
    uint64_t seen = atomic_load_explicit(last, memory_order_relaxed);
    return (seen == 0 || real_ns - seen >= RETURN_NS) &&
           atomic_compare_exchange_strong_explicit(last, &seen, real_ns, memory_order_relaxed, memory_order_relaxed);
}

/* Whether a connection that stands at the fallback would come to its destination if it were made now. */
OWN_FRAME static bool may_return(struct connection *connection)
{
    uint64_t real_ns = clock_real_ns();
    engine_look(real_ns);
    next_call_follow_policy(connection);
    if (connection_has(connection, CONNECTION_RELEASED) || station_is_retired(connection->station))
        return true;
    switch (guard_prospect(&connection->station->guard, connection->place.circuit, connection_target(connection),
                           clock_circuit_at(real_ns))) {
    case PROSPECT_PASS:
        return true;
    case PROSPECT_PROBE:
        return takes_turn(connection->place.circuit, real_ns);
    default:
        return false;
    }
}

int aside_sending(struct connection *connection, int fd)
{
    const enum connection_state state = connection_state(connection);
    if (state == STATE_ASIDE_BROKEN)
        return next_call_refuse(connection, fd);
    if (connection_has(connection, CONNECTION_BODY) || state != STATE_ASIDE_IDLE)
        return 0;
    if (connection_has(connection, CONNECTION_RELEASED))
        connection_unmark(connection, CONNECTION_RELEASED); /* what the present policy says is found anew */
    if (!next_call_may_begin(connection))
        return 0;
    if (may_return(connection))
        return next_call_refuse(connection, fd);
    connection_happens(connection, ON_BEGINNING);
    connection_mark(connection, CONNECTION_REUSED);
    connection_reset_http(connection);
    return 0;
}

void aside_answered(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    struct http_reader reader = connection_http(connection);
    struct http_head head;
    enum http_progress progress = connection_target(connection)->http_read && vector ? HTTP_MORE : HTTP_NONE;
    if (connection_state(connection) != STATE_ASIDE)
        return;
    for (size_t i = 0; i < count && bytes > 0 && progress == HTTP_MORE; i++) {
        size_t part = vector[i].iov_len < bytes ? vector[i].iov_len : bytes;
        progress = http_read(&reader, vector[i].iov_base, part, &head);
        bytes -= part;
    }
    connection_set_http(connection, &reader);
    if (progress == HTTP_KNOWN && head.status == HTTP_SWITCHING_PROTOCOLS)
        connection_mark(connection, CONNECTION_STREAM);
    if (progress != HTTP_MORE)
        connection_happens(connection, ON_ANSWER);
}

void aside_received(struct connection *connection, ssize_t result, const struct received *received,
                    enum tls_doing doing)
{
    if (result <= 0 || (received->flags & (MSG_ERRQUEUE | MSG_PEEK)))
        return;
    if (!connection_has(connection, CONNECTION_TLS))
        aside_answered(connection, received->flags & MSG_TRUNC ? NULL : received->vector, received->count,
                       (size_t)result);
    else if (doing != TLS_NOTHING)
        connection_mark(connection, CONNECTION_TLS_SEEN);
}
