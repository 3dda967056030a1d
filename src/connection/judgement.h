/*
 * judgement.h - what the parts of a connection's life share: attempt.c (connect), exchange.c (requests and answers),
 * ending.c (closing). They say what they see; here it is judged:
 *
 *   judgement.c   an end becomes an observation, and goes to the guard; answers
 *   arrival.c     when a connection, or what is waited for, has come
 *   patience.c    how long the program has waited, and for whom
 *   evidence.c    what the kernel's word about a socket means for the call
 *   numbers.c     which descriptors stand for the connection
 *   next_call.c   the next call on a kept connection
 *   call_end.c    ends that the kernel is asked about, and those that the program brings about
 *   waiting.c     the limit of an attempt
 *   next_attempt.c  whether an attempt that failed is made again
 *   http2_calls.c, stream_calls.c  the streams of a connection that speaks HTTP/2
 *   still_hangs.c whether a call that is beyond its limit hangs (still_hangs.h)
 *
 * Private to src/connection; wrappers use connection.h.
 */
#ifndef SOCKFUSE_CONNECTION_JUDGEMENT_H
#define SOCKFUSE_CONNECTION_JUDGEMENT_H

#include <sys/uio.h>

#include "connection/connection.h"
#include "connection/lineage.h"
#include "connection/pool.h"
#include "connection/socket_state.h"

/* The connection that an entry names, whosever it is; NULL if it names none, or one that has moved on. */
static inline struct connection *judgement_of_anybody(descriptor entry)
{
    uint32_t number = descriptor_connection(entry);
    struct connection *connection = number ? pool_at(number - 1) : NULL;
    if (__builtin_expect(!connection || atomic_load_explicit(&connection->entry, memory_order_relaxed) != entry, 0))
        return NULL;
    return connection;
}

/* The same of this process; NULL also if it is one that an ancestor made. */
static inline struct connection *judgement_of(descriptor entry)
{
    struct connection *connection = judgement_of_anybody(entry);
    return __builtin_expect(connection && connection->epoch == lineage_epoch(), 1) ? connection : NULL;
}

/* The connection of a record's call, by the number that attempt.c gave the record; NULL: it has none any more. */
struct connection *judgement_of_call(uint32_t call, uint32_t number, const void *station);

/* Puts the connection under that target, which the caller holds, or the connection follows; it has seen that policy. */
void judgement_follow(struct connection *connection, const struct policy *policy, const struct target *target);
/* It goes by no target any more. */
void judgement_unfollow(struct connection *connection);

/* With enforce_timeouts: gives a blocking connect of TCP its limit. At most two system calls. */
void judgement_limit_attempt(struct connection *connection, int fd, struct attempt_ticket *ticket);

/* How far the call has come; PHASE_ANSWERED when it is settled. */
enum phase judgement_phase(const struct connection *connection);

/* A call that was charged as overdue has come to its real end after all: it is counted as late, once. */
void judgement_came_late(struct connection *connection, enum seen seen, int error);

/* The attempt is connected, as the kernel or the program's success shows. Idempotent. `state`: what the kernel says of
 * the socket, or NULL: nobody has asked. */
void judgement_connected(struct connection *connection, const struct socket_state *state);
/*
 * Whether the connection leads to its own socket: nobody listens at a port of the ephemeral range, and the kernel has
 * given the socket that very port, so that both SYNs meet (RFC 9293, 3.5: simultaneous open). If the kernel was not asked
 * anything when it was connected, it is asked this when the call is judged, for nearly all connections show by their
 * first answer that it is not so: what came begins otherwise than what was sent (judgement_heard). Asked of a connected
 * one; one system call, unless it has been shown.
 */
bool judgement_meets_itself(struct connection *connection);
void judgement_heard(struct connection *connection, const void *first, size_t count);
/*
 * Whether another process may go on with it: one that it was handed to, a child that was made while this process had
 * not asked anything itself, or one that was made just now.
 */
