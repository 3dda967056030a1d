/*
 * wrap_send.c - everything that sends: requests, and the sends of TCP Fast Open, which connect.
 */
#define _GNU_SOURCE
#include "base/hot.h"
#include "connection/engine.h"
#include "connection/memory.h"
#include "preload/real.h"
#include "preload/wrapper.h"

static APART ssize_t guarded_send(descriptor entry, int fd, const void *buffer, size_t count, int flags)
{
    return SEND_BYTES(entry, fd, buffer, count, real.send(fd, buffer, count, flags));
}

HOT ssize_t wrap_send(int fd, const void *buffer, size_t count, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_send(entry, fd, buffer, count, flags) : real.send(fd, buffer, count, flags);
}

static APART ssize_t guarded_write(descriptor entry, int fd, const void *buffer, size_t count)
{
    return SEND_BYTES(entry, fd, buffer, count, real.write(fd, buffer, count));
}

HOT ssize_t wrap_write(int fd, const void *buffer, size_t count)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_write(entry, fd, buffer, count) : real.write(fd, buffer, count);
}

static APART ssize_t guarded_writev(descriptor entry, int fd, const struct iovec *vector, int count)
{
    size_t parts = count > 0 ? (size_t)count : 0;
    return SEND(ssize_t, entry, fd, parts, vector, parts, parts > 0 ? vector : NULL, parts,
                real.writev(fd, vector, count));
}

ssize_t wrap_writev(int fd, const struct iovec *vector, int count)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_writev(entry, fd, vector, count) : real.writev(fd, vector, count);
}

/* MSG_FASTOPEN: the send is the attempt, and if it took bytes it is the request too. */
static COLD ssize_t sendto_fast(int fd, const void *buffer, size_t count, int flags, const struct sockaddr *address,
                                socklen_t length)
{
    const struct iovec *bytes = BYTES(buffer, count);
    ssize_t sent = ATTEMPT(ssize_t, fd, address, length, flags, send_diverted(fd, bytes, 1),
                           real.sendto(fd, buffer, count, flags, address, length));
    return wrapper_sent(descriptor_get(fd), fd, sent, sent > 0 ? bytes : NULL, 1);
}

static APART ssize_t guarded_sendto(descriptor entry, int fd, const void *buffer, size_t count, int flags,
                                    const struct sockaddr *address, socklen_t length)
{
    return SEND_BYTES(entry, fd, buffer, count, real.sendto(fd, buffer, count, flags, address, length));
}

ssize_t wrap_sendto(int fd, const void *buffer, size_t count, int flags, const struct sockaddr *address,
                    socklen_t length)
{
    descriptor entry;
    if (UNLIKELY((flags & MSG_FASTOPEN) && address))
        return sendto_fast(fd, buffer, count, flags, address, length);
    return GUARDED(fd, entry) ? guarded_sendto(entry, fd, buffer, count, flags, address, length)
                              : real.sendto(fd, buffer, count, flags, address, length);
}

static ssize_t passing_on(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent = real.sendmsg(fd, message, flags);
    wrapper_passed(message, sent);
    return sent;
}

static COLD ssize_t sendmsg_fast(int fd, const struct msghdr *message, int flags, const struct message_address *address)
{
    ssize_t sent = ATTEMPT(ssize_t, fd, address->at, address->length, flags,
                           send_diverted(fd, message->msg_iov, message->msg_iovlen), passing_on(fd, message, flags));
    return wrapper_sent(descriptor_get(fd), fd, sent, sent > 0 ? message->msg_iov : NULL,
                        sent > 0 ? message->msg_iovlen : 0);
}

static APART ssize_t guarded_sendmsg(descriptor entry, int fd, const struct msghdr *message, int flags)
{
    return SEND(ssize_t, entry, fd, UNKNOWN, memory_message_vector(message), memory_message_count(message),
                send_result > 0 ? message->msg_iov : NULL, send_result > 0 ? message->msg_iovlen : 0,
                passing_on(fd, message, flags));
}

