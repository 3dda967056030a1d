/*
 * waiting.c - enforce_timeouts: which of the program's waits are ended, and when. See limit.h for how.
 *
 * The time counts from the attempt and from the request, not from the call that waits: a program that is interrupted
 * and calls again waits no longer for that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/fault_drawing.h"
#include "connection/inherited.h"
#include "connection/judgement.h"
#include "connection/limit.h"
#include "connection/socket_state.h"
#include "connection/system.h"

/* Receives that never wait. */
#define AT_ONCE_ALREADY (MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE)

/* Whether the number still means what the wait began with; another thread may have closed it meanwhile. */
static bool is_still_there(descriptor entry, int fd)
{
    struct connection *connection = descriptor_get(fd) == entry ? judgement_of(entry) : NULL;
    return connection && judgement_is_same_socket(connection, fd);
}

/* --- receiving --- */

bool connection_limits_wait(descriptor entry, int fd, int flags, struct limit *limit)
{
    struct connection *connection = judgement_of(entry);
    if (!connection) {
        if (!(flags & AT_ONCE_ALREADY) && (connection = inherited_of(entry, fd)))
            inherited_receiving(connection);
        return false;
    }
    if (connection_has(connection, CONNECTION_FAULTY))
        rehearsal_receiving(connection, fd, flags);
    const struct target *target = connection_target(connection);
    if (!target->enforce_timeouts || !target->response_timeout_ns || (flags & AT_ONCE_ALREADY) ||
        connection_has(connection, CONNECTION_HTTP2))
        return false;
    enum phase phase = judgement_phase(connection);
    /* With SO_RCVLOWAT the kernel waits for more than poll and MSG_DONTWAIT do. */
    if (phase == PHASE_ANSWERED || !socket_blocks(fd) || socket_low_water(fd) > 1)
        return false;
    uint64_t since_ns = phase == PHASE_CONNECTING
                            ? clock_real_ns()
                            : atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    *limit = (struct limit){
        .until_ns = since_ns + target->response_timeout_ns,
        .options = flags,
        .option = SO_RCVTIMEO,
        /* Only its first byte is waited for; the rest the kernel puts together best. */
        .way = flags & MSG_WAITALL ? LIMIT_LATER : LIMIT_AT_ONCE,
    };
    return true;
}

bool connection_waits_on(descriptor entry, int fd, struct limit *limit)
{
    if (!limit->is_looked_at) {
        limit->is_looked_at = true;
        if (!is_still_there(entry, fd) || !limit_is_earlier(limit, fd)) {
            limit->way = LIMIT_BARE;
            return true;
        }
    }
    switch (limit_wait(limit, fd, POLLIN)) {
    case LIMIT_INTERRUPTED:
        errno = EINTR;
        return false;
    case LIMIT_OVER:
        errno = ETIMEDOUT;
        return false;
    default:
        break;
    }
    if (!is_still_there(entry, fd)) {
        errno = EBADF;
        return false;
    }
    if (limit->options & MSG_WAITALL)
        limit->way = LIMIT_BARE;
    return true;
}

/* --- connecting --- */

HOT void judgement_limit_attempt(struct connection *connection, int fd, struct attempt_ticket *ticket)
{
    const struct target *target = connection_target(connection);
    if (LIKELY(!target->enforce_timeouts) || connection_has(connection, CONNECTION_UNIX) || !socket_blocks(fd))
        return;
    ticket->limit.until_ns =
        atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed) + target->connect_timeout_ns;
    ticket->limit.option = SO_SNDTIMEO;
    if (limit_is_earlier(&ticket->limit, fd))
        ticket->limit.way = LIMIT_AT_ONCE;
}

/*
 * The attempt failed, or another thread shut it down: as inet_stream_connect would have gone on. A further connect is
 * not sure to do so: after a shutdown it begins anew.
 */
static int failed(int fd)
{
    int error = socket_take_error(fd);
    limit_end_connect(fd);
    errno = error ? error : ECONNABORTED;
    return -1;
}

static int ended(const struct limit *limit, int fd)
{
    if (!limit->is_kernels)
        limit_end_connect(fd);
    errno = limit->is_kernels ? EINPROGRESS : ETIMEDOUT;
    return -1;
}

int connection_connect(struct attempt_ticket *ticket, const struct sockaddr *address, socklen_t length)
{
    int fd = ticket->fd, error = errno, result;
    if (!ticket->again) {
        if (!limit_begin_connect(fd, address, length, &result)) {
            errno = error;
            return sys.connect(fd, address, length);
        }
        if (result == 0 || (errno != EINPROGRESS && errno != EALREADY))
            return result;
    }
    for (;;) {
        enum limit_end end = limit_wait(&ticket->limit, fd, POLLOUT);
        if (end == LIMIT_INTERRUPTED || !is_still_there(ticket->entry, fd)) {
            errno = end == LIMIT_INTERRUPTED ? EINTR : EBADF;
            return -1;
        }
        enum socket_stage stage = socket_state(fd, false).stage;
        if (stage == SOCKET_DEAD)
            return failed(fd);
        if (stage == SOCKET_PENDING && end == LIMIT_OVER)
            return ended(&ticket->limit, fd);
        if (stage == SOCKET_PENDING && ticket->limit.way != LIMIT_BARE)
            continue;
        /* A further connect is how the kernel itself resumes one after a signal: it tells that it is connected. */
        errno = error;
        return sys.connect(fd, address, length);
    }
}
