/*
 * exchange.c - requests and answers on a guarded connection: what send, recv and SO_ERROR tell. How the next call begins
 * is in next_call.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "breaker/http2.h"
#include "connection/fallback_connections.h"
#include "connection/inherited.h"
#include "connection/judgement.h"
#include "connection/lineage.h"
#include "connection/socket_state.h"
#include "connection/stopping.h"
#include "connection/tls_sessions.h"
#include "connection/tls_watch.h"
#include "connection/upload.h"

/* The connection, if its number still stands for it after the real call; an ancestor's too, if that bears no call. */
HOT static struct connection *still(descriptor entry, int fd)
{
    struct connection *connection = LIKELY(descriptor_get(fd) == entry) ? judgement_of_anybody(entry) : NULL;
    bool is_ours = LIKELY(connection != NULL) &&
                   (connection->epoch == lineage_epoch() || state_is_aside(connection_state(connection)));
    return is_ours ? connection : NULL;
}

/*
 * Something is about to be sent, or was. What a TLS library sends of its own accord, in a handshake or while the
 * program reads, asks the server for nothing: inside TLS too it may be the server that speaks first.
 */
static void note_asked(struct connection *connection)
{
    if (!connection_has(connection, CONNECTION_ASKED) && (!tls_thread.session || tls_thread.doing == TLS_WRITE))
        connection_mark(connection, CONNECTION_ASKED);
}

/* It speaks TLS, and its plaintext is nowhere seen. */
static bool is_opaque(const struct connection *connection)
{
    const uint32_t tls = (uint32_t)CONNECTION_TLS | (uint32_t)CONNECTION_TLS_SEEN;
    return (atomic_load_explicit(&connection->properties, memory_order_relaxed) & tls) == (uint32_t)CONNECTION_TLS;
}

int connection_sending(descriptor entry, int fd, size_t bytes)
{
    struct connection *connection = judgement_of_anybody(entry);
    if (!connection)
        return 0;
    if (state_is_aside(connection_state(connection)))
        return aside_sending(connection, fd);
    int verdict = connection->epoch == lineage_epoch() ? next_call_begins(connection, fd) : 0;
    note_asked(connection);
    if (connection_has(connection, CONNECTION_TLS_KEPT))
        connection_unmark(connection, CONNECTION_TLS_KEPT); /* it goes out now; what is sent next is no request */
    if (is_opaque(connection))
        tls_watch_sending(connection, fd);
    if (verdict > 0)
        return verdict;
    /* The streams that begin in it are to be asked for: connection_takes has the bytes. */
    if (connection_has(connection, CONNECTION_HTTP2) && connection->epoch == lineage_epoch())
        return connection_has(connection, CONNECTION_TLS) ? 0 : SENDING_FAULTY;
    if (connection->epoch == lineage_epoch())
        upload_sending(connection, bytes);
    /* An ancestor's connection leads nowhere in its children too. */
    if (connection_has(connection, CONNECTION_FAULTY))
        return SENDING_FAULTY;
    if (tls_thread.session) /* what a TLS library sends is looked at, whatever it begins */
        return 0;
    if (verdict == SENDING_BEGINS)
        upload_is_whole(connection); /* unless connection_begun is told otherwise */
    return verdict;
}

/*
 * PostgreSQL's CancelRequest (protocol 3, 55.7): its length, this code, a process's number and a key. It is all that is
 * ever said on its connection, which the server then closes without a word: the one request of a widespread protocol
 * whose answer is the end of the stream on a connection that elsewhere is answered. For others: success = close.
 */
static bool is_cancel_request(const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    static const unsigned char code[] = {0x04, 0xd2, 0x16, 0x2e};
    return count >= 16 && count <= UINT16_MAX && byte[0] == 0 && byte[1] == 0 &&
           (size_t)(byte[2] << 8 | byte[3]) == count && !memcmp(byte + 4, code, sizeof code);
}

