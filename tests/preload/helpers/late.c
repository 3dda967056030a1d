/*
 * late.c - another preload, behind the library: connect comes back late, as for a thread that had to wait for its
 * processor.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    static int (*next)(int, const struct sockaddr *, socklen_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "connect");
    int result = next(fd, address, length), error = errno;
    usleep(5000);
    errno = error;
    return result;
}
