/*
 * wrap_descriptors.c - one connection under several numbers: dup, dup2, dup3, fcntl.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "preload/real.h"
#include "preload/told.h"

static int told_duplicated(int fd, int to)
{
    if (to >= 0 && UNLIKELY(descriptor_get(fd) || descriptor_get(to))) {
        int error = errno;
        connection_duplicated(fd, to);
        errno = error;
    }
    return to;
}

/* dup2 closes what `to` was, but only if it succeeds: so it is told beforehand, once `fd` is known to be open. */
static void tell_overwritten(int fd, int to)
{
    descriptor entry;
    if (fd != to && GUARDED(to, entry)) {
        int error = errno;
        if (real.fcntl(fd, F_GETFD, 0) >= 0)
            connection_closing(to);
        errno = error;
    }
}

int wrap_dup(int fd)
{
    return told_duplicated(fd, real.dup(fd));
}

int wrap_dup2(int fd, int to)
{
    tell_overwritten(fd, to);
    int result = real.dup2(fd, to);
    return fd == to ? result : told_duplicated(fd, result);
}

int wrap_dup3(int fd, int to, int flags)
{
    if (dup3_overwrites(flags))
        tell_overwritten(fd, to);
    int result = real.dup3(fd, to, flags);
    return fd == to ? result : told_duplicated(fd, result);
}

static inline bool duplicates(int command)
{
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC;
}

int wrap_fcntl(int fd, int command, long argument)
{
    int result = real.fcntl(fd, command, argument);
    return duplicates(command) ? told_duplicated(fd, result) : result;
}

int wrap_fcntl64(int fd, int command, long argument)
{
    int result = real.fcntl64(fd, command, argument);
    return duplicates(command) ? told_duplicated(fd, result) : result;
}
