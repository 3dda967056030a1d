/*
 * short_exchange.c - the short way of a request and its answer. See short_exchange.h; the circuit's half is
 * guard/short_way.c.
 */
#include "connection/short_exchange.h"

#include "base/clock.h"
#include "base/hot.h"
#include "connection/edited_policy.h"
#include "connection/judgement.h"
#include "connection/tls_sessions.h"
#include "connection/upload.h"

/* A plain connection has the properties that are asked for, and perhaps those that do not matter here. */
#define FRESH 0u
#define ASKED_ONCE ((uint32_t)CONNECTION_SENT)
#define KEPT (ASKED_ONCE | (uint32_t)CONNECTION_REUSED)
#define OF_NO_MATTER                                                                                                   \
    ((uint32_t)CONNECTION_UNIX | (uint32_t)CONNECTION_FAST_OPEN | (uint32_t)CONNECTION_ASKED |                         \
     (uint32_t)CONNECTION_SHARED | (uint32_t)CONNECTION_MAY_LOOP)

static inline uint32_t properties_of(const struct connection *connection)
{
    return atomic_load_explicit(&connection->properties, memory_order_relaxed) & ~OF_NO_MATTER;
}

static inline bool is_plain(const struct connection *connection, enum connection_state state, uint32_t properties)
{
    return properties_of(connection) == properties && connection_state(connection) == state && !tls_is_at_work();
}

/*
 * The real time: to a few milliseconds where the target measures no answers, for all else that begins with a request
 * (abandon_after, a window's buckets) is longer by far.
 */
static uint64_t time_ns(const struct target *target)
{
    bool is_measured = (target->response_timeout_ns | target->breaker.slow_call_ns) != 0;
    return __builtin_expect(is_measured, 0) ? clock_real_ns() : clock_coarse_ns();
}

/* A connection's first wait in some 17 ms is measured, so that of one that asks seldom all are. */
#define SELDOM_BITS 24

/*
 * The last request was read to its end, or is none, and so will this one be if it goes the short way: what is sent behind
 * it is read neither here nor there.
 */
static inline bool is_last_request_over(const struct connection *connection, const struct target *target)
{
    struct http_request request = connection_request(connection);
    return !target->http_read || http_request_is_over(&request);
}

/* --- the first request --- */

HOT bool short_exchange_speaks(descriptor entry)
{
    struct connection *connection = judgement_of(entry);
    if (!connection || !is_plain(connection, STATE_CONNECTED, FRESH) || !guard_is_connected_short(&connection->place))
        return false;
    if (!connection_has(connection, CONNECTION_ASKED))
        connection_mark(connection, CONNECTION_ASKED);
    return true;
}

/*
 * Whether the first bytes of a connection say nothing more of its protocol, as the long way reads it (look_at_sent): no
 * TLS, no HTTP/2, no CancelRequest of PostgreSQL.
 */
static inline bool is_usual(const unsigned char *byte, size_t count)
{
    return *byte != 0 && (*byte < 20 || *byte > 23) && !(*byte == 'P' && count > 1 && byte[1] == 'R');
}

/* Of HTTP/1.x the request is read, as on the long way; false: more of it is to come. */
static inline bool reads_whole(const struct target *target, const struct iovec *first, size_t sent,
                               struct http_request *request)
{
    *request = (struct http_request){0};
    if (!target->http_read)
        return true;
    http_request_read(request, first->iov_base, sent);
    return http_request_is_over(request);
}

HOT bool short_exchange_spoke(descriptor entry, int fd, const struct iovec *first, size_t count, size_t sent)
{
    struct connection *connection = descriptor_get(fd) == entry ? judgement_of(entry) : NULL;
    struct http_request request;
    if (!connection || !is_plain(connection, STATE_CONNECTED, FRESH) || count != 1 || sent >= UPLOAD_LARGE ||
        sent > first->iov_len || !is_usual(first->iov_base, sent))
        return false;
    const struct target *target = connection_target(connection);
    if (!reads_whole(target, first, sent, &request))
        return false;
    /* The real one, for whose connection was measured (measured.h). */
    uint64_t now_ns = place_stands_for(&connection->place) != 0 ? clock_real_ns() : time_ns(target);
    if (!guard_request_short(&connection->place, target, clock_circuit_at(now_ns)))
        return false;
    connection_set_request(connection, request);
    connection_begins_with(connection, first->iov_base, sent);
    atomic_fetch_or_explicit(&connection->properties, (uint32_t)CONNECTION_ASKED | (uint32_t)CONNECTION_SENT,
                             memory_order_relaxed);
    connection_moves_on(connection, STATE_CONNECTED, ON_REQUEST);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    return true;
}

