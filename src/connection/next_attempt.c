/*
 * next_attempt.c - whether a connect whose attempt has failed is made again (`retry`), and the wait before.
 *
 * To the process it is as if its program had called connect once more on the same socket: a call of its own, admitted,
 * tracked and judged as any other. So nothing of an attempt is held while it waits: the connection stands as one that
 * has failed, its number names it, and a close, a dup2, a shutdown, another connect, a fork, a jump or a cancellation
 * finds what it would find behind any connect that failed. Afterwards all that is looked at again.
 *
 * It is the program's patience that is spent here. So only what blocks is made again; only what counts as a failure of
 * its target's, which leaves out what is this side's fault, and one of several addresses of which the program has others
 * to try; not what the kernel itself has timed out, for that may be the program's own limit too (TCP_USER_TIMEOUT,
 * TCP_SYNCNT), nor what took as long as connect_timeout; and nothing beyond SO_SNDTIMEO, which counts from the first
 * attempt. A handler that ends the kernel's wait ends this one, and the program sees how the last attempt failed: with
 * EINTR it would take a socket that is not connecting for one that is.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "base/clock.h"
#include "breaker/retry.h"
#include "connection/interruption.h"
#include "connection/judgement.h"
#include "connection/shard.h"
#include "connection/socket_state.h"
#include "guard/retries.h"

/* The attempt's connection, if its number stands for it still and nobody has done anything to it. */
static struct connection *failed_one(const struct attempt_ticket *ticket)
{
    struct connection *connection = descriptor_get(ticket->fd) == ticket->entry ? judgement_of(ticket->entry) : NULL;
    return connection && connection_state(connection) == STATE_FAILED &&
                   !connection_has(connection, CONNECTION_SHUT_READ) &&
                   !connection_has(connection, CONNECTION_SHUT_WRITE)
               ? connection
               : NULL;
}

/* Nobody is to wait for a time-out twice, but for one of the library's own. */
static bool took_too_long(const struct attempt_ticket *ticket, const struct connection *connection,
                          const struct target *target, uint64_t now_ns)
{
    if (ticket->limit.way != LIMIT_BARE)
        return false;
    return ticket->kind == FAILURE_CONNECT_TIMEOUT ||
           now_ns - atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed) >=
               target->connect_timeout_ns;
}

/* The program's own time-out, of all attempts together. */
static void look_at_patience(const struct attempt_ticket *ticket, const struct connection *connection,
                             struct retrying *retrying)
{
    if (retrying->made > 0)
        return;
    retrying->until_ns =
        limit_own_until(ticket->fd, atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed));
}

/* Whether that leaves room for the wait. On a UNIX socket the next attempt could not be ended by what is left of it. */
static bool is_within_patience(const struct connection *connection, const struct retrying *retrying, uint64_t now_ns,
                               uint64_t wait_ns)
{
    if (retrying->until_ns == UINT64_MAX)
        return true;
    return !connection_has(connection, CONNECTION_UNIX) && retrying->until_ns > now_ns &&
           retrying->until_ns - now_ns > wait_ns;
}

/* Whether it can be connected once more. MPTCP's sockets can't be everywhere. */
static bool is_fit(const struct connection *connection, int fd)
{
    return socket_blocks(fd) && (connection_has(connection, CONNECTION_UNIX) || socket_is_tcp(fd));
}

/* Whether there is to be one more, and after how long: takes it of the budget. */
static bool is_granted(const struct attempt_ticket *ticket, struct connection *connection, struct retrying *retrying,
                       uint64_t *wait_ns)
{
    const struct target *target = connection_target(connection);
    const struct guard *guard = &connection->station->guard;
    const uint32_t circuit = connection->place.circuit;
    uint64_t now_ns = clock_real_ns(), circuit_ns = clock_circuit_at(now_ns);
    if (retrying->made >= target->retries || took_too_long(ticket, connection, target, now_ns) ||
        !guard_may_retry(guard, circuit, target, circuit_ns) || !is_fit(connection, ticket->fd))
        return false;
    look_at_patience(ticket, connection, retrying);
    *wait_ns = retry_wait_ns(target->retry_backoff_ns, retrying->made, now_ns ^ (uint64_t)guard->pid << 32);
    retrying->most = target->retries;
    return is_within_patience(connection, retrying, now_ns, *wait_ns) &&
           guard_take_retry(guard, circuit, target, shard_here(), circuit_ns);
}

/* Whether all is as it was before the wait: the socket, its circuit, and what the program has said of both. */
static bool still_may(const struct attempt_ticket *ticket)
{
    const struct connection *connection = failed_one(ticket);
    return connection && judgement_is_same_socket(connection, ticket->fd) && socket_blocks(ticket->fd) &&
           guard_may_retry(&connection->station->guard, connection->place.circuit, connection_target(connection),
                           clock_circuit_ns());
}

static bool waits(const struct attempt_ticket *ticket, struct retrying *retrying)
{
    struct connection *connection = failed_one(ticket);
    uint64_t wait_ns;
    if (!connection || !is_granted(ticket, connection, retrying, &wait_ns))
        return false;
    /* It is no connection meanwhile, and others may have its room. (If nobody closes it at this moment.) */
    if (connection_target(connection)->max_connections != 0 && failed_one(ticket) == connection)
        guard_unshare(&connection->station->guard, connection->place.call, connection_target(connection));
    const uint64_t began_ns = clock_real_ns();
    if (!interruption_sleep(began_ns + wait_ns, retrying->until_ns == UINT64_MAX) || !still_may(ticket))
        return false;
    retrying->waited_ns = clock_real_ns() - began_ns;
    retrying->made++;
    return true;
}

bool connection_retries(const struct attempt_ticket *ticket, struct retrying *retrying, int error)
{
    retrying->error = error;
    retrying->kind = ticket->kind;
    bool again = ticket->fails && waits(ticket, retrying);
    errno = error;
    return again;
}

static void begin_retry(struct attempt_ticket *ticket, const struct retrying *retrying)
{
    struct connection *connection = judgement_of(ticket->entry);
    const struct retry_report report = {.kind = (enum failure_kind)retrying->kind,
                                        .error = retrying->error,
                                        .number = retrying->made,
                                        .most = retrying->most,
                                        .waited_ns = retrying->waited_ns};
    if (!connection)
        return;
    guard_note_retry(&connection->station->guard, connection->place.circuit, shard_here(), &report, clock_circuit_ns());
    if (retrying->until_ns != UINT64_MAX &&
        (ticket->limit.way == LIMIT_BARE || retrying->until_ns < ticket->limit.until_ns))
        ticket->limit = (struct limit){.until_ns = retrying->until_ns,
                                       .way = LIMIT_AT_ONCE,
                                       .option = SO_SNDTIMEO,
                                       .is_own = true,
                                       .is_kernels = true};
}

/* What would pass goes past its circuit, and without an end: it is not made. */
enum passage connection_begin_again(struct attempt_ticket *ticket, const struct sockaddr *address, socklen_t length,
                                    const struct retrying *retrying)
{
    ticket->retry = retrying->made;
    enum passage passage = connection_begin(ticket->fd, address, length, 0, ticket);
    if (passage != PASSAGE_FREE && passage != PASSAGE_REFUSED) {
        begin_retry(ticket, retrying);
        return passage;
    }
    ticket->error = retrying->error;
    return PASSAGE_REFUSED;
}