ssize_t wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct message_address address;
    descriptor entry;
    if (UNLIKELY(flags & MSG_FASTOPEN) && engine_ready() && memory_message_connects(message, flags, &address))
        return sendmsg_fast(fd, message, flags, &address);
    return GUARDED(fd, entry) ? guarded_sendmsg(entry, fd, message, flags) : passing_on(fd, message, flags);
}

/* The first message that had bytes. The vectors of others the kernel has not read, and they may not be readable. */
static const struct mmsghdr *first_sent(const struct mmsghdr *messages, int count)
{
    for (int i = 0; i < count; i++)
        if (messages[i].msg_len > 0)
            return &messages[i];
    return NULL;
}

static int passing_all_on(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    int sent = real.sendmmsg(fd, messages, count, flags);
    wrapper_all_passed(messages, sent);
    return sent;
}

/* Bytes of all messages that went out. */
static ssize_t all_sent(const struct mmsghdr *messages, int count)
{
    size_t sent = 0;
    for (int i = 0; i < count; i++)
        sent += messages[i].msg_len;
    return (ssize_t)sent;
}

/* Told as one send, which begins with that message. */
static APART int guarded_sendmmsg(descriptor entry, int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    const struct mmsghdr *first = NULL;
    int made = 0; /* as the kernel says it */
    ssize_t sent = SEND(ssize_t, entry, fd, count, memory_message_vector(&messages->msg_hdr),
                        memory_message_count(&messages->msg_hdr), first ? first->msg_hdr.msg_iov : NULL,
                        first ? first->msg_hdr.msg_iovlen : 0,
                        (made = passing_all_on(fd, messages, count, flags), first = first_sent(messages, made),
                         first      ? all_sent(messages, made)
                         : made < 0 ? -1
                                    : 0));
    if (made != 0 || sent <= 0)
        return made != 0 ? made : (int)sent;
    messages->msg_len = (unsigned int)sent; /* of the first message, which was taken */
    return 1;
}

int wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    descriptor entry;
    return GUARDED(fd, entry) ? guarded_sendmmsg(entry, fd, messages, count, flags)
                              : passing_all_on(fd, messages, count, flags);
}

static APART ssize_t guarded_sendfile(descriptor entry, int out, int in, off_t *offset, size_t count)
{
    return SEND(ssize_t, entry, out, count, NULL, 0, NULL, 0, real.sendfile(out, in, offset, count));
}

ssize_t wrap_sendfile(int out, int in, off_t *offset, size_t count)
{
    descriptor entry;
    return GUARDED(out, entry) ? guarded_sendfile(entry, out, in, offset, count)
                               : real.sendfile(out, in, offset, count);
}

static APART ssize_t guarded_sendfile64(descriptor entry, int out, int in, off64_t *offset, size_t count)
{
    return SEND(ssize_t, entry, out, count, NULL, 0, NULL, 0, real.sendfile64(out, in, offset, count));
}

ssize_t wrap_sendfile64(int out, int in, off64_t *offset, size_t count)
{
    descriptor entry;
    return GUARDED(out, entry) ? guarded_sendfile64(entry, out, in, offset, count)
                               : real.sendfile64(out, in, offset, count);
}

/* One end is a pipe, the other may be guarded in either direction. It answers EAGAIN for the pipe's sake too, hence
 * MSG_DONTWAIT. */
static APART ssize_t guarded_splice(descriptor entry, bool sends, int in, off64_t *in_offset, int out,
                                    off64_t *out_offset, size_t count, unsigned int flags)
{
    if (sends)
        return SEND(ssize_t, entry, out, count, NULL, 0, NULL, 0,
                    real.splice(in, in_offset, out, out_offset, count, flags));
    ssize_t moved = real.splice(in, in_offset, out, out_offset, count, flags);
    return wrapper_received(entry, in, moved, &(struct received){NULL, 0, count, MSG_DONTWAIT});
}

ssize_t wrap_splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t count, unsigned int flags)
{
    descriptor entry;
    bool sends = GUARDED(out, entry);
    return sends || GUARDED(in, entry) ? guarded_splice(entry, sends, in, in_offset, out, out_offset, count, flags)
                                       : real.splice(in, in_offset, out, out_offset, count, flags);
}
