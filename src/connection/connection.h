/*
 * connection.h - the life of a guarded connection in this process, from connect to the end of its call.
 *
 * Wrappers ask and tell: may this attempt go (connection_begin), what did connect return, what was sent, what came, who
 * closes. This room finds the destination, asks the segment for admission, and judges what was seen with the kernel's
 * help (socket_state). It wraps nothing itself. Everything here is async-signal-safe: no lock, no allocation but mmap;
 * errno is kept by the callers.
 */
#ifndef SOCKFUSE_CONNECTION_CONNECTION_H
#define SOCKFUSE_CONNECTION_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "breaker/outcome.h"
#include "connection/descriptors.h"
#include "connection/diversion.h"
#include "connection/limit.h"
#include "connection/socket_swap.h"

/*
 * Whether an attempt goes past us, goes and is watched, or is refused. Diverted ones go elsewhere: with a fault in
 * rehearsal (watched), or to the fallback (not watched); PASSAGE_ELSEWHERE is a further connect on a socket that was.
 */
enum passage { PASSAGE_FREE, PASSAGE_GUARDED, PASSAGE_REFUSED, PASSAGE_DIVERTED, PASSAGE_ELSEWHERE };

struct attempt_ticket {
    uint32_t retry; /* it tries a failed one again: the how manieth time; 0: it does not. Given by the caller */
    int fd;
    descriptor entry;           /* of the descriptor while it stands for this attempt */
    int error;                  /* PASSAGE_REFUSED: the errno of the refusal */
    bool again;                 /* a further connect on a pending socket: it asks how the attempt stands */
    bool after_failure;         /* the socket's former attempt had failed */
    bool fails;                 /* it came to a failure of its target's, by an error that connect returned */
    uint8_t kind;               /* enum failure_kind of that */
    int sends;                  /* the flags of a send that connects; 0: it is connect */
    socklen_t length;           /* of the address, */
    const struct sockaddr *at;  /* as it was given */
    bool unread;                /* again, by the very same: nobody has read it before the kernel */
    bool fallback;              /* it goes, or went, to the fallback: its outcome is nobody's affair */
    uint64_t delay_ns;          /* in rehearsal: it begins that much later, and goes where it would */
    struct swap_attempt outer;  /* what this thread was connecting before, inside another preload */
    struct limit limit;         /* with enforce_timeouts; but for LIMIT_BARE, connection_connect makes the call */
    struct elsewhere elsewhere; /* PASSAGE_DIVERTED without a delay: where it goes. Last, for it is not cleared */
};

/*
 * Before the real connect (or a send with MSG_FASTOPEN). Publishes the attempt, for nothing after the real call is sure
 * to run (wget's siglongjmp). A refusal makes no system call, an admission one (SO_COOKIE), and one more for an address
 * that lies in memory which may go at any time (memory.h); who asks by the same address how a pending attempt stands,
 * none. `sends`: the flags of a send (MSG_FASTOPEN is one of them), which has no fallback; 0: it is connect.
 */
enum passage connection_begin(int fd, const struct sockaddr *address, socklen_t length, int sends,
                              struct attempt_ticket *ticket);
/*
 * PASSAGE_DIVERTED: makes the attempt, by connect; `*result` and errno are what the program shall see. False: it only
 * had to wait (a send with a delay), and is still to be made where the program wants it.
 */
bool connection_divert(struct attempt_ticket *ticket, const struct sockaddr *address, socklen_t length, int sends,
                       int *result);
/* The real connect, whose wait is limited: as that returns, or ETIMEDOUT. */
int connection_connect(struct attempt_ticket *ticket, const struct sockaddr *address, socklen_t length);
/* After it, with its result and errno. */
void connection_returned(struct attempt_ticket *ticket, int result, int error);

/*
 * A connect whose attempt has failed (ticket->fails) may be tried again (`retry`): see next_attempt.c. All zero to begin
 * with.
 */
struct retrying {
    uint64_t until_ns;  /* real clock: when the program's own time-out (SO_SNDTIMEO) is over; UINT64_MAX: it has none */
    uint64_t waited_ns; /* since the last one failed */
    uint32_t made, most;
    int error;    /* of the last one that failed, */
    uint8_t kind; /* and its enum failure_kind */
};
/*
 * Whether it is to be made again; waits before. A cancellation point, as connect is, with nothing held. False: it is
 * over, and errno is `error`, that of the last attempt.
 */
bool connection_retries(const struct attempt_ticket *ticket, struct retrying *retrying, int error);
/* connection_begin for one that is made again, on the ticket of the last: where it may not go, that one's error stands. */
enum passage connection_begin_again(struct attempt_ticket *ticket, const struct sockaddr *address, socklen_t length,
                                    const struct retrying *retrying);

