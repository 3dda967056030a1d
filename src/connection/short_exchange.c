/*
 * short_exchange.c - the short way of a request and its answer. See short_exchange.h; the circuit's half is
 * guard/short_way.c.
 */
#include "connection/short_exchange.h"

#include "base/clock.h"
#include "connection/edited_policy.h"
#include "connection/judgement.h"
#include "connection/tls_sessions.h"

/* In one place with the others that each request runs through. */
#define HOT __attribute__((hot))

/* A plain connection has these properties, and perhaps those that do not matter here. */
#define PLAIN ((uint32_t)CONNECTION_SENT | (uint32_t)CONNECTION_REUSED)
#define OF_NO_MATTER                                                                                                   \
    ((uint32_t)CONNECTION_UNIX | (uint32_t)CONNECTION_FAST_OPEN | (uint32_t)CONNECTION_ASKED |                         \
     (uint32_t)CONNECTION_SHARED | (uint32_t)CONNECTION_MAY_LOOP)

static inline bool is_plain(const struct connection *connection, enum connection_state state)
{
    return (atomic_load_explicit(&connection->properties, memory_order_relaxed) & ~OF_NO_MATTER) == PLAIN &&
           connection_state(connection) == state && !tls_is_at_work();
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

/*
 * The record changes by an atomic step, and then the state by a plain store. Another thread that looks in between, or a
 * handler of a signal that jumps out there, finds what contradicts itself: then the long way is gone, which goes by the
 * record. Never the other way round: whoever has lost the record may have lost the connection too, whose state is
 * another's by then (a thread refused it, or has closed it, and the next attempt has its place).
 */
HOT bool short_exchange_begins(descriptor entry)
{
    struct connection *connection = judgement_of(entry);
    if (!connection || !is_plain(connection, STATE_IDLE))
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

HOT bool short_exchange_answers(descriptor entry, const void *first, size_t count, int flags)
{
    struct connection *connection = judgement_of(entry);
    if (!connection || !is_plain(connection, STATE_REQUESTED) || (flags & (MSG_ERRQUEUE | MSG_TRUNC)))
        return false;
    const struct target *target = connection_target(connection);
    if (!is_success(target, first, count))
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
    return true;
}
