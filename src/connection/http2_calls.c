/*
 * http2_calls.c - what passes on a connection that speaks HTTP/2, and what happens by it to streams. See http2_calls.h.
 */
#define _GNU_SOURCE
#include "connection/http2_calls.h"

#include <errno.h>

#include "base/ascii.h"
#include "base/frame.h"
#include "base/hot.h"
#include "base/units.h"
#include "connection/memory.h"

#define FRAME_HEAD 9u
#define PARTS_MAX 1024u /* UIO_MAXIOV: of more the kernel takes none */

/* One thread at a time reads in a direction. False: there is another, or one was jumped out of. */
static bool enter(struct connection *connection, const struct streams *streams, _Atomic uint32_t *busy)
{
    if (atomic_exchange_explicit(busy, 1, memory_order_acquire) == 0) {
        if (streams == streams_of(connection))
            return true;
        atomic_store_explicit(busy, 0, memory_order_release); /* it was given back meanwhile */
        return false;
    }
    http2_leave(connection);
    return false;
}

static void leave_off(_Atomic uint32_t *busy)
{
    atomic_store_explicit(busy, 0, memory_order_release);
}

SELDOM void http2_becomes(struct connection *connection)
{
    connection_mark(connection, CONNECTION_STREAM);
    if (connection_has(connection, CONNECTION_HTTP2) || !connection_target(connection)->http_read ||
        connection_has(connection, CONNECTION_FAULTY) || connection->epoch != lineage_epoch() ||
        state_is_aside(connection_state(connection)) || judgement_phase(connection) == PHASE_ANSWERED)
        return;
    const uint32_t number = streams_take(atomic_load_explicit(&connection->entry, memory_order_relaxed));
    if (number == 0)
        return;
    atomic_store_explicit(&connection->streams, number, memory_order_relaxed);
    atomic_store_explicit(&engine.meets_http2, true, memory_order_relaxed);
    connection_mark(connection, CONNECTION_HTTP2);
}

bool http2_begins_by_server(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    if (!vector || count == 0 || connection_has(connection, CONNECTION_REUSED) ||
        connection_has(connection, CONNECTION_STREAM) ||
        !http2_greets(vector->iov_base, vector->iov_len < bytes ? vector->iov_len : bytes))
        return false;
    http2_becomes(connection);
    if (!connection_has(connection, CONNECTION_HTTP2))
        return false;
    http2_came(connection, vector, count, bytes);
    return true;
}

/* Where the head of an answer ends that stands whole in these bytes; 0: it does not. */
static size_t end_of_head(const char *text, size_t count)
{
    for (size_t at = 3; at < count; at++) {
        if (text[at] == '\n' && (text[at - 1] == '\n' || (text[at - 1] == '\r' && text[at - 2] == '\n')))
            return at + 1;
    }
    return 0;
}

/* Whether it has the header "Upgrade: h2c" (RFC 7540, 3.2). */
static bool names_http2(const char *text, size_t count)
{
    static const char header[] = "\nupgrade:";
    for (size_t at = 0; at + sizeof header + 3 < count; at++) {
        size_t matched = 0;
        while (header[matched] != '\0' && ascii_lower(text[at + matched]) == header[matched])
            matched++;
        if (header[matched] != '\0')
            continue;
        for (at += matched; at + 3 < count && ascii_is_blank(text[at]); at++)
            ;
        return at + 3 < count && ascii_lower(text[at]) == 'h' && text[at + 1] == '2' &&
               ascii_lower(text[at + 2]) == 'c';
    }
    return false;
}

SELDOM bool http2_upgrades(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    const size_t part = vector && count > 0 && vector->iov_len < bytes ? vector->iov_len : bytes;
    const size_t head = vector && count > 0 ? end_of_head(vector->iov_base, part) : 0;
    if (head == 0 || part < bytes || !names_http2(vector->iov_base, head))
        return false;
    http2_becomes(connection);
    struct streams *streams = streams_of(connection);
    if (!connection_has(connection, CONNECTION_HTTP2) || !streams)
        return false;
    stream_begin(connection, streams, 1, false);
    atomic_store_explicit(&streams->begun, 1, memory_order_relaxed);
    const struct iovec rest = {(char *)vector->iov_base + head, part - head};
    http2_came(connection, &rest, 1, rest.iov_len);
    return true;
}

/* --- what is about to be sent --- */

/* Reads on, for streams that begin. Only what is read is looked at: heads of frames. */
static bool look_at_part(struct connection *connection, struct streams *streams, struct http2_reader *reader,
                         const struct iovec *part, bool is_trusted)
{
    const unsigned char *bytes = part->iov_base;
    size_t left = part->iov_len;
    while (left > 0) {
        struct http2_event event;
        const size_t skipped = http2_skips(reader);
        size_t count = skipped > 0 ? skipped : FRAME_HEAD;
        count = count < left ? count : left;
        if (skipped == 0 && !is_trusted && !memory_is_readable(bytes, count))
            return true; /* the kernel says so */
        count = http2_read(reader, NULL, bytes, count, &event);
        bytes += count;
        left -= count;
        if (event.what == HTTP2_LOST)
            return true;
        if (event.what != HTTP2_HEADERS || event.stream <= atomic_load_explicit(&streams->begun, memory_order_relaxed))
            continue;
        if (!stream_begin(connection, streams, event.stream, true))
            return false;
        atomic_store_explicit(&streams->begun, event.stream, memory_order_relaxed);
    }
    return true;
}

