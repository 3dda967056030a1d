/*
 * wrap_connect.c - socket and connect.
 */
#define _GNU_SOURCE
#include "connection/engine.h"
#include "preload/real.h"
#include "preload/wrapper.h"

/* What socket() is asked for is remembered, so that connect need not ask for the type. */
int wrap_socket(int domain, int type, int protocol)
{
    int fd = real.socket(domain, type, protocol);
    if (fd >= 0 && engine_ready()) {
        int error = errno;
        connection_created(fd, domain, type, protocol);
        errno = error;
    }
    return fd;
}

static int connect_limited_or_not(struct attempt_ticket *ticket, int fd, const struct sockaddr *address,
                                  socklen_t length)
{
    if (UNLIKELY(ticket->limit.way != LIMIT_BARE))
        return connection_connect(ticket, address, length);
    return real.connect(fd, address, length);
}

int wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    return ATTEMPT(int, fd, address, length, 0, 0, connect_limited_or_not(&attempt_ticket, fd, address, length));
}
