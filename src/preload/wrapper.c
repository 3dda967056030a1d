/*
 * wrapper.c - what is told of calls that come by their wrappers and by syscall(2) alike. See wrapper.h.
 */
#define _GNU_SOURCE
#include "preload/wrapper.h"

#include <string.h>

#include "base/hot.h"
#include "preload/real.h"

void wrapper_overwriting(int fd, int to)
{
    descriptor entry;
    if (fd != to && GUARDED(to, entry) && !swap_carries(entry)) {
        int error = errno;
        if (real.fcntl(fd, F_GETFD, 0) >= 0)
            connection_closing(to);
        errno = error;
    }
}

int wrapper_duplicated(int fd, int to)
{
    if (to >= 0 && to != fd && UNLIKELY(descriptor_get(fd) || descriptor_get(to))) {
        int error = errno;
        connection_duplicated(fd, to);
        errno = error;
    }
    return to;
}

COLD void wrapper_executing(bool by_child)
{
    int error = errno;
    connection_executing(by_child);
    errno = error;
}

COLD void wrapper_error_option(descriptor entry, int fd, const void *value, const socklen_t *length)
{
    int error = errno, pending;
    if (*length >= sizeof pending) {
        memcpy(&pending, value, sizeof pending);
        connection_error_read(entry, fd, pending);
    }
    errno = error;
}

HOT int wrapper_sending(descriptor entry, int fd, size_t bytes)
{
    if (bytes < UPLOAD_LARGE && short_exchange_speaks(entry))
        return 0;
    int error = errno;
    int verdict = connection_sending(entry, fd, bytes);
    errno = verdict > 0 ? verdict : error;
    return verdict;
}

COLD void wrapper_begun(descriptor entry, int fd, ssize_t result, const struct iovec *first, size_t count)
{
    int error = errno;
    connection_begun(entry, fd, result, result < 0 ? error : 0, first, count);
    errno = error;
}

bool wrapper_taken(descriptor entry, int fd, const struct iovec *vector, size_t count, ssize_t *taken)
{
    int error = errno;
    bool is_taken = connection_takes(entry, fd, vector, count, taken);
    if (!is_taken || *taken >= 0)
        errno = error;
    return is_taken;
}

COLD bool wrapper_limits(descriptor entry, int fd, int flags, struct limit *limit)
{
    int error = errno;
    bool limits = connection_limits_wait(entry, fd, flags, limit);
    limit->error = errno = error;
    return limits;
}

COLD bool wrapper_waits_on(descriptor entry, int fd, struct limit *limit, ssize_t result)
{
    if (result >= 0)
        errno = limit->error;
    if (limit->way == LIMIT_BARE || (limit->way == LIMIT_AT_ONCE && result >= 0))
        return false;
    if (limit->way == LIMIT_AT_ONCE && errno == ENOTSOCK) /* read can do what recv can't: it is another file by now */
        limit->way = LIMIT_BARE;
    else if (limit->way == LIMIT_AT_ONCE && errno != EAGAIN && errno != EWOULDBLOCK)
        return false;
    else if (!connection_waits_on(entry, fd, limit))
        return false;
    errno = limit->error;
    return true;
}
