/*
 * wrap_descriptors.c - one connection under several numbers: dup, dup2, dup3, fcntl.
 */
#define _GNU_SOURCE
#include "base/hot.h"
#include "base/libc.h"
#include "preload/real.h"
#include "preload/wrapper.h"

int wrap_dup(int fd)
{
    return wrapper_duplicated(fd, real.dup(fd));
}

int wrap_dup2(int fd, int to)
{
    wrapper_overwriting(fd, to);
    return wrapper_duplicated(fd, real.dup2(fd, to));
}

int wrap_dup3(int fd, int to, int flags)
{
    if (dup3_overwrites(flags))
        wrapper_overwriting(fd, to);
    return wrapper_duplicated(fd, real.dup3(fd, to, flags));
}

HOT int wrap_fcntl(int fd, int command, long argument)
{
    int result = real.fcntl(fd, command, argument);
    return fcntl_duplicates(command) ? wrapper_duplicated(fd, result) : result;
}

#if LIBC_HAS_FCNTL64
int wrap_fcntl64(int fd, int command, long argument)
{
    int result = real.fcntl64(fd, command, argument);
    return fcntl_duplicates(command) ? wrapper_duplicated(fd, result) : result;
}
#endif
