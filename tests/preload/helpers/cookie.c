/*
 * cookie.c - another preload, behind the library: a test acts as another thread would, right after the kernel has said
 * which socket a number is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/socket.h>

/* Is called with the number, unless it is NULL. */
void (*after_cookie)(int fd);

int getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    static int (*next)(int, int, int, void *, socklen_t *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getsockopt");
    int result = next(fd, level, option, value, length);
    if (level == SOL_SOCKET && option == SO_COOKIE && after_cookie)
        after_cookie(fd);
    return result;
}
