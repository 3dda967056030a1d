/*
 * fault_playing.c - what a program meets after the connection in a rehearsal:
 * the reset, or the canned answer. See fault_drawing.h.
 *
 * The socket is connected to itself (but for silence and ends on a kept connection), so what is sent into it comes out
 * of it: the program is woken and reads by whatever means, as it would from a server. What the program itself sends is
 * taken by the wrapper. (What it sends unseen, by stdio, the filter drops.)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "connection/diversion.h"
#include "connection/fault_drawing.h"
#include "connection/fault_slow.h"
#include "connection/judgement.h"
#include "connection/memory.h"
#include "connection/socket_state.h"
#include "connection/system.h"
#include "connection/tls_sessions.h"
#include "guard/fault_numbers.h"

#define ANSWER_MAX 512u

/* --- the answer --- */

/* RFC 9110, 15; a status without a phrase here gets none, which is allowed. */
static const char *reason_phrase(uint32_t status)
{
    static const struct {
        uint32_t status;
        const char *phrase;
    } phrases[] = {
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "";
}

/* An answer to HEAD has no body. */
static size_t write_answer(char buffer[ANSWER_MAX], uint32_t status, bool to_head)
{
    static const char body[] = "This answer was injected by sockfuse: a rehearsal.\n";
    struct text text;
    text_start(&text, buffer, ANSWER_MAX);
    text_add(&text, "HTTP/1.1 ");
    text_add_unsigned(&text, status);
    text_add(&text, " ");
    text_add(&text, reason_phrase(status));
    text_add(&text, "\r\nServer: sockfuse\r\nContent-Type: text/plain\r\nContent-Length: ");
    text_add_unsigned(&text, sizeof body - 1);
    text_add(&text, "\r\nConnection: close\r\n\r\n");
    if (!to_head)
        text_add(&text, body);
    return text.length;
}

static bool begins_with(const struct iovec *vector, const char *word)
{
    return vector->iov_len >= strlen(word) && !memcmp(vector->iov_base, word, strlen(word));
}

/* Whether an answer of HTTP/1 would be none: the request is TLS, or HTTP/2. */
static bool can_be_answered(const struct connection *connection, const struct iovec *vector)
{
    return vector && !connection_has(connection, CONNECTION_TLS) &&
           !tls_is_record(vector->iov_base, vector->iov_len, true) && !begins_with(vector, "PRI * HTTP/2");
}

/* --- playing --- */

static void play_end(int fd)
{
    sys.shutdown(fd, SHUT_RD);
}

static void play_answer(int fd, bool kept, uint32_t status, const struct iovec *request)
{
    char answer[ANSWER_MAX];
    size_t length = write_answer(answer, status, begins_with(request, "HEAD "));
    if (kept && !diversion_leave_for_self(fd)) {
        play_end(fd);
        return;
    }
    diversion_undeafen(fd);
    /* A socket without unread or unsent bytes has room for it. */
    if (sys.send(fd, answer, length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length)
        sys.shutdown(fd, SHUT_WR);
}

/* Dissolving the association aborts it (tcp_disconnect):
 * ECONNRESET waits in the socket, and whoever polls it is woken. */
static void play_reset(int fd, bool kept)
{
    if (kept) {
        if (!diversion_leave(fd))
            play_end(fd);
        return;
    }
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    diversion_undeafen(fd);
    sys.connect(fd, &nobody, sizeof nobody);
}

/* Of several threads that send at once, one plays. */
static bool begins_to_play(struct connection *connection)
{
    return !(atomic_fetch_or_explicit(&connection->fault, FAULT_PLAYED, memory_order_acq_rel) & FAULT_PLAYED);
}

/* The first bytes of a request, that is, of the first part that has any. */
static const struct iovec *first_bytes(const struct iovec *vector, size_t count)
{
    while (count > 0 && (vector->iov_len == 0 || !vector->iov_base)) {
        vector++;
        count--;
    }
    return count > 0 ? vector : NULL;
}

static size_t all_bytes(const struct iovec *vector, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += vector[i].iov_len;
    return bytes;
}

static bool takes_requests(enum fault_kind kind)
{
    return kind == FAULT_RESET || kind == FAULT_HTTP || kind == FAULT_SILENCE || kind == FAULT_EARLY_CLOSE;
}

/* The request was taken: what follows. */
static void play(struct connection *connection, int fd, enum fault_kind kind, const struct iovec *first)
{
    uint32_t fault = atomic_load_explicit(&connection->fault, memory_order_relaxed);
    uint32_t status = fault >> FAULT_VALUE_SHIFT & FAULT_VALUE_MASK;
    bool kept = fault & FAULT_KEPT;
    if (kind == FAULT_SILENCE)
        return;
    if (kind == FAULT_EARLY_CLOSE) {
        play_end(fd);
    } else if (kind == FAULT_HTTP && can_be_answered(connection, first)) {
        play_answer(fd, kept, status, first);
    } else {
        atomic_store_explicit(&connection->fault, FAULT_RESET | FAULT_PLAYED, memory_order_relaxed);
        play_reset(fd, kept);
    }
}

/* Once: what is sent later of the same request waits behind it. False: it can't be, and the call has no fault. */
static bool play_slowly(struct connection *connection, int fd, const struct iovec *vector, size_t count,
                        ssize_t *result)
{
    const struct call_place place = connection->place;
    uint32_t delay_ms = atomic_load_explicit(&connection->fault, memory_order_relaxed) >> FAULT_VALUE_SHIFT;
    if (!vector || count == 0 || !begins_to_play(connection))
        return false;
    *result = (ssize_t)slow_send(fd, vector, count, delay_ms & FAULT_VALUE_MASK);
    if (*result > 0)
        rehearsal_mark(&connection->station->segment, place.circuit, place.call, place.call);
    return *result > 0;
}

bool connection_takes(descriptor entry, int fd, const struct iovec *vector, size_t count, ssize_t *result)
{
    struct connection *connection = judgement_of_anybody(entry);
    if (connection && connection_has(connection, CONNECTION_HTTP2)) {
        *result = -1;
        errno = http2_sending(connection, fd, vector, count, false);
        return errno != 0;
    }
    if (vector && !memory_vector_is_readable(vector, count))
        return false; /* the kernel says so */
    const struct iovec *first = vector ? first_bytes(vector, count) : NULL;
    enum fault_kind kind = connection ? rehearsal_kind(connection) : FAULT_NONE;
    if (kind == FAULT_SLOW && first && !connection_fault_is(connection, FAULT_PLAYED)) {
        count -= (size_t)(first - vector);
        bool taken = play_slowly(connection, fd, first, count, result);
        if (taken)
            connection_sent(entry, fd, *result, 0, first, count);
        return taken;
    }
    if (!takes_requests(kind) || (vector && !first))
        return false;
    bool played = connection_fault_is(connection, FAULT_PLAYED);
    if (!played && socket_state(fd, connection_has(connection, CONNECTION_UNIX)).stage != SOCKET_CONNECTED)
        return false; /* the kernel says so */
    if (played && kind == FAULT_RESET)
        return false; /* the kernel says EPIPE, as after a real one */

    *result = vector ? (ssize_t)all_bytes(vector, count) : -1;
    errno = ECONNRESET; /* of what is not in the program's memory (sendfile, splice) nobody can say how much was sent */
    connection_sent(entry, fd, *result, ECONNRESET, first, first ? 1 : 0);
    if (!begins_to_play(connection))
        return true;
    play(connection, fd, kind, first);
    return true;
}

void rehearsal_receiving(struct connection *connection, int fd, int flags)
{
    enum fault_kind kind = rehearsal_kind(connection);
    if ((kind == FAULT_RESET || kind == FAULT_EARLY_CLOSE) && !(flags & MSG_DONTWAIT) &&
        !connection_has(connection, CONNECTION_SENT) && !connection_fault_is(connection, FAULT_PLAYED) &&
        socket_blocks(fd) && socket_state(fd, false).stage == SOCKET_CONNECTED && begins_to_play(connection))
        play(connection, fd, kind, NULL);
}

bool connection_is_over(descriptor entry)
{
    const struct connection *connection = judgement_of_anybody(entry);
    return connection && rehearsal_kind(connection) == FAULT_HTTP && connection_fault_is(connection, FAULT_PLAYED);
}