/* --- requests on a kept connection, and answers --- */

/*
 * The record changes by an atomic step, and then the state by a plain store. Another thread that looks in between, or a
 * handler of a signal that jumps out there, finds what contradicts itself: then the long way is gone, which goes by the
 * record. Never the other way round: whoever has lost the record may have lost the connection too, whose state is
 * another's by then (a thread refused it, or has closed it, and the next attempt has its place).
 */
HOT bool short_exchange_begins(descriptor entry)
{
    struct connection *connection = judgement_of(entry);
    if (!connection || !is_plain(connection, STATE_IDLE, KEPT))
        return false;
    const struct target *target = connection_target(connection);
    if (!is_last_request_over(connection, target))
        return false;
    uint64_t now_ns = time_ns(target);
    /* An edited policy, and whether the segment still stands, is looked for once in a tick of the clock. */
    if (__builtin_expect(now_ns != atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed), 0)) {
        engine_look(now_ns);
        if (station_is_retired(connection->station))
            return false;
        edited_policy_look();
    }
    if (atomic_load_explicit(&connection->policy, memory_order_relaxed) != engine_policy())
        return false;
    const uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    const bool is_first = now_ns >> SELDOM_BITS > since_ns >> SELDOM_BITS;
    if (__builtin_expect(place_measures(&connection->place, is_first) != 0, 0))
        now_ns = clock_real_ns();
    if (!guard_begin_short(&connection->place, target, connection->address_key, clock_circuit_at(now_ns)))
        return false;
    connection_moves_on(connection, STATE_IDLE, ON_BEGINNING);
    if (__builtin_expect(!connection_http_is_fresh(connection), 0))
        connection_reset_http(connection);
    atomic_store_explicit(&connection->waited_before_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    return true;
}

/* Whether an answer that begins so is a success: no HTTP, or with a status line that says so. */
static bool is_success(const struct target *target, const void *first, size_t count)
{
    if (!target->http_read)
        return true;
    if (!first || count == 0)
        return false;
    if (__builtin_expect(!http_may_begin(first), 1))
        return true;
    unsigned int status = http_status_at_once(first, count);
    return status != 0 && outcome_status_succeeds(&target->rules, status);
}

/* Whether what came may be what was sent, on a connection that leads to itself. */
static inline bool may_be_own(const struct connection *connection, const void *first, size_t count)
{
    return connection_has(connection, CONNECTION_MAY_LOOP) && !connection_hears_another(connection, first, count);
}

HOT bool short_exchange_answers(descriptor entry, const void *first, size_t count, int flags)
{
    struct connection *connection = judgement_of(entry);
    if (!connection || (flags & (MSG_ERRQUEUE | MSG_TRUNC)))
        return false;
    const uint32_t properties = properties_of(connection);
    if ((properties != KEPT && properties != ASKED_ONCE) || !is_plain(connection, STATE_REQUESTED, properties))
        return false;
    const struct target *target = connection_target(connection);
    if (!is_success(target, first, count) || may_be_own(connection, first, count))
        return false;
    /* The program spoke again while it waited: how long the answer took is the long way's to judge. */
    if (__builtin_expect(target->breaker.slow_call_ns != 0, 0) &&
        atomic_load_explicit(&connection->waited_before_ns, memory_order_relaxed) != 0)
        return false;
    uint64_t now_ns =
        __builtin_expect(place_stands_for(&connection->place) != 0, 0) ? clock_real_ns() : time_ns(target);
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    if (!guard_settle_short(&connection->place, target, now_ns > since_ns ? now_ns - since_ns : 0,
                            clock_circuit_at(now_ns)))
        return false;
    connection_moves_on(connection, STATE_REQUESTED, ON_ANSWER);
    if (properties == ASKED_ONCE)
        judgement_note_polite(connection);
    if (connection_has(connection, CONNECTION_MAY_LOOP))
        connection_unmark(connection, CONNECTION_MAY_LOOP);
    return true;
}
