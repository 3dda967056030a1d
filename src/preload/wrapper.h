/*
 * wrapper.h - the shape of a wrapper: look the descriptor up, make the real call with nothing held, tell what came of
 * it, leave errno as the real call left it.
 *
 * For the wrap_*.c files only. The way of an untracked descriptor is GUARDED's load and branch.
 */
#ifndef SOCKFUSE_PRELOAD_WRAPPER_H
#define SOCKFUSE_PRELOAD_WRAPPER_H

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/hot.h"
#include "connection/connection.h"
#include "connection/engine.h"
#include "connection/short_exchange.h"
#include "connection/socket_swap.h"
#include "connection/upload.h"

/* The real call's own code is apart from what few descriptors need. */
#define COLD __attribute__((noinline, cold))

/*
 * The way of a guarded descriptor: apart from the untracked one's, which then needs no room on the stack, and in one
 * place with the rest of what each call on such a descriptor runs through.
 */
#define APART __attribute__((noinline, hot))

/* Whether the descriptor stands for a guarded connection; its entry is needed after the real call. */
#define GUARDED(fd, entry) UNLIKELY(descriptor_connection(entry = descriptor_get(fd)))

/* As connection_sending and connection_takes, with errno as the program shall see it. */
int wrapper_sending(descriptor entry, int fd, size_t bytes);
bool wrapper_taken(descriptor entry, int fd, const struct iovec *vector, size_t count, ssize_t *taken);
/*
 * After a send that began a call, if it took fewer bytes than one, or more than are sure not to have waited for the
 * peer, or may have been a part of a request. errno is kept.
 */
void wrapper_begun(descriptor entry, int fd, ssize_t result, const struct iovec *first, size_t count);
/*
 * Whether what a call began with needs no more words: few bytes, and no request of which more is to come. Of a vector
 * of several parts only the first one is looked at.
 */
static inline bool wrapper_is_plain(ssize_t result, const struct iovec *first, size_t count)
{
    if (UNLIKELY((size_t)result - 1 >= UPLOAD_LARGE))
        return false;
    if (!first || count == 0 || first->iov_len == 0)
        return true;
    size_t length = (size_t)result < first->iov_len ? (size_t)result : first->iov_len;
    const char *byte = first->iov_base;
    return *byte < 'A' || *byte > 'Z' || (count == 1 && http_request_is_plain(byte, length));
}

/*
 * A send, with the real call as an expression. It may be refused, or taken from the program (in rehearsal): then it is
 * not made, there is no SIGPIPE, and the value is what the program shall see, with errno. `size`: how much is to be
 * sent, for a send of nothing is no request; UNKNOWN: the caller's memory says it. `vector`, `count`: where the bytes
 * are; NULL: not in the program's memory; an expression that is evaluated in rehearsal alone. `first`: where the first
 * bytes are, or NULL, in so many `parts`; evaluated after the call, for the kernel is the first to read the caller's
 * memory.
 */
#define UNKNOWN ((size_t)-1)
#define SEND(type, entry, fd, size, vector, count, first, parts, call)                                                 \
    ({                                                                                                                 \
        const size_t send_size = (size), send_bytes = send_size == UNKNOWN ? 1 : send_size;                            \
        int send_verdict = UNLIKELY(send_bytes == 0) ? 0                                                               \
                           : LIKELY(send_bytes < UPLOAD_LARGE && short_exchange_begins(entry))                         \
                               ? SENDING_BEGINS                                                                        \
                               : wrapper_sending(entry, fd, send_bytes);                                               \
        ssize_t send_taken = -1;                                                                                       \
        type send_result;                                                                                              \
        if (UNLIKELY(send_verdict > 0) ||                                                                              \
            (UNLIKELY(send_verdict == SENDING_FAULTY) && wrapper_taken(entry, fd, vector, count, &send_taken))) {      \
            send_result = (type)send_taken;                                                                            \
        } else {                                                                                                       \
            send_result = (call);                                                                                      \
            const struct iovec *send_first = send_result > 0 ? (first) : NULL;                                         \
            if (UNLIKELY(send_verdict != SENDING_BEGINS))                                                              \
                wrapper_sent(entry, fd, send_result, send_first, send_first ? (parts) : 0);                            \
            else if (UNLIKELY(!wrapper_is_plain((ssize_t)send_result, send_first, send_first ? (parts) : 0)))          \
                wrapper_begun(entry, fd, send_result, send_first, send_first ? (parts) : 0);                           \
        }                                                                                                              \
        send_result;                                                                                                   \
    })

