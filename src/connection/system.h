/*
 * system.h - what the judging of connections asks of the system: one table of functions.
 *
 * The engine fills it before it guards the first call: the preload with the functions behind its wrappers, a test with
 * a kernel that goes by a script. All of them as in libc, errno included. Memory is no part of it, nor are the clocks
 * (base/clock.h).
 */
#ifndef SOCKFUSE_CONNECTION_SYSTEM_H
#define SOCKFUSE_CONNECTION_SYSTEM_H

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

struct system {
    int (*getsockopt)(int fd, int level, int option, void *value, socklen_t *length);
    int (*connect)(int fd, const struct sockaddr *address, socklen_t length);
    ssize_t (*send)(int fd, const void *bytes, size_t count, int flags);
    ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
    int (*shutdown)(int fd, int how);
    int (*poll)(struct pollfd *look, nfds_t count, int timeout_ms);
    int (*fcntl)(int fd, int command, long argument); /* with what it points to as a number */
    int (*clock_nanosleep)(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);
    long (*syscall)(long number, long a, long b, long c, long d, long e, long f);
    int (*setsockopt)(int fd, int level, int option, const void *value, socklen_t length);
    int (*getsockname)(int fd, struct sockaddr *address, socklen_t *length);
    int (*getpeername)(int fd, struct sockaddr *address, socklen_t *length);
    int (*bind)(int fd, const struct sockaddr *address, socklen_t length);
    int (*ioctl)(int fd, unsigned long request, void *argument);
    pid_t (*getpid)(void);
};

/* Written once, at start-up. A root of the engine's. */
extern struct system sys;

#endif