bool judgement_may_be_anothers(const struct connection *connection);
/* The same, and the program has not asked yet. */
void judgement_found_connected(struct connection *connection, const struct socket_state *state);
/* Something was sent. */
void judgement_requested(struct connection *connection);
/* The send that began a call was long on its way: the wait for the answer begins only now. */
void judgement_request_sent(struct connection *connection);
/* The send that began a call took no byte: the connection is as it was before. */
void judgement_request_withdrawn(struct connection *connection);

/* What asks to be left alone, as an answer says: from now on. */
uint64_t judgement_retry_after_ns(const struct http_head *head);
/*
 * Another program goes on with the connection, which is connected: that is the best answer that a probe will have, and
 * any other call waits for nothing that could be seen here.
 */
void judgement_handed(struct connection *connection);

/* How long the program has waited for what it waits for now; and, of that, for a peer that took nothing, where much was
 * to be sent (two system calls then). */
uint64_t judgement_waited_ns(const struct connection *connection, uint64_t now_ns);
uint64_t judgement_waited_for_peer(const struct connection *connection, uint64_t waited_ns);
/* An answer has come: was it asked for first? And a connection that nothing was asked on, to where servers do not speak
 * first: whoever closes it has waited for nothing. */
void judgement_note_polite(const struct connection *connection);
bool judgement_is_spare(const struct connection *connection);

/* The program is about to end its own side, by a half-close or a TLS goodbye: has it waited in vain? */
void judgement_ending_own_side(struct connection *connection);

/*
 * Before a send on a connection of this process: if its last call is over, this is the next request. As
 * connection_sending, but for SENDING_FAULTY, which it leaves to its caller where no fault is drawn now.
 */
int next_call_begins(struct connection *connection, int fd);
/*
 * Asks for admission of a request when the connection's call is over: in its own segment, or in the present one if that
 * is retired. `must_pass`: as an attempt's, asked of the connection; NULL: it need not.
 */
enum admission next_call_admit(struct connection *connection, bool (*must_pass)(const void *), uint64_t now_ns);
/* Whether what is sent now is a request, which may begin a call; if we can tell. */
bool next_call_may_begin(const struct connection *connection);
/* After a reload the connection goes by the present policy, if that has its target. */
void next_call_follow_policy(struct connection *connection);
/* The request may not go: the connection is broken off. Returns its errno, or 0 if the number means another socket. */
int next_call_refuse(struct connection *connection, int fd);

/* Reads on in the head of an answer of HTTP. HTTP_NONE: it is none, or nobody wants to know. */
enum http_progress judgement_read_head(struct connection *connection, const struct iovec *vector, size_t count,
                                       size_t bytes, bool peeked, struct http_head *head);
/* Bytes of the answer, in plaintext: judged as HTTP if it is that. `peeked`: they will be read again. */
void judgement_answer(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes,
                      bool peeked);

/* An answer that had begun breaks off: what was read of it counts. False: nothing but interim answers had come. */
bool judgement_breaks_off(struct connection *connection);

/*
 * Whether what the call waits for has come and the program has not read it: at most three system calls. The peer's end
 * on a connection that has answered before is that too, for then it has gone stale.
 */
bool judgement_has_unread(const struct connection *connection, int fd);
/* Whether the kernel says that it came and was read, by whomever (stdio, another process). One system call. */
bool judgement_was_answered(const struct connection *connection, int fd);
/* The same for who has asked. */
bool judgement_is_answer(const struct connection *connection, const struct socket_state *state);
/* When that came which the program has just seen, of a call that is beyond its limit since `due_ns`. Two system calls. */
uint64_t judgement_came_at(const struct connection *connection, enum seen seen, uint64_t now_ns, uint64_t due_ns);
/* A moment of the circuits' clock that lies so far back. */
static inline uint64_t judgement_before(uint64_t now_ns, uint64_t ago_ns)
{
    return now_ns > ago_ns ? now_ns - ago_ns : 1;
}

/*
 * The call has come to this end. For anything but bytes the kernel is asked first: whether the number still means that
 * socket, and whether data came that the program's own reads did not show (stdio). Takes at most two system calls, none
 * for bytes.
 */