/* `first`: where the first bytes are that were to be sent, or NULL. */
static inline ssize_t wrapper_sent(descriptor entry, int fd, ssize_t result, const struct iovec *first, size_t count)
{
    if (result > 0 && first && short_exchange_spoke(entry, fd, first, count, (size_t)result))
        return result;
    int error = errno;
    connection_sent(entry, fd, result, result < 0 ? error : 0, first, count);
    errno = error;
    return result;
}

/* The bytes of a send as a vector of one. */
#define BYTES(buffer, count) (&(struct iovec){(void *)(uintptr_t)(buffer), count})
#define SEND_BYTES(entry, fd, buffer, count, call)                                                                     \
    SEND(ssize_t, entry, fd, count, BYTES(buffer, count), 1, BYTES(buffer, count), 1, call)

/* A send that was to connect, on a socket that was diverted and is connected: what a further send is told there. */
static inline ssize_t send_diverted(int fd, const struct iovec *vector, size_t count)
{
    descriptor entry = descriptor_get(fd);
    return SEND(ssize_t, entry, fd, count, vector, count, NULL, 0, 0);
}

static inline ssize_t wrapper_received(descriptor entry, int fd, ssize_t result, const struct received *received)
{
    int error = errno;
    connection_received(entry, fd, result, result < 0 ? error : 0, received);
    errno = error;
    return result;
}

static inline ssize_t wrapper_received_bytes(descriptor entry, int fd, ssize_t result, void *bytes, size_t count,
                                             int flags)
{
    if (LIKELY(result > 0 && short_exchange_answers(entry, bytes, (size_t)result, flags)))
        return result;
    struct iovec vector = {bytes, count};
    return wrapper_received(entry, fd, result, &(struct received){&vector, 1, count, flags});
}

/* With CLOSE_RANGE_CLOEXEC nothing is closed now, nor with flags that the kernel does not know. */
static inline bool range_closes(unsigned int first, unsigned int last, unsigned int flags)
{
    return first <= last && !(flags & ~CLOSE_RANGE_UNSHARE);
}

/* The kernel refuses other flags, and closes nothing. */
static inline bool dup3_overwrites(int flags)
{
    return !(flags & ~O_CLOEXEC);
}

static inline bool fcntl_duplicates(int command)
{
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC;
}

/* Before dup2 and dup3, which close what `to` was, but only if they succeed: told once `fd` is known to be open. */
void wrapper_overwriting(int fd, int to);
/* After whatever duplicates, with its result, which is returned: `to` is another number for what `fd` is. */
int wrapper_duplicated(int fd, int to);
/* What exit was called with, where its handlers are not told (base/libc.h); 0: it was not called. */
int wrapper_exit_status(void);
/* Before an exec, see connection_executing. errno is kept. */
void wrapper_executing(bool by_child);
/* After getsockopt(SO_ERROR) on a guarded connection. */
void wrapper_error_option(descriptor entry, int fd, const void *value, const socklen_t *length);

/* Bytes that a vector asks for. Only once the kernel has accepted the vector:
 * before, the memory may not be readable. */
static inline size_t vector_bytes(const struct iovec *vector, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += vector[i].iov_len;
    return bytes;
}

/* As connection_limits_wait and connection_waits_on, with the call's errno as the program shall see it. */
bool wrapper_limits(descriptor entry, int fd, int flags, struct limit *limit);
bool wrapper_waits_on(descriptor entry, int fd, struct limit *limit, ssize_t result);

/*
 * A receive with the real call as an expression, its wait limited if the target says so; `at_once` is the same without
 * waiting. `result` is then told by one of wrapper_received_….
 */