/* What the bytes on the wire say of the protocol. */
static void look_at_sent(struct connection *connection, const struct iovec *first, size_t sent, enum tls_doing doing)
{
    bool begins = !connection_has(connection, CONNECTION_SENT) && !connection_has(connection, CONNECTION_REUSED);
    if (!first || !first->iov_base)
        return;
    size_t count =
        first->iov_len < sent ? first->iov_len : sent; /* what the kernel has not taken may not be readable */
    if (begins && count > 0)
        connection_begins_with(connection, first->iov_base, count);
    if (begins && http2_begins(first->iov_base, count))
        http2_becomes(connection);
    if (begins && is_cancel_request(first->iov_base, count))
        connection_mark(connection, CONNECTION_CLOSES);
    if (begins && tls_is_record(first->iov_base, count, true)) {
        connection_mark(connection, CONNECTION_TLS);
        if (doing == TLS_NOTHING)
            tls_watch_begin(connection);
    }
    /* From within a TLS library, perhaps after STARTTLS. */
    if (doing != TLS_NOTHING && tls_is_record(first->iov_base, count, false)) {
        connection_mark(connection, CONNECTION_TLS);
        connection_mark(connection, CONNECTION_TLS_SEEN);
    }
    if (connection_has(connection, CONNECTION_TLS) && tls_is_alert(first->iov_base, count))
        judgement_ending_own_side(connection);
    if (doing == TLS_HANDSHAKE && tls_is_alert(first->iov_base, count))
        connection_mark(connection, CONNECTION_REJECTED);
}

/* Bytes that went over the wire: inside TLS they tell nothing of the request (connection_asked). */
static void follow_sent(struct connection *connection, const struct iovec *first, size_t count, size_t sent)
{
    if (connection_has(connection, CONNECTION_TLS))
        upload_sent(connection, NULL, 0, 0);
    else
        upload_sent(connection, first, count, sent);
}

/* Something was sent on a connection that speaks HTTP/2 already. */
static void went_http2(struct connection *connection, int fd, ssize_t result, int error, const struct iovec *first,
                       size_t count)
{
    bool own = error == EPIPE && connection_has(connection, CONNECTION_SHUT_WRITE);
    if (result < 0 && outcome_is_from_peer(error) && !own)
        judgement_ended(connection, fd, SEEN_ERROR, error);
    else if (result > 0 && !connection_has(connection, CONNECTION_TLS))
        http2_sent(connection, first, count, (size_t)result);
}

void connection_sent(descriptor entry, int fd, ssize_t result, int error, const struct iovec *first, size_t count)
{
    enum tls_doing doing = tls_uses(entry, fd);
    struct connection *connection = still(entry, fd);
    if (!connection) {
        if (result > 0 && (connection = inherited_of(entry, fd)))
            inherited_sent(connection);
        return;
    }
    if (result > 0) {
        look_at_sent(connection, first, (size_t)result, doing);
        if (state_is_aside(connection_state(connection)))
            connection_mark(connection, CONNECTION_SENT);
        note_asked(connection); /* with Fast Open nobody has said so before */
        if (!connection_has(connection, CONNECTION_HTTP2))
            follow_sent(connection, first, count, (size_t)result);
    }
    if (connection_has(connection, CONNECTION_HTTP2) && connection_has(connection, CONNECTION_SENT)) {
        went_http2(connection, fd, result, error, first, count);
        return;
    }
    if (is_opaque(connection))
        tls_watch_sent(connection, first, count, result > 0 ? (size_t)result : 0);
    enum phase phase = judgement_phase(connection);
    if (phase == PHASE_ANSWERED)
        return;
    if (result < 0) {
        bool own = error == EPIPE && connection_has(connection, CONNECTION_SHUT_WRITE);
        if (error == EAGAIN || error == EWOULDBLOCK)
            upload_stalled(connection);
        if (outcome_is_from_peer(error) && !own)
            judgement_ended(connection, fd, SEEN_ERROR, error);
        return;
    }
    if (result == 0)
        return;
    if (phase == PHASE_CONNECTING) {
        /* With Fast Open the first send succeeds into a black hole. */
        if (connection_has(connection, CONNECTION_FAST_OPEN) && socket_state(fd, false).stage == SOCKET_PENDING) {
            connection_mark(connection, CONNECTION_SENT);
            return;
        }
        judgement_connected(connection, NULL);
    }
    judgement_requested(connection);
    if (is_opaque(connection))
        tls_watch_look(connection);
    if (connection_has(connection, CONNECTION_HTTP2) && !connection_has(connection, CONNECTION_TLS))
        http2_sent(connection, first, count, (size_t)result);
}

