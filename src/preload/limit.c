/*
 * limit.c - the kernel's timeouts as limits. See limit.h.
 */
#define _GNU_SOURCE
#include "preload/limit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "preload/real.h"
#include "preload/socket_state.h"
#include "segment/clock.h"

#define US_PER_S UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

bool limit_set(struct limit *limit, int fd, int option, uint64_t timeout_ns)
{
    uint64_t wanted_us = timeout_ns / NS_PER_US;
    socklen_t length = sizeof limit->former;
    limit->option = 0;
    if (!socket_blocks(fd) || real.getsockopt(fd, SOL_SOCKET, option, &limit->former, &length) != 0)
        return false;
    uint64_t former_us = (uint64_t)limit->former.tv_sec * US_PER_S + (uint64_t)limit->former.tv_usec;
    if (former_us != 0 && former_us <= wanted_us)
        return false;
    struct timeval wanted = {.tv_sec = (time_t)(wanted_us / US_PER_S), .tv_usec = (suseconds_t)(wanted_us % US_PER_S)};
    if (setsockopt(fd, SOL_SOCKET, option, &wanted, sizeof wanted) != 0)
        return false;
    limit->option = option;
    return true;
}

void limit_lift(const struct limit *limit, int fd)
{
    if (limit->option)
        setsockopt(fd, SOL_SOCKET, limit->option, &limit->former, sizeof limit->former);
}

bool limit_attempt(int fd, uint64_t timeout_ns)
{
    unsigned int own = 0,
                 wanted = timeout_ns / NS_PER_MS < UINT32_MAX ? (unsigned int)(timeout_ns / NS_PER_MS) : UINT32_MAX;
    socklen_t length = sizeof own;
    return real.getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &own, &length) == 0 && own == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &wanted, sizeof wanted) == 0;
}

void limit_attempt_over(int fd)
{
    unsigned int none = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
}
