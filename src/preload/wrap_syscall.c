/*
 * wrap_syscall.c - syscall(2): node and everything on libuv close their sockets with it.
 *
 * Every number passes, with six arguments. Those that concern descriptors are told as their wrappers would tell them,
 * around the same real system call (not libc's function, which would be a cancellation point). All others must end in a
 * jump, for fork-like numbers return twice.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>

#include "connection/engine.h"
#include "connection/lineage.h"
#include "connection/memory.h"
#include "preload/real.h"
#include "preload/wrapper.h"

/* What a number is about. */
enum kind {
    KIND_OTHER,
    KIND_ATTEMPT,
    KIND_SEND,
    KIND_SPLICE,
    KIND_RECEIVE,
    KIND_OPTION,
    KIND_DUPLICATE,
    KIND_END,
    KIND_CHILD,
    KIND_EXEC
};

struct call {
    long number, a, b, c, d, e, f;
};

/* i386 has both a multiplexer and, since Linux 4.3, the direct numbers; we know the latter. */
static inline enum kind kind_of(long number)
{
    switch (number) {
    case SYS_socket:
    case SYS_connect:
        return KIND_ATTEMPT;
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_write:
    case SYS_writev:
    case SYS_sendfile:
        return KIND_SEND;
    case SYS_splice:
        return KIND_SPLICE;
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_read:
    case SYS_readv:
        return KIND_RECEIVE;
    case SYS_getsockopt:
        return KIND_OPTION;
    case SYS_dup:
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup3:
    case SYS_fcntl:
        return KIND_DUPLICATE;
    case SYS_close:
#ifdef SYS_close_range
    case SYS_close_range:
#endif
    case SYS_shutdown:
    case SYS_exit_group:
        return KIND_END;
#ifdef SYS_fork
    case SYS_fork:
    case SYS_vfork:
#endif
#ifdef SYS_clone3
    case SYS_clone3:
#endif
    case SYS_clone:
        return KIND_CHILD;
    case SYS_execve:
    case SYS_execveat:
        return KIND_EXEC;
    default:
        return KIND_OTHER;
    }
}

static long make(const struct call *call)
{
    return real.syscall(call->number, call->a, call->b, call->c, call->d, call->e, call->f);
}

static long attempt(const struct call *call)
{
    if (call->number == SYS_connect)
        return ATTEMPT(long, (int)call->a, (const struct sockaddr *)call->b, (socklen_t)call->c, 0, 0, make(call));
    long result = make(call);
    int error = errno;
    if (result >= 0)
        connection_created((int)result, (int)call->a, (int)call->b, (int)call->c);
    errno = error;
    return result;
}

/* A send with MSG_FASTOPEN, which connects. */
static long attempt_by_send(const struct call *call, const struct sockaddr *address, socklen_t length, int flags,
                            const struct iovec *vector, size_t count)
{
    int fd = (int)call->a;
    long result = ATTEMPT(long, fd, address, length, flags, send_diverted(fd, vector, count), make(call));
    if (call->number == SYS_sendmsg)
        wrapper_passed((const struct msghdr *)call->b, result);
    return wrapper_sent(descriptor_get(fd), fd, result, result > 0 ? vector : NULL, count);
}

/* `size` is what is to be sent, or UNKNOWN; `vector` where the bytes are, or NULL. */
static long send_vector(const struct call *call, size_t size, const struct iovec *vector, size_t count)
{
    int fd = (int)call->a;
    descriptor entry = descriptor_get(fd);
    return SEND(long, entry, fd, size, vector, count, count > 0 ? vector : NULL, count, make(call));
}

static long pass_on(const struct call *call, const struct msghdr *message)
{
    long sent = make(call);
    wrapper_passed(message, sent);
    return sent;
}

static long pass_all_on(const struct call *call)
{
    long sent = make(call);
    wrapper_all_passed((const struct mmsghdr *)call->b, sent);
    return sent;
}

static long send_messages(const struct call *call)
{
    int fd = (int)call->a;
    descriptor entry = descriptor_get(fd);
    struct mmsghdr *messages = (struct mmsghdr *)call->b;
    long made = 0; /* as the kernel says it */
    long sent = SEND(long, entry, fd, (size_t)call->c, memory_message_vector(&messages->msg_hdr),
                     memory_message_count(&messages->msg_hdr), NULL, 0, made = pass_all_on(call));
    if (made != 0 || sent <= 0)
        return made != 0 ? made : sent;
    messages->msg_len = (unsigned int)sent; /* of the first message, which was taken */
    return 1;
}

static long send_message(const struct call *call)
{
    int fd = (int)call->a;
    descriptor entry = descriptor_get(fd);
    const struct msghdr *message = (const struct msghdr *)call->b;
    struct message_address address;
    if (memory_message_connects(message, (int)call->c, &address))
        return attempt_by_send(call, address.at, address.length, (int)call->c, message->msg_iov, message->msg_iovlen);
    return SEND(long, entry, fd, UNKNOWN, memory_message_vector(message), memory_message_count(message), NULL, 0,
                pass_on(call, message));
}

static long send_kind(const struct call *call)
{
    struct iovec bytes = {(void *)call->b, (size_t)call->c}; /* of sendto and write */
    switch (call->number) {
    case SYS_sendto:
        if ((call->d & MSG_FASTOPEN) && call->e)
            return attempt_by_send(call, (const struct sockaddr *)call->e, (socklen_t)call->f, (int)call->d, &bytes, 1);
        return send_vector(call, bytes.iov_len, &bytes, 1);
    case SYS_write:
        return send_vector(call, bytes.iov_len, &bytes, 1);
    case SYS_writev:
        return send_vector(call, (size_t)call->c, (const struct iovec *)call->b, (size_t)call->c);
    case SYS_sendmsg:
        return send_message(call);
    case SYS_sendfile:
        return send_vector(call, (size_t)call->d, NULL, 0);
    default: /* sendmmsg */
        return send_messages(call);
    }
}