void connection_begun(descriptor entry, int fd, ssize_t result, int error, const struct iovec *first, size_t count)
{
    struct connection *connection = still(entry, fd);
    if (!connection)
        return;
    upload_begin(connection);
    if (result > 0)
        follow_sent(connection, first, count, (size_t)result);
    if (judgement_phase(connection) == PHASE_ANSWERED)
        return;
    if (result > 0)
        judgement_request_sent(connection);
    else if (outcome_is_from_peer(error))
        connection_sent(entry, fd, result, error, NULL, 0);
    else if (error == EINTR || (error == EAGAIN && socket_has_unsent(fd)))
        return; /* it waits for the peer, and comes again */
    else
        judgement_request_withdrawn(connection);
}

/* Another thread has sent the ClientHello, and has not come to say so: the server's shows that it was one. */
static void look_at_first(struct connection *connection, const struct iovec *vector, size_t bytes)
{
    const uint32_t asked = (uint32_t)CONNECTION_ASKED;
    const uint32_t beside = (uint32_t)CONNECTION_SENT | (uint32_t)CONNECTION_REUSED | (uint32_t)CONNECTION_TLS;
    const uint32_t properties = atomic_load_explicit(&connection->properties, memory_order_relaxed);
    if (LIKELY((properties & (asked | beside)) != asked) ||
        !tls_is_record(vector->iov_base, vector->iov_len < bytes ? vector->iov_len : bytes, true))
        return;
    connection_mark(connection, CONNECTION_TLS);
    tls_watch_begin(connection);
}

/* On a connection that speaks HTTP/2: what comes is its streams'. Inside TLS the plaintext is (connection_answered). */
static void came_http2(struct connection *connection, int fd, ssize_t result, int error,
                       const struct received *received)
{
    const struct iovec *vector = received->flags & MSG_TRUNC ? NULL : received->vector;
    if (result > 0 && !connection_has(connection, CONNECTION_TLS) && !(received->flags & MSG_PEEK))
        http2_came(connection, vector, received->count, (size_t)result);
    else if (result == 0 && received->wanted > 0)
        judgement_ended(connection, fd, SEEN_END, 0);
    else if (result < 0 && outcome_is_from_peer(error))
        judgement_ended(connection, fd, SEEN_ERROR, error);
}

static void bytes_came(struct connection *connection, size_t bytes, const struct received *received,
                       enum tls_doing doing)
{
    const struct iovec *vector = received->flags & MSG_TRUNC ? NULL : received->vector;
    judgement_connected(connection, NULL);
    if (vector && received->count > 0)
        judgement_heard(connection, vector->iov_base, vector->iov_len < bytes ? vector->iov_len : bytes);
    if (vector && received->count > 0 && doing == TLS_NOTHING)
        look_at_first(connection, vector, bytes);
    if (connection_has(connection, CONNECTION_TLS)) {
        if (doing != TLS_NOTHING)
            connection_mark(connection, CONNECTION_TLS_SEEN);
        if (is_opaque(connection) && !tls_watch_holds(connection, bytes, received))
            judgement_settle(connection, SEEN_BYTES, 0, false);
        return;
    }
    judgement_answer(connection, vector, received->count, bytes, received->flags & MSG_PEEK);
}