/*
 * Before a send of so many bytes (0: not known) on a guarded connection: if its last call is over, this is the next
 * request, which asks for admission like an attempt. Returns 0, or the errno of a refusal: then nothing may be sent,
 * now or later, and the program reads the end of the stream; SENDING_BEGINS: it was admitted, and connection_sent has
 * nothing to add, but connection_begun if it was not taken at once; SENDING_FAULTY: in rehearsal, connection_takes is
 * to be asked.
 */
#define SENDING_FAULTY (-1)
#define SENDING_BEGINS (-2)
int connection_sending(descriptor entry, int fd, size_t bytes);
/*
 * In rehearsal: whether the send is taken from the program, since its connection leads nowhere. Then `*result` and
 * errno are what it shall see. `vector`: the bytes; NULL: they are not in the program's memory.
 */
bool connection_takes(descriptor entry, int fd, const struct iovec *vector, size_t count, ssize_t *result);
/* In rehearsal: whether the answer has come and the connection is over, so that a shutdown finds nothing more to shut,
 * and is no error. */
bool connection_is_over(descriptor entry);

/*
 * Before a receive, with enforce_timeouts: whether it is to be limited, for it blocks and its call waits for an answer.
 * Then, whenever it would have to wait: waits in its place. True: it is to be made (again), by limit->way; false: errno
 * is what the program shall see.
 */
bool connection_limits_wait(descriptor entry, int fd, int flags, struct limit *limit);
bool connection_waits_on(descriptor entry, int fd, struct limit *limit);

/* What a receive was asked for, and where the bytes are. */
struct received {
    const struct iovec *vector; /* NULL: the bytes are not in the program's memory (splice, MSG_TRUNC) */
    size_t count;               /* of parts of the vector */
    size_t wanted;              /* bytes asked for: a read of none is no end of stream */
    int flags;                  /* MSG_… */
};

/*
 * After a send or receive on a descriptor whose entry named a connection when the call began: `result` and `error` as
 * the real function left them. `first`: the first bytes that were sent (the kernel has read them, so they are
 * readable), or NULL.
 */
void connection_sent(descriptor entry, int fd, ssize_t result, int error, const struct iovec *first, size_t count);
/*
 * After a send that began a call, instead of connection_sent: if it was large, the wait for the answer begins now; if
 * it sent nothing, for a reason of the program's own, there is no such call.
 */
void connection_begun(descriptor entry, int fd, ssize_t result, int error, const struct iovec *first, size_t count);
void connection_received(descriptor entry, int fd, ssize_t result, int error, const struct received *received);
/*
 * Plaintext that went into, or came out of, a TLS session over that connection. `kept`: nothing was sent meanwhile; the
 * program has the record (mod_ssl's buckets) or the library keeps it (gnutls_record_cork), and it is sent later, from
 * outside.
 */
void connection_asked(descriptor entry, int fd, const void *bytes, size_t count, bool kept);
void connection_answered(descriptor entry, int fd, const void *bytes, size_t count);
/*
 * Plaintext is about to go into the session, where HTTP/2 is spoken on some connection: a stream that begins in it may
 * be refused. Then what the library sends is.
 */
void connection_asking(descriptor entry, int fd, const void *bytes, size_t count);
/* After getsockopt(SO_ERROR) gave `pending` (0: nothing). */
void connection_error_read(descriptor entry, int fd, int pending);

/* After a message was sent: descriptors that it passes on (SCM_RIGHTS) may be used by another process from now on. */
void connection_passed(const struct msghdr *message);
/* The same of one descriptor that a child is to have. */
void connection_handed(int fd);
/*
 * Before an exec, of this process or (`by_child`) of one that it is about to make: probes whose connections stay open
 * are settled, for the program that has them then tells nothing. A walk over the known numbers; system calls for such
 * probes alone.
 */
void connection_executing(bool by_child);

/* Before the real shutdown. */
void connection_shutting(int fd, int how);
/* Before the real close of whatever kind: forgets the number and, with its last alias, ends the call. */
void connection_closing(int fd);
/* Before an fclose that has something to write, and must find the socket's error. */
void connection_leaving(int fd);
/* Before close_range and closefrom. */
void connection_closing_range(unsigned int first, unsigned int last);
/* After a successful socket(): the number's past, if a close of it was missed, is over;
 * what it is now is remembered. */
void connection_created(int fd, int domain, int type, int protocol);
/* After a successful dup: `to` is another number for what `fd` is;
 * `to`'s own past was ended by connection_closing before. */
void connection_duplicated(int fd, int to);

/* Before the process ends: settles what its status tells, gives everything back. Once; later calls find nothing. */
void connection_exit(int status);
/* For on_exit(3): stdio writes what it holds only afterwards. */
void connection_exit_handler(int status, void *unused);

#endif
