/* interposer.c - another preload: it counts the connects that pass through it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/socket.h>

int interposed;

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    static int (*next)(int, const struct sockaddr *, socklen_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "connect");
    interposed++;
    return next(fd, address, length);
}
