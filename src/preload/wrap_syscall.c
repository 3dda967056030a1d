/*
 * wrap_syscall.c - syscall(2): node and everything on libuv close their sockets with it.
 *
 * Every number passes, with six arguments. Those that concern descriptors are told as their wrappers would tell them,
 * around the same real system call (not libc's function, which would be a cancellation point). All others must end in a
 * jump, for fork-like numbers return twice.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "preload/guest.h"
#include "preload/memory.h"
#include "preload/real.h"
#include "preload/told.h"

#define REAL() real.syscall(number, a, b, c, d, e, f)

/* i386 has both a multiplexer and, since Linux 4.3, the direct numbers; we know the latter. */
static bool is_known(long number)
{
    switch (number) {
    case SYS_socket:
    case SYS_connect:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_write:
    case SYS_writev:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_read:
    case SYS_readv:
    case SYS_getsockopt:
    case SYS_close:
#ifdef SYS_close_range
    case SYS_close_range:
#endif
    case SYS_shutdown:
    case SYS_exit_group:
    case SYS_dup:
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
    case SYS_fcntl:
        return true;
    default:
        return false;
    }
}

/* A send; `vector` is where its bytes are, or NULL. */
static long sent(long number, long a, long b, long c, long d, long e, long f, descriptor entry,
                 const struct iovec *vector, size_t count)
{
    ssize_t instead;
    if (kept_from_sending(entry, (int)a, vector, count, &instead))
        return instead;
    return told_sent(entry, (int)a, REAL(), count > 0 ? vector : NULL);
}

static long sent_bytes(long number, long a, long b, long c, long d, long e, long f, descriptor entry)
{
    struct iovec vector = {(void *)b, (size_t)c};
    return sent(number, a, b, c, d, e, f, entry, &vector, 1);
}

/* dup, dup2, dup3: ours for closing what was there, the table's for the new number. */
static long duplicate(long number, long a, long b, long c, long d, long e, long f, bool overwrites)
{
    int error = errno;
    if (overwrites && a != b && descriptor_connection(descriptor_get((int)b)) && real.fcntl((int)a, F_GETFD, 0) >= 0)
        connection_closing((int)b);
    errno = error;
    long to = REAL();
    if (to >= 0 && to != a) {
        error = errno;
        connection_duplicated((int)a, (int)to);
        errno = error;
    }
    return to;
}

static void option_read(descriptor entry, int fd, const void *value, const socklen_t *length)
{
    int pending, error = errno;
    if (*length >= sizeof pending) {
        memcpy(&pending, value, sizeof pending);
        connection_error_read(entry, fd, pending);
    }
    errno = error;
}

/* Before the system call: what ends. */
static void tell_ending(long number, long a, long b, long c)
{
    int error = errno;
    switch (number) {
    case SYS_close:
        connection_closing((int)a);
        break;
#ifdef SYS_close_range
    case SYS_close_range:
        if (range_closes((unsigned int)a, (unsigned int)b, (unsigned int)c))
            connection_closing_range((unsigned int)a, (unsigned int)b);
        break;
#endif
    case SYS_shutdown:
        connection_shutting((int)a, (int)b);
        break;
    case SYS_exit_group:
        connection_exit((int)a);
        break;
    default:
        break;
    }
    errno = error;
}