static long splice_both(const struct call *call)
{
    int in = (int)call->a, out = (int)call->c;
    descriptor from = descriptor_get(in), to = descriptor_get(out);
    if (descriptor_connection(to)) /* then the other one is a pipe */
        return SEND(long, to, out, (size_t)call->e, NULL, 0, NULL, 0, make(call));
    long result = make(call);
    return wrapper_received(from, in, result, &(struct received){NULL, 0, (size_t)call->e, MSG_DONTWAIT});
}

/* Of recvmmsg, the first message is told, which has the first byte. */
static long receive_messages(const struct call *call, descriptor entry)
{
    int fd = (int)call->a;
    long result = make(call);
    const struct mmsghdr *first = (const struct mmsghdr *)call->b;
    if (result < 0)
        wrapper_received(entry, fd, result, &(struct received){NULL, 0, 1, (int)call->d});
    else if (result > 0)
        wrapper_received_vector(entry, fd, (ssize_t)first->msg_len, first->msg_hdr.msg_iov, first->msg_hdr.msg_iovlen,
                                (int)call->d);
    return result;
}

static long receive(const struct call *call)
{
    int fd = (int)call->a;
    descriptor entry = descriptor_get(fd);
    if (call->number == SYS_recvmmsg)
        return receive_messages(call, entry);
    long result = make(call);
    const struct msghdr *message = (const struct msghdr *)call->b; /* of recvmsg: readable if the kernel took it */
    switch (call->number) {
    case SYS_recvfrom:
        return wrapper_received_bytes(entry, fd, result, (void *)call->b, (size_t)call->c, (int)call->d);
    case SYS_readv:
        return wrapper_received_vector(entry, fd, result, (const struct iovec *)call->b, (size_t)call->c, 0);
    case SYS_recvmsg:
        if (result < 0)
            return wrapper_received(entry, fd, result, &(struct received){NULL, 0, 1, (int)call->c});
        return wrapper_received_vector(entry, fd, result, message->msg_iov, message->msg_iovlen, (int)call->c);
    default:
        return wrapper_received_bytes(entry, fd, result, (void *)call->b, (size_t)call->c, 0);
    }
}

static long read_option(const struct call *call)
{
    descriptor entry = descriptor_get((int)call->a);
    long result = make(call);
    if (result == 0 && call->b == SOL_SOCKET && call->c == SO_ERROR && descriptor_connection(entry))
        wrapper_error_option(entry, (int)call->a, (const void *)call->d, (const socklen_t *)call->e);
    return result;
}

static long duplicate(const struct call *call)
{
    int fd = (int)call->a;
    switch (call->number) {
    case SYS_dup:
        break;
    case SYS_fcntl:
        if (!fcntl_duplicates((int)call->b))
            return make(call);
        break;
    default:
        if (call->number != SYS_dup3 || dup3_overwrites((int)call->c))
            wrapper_overwriting(fd, (int)call->b);
    }
    return wrapper_duplicated(fd, (int)make(call));
}

static long end(const struct call *call)
{
    int error = errno;
    switch (call->number) {
    case SYS_close:
        connection_closing((int)call->a);
        break;
    case SYS_shutdown:
        connection_shutting((int)call->a, (int)call->b);
        break;
    case SYS_exit_group:
        connection_exit((int)call->a);
        break;
    default: /* close_range */
        if (range_closes((unsigned int)call->a, (unsigned int)call->b, (unsigned int)call->c))
            connection_closing_range((unsigned int)call->a, (unsigned int)call->b);
    }
    errno = error;
    return make(call);
}

static COLD long guarded_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    static long (*const by_kind[])(const struct call *call) = {
        [KIND_OTHER] = make,          [KIND_ATTEMPT] = attempt, [KIND_SEND] = send_kind,
        [KIND_SPLICE] = splice_both,  [KIND_RECEIVE] = receive, [KIND_OPTION] = read_option,
        [KIND_DUPLICATE] = duplicate, [KIND_END] = end,         [KIND_CHILD] = make,
        [KIND_EXEC] = make,
    };
    const struct call call = {number, a, b, c, d, e, f};
    return by_kind[kind_of(number)](&call);
}

/* A child may be going to run in this memory. */
static COLD void lend_by_number(long number, long first)
{
    uint64_t flags = 0;
    switch (number) {
#ifdef SYS_vfork
    case SYS_vfork:
        lineage_lend_to_vfork();
        return;
#endif
    case SYS_clone: /* they come first, but on s390 */
        flags = (uint64_t)(unsigned long)first;
        break;
#ifdef SYS_clone3
    case SYS_clone3: /* they are the first field of what it points to */
        if (memory_is_readable((const void *)first, sizeof flags))
            memcpy(&flags, (const void *)first, sizeof flags);
        break;
#endif
    default: /* fork */
        break;
    }
    lineage_lend(flags);
}

JUMPS long wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (engine_ready() && UNLIKELY(kind_of(number) != KIND_OTHER)) {
        if (kind_of(number) == KIND_CHILD)
            lend_by_number(number, a);
        else if (kind_of(number) == KIND_EXEC)
            wrapper_executing(false);
        else
            return guarded_syscall(number, a, b, c, d, e, f);
    }
    JUMP real.syscall(number, a, b, c, d, e, f);
}
