/*
 * wrap_receive.c - everything that receives, and getsockopt, by which many programs learn how an attempt ended.
 */
#define _GNU_SOURCE
#include "preload/real.h"
#include "preload/told.h"

static APART ssize_t guarded_recv(descriptor entry, int fd, void *buffer, size_t count, int flags)
{
    ssize_t got = LIMITED(entry, fd, flags, real.recv(fd, buffer, count, flags));
    return told_received_bytes(entry, fd, got, buffer, count, flags);
}

ssize_t wrap_recv(int fd, void *buffer, size_t count, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recv(entry, fd, buffer, count, flags) : real.recv(fd, buffer, count, flags);
}

static APART ssize_t guarded_read(descriptor entry, int fd, void *buffer, size_t count)
{
    ssize_t got = LIMITED(entry, fd, 0, real.read(fd, buffer, count));
    return told_received_bytes(entry, fd, got, buffer, count, 0);
}

ssize_t wrap_read(int fd, void *buffer, size_t count)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_read(entry, fd, buffer, count) : real.read(fd, buffer, count);
}

static APART ssize_t guarded_recvfrom(descriptor entry, int fd, void *buffer, size_t count, int flags,
                                      struct sockaddr *address, socklen_t *length)
{
    ssize_t got = LIMITED(entry, fd, flags, real.recvfrom(fd, buffer, count, flags, address, length));
    return told_received_bytes(entry, fd, got, buffer, count, flags);
}

ssize_t wrap_recvfrom(int fd, void *buffer, size_t count, int flags, struct sockaddr *address, socklen_t *length)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recvfrom(entry, fd, buffer, count, flags, address, length)
                              : real.recvfrom(fd, buffer, count, flags, address, length);
}

/* The fortified forms: what a program calls that was built with _FORTIFY_SOURCE. The check itself stays libc's. */
static APART ssize_t guarded_recv_chk(descriptor entry, int fd, void *buffer, size_t count, size_t size, int flags)
{
    ssize_t got = LIMITED(entry, fd, flags, real.__recv_chk(fd, buffer, count, size, flags));
    return told_received_bytes(entry, fd, got, buffer, count, flags);
}

ssize_t wrap___recv_chk(int fd, void *buffer, size_t count, size_t size, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recv_chk(entry, fd, buffer, count, size, flags)
                              : real.__recv_chk(fd, buffer, count, size, flags);
}

static APART ssize_t guarded_read_chk(descriptor entry, int fd, void *buffer, size_t count, size_t size)
{
    ssize_t got = LIMITED(entry, fd, 0, real.__read_chk(fd, buffer, count, size));
    return told_received_bytes(entry, fd, got, buffer, count, 0);
}

ssize_t wrap___read_chk(int fd, void *buffer, size_t count, size_t size)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_read_chk(entry, fd, buffer, count, size)
                              : real.__read_chk(fd, buffer, count, size);
}

static APART ssize_t guarded_recvfrom_chk(descriptor entry, int fd, void *buffer, size_t count, size_t size, int flags,
                                          struct sockaddr *address, socklen_t *length)
{
    ssize_t got = LIMITED(entry, fd, flags, real.__recvfrom_chk(fd, buffer, count, size, flags, address, length));
    return told_received_bytes(entry, fd, got, buffer, count, flags);
}

ssize_t wrap___recvfrom_chk(int fd, void *buffer, size_t count, size_t size, int flags, struct sockaddr *address,
                            socklen_t *length)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recvfrom_chk(entry, fd, buffer, count, size, flags, address, length)
                              : real.__recvfrom_chk(fd, buffer, count, size, flags, address, length);
}

static APART ssize_t guarded_readv(descriptor entry, int fd, const struct iovec *vector, int count)
{
    ssize_t got = LIMITED(entry, fd, 0, real.readv(fd, vector, count));
    return told_received_vector(entry, fd, got, vector, (size_t)count, 0);
}

ssize_t wrap_readv(int fd, const struct iovec *vector, int count)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_readv(entry, fd, vector, count) : real.readv(fd, vector, count);
}

static APART ssize_t guarded_recvmsg(descriptor entry, int fd, struct msghdr *message, int flags)
{
    ssize_t got = LIMITED(entry, fd, flags, real.recvmsg(fd, message, flags));
    if (got < 0)
        return told_received(entry, fd, got, &(struct received){NULL, 0, 1, flags}); /* `message` may not be readable */
    return told_received_vector(entry, fd, got, message->msg_iov, message->msg_iovlen, flags);
}

ssize_t wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recvmsg(entry, fd, message, flags) : real.recvmsg(fd, message, flags);
}

/* Told as one receive: of the first message, which has the first byte. */
static APART int guarded_recvmmsg(descriptor entry, int fd, struct mmsghdr *messages, unsigned int count, int flags,
                                  struct timespec *timeout)
{
    int got = real.recvmmsg(fd, messages, count, flags, timeout);
    if (got > 0)
        told_received_vector(entry, fd, (ssize_t)messages[0].msg_len, messages[0].msg_hdr.msg_iov,
                             messages[0].msg_hdr.msg_iovlen, flags);
    else if (got < 0)
        told_received(entry, fd, got, &(struct received){NULL, 0, 1, flags});
    return got;
}

int wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recvmmsg(entry, fd, messages, count, flags, timeout)
                              : real.recvmmsg(fd, messages, count, flags, timeout);
}

static APART int guarded_getsockopt(descriptor entry, int fd, int level, int option, void *value, socklen_t *length)
{
    int result = real.getsockopt(fd, level, option, value, length);
    if (result == 0 && level == SOL_SOCKET && option == SO_ERROR)
        told_error_option(entry, fd, value, length);
    return result;
}

int wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_getsockopt(entry, fd, level, option, value, length)
                              : real.getsockopt(fd, level, option, value, length);
}