static COLD long guarded_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    int fd = (int)a;
    descriptor entry = descriptor_get(fd);
    switch (number) {
    case SYS_socket: {
        long result = REAL();
        int error = errno;
        if (result >= 0)
            connection_created((int)result, (int)a, (int)b, (int)c);
        errno = error;
        return result;
    }
    case SYS_connect:
        return ATTEMPT(long, fd, (const struct sockaddr *)b, (socklen_t)c, false, 0, REAL());
    case SYS_sendto:
        if ((d & MSG_FASTOPEN) && e) {
            struct iovec vector = {(void *)b, (size_t)c};
            long result = ATTEMPT(long, fd, (const struct sockaddr *)e, (socklen_t)f, true,
                                  send_diverted(fd, &vector, 1), REAL());
            return told_sent_bytes(descriptor_get(fd), fd, result, (const void *)b, (size_t)c);
        }
        return sent_bytes(number, a, b, c, d, e, f, entry);
    case SYS_write:
        return sent_bytes(number, a, b, c, d, e, f, entry);
    case SYS_sendmsg: {
        const struct msghdr *message = (const struct msghdr *)b;
        ssize_t instead;
        struct message_address address;
        if (!memory_message_connects(message, (int)c, &address))
            return kept_from_sending_message(entry, fd, message, &instead) ? instead
                                                                           : told_sent(entry, fd, REAL(), NULL);
        long result = ATTEMPT(long, fd, (const struct sockaddr *)&address.at, address.length, true,
                              send_diverted(fd, message->msg_iov, message->msg_iovlen), REAL());
        return told_sent(descriptor_get(fd), fd, result, result > 0 ? message->msg_iov : NULL);
    }
    case SYS_writev:
        return sent(number, a, b, c, d, e, f, entry, (const struct iovec *)b, (size_t)c);
    case SYS_sendmmsg:
    case SYS_sendfile:
        return sent(number, a, b, c, d, e, f, entry, NULL, 0);
    case SYS_splice: {
        int out = (int)c;
        descriptor to = descriptor_get(out);
        ssize_t instead;
        if (kept_from_sending(to, out, NULL, 0, &instead))
            return instead;
        long result = REAL();
        told_sent(to, out, result, NULL);
        return told_received(entry, fd, result, &(struct received){NULL, 0, (size_t)e, MSG_DONTWAIT});
    }
    case SYS_recvfrom:
        return told_received_bytes(entry, fd, REAL(), (void *)b, (size_t)c, (int)d);
    case SYS_read:
        return told_received_bytes(entry, fd, REAL(), (void *)b, (size_t)c, 0);
    case SYS_readv:
        return told_received_vector(entry, fd, REAL(), (const struct iovec *)b, (size_t)c, 0);
    case SYS_recvmsg: {
        long result = REAL();
        const struct msghdr *message = (const struct msghdr *)b;
        if (result < 0)
            return told_received(entry, fd, result, &(struct received){NULL, 0, 1, (int)c});
        return told_received_vector(entry, fd, result, message->msg_iov, message->msg_iovlen, (int)c);
    }
    case SYS_recvmmsg: {
        long result = REAL();
        const struct mmsghdr *first = (const struct mmsghdr *)b;
        if (result < 0)
            told_received(entry, fd, result, &(struct received){NULL, 0, 1, (int)d});
        else if (result > 0)
            told_received_vector(entry, fd, first->msg_len, first->msg_hdr.msg_iov, first->msg_hdr.msg_iovlen, (int)d);
        return result;
    }
    case SYS_getsockopt: {
        long result = REAL();
        if (result == 0 && b == SOL_SOCKET && c == SO_ERROR && descriptor_connection(entry))
            option_read(entry, fd, (const void *)d, (const socklen_t *)e);
        return result;
    }
    case SYS_dup:
        return duplicate(number, a, b, c, d, e, f, false);
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
        return duplicate(number, a, b, c, d, e, f, number != SYS_dup3 || dup3_overwrites((int)c));
    case SYS_fcntl:
        if (b == F_DUPFD || b == F_DUPFD_CLOEXEC)
            return duplicate(number, a, b, c, d, e, f, false);
        return REAL();
    default:
        tell_ending(number, a, b, c);
        return REAL();
    }
}

JUMPS long wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (guest_ready() && UNLIKELY(is_known(number)))
        return guarded_syscall(number, a, b, c, d, e, f);
    JUMP real.syscall(number, a, b, c, d, e, f);
}
