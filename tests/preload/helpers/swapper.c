/*
 * swapper.c - another preload: what the program gets is not its own socket, but one that was connected in its stead, as
 * proxychains and ip2unix do it. SWAP says how it comes to the program's number: by dup2, dup3, or by libc's dup2, past
 * all others. SWAP_AT is a UNIX socket to connect to instead. Over TCP the peer says a byte first, as a proxy does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef int (*connect_function)(int, const struct sockaddr *, socklen_t);

static int connect_instead(connect_function next, const struct sockaddr *address, socklen_t length)
{
    const char *at = getenv("SWAP_AT");
    char byte;
    if (at) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        strncpy(un.sun_path, at, sizeof un.sun_path - 1);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (next(fd, (struct sockaddr *)&un, sizeof un) == 0)
            return fd;
        close(fd);
        return -1;
    }
    int fd = socket(address->sa_family, SOCK_STREAM, 0);
    if (next(fd, address, length) == 0 && recv(fd, &byte, 1, 0) == 1)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    connect_function next;
    *(void **)&next = dlsym(RTLD_NEXT, "connect");
    const char *way = getenv("SWAP");
    int other = connect_instead(next, address, length);
    if (other < 0)
        return -1;
    if (!strcmp(way, "dup2"))
        dup2(other, fd);
    else if (!strcmp(way, "dup3"))
        dup3(other, fd, 0);
    else
        ((int (*)(int, int))dlsym(dlopen("libc.so.6", RTLD_LAZY), "dup2"))(other, fd);
    close(other);
    return 0;
}