HOT void connection_received(descriptor entry, int fd, ssize_t result, int error, const struct received *received)
{
    enum tls_doing doing = tls_uses(entry, fd);
    struct connection *connection = still(entry, fd);
    if (UNLIKELY(result < 0) && error == EINTR)
        stopping_note_interrupted();
    if (UNLIKELY(received->flags & MSG_ERRQUEUE))
        return;
    if (UNLIKELY(!connection)) {
        if ((connection = inherited_of(entry, fd)))
            inherited_received(connection, fd, result, error, received, doing);
        return;
    }
    if (UNLIKELY(state_is_aside(connection_state(connection)))) {
        aside_received(connection, result, received, doing);
        return;
    }
    if (result > 0)
        connection_keep(connection, true);
    if (UNLIKELY(connection_has(connection, CONNECTION_HTTP2))) {
        came_http2(connection, fd, result, error, received);
        return;
    }
    enum phase phase = judgement_phase(connection);
    if (phase == PHASE_ANSWERED) {
        if (result >= 0 || outcome_is_from_peer(error))
            judgement_came_late(connection, result > 0 ? SEEN_BYTES : SEEN_END, 0);
        return;
    }
    if (result > 0) {
        bytes_came(connection, (size_t)result, received, doing);
    } else if (result == 0) {
        if (received->wanted > 0)
            judgement_ended(connection, fd, SEEN_END, 0);
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
        /* A blocking receive ends so when its SO_RCVTIMEO ran out. One that is shorter than abandon_after is a
         * program's tick. */
        uint64_t since = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
        if (!(received->flags & MSG_DONTWAIT) && phase != PHASE_CONNECTING &&
            clock_real_ns() - since >= connection_target(connection)->rules.abandon_after_ns && socket_blocks(fd))
            judgement_ended(connection, fd, SEEN_WAIT_ENDED, 0);
    } else if (outcome_is_from_peer(error)) {
        judgement_ended(connection, fd, SEEN_ERROR, error);
    }
}

void connection_asked(descriptor entry, int fd, const void *bytes, size_t count, bool kept)
{
    struct connection *connection = still(entry, fd);
    if (!connection)
        return;
    if (kept)
        connection_mark(connection, CONNECTION_TLS_KEPT);
    /* The server's first frame may have come before. */
    bool is_first = !connection_has(connection, CONNECTION_REUSED) || connection_has(connection, CONNECTION_GREETED);
    if (is_first && !connection_has(connection, CONNECTION_STREAM) && http2_begins(bytes, count))
        http2_becomes(connection);
    if (connection_has(connection, CONNECTION_HTTP2)) {
        http2_sent(connection, &(struct iovec){(void *)(uintptr_t)bytes, count}, 1, count);
        return;
    }
    /* What was sent of it has gone before: that wait began too early if more is to come, or begins only now. */
    bool went_on = connection_has(connection, CONNECTION_BODY);
    upload_sent(connection, &(struct iovec){(void *)(uintptr_t)bytes, count}, 1, count);
    if (went_on != connection_has(connection, CONNECTION_BODY) && judgement_phase(connection) == PHASE_REQUESTED)
        judgement_request_sent(connection);
}

void connection_asking(descriptor entry, int fd, const void *bytes, size_t count)
{
    struct connection *connection = still(entry, fd);
    struct iovec vector = {(void *)(uintptr_t)bytes, count};
    if (connection && connection_has(connection, CONNECTION_HTTP2) && connection->epoch == lineage_epoch())
        http2_sending(connection, fd, &vector, 1, true);
}

void connection_answered(descriptor entry, int fd, const void *bytes, size_t count)
{
    struct connection *connection = still(entry, fd);
    struct iovec vector = {(void *)(uintptr_t)bytes, count};
    if (!connection) {
        if ((connection = inherited_of(entry, fd)))
            inherited_answered(connection, fd, &vector);
        return;
    }
    if (state_is_aside(connection_state(connection)))
        aside_answered(connection, &vector, 1, count);
    else if (connection_has(connection, CONNECTION_HTTP2))
        http2_came(connection, &vector, 1, count);
    else if (judgement_phase(connection) == PHASE_ANSWERED)
        judgement_came_late(connection, SEEN_BYTES, 0);
    else
        judgement_answer(connection, &vector, 1, count, false);
}

void connection_error_read(descriptor entry, int fd, int pending)
{
    struct connection *connection = still(entry, fd);
    if (!connection)
        return;
    enum phase phase = judgement_phase(connection);
    if (phase == PHASE_ANSWERED && !connection_has(connection, CONNECTION_HTTP2)) {
        if (pending)
            judgement_came_late(connection, SEEN_ERROR, pending);
        return;
    }
    if (pending) {
        judgement_ended(connection, fd, SEEN_ERROR, pending);
    } else if (phase == PHASE_CONNECTING) {
        /* No error alone proves nothing: it is the same while the attempt is pending. One system call: a server that
         * speaks first may be waited for from now on, for as long as response_timeout says, and nothing else may come
         * that says it is connected. */
        struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
        if (state.stage == SOCKET_CONNECTED || state.stage == SOCKET_PEER_DONE)
            judgement_connected(connection, &state);
    }
}