static bool look(struct connection *connection, struct streams *streams, const struct iovec *vector, size_t count,
                 bool is_trusted)
{
    struct http2_reader reader = streams->sent;
    bool may_go = true;
    for (size_t i = 0; i < count && may_go; i++)
        may_go = look_at_part(connection, streams, &reader, &vector[i], is_trusted);
    return may_go;
}

OWN_FRAME int http2_sending(struct connection *connection, int fd, const struct iovec *vector, size_t count,
                            bool is_trusted)
{
    struct streams *streams = streams_of(connection);
    if (!streams || !vector || count > PARTS_MAX ||
        (!is_trusted && !memory_is_readable(vector, count * sizeof *vector)) ||
        !enter(connection, streams, &streams->sending))
        return 0;
    const bool may_go = look(connection, streams, vector, count, is_trusted);
    leave_off(&streams->sending);
    if (may_go)
        return 0;
    http2_leave(connection);
    return next_call_refuse(connection, fd);
}

/* --- what was sent --- */

static void gives_up(struct connection *connection, struct streams *streams, uint32_t id)
{
    const uint32_t place = stream_find(streams, id);
    if (place == STREAM_NONE)
        return;
    const uint32_t flags = atomic_load_explicit(&streams->streams[place].flags, memory_order_relaxed);
    const struct stream_end end = {.seen = flags & STREAM_ANSWERED ? SEEN_BYTES : SEEN_GAVE_UP};
    stream_judge(connection, streams, place, &end);
    stream_end(streams, place, id);
}

/* False: the connection is not followed any more. */
static bool note_sent(struct connection *connection, struct streams *streams, const struct http2_event *event)
{
    switch (event->what) {
    case HTTP2_LOST:
        return false;
    case HTTP2_HEADERS:
        if (event->stream > atomic_load_explicit(&streams->begun, memory_order_relaxed)) {
            stream_begin(connection, streams, event->stream, false);
            atomic_store_explicit(&streams->begun, event->stream, memory_order_relaxed);
        }
        break;
    case HTTP2_DATA:
        break;
    case HTTP2_RESET:
        gives_up(connection, streams, event->stream);
        return true;
    default:
        return true;
    }
    const uint32_t place = stream_find(streams, event->stream);
    if (place != STREAM_NONE)
        stream_asked(connection, streams, place, event->ends);
    return true;
}

/* --- what came --- */

static const struct stream_end not_processed = {.seen = SEEN_ERROR, .error = ECONNRESET, .is_stale = true};

/* What an answer's head says, if it says all that there is to judge by. */
static bool is_decided(const struct hpack_head *head, struct stream *stream, const struct target *target,
                       struct stream_end *end)
{
    const uint32_t flags = atomic_load_explicit(&stream->flags, memory_order_relaxed);
    *end = (struct stream_end){.seen = SEEN_BYTES, .status = head->status != HPACK_NO_VALUE ? head->status : 0};
    if (head->retry_after_s != HPACK_NO_VALUE)
        end->retry_after_ns = head->retry_after_s * NS_PER_S;
    if (!head->is_grpc && !(flags & STREAM_ANSWERED))
        return true;
    if (end->status != 0 && (!outcome_status_succeeds(&target->rules, end->status)))
        return true;
    if (head->grpc_status == HPACK_NO_VALUE)
        return false;
    /* Of a status that is none gRPC makes UNKNOWN. */
    const unsigned int unknown = 2, status = head->grpc_status < GRPC_STATUSES ? head->grpc_status : unknown;
    end->status = status != 0 ? GRPC_STATUS_BASE + status : 200;
    return true;
}

static bool is_interim(const struct hpack_head *head)
{
    return head->status < 200; /* 101 there is none in HTTP/2 */
}

static void answers(struct connection *connection, struct streams *streams, uint32_t place,
                    const struct http2_event *event)
{
    struct stream *stream = &streams->streams[place];
    struct stream_end end;
    if (is_interim(&event->head) && !event->ends)
        return;
    if (is_decided(&event->head, stream, connection_target(connection), &end)) {
        stream_judge(connection, streams, place, &end);
    } else if (!event->ends) {
        atomic_fetch_or_explicit(&stream->flags, STREAM_ANSWERED, memory_order_relaxed);
        stream_wait_ends(connection, stream);
    }
}

/* Of gRPC a message proves the server to a probe, which can't wait for the end of a long stream. */
static void body_comes(struct connection *connection, struct streams *streams, uint32_t place)
{
    const uint32_t proof = (uint32_t)STREAM_ANSWERED | (uint32_t)STREAM_PROBE;
    const uint32_t flags = atomic_load_explicit(&streams->streams[place].flags, memory_order_relaxed);
    if ((flags & proof) == proof)
        stream_judge(connection, streams, place, &(struct stream_end){.seen = SEEN_BYTES, .status = 200});
}

