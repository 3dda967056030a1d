/*
 * support_inject_sending.h - all ways in which a program sends its request, which meets an injected fault.
 *
 * For tests/preload/test_inject*.c only.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_SUPPORT_INJECT_SENDING_H
#define SOCKFUSE_TESTS_PRELOAD_SUPPORT_INJECT_SENDING_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support_inject.h"

static inline ssize_t by_send(int fd)
{
    return send(fd, request_text(), (size_t)LENGTH, 0);
}

static inline ssize_t by_sendto(int fd)
{
    return sendto(fd, request_text(), (size_t)LENGTH, 0, NULL, 0);
}

static inline ssize_t by_write(int fd)
{
    return write(fd, request_text(), (size_t)LENGTH);
}

static inline ssize_t by_syscall_write(int fd)
{
    return syscall(SYS_write, fd, request_text(), LENGTH);
}

static inline ssize_t by_syscall_sendto(int fd)
{
    return syscall(SYS_sendto, fd, request_text(), LENGTH, 0, NULL, 0);
}

static inline ssize_t by_writev(int fd)
{
    struct iovec vector[] = {{request_text(), 0}, {request_text(), 5}, {request_text() + 5, (size_t)LENGTH - 5}};
    return writev(fd, vector, 3);
}

static inline ssize_t by_sendmsg(int fd)
{
    struct iovec vector[] = {{request_text(), 5}, {request_text() + 5, (size_t)LENGTH - 5}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    return sendmsg(fd, &message, 0);
}

static inline ssize_t by_syscall_sendmsg(int fd)
{
    struct iovec vector = {request_text(), (size_t)LENGTH};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    return syscall(SYS_sendmsg, fd, &message, 0);
}

static inline ssize_t by_sendmmsg(int fd)
{
    struct iovec vector = {request_text(), (size_t)LENGTH};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}};
    return sendmmsg(fd, &message, 1, 0) == 1 ? (ssize_t)message.msg_len : -1;
}

static inline ssize_t by_another_number(int fd)
{
    int other = dup(fd);
    ssize_t sent = send(other, request_text(), (size_t)LENGTH, 0);
    close(other);
    return sent;
}

static const struct {
    const char *name;
    ssize_t (*send)(int fd);
} ways_to_send[] = {
    {"send", by_send},
    {"sendto", by_sendto},
    {"write", by_write},
    {"writev", by_writev},
    {"sendmsg", by_sendmsg},
    {"sendmmsg", by_sendmmsg},
    {"syscall(SYS_write)", by_syscall_write},
    {"syscall(SYS_sendto)", by_syscall_sendto},
    {"syscall(SYS_sendmsg)", by_syscall_sendmsg},
    {"another number", by_another_number},
};
#define WAYS_TO_SEND (sizeof ways_to_send / sizeof *ways_to_send)

#endif
