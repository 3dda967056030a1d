/*
 * bare.c - libc's functions for the command and the tests. The library has definitions of its own, which these make
 * room for.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "base/bare.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNLESS_DEFINED __attribute__((weak))

UNLESS_DEFINED int bare_close(int fd)
{
    return close(fd);
}

UNLESS_DEFINED FILE *bare_fmemopen(void *bytes, size_t size, const char *mode)
{
    return fmemopen(bytes, size, mode);
}

UNLESS_DEFINED FILE *bare_open_memstream(char **text, size_t *size)
{
    return open_memstream(text, size);
}

UNLESS_DEFINED int bare_fclose(FILE *stream)
{
    return fclose(stream);
}

UNLESS_DEFINED ssize_t bare_read(int fd, void *buffer, size_t count)
{
    return read(fd, buffer, count);
}

UNLESS_DEFINED ssize_t bare_write(int fd, const void *buffer, size_t count)
{
    return write(fd, buffer, count);
}

UNLESS_DEFINED int bare_fcntl(int fd, int command, long argument)
{
    return fcntl(fd, command, argument);
}

UNLESS_DEFINED int bare_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    return getsockopt(fd, level, option, value, length);
}

UNLESS_DEFINED int bare_poll(struct pollfd *look, nfds_t count, int timeout_ms)
{
    return poll(look, count, timeout_ms);
}

UNLESS_DEFINED int bare_nanosleep(const struct timespec *time, struct timespec *left)
{
    return nanosleep(time, left);
}

UNLESS_DEFINED int bare_sigtimedwait(const sigset_t *set, siginfo_t *information, const struct timespec *timeout)
{
    return sigtimedwait(set, information, timeout);
}

UNLESS_DEFINED int bare_mprotect(void *at, size_t length, int protection)
{
    return mprotect(at, length, protection);
}

UNLESS_DEFINED int bare_gettime(clockid_t clock, struct timespec *time)
{
    return clock_gettime(clock, time);
}
