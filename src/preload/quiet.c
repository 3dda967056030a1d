/*
 * quiet.c - the short way of a request and its answer. See quiet.h; the circuit's half is segment/quiet.c.
 */
#include "preload/quiet.h"

#include "preload/life.h"
#include "preload/reload.h"
#include "preload/tls.h"
#include "segment/clock.h"

/* In one place with the others that each request runs through. */
#define HOT __attribute__((hot))

/* A plain connection has these flags, perhaps those that do not matter here, and between two calls ANSWERED. */
#define PLAIN ((uint32_t)CONNECTION_CONNECTED | (uint32_t)CONNECTION_SENT | (uint32_t)CONNECTION_REUSED)
#define OF_NO_MATTER ((uint32_t)CONNECTION_UNIX | (uint32_t)CONNECTION_FAST_OPEN)

static bool has_flags(const struct connection *connection, uint32_t wanted)
{
    return (atomic_load_explicit(&connection->flags, memory_order_relaxed) & ~OF_NO_MATTER) == wanted;
}

/*
 * The real time: to a few milliseconds where the target measures no answers, for all else that begins with a request
 * (abandon_after, a window's buckets) is longer by far.
 */
static uint64_t time_ns(const struct target *target)
{
    return target->response_timeout_ns || target->breaker.slow_call_ns ? clock_real_ns() : clock_coarse_ns();
}

static struct quiet_call call_of(const struct connection *connection, const struct target *target)
{
    return (struct quiet_call){
        .target = target,
        .circuit = connection->circuit,
        .record = connection->call,
        .address_key = connection->address_key,
    };
}

HOT bool quiet_begins(descriptor entry)
{
    struct connection *connection = life_of(entry);
    if (!connection || !has_flags(connection, PLAIN | (uint32_t)CONNECTION_ANSWERED) || tls_is_at_work())
        return false;
    reload_look();
    const struct target *target = connection_target(connection);
    if (atomic_load_explicit(&connection->policy, memory_order_relaxed) != guest_policy())
        return false;
    uint64_t now_ns = time_ns(target);
    const struct quiet_call call = call_of(connection, target);
    if (!guard_begin_quietly(&connection->station->guard, &call, clock_circuit_at(now_ns)))
        return false;
    if (!http_is_fresh(&connection->http))
        connection->http = (struct http_reader){0};
    atomic_store_explicit(&connection->waited_before_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    connection_unmark(connection, CONNECTION_ANSWERED);
    return true;
}

HOT bool quiet_answers(descriptor entry, int fd, const struct received *received)
{
    struct connection *connection = descriptor_get(fd) == entry ? life_of(entry) : NULL;
    if (!connection || !has_flags(connection, PLAIN) || tls_is_at_work() || (received->flags & MSG_ERRQUEUE))
        return false;
    const struct target *target = connection_target(connection);
    const struct iovec *first = received->flags & MSG_TRUNC ? NULL : received->vector;
    if (target->http_read && (!first || first->iov_len == 0 || http_may_begin(first->iov_base)))
        return false;
    uint64_t now_ns = time_ns(target);
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    const struct quiet_call call = call_of(connection, target);
    if (!guard_settle_quietly(&connection->station->guard, &call, now_ns > since_ns ? now_ns - since_ns : 0,
                              clock_circuit_at(now_ns)))
        return false;
    connection_mark(connection, CONNECTION_ANSWERED);
    return true;
}