static void is_reset(struct connection *connection, struct streams *streams, uint32_t place, uint32_t code)
{
    const bool is_processed = code != HTTP2_REFUSED_STREAM && code != HTTP2_HTTP_1_1_REQUIRED;
    stream_judge(connection, streams, place,
                 is_processed ? &(struct stream_end){.seen = SEEN_ERROR, .error = ECONNRESET} : &not_processed);
}

static void goes_away(struct connection *connection, struct streams *streams, uint32_t last)
{
    for (uint32_t place = 0; place < STREAMS_MAX; place++) {
        const uint32_t id = atomic_load_explicit(&streams->ids[place], memory_order_acquire);
        if (id == 0 || id == STREAM_BUSY || id <= last)
            continue;
        stream_judge(connection, streams, place, &not_processed);
        stream_end(streams, place, id);
    }
}

/* The server is there; whether it answers, the first stream will tell. */
static void is_greeted(struct connection *connection, const struct streams *streams)
{
    if (atomic_load_explicit(&streams->own, memory_order_relaxed) == OWN_ATTEMPT)
        guard_excuse(&connection->station->guard, connection->place.call);
}

static bool note_came(struct connection *connection, struct streams *streams, const struct http2_event *event)
{
    const uint32_t place = event->what == HTTP2_SETTINGS || event->what == HTTP2_GOAWAY
                               ? STREAM_NONE
                               : stream_find(streams, event->stream);
    bool ends = event->ends;
    switch (event->what) {
    case HTTP2_LOST:
        return false;
    case HTTP2_SETTINGS:
        is_greeted(connection, streams);
        return true;
    case HTTP2_GOAWAY:
        goes_away(connection, streams, event->stream);
        return true;
    case HTTP2_HEADERS:
        /* Of a stream that another thread has sent, and not told of yet. */
        if (place == STREAM_NONE)
            return (event->stream & 1) == 0 ||
                   event->stream <= atomic_load_explicit(&streams->begun, memory_order_relaxed);
        answers(connection, streams, place, event);
        break;
    case HTTP2_DATA:
        if (place != STREAM_NONE)
            body_comes(connection, streams, place);
        break;
    case HTTP2_RESET:
        if (place != STREAM_NONE)
            is_reset(connection, streams, place, event->error);
        ends = true;
        break;
    default:
        return true;
    }
    if (place == STREAM_NONE || !ends)
        return true;
    /* What ends without a status is judged by what there was. */
    stream_judge(connection, streams, place, &(struct stream_end){.seen = SEEN_BYTES, .status = 200});
    stream_end(streams, place, event->stream);
    return true;
}

/* --- both directions --- */

typedef bool note_fn(struct connection *connection, struct streams *streams, const struct http2_event *event);

static bool read_part(struct connection *connection, struct streams *streams, struct http2_reader *reader,
                      struct hpack *hpack, const unsigned char *bytes, size_t count, note_fn *note)
{
    while (count > 0) {
        struct http2_event event;
        const size_t taken = http2_read(reader, hpack, bytes, count, &event);
        bytes += taken;
        count -= taken;
        if (event.what != HTTP2_NOTHING && !note(connection, streams, &event))
            return false;
    }
    return true;
}

/* Bytes that nobody has shown us are no loss if they are a body's. */
static bool pass_unseen(struct http2_reader *reader, size_t bytes)
{
    struct http2_event event;
    if (bytes > http2_skips(reader))
        return bytes == 0;
    http2_read(reader, NULL, NULL, bytes, &event);
    return true;
}

static void read_on(struct connection *connection, _Atomic uint32_t *busy, struct http2_reader *reader,
                    struct hpack *hpack, const struct iovec *vector, size_t count, size_t bytes, note_fn *note)
{
    struct streams *streams = streams_of(connection);
    if (!enter(connection, streams, busy))
        return;
    bool goes_on = true;
    for (size_t i = 0; vector && i < count && bytes > 0 && goes_on; i++) {
        const size_t part = vector[i].iov_len < bytes ? vector[i].iov_len : bytes;
        goes_on = read_part(connection, streams, reader, hpack, vector[i].iov_base, part, note);
        bytes -= part;
    }
    goes_on = goes_on && (bytes == 0 || pass_unseen(reader, bytes));
    leave_off(busy);
    if (!goes_on)
        http2_leave(connection);
}

OWN_FRAME void http2_sent(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    struct streams *streams = streams_of(connection);
    if (!streams)
        return;
    read_on(connection, &streams->sending, &streams->sent, NULL, vector, count, bytes, note_sent);
    if (streams->came.has_greeted)
        is_greeted(connection, streams); /* before its client has spoken */
}

OWN_FRAME void http2_came(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes)
{
    struct streams *streams = streams_of(connection);
    if (streams)
        read_on(connection, &streams->receiving, &streams->came, &streams->hpack, vector, count, bytes, note_came);
}
