/*
 * wrap_receive.c - everything that receives, and getsockopt, by which many programs learn how an attempt ended.
 */
#define _GNU_SOURCE
#include <limits.h>

#include "base/hot.h"
#include "preload/real.h"
#include "preload/wrapper.h"

/*
 * A receive that asks for nothing is left as it is: the kernel ends it when anything at all happens (a signal, urgent
 * data), which can't be told from outside.
 */
#define LIMITABLE(count, flags) ((count) > 0 ? (flags) : MSG_DONTWAIT)

static APART ssize_t guarded_recv(descriptor entry, int fd, void *buffer, size_t count, int flags)
{
    ssize_t got = LIMITED(entry, fd, LIMITABLE(count, flags), real.recv(fd, buffer, count, flags),
                          real.recv(fd, buffer, count, flags | MSG_DONTWAIT));
    return wrapper_received_bytes(entry, fd, got, buffer, count, flags);
}

HOT ssize_t wrap_recv(int fd, void *buffer, size_t count, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recv(entry, fd, buffer, count, flags) : real.recv(fd, buffer, count, flags);
}

/* As read would, but for its waiting; it refuses what is too much for it, and recv does not. */
static COLD ssize_t read_at_once(int fd, void *buffer, size_t count)
{
    return count > SSIZE_MAX ? real.read(fd, buffer, count) : real.recv(fd, buffer, count, MSG_DONTWAIT);
}

static APART ssize_t guarded_read(descriptor entry, int fd, void *buffer, size_t count)
{
    ssize_t got =
        LIMITED(entry, fd, LIMITABLE(count, 0), real.read(fd, buffer, count), read_at_once(fd, buffer, count));
    return wrapper_received_bytes(entry, fd, got, buffer, count, 0);
}

HOT ssize_t wrap_read(int fd, void *buffer, size_t count)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_read(entry, fd, buffer, count) : real.read(fd, buffer, count);
}

static APART ssize_t guarded_recvfrom(descriptor entry, int fd, void *buffer, size_t count, int flags,
                                      struct sockaddr *address, socklen_t *length)
{
    ssize_t got = LIMITED(entry, fd, LIMITABLE(count, flags), real.recvfrom(fd, buffer, count, flags, address, length),
                          real.recvfrom(fd, buffer, count, flags | MSG_DONTWAIT, address, length));
    return wrapper_received_bytes(entry, fd, got, buffer, count, flags);
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
    ssize_t got = LIMITED(entry, fd, LIMITABLE(count, flags), real.__recv_chk(fd, buffer, count, size, flags),
                          real.__recv_chk(fd, buffer, count, size, flags | MSG_DONTWAIT));
    return wrapper_received_bytes(entry, fd, got, buffer, count, flags);
}

ssize_t wrap___recv_chk(int fd, void *buffer, size_t count, size_t size, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recv_chk(entry, fd, buffer, count, size, flags)
                              : real.__recv_chk(fd, buffer, count, size, flags);
}

static APART ssize_t guarded_read_chk(descriptor entry, int fd, void *buffer, size_t count, size_t size)
{
    ssize_t got = LIMITED(entry, fd, LIMITABLE(count, 0), real.__read_chk(fd, buffer, count, size),
                          count <= size ? read_at_once(fd, buffer, count) : real.__read_chk(fd, buffer, count, size));
    return wrapper_received_bytes(entry, fd, got, buffer, count, 0);
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
    ssize_t got = LIMITED(entry, fd, LIMITABLE(count, flags),
                          real.__recvfrom_chk(fd, buffer, count, size, flags, address, length),
                          real.__recvfrom_chk(fd, buffer, count, size, flags | MSG_DONTWAIT, address, length));
    return wrapper_received_bytes(entry, fd, got, buffer, count, flags);
}

ssize_t wrap___recvfrom_chk(int fd, void *buffer, size_t count, size_t size, int flags, struct sockaddr *address,
                            socklen_t *length)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_recvfrom_chk(entry, fd, buffer, count, size, flags, address, length)
                              : real.__recvfrom_chk(fd, buffer, count, size, flags, address, length);
}

/* The same of readv. Only a vector that the kernel has read is looked at: it has when it says EAGAIN. */
static COLD ssize_t readv_at_once(int fd, const struct iovec *vector, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)vector, .msg_iovlen = (size_t)count};
    if (count <= 0 || count > IOV_MAX)
        return real.readv(fd, vector, count);
    ssize_t got = real.recvmsg(fd, &message, MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN && vector_bytes(vector, (size_t)count) == 0 ? real.readv(fd, vector, count) : got;
}

static APART ssize_t guarded_readv(descriptor entry, int fd, const struct iovec *vector, int count)
{
    ssize_t got = LIMITED(entry, fd, 0, real.readv(fd, vector, count), readv_at_once(fd, vector, count));
    return wrapper_received_vector(entry, fd, got, vector, (size_t)count, 0);
}

ssize_t wrap_readv(int fd, const struct iovec *vector, int count)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_readv(entry, fd, vector, count) : real.readv(fd, vector, count);
}

static COLD ssize_t recvmsg_at_once(int fd, struct msghdr *message, int flags)
{
    ssize_t got = real.recvmsg(fd, message, flags | MSG_DONTWAIT);
    bool asks_for_nothing = got < 0 && errno == EAGAIN && vector_bytes(message->msg_iov, message->msg_iovlen) == 0;
    return asks_for_nothing ? real.recvmsg(fd, message, flags) : got;
}

static APART ssize_t guarded_recvmsg(descriptor entry, int fd, struct msghdr *message, int flags)
{
    ssize_t got = LIMITED(entry, fd, flags, real.recvmsg(fd, message, flags), recvmsg_at_once(fd, message, flags));
    if (got < 0)
        return wrapper_received(entry, fd, got,
                                &(struct received){NULL, 0, 1, flags}); /* `message` may not be readable */
    return wrapper_received_vector(entry, fd, got, message->msg_iov, message->msg_iovlen, flags);
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
        wrapper_received_vector(entry, fd, (ssize_t)messages[0].msg_len, messages[0].msg_hdr.msg_iov,
                                messages[0].msg_hdr.msg_iovlen, flags);
    else if (got < 0)
        wrapper_received(entry, fd, got, &(struct received){NULL, 0, 1, flags});
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
        wrapper_error_option(entry, fd, value, length);
    return result;
}

int wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_getsockopt(entry, fd, level, option, value, length)
                              : real.getsockopt(fd, level, option, value, length);
}
