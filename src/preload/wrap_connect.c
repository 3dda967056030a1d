/*
 * wrap_connect.c - socket and connect.
 */
#define _GNU_SOURCE
#include "base/hot.h"
#include "connection/engine.h"
#include "preload/real.h"
#include "preload/wrapper.h"

/* What socket() is asked for is remembered, so that connect need not ask for the type. */
HOT int wrap_socket(int domain, int type, int protocol)
{
    int fd = real.socket(domain, type, protocol);
    if (fd >= 0 && engine_ready()) {
        int error = errno;
        connection_created(fd, domain, type, protocol);
        errno = error;
    }
    return fd;
}

HOT static int connect_limited_or_not(struct attempt_ticket *ticket, int fd, const struct sockaddr *address,
                                      socklen_t length)
{
    if (UNLIKELY(ticket->limit.way != LIMIT_BARE))
        return connection_connect(ticket, address, length);
    return real.connect(fd, address, length);
}

/* `error`: what errno was before the program's call, which it is again if that succeeds. */
COLD static int connect_again(struct attempt_ticket *ticket, int fd, const struct sockaddr *address, socklen_t length,
                              int error)
{
    struct retrying retrying = {0};
    int result = -1;
    while (result < 0 && connection_retries(ticket, &retrying, errno)) {
        errno = error;
        result = ATTEMPT_BY(*ticket, connection_begin_again(ticket, address, length, &retrying), int, address, length,
                            0, 0, connect_limited_or_not(ticket, fd, address, length));
    }
    return result;
}

HOT int wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct attempt_ticket ticket;
    const int error = errno;
    ticket.retry = 0;
    int result = ATTEMPT_BY(ticket, connection_begin(fd, address, length, 0, &ticket), int, address, length, 0, 0,
                            connect_limited_or_not(&ticket, fd, address, length));
    if (UNLIKELY(result < 0) && ticket.fails)
        result = connect_again(&ticket, fd, address, length, error);
    return result;
}