#define LIMITED(entry, fd, flags, call, at_once)                                                                       \
    ({                                                                                                                 \
        struct limit wait_limit;                                                                                       \
        bool wait_limited = UNLIKELY(engine_tends_waits()) && wrapper_limits(entry, fd, flags, &wait_limit);           \
        ssize_t wait_result;                                                                                           \
        do                                                                                                             \
            wait_result = !wait_limited || wait_limit.way == LIMIT_BARE ? (call)                                       \
                          : wait_limit.way == LIMIT_AT_ONCE             ? (at_once)                                    \
                                                                        : -1;                                                      \
        while (UNLIKELY(wait_limited) && wrapper_waits_on(entry, fd, &wait_limit, wait_result));                       \
        wait_result;                                                                                                   \
    })

/* A vector is looked at only if the kernel has accepted it: else there is nothing to look at anyway. */
static inline ssize_t wrapper_received_vector(descriptor entry, int fd, ssize_t result, const struct iovec *vector,
                                              size_t count, int flags)
{
    if (LIKELY(result > 0 && count > 0)) {
        size_t first = (size_t)result < vector->iov_len ? (size_t)result : vector->iov_len;
        if (LIKELY(short_exchange_answers(entry, vector->iov_base, first, flags)))
            return result;
    }
    struct received received = {vector, count, result == 0 ? vector_bytes(vector, count) : 1, flags};
    return wrapper_received(entry, fd, result, &received);
}

/*
 * connect, or a send that connects (`sends`: its flags, or 0), with the real call as an expression. Refused: errno is
 * set and the value is -1. `connected`: the value when it was diverted, by connect, and is connected.
 */
#define ATTEMPT(type, fd, address, length, sends, connected, call)                                                     \
    ({                                                                                                                 \
        struct attempt_ticket attempt_ticket;                                                                          \
        attempt_ticket.retry = 0;                                                                                      \
        ATTEMPT_BY(attempt_ticket, connection_begin(fd, address, length, sends, &attempt_ticket), type, address,       \
                   length, sends, connected, call);                                                                    \
    })
/* The same with a ticket of the caller's, which is filled by `begins`. */
#define ATTEMPT_BY(ticket, begins, type, address, length, sends, connected, call)                                      \
    ({                                                                                                                 \
        type attempt_result = -1;                                                                                      \
        int attempt_errno = errno, attempt_diverted = 0;                                                               \
        enum passage attempt_passage = (begins);                                                                       \
        errno = attempt_errno;                                                                                         \
        if (attempt_passage == PASSAGE_REFUSED) {                                                                      \
            errno = (ticket).error;                                                                                    \
        } else {                                                                                                       \
            SWAP_BEGIN((ticket).entry, &(ticket).outer);                                                               \
            if (UNLIKELY(attempt_passage == PASSAGE_DIVERTED) &&                                                       \
                connection_divert(&(ticket), address, length, sends, &attempt_diverted))                               \
                attempt_result = attempt_diverted < 0 ? -1 : (type)(connected);                                        \
            else                                                                                                       \
                attempt_result = (call);                                                                               \
            SWAP_END(&(ticket).outer);                                                                                 \
            if (attempt_passage != PASSAGE_FREE) {                                                                     \
                attempt_errno = errno;                                                                                 \
                connection_returned(&(ticket), attempt_result < 0 ? -1 : 0, attempt_errno);                            \
                errno = attempt_errno;                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        attempt_result;                                                                                                \
    })

/* A message went out: it may have passed descriptors on. Looked at only then, for the kernel has read it. */
static inline void wrapper_passed(const struct msghdr *message, ssize_t sent)
{
    if (UNLIKELY(sent >= 0 && message->msg_controllen > 0) && engine_ready()) {
        int error = errno;
        connection_passed(message);
        errno = error;
    }
}

/* The same of the first `sent` of several messages. */
static inline void wrapper_all_passed(const struct mmsghdr *messages, long sent)
{
    for (long i = 0; i < sent; i++)
        wrapper_passed(&messages[i].msg_hdr, 0);
}

#endif