void judgement_ended(struct connection *connection, int fd, enum seen seen, int error);
/*
 * The same without asking: for what is certain. `at_once`: connect itself failed without having waited. Returns the
 * outcome; VERDICT_NONE: nothing was decided, it has been already, or its judgement waits.
 */
struct outcome judgement_settle(struct connection *connection, enum seen seen, int error, bool at_once);

/* The program ends its interest in the connection while the descriptor is still open:
 * judges the call by the kernel's word. */
enum judgement_end {
    LIFE_CLOSES, /* its last descriptor is about to be closed, or the program ends */
    LIFE_LEAVES, /* the same, but its error must stay: stdio still writes what it holds, or the socket goes on */
    LIFE_SHUTS,  /* the program shuts it, and can still read its error */
    LIFE_EXITS,  /* the program ends well: a wait for an answer is not given up; stdio may still write */
};
void judgement_judge_end(struct connection *connection, int fd, enum judgement_end end);

/* Some closes are missed (by a raw system call, by another thread):
 * is the number still that socket? One system call. */
bool judgement_is_same_socket(const struct connection *connection, int fd);

/* An entry that was taken out of the table: one alias less; with the last one the
 * call ends, while the descriptor is still open. */
void judgement_release(descriptor entry, int fd);
void judgement_release_as(descriptor entry, int fd, enum judgement_end end);

/*
 * The socket goes on without its record, as a fresh one: all its numbers leave the record, which is judged as by
 * LIFE_LEAVES. What stands for the socket later is found by DESCRIPTOR_SHARED, if it has several numbers.
 */
void judgement_part(descriptor entry, int fd);
/*
 * A record for an attempt on that descriptor, which goes by the target that the caller holds; NULL: there is none. The
 * caller fills the rest, publishes it, and sets the descriptor's entry. Then judgement_take_number learns of the
 * socket (one system call), has its other numbers stand for the record too, and ends what the number was before, its
 * entry's `former` value. Or judgement_dismiss gives it back.
 */
struct connection *judgement_enrol(struct station *station, const struct policy *policy, const struct target *target,
                                   int fd);
void judgement_take_number(struct connection *connection, int fd, descriptor former);
void judgement_dismiss(struct connection *connection);

/* Another program may have what the entry stands for, by that number, from now on. */
void judgement_hand_over(descriptor entry, int fd);

/* The connection is over for this process: its records go back. */
void judgement_forget(struct connection *connection);

/* --- HTTP/2: each stream is a call (http2_calls.h) --- */

/* The program has sent, or is about to send, a client's first words with HTTP/2. */
void http2_becomes(struct connection *connection);
/*
 * An answer with 101 has come, and what may stand behind it. Whether it is an upgrade to HTTP/2: then the request is the
 * first stream, whose answer is still to come.
 */
bool http2_upgrades(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);
/*
 * Before a send: begins the calls of the streams that begin in it. 0, or the errno of a refusal: the connection is broken
 * off then. `is_trusted`: a library will read the bytes, and not the kernel alone.
 */
int http2_sending(struct connection *connection, int fd, const struct iovec *vector, size_t count, bool is_trusted);
/* So many bytes were sent, or came; `vector` NULL: they were not shown. */
void http2_sent(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);
void http2_came(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);
/*
 * What comes first may be a server's settings, before its client has said a word. Whether it was that, and was read.
 */
bool http2_begins_by_server(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);
/*
 * The connection is lost, by its peer. True: the connection's own call was a stream's, or was answered by the settings;
 * false: it is still to be judged.
 */
bool http2_lost(struct connection *connection, enum seen seen, int error);
/* The program ends it. As http2_lost. */
bool http2_ending(struct connection *connection, int fd, enum judgement_end end);
/* From now on its streams are not told apart. Calls in flight are neutral. */
void http2_leave(struct connection *connection);
/* Whether a record beside the connection's own is one of its streams'. */
bool http2_has_call(const struct connection *connection, uint32_t call);
/* Whether the call is a stream's: then `*hangs` says whether it still does. Some system calls. */
bool http2_still_hangs(const struct connection *connection, uint32_t call, int fd, bool *hangs);

#endif
