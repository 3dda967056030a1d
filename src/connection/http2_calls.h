/*
 * http2_calls.h - on a connection that speaks HTTP/2 each stream is a call: what the two files of judgement.h that see to
 * it share.
 *
 * http2_calls.c reads what passes, in both directions, and says what happens to streams; stream_calls.c has what that
 * means for their calls. The first stream's call is that of the connection's attempt, which so is proved by an answer
 * and not by the server's settings. Later ones begin on the connection's record when its last call is over, else on a
 * record of their own.
 *
 * A connection that can't be followed any more (no place, two threads at one direction, bytes that nobody showed us)
 * goes on as one whose answers are not told apart: http2_leave. Private to http2_calls.c and stream_calls.c.
 */
#ifndef SOCKFUSE_CONNECTION_HTTP2_CALLS_H
#define SOCKFUSE_CONNECTION_HTTP2_CALLS_H

#include <sys/uio.h>

#include "connection/judgement.h"
#include "connection/streams.h"

static inline struct streams *streams_of(const struct connection *connection)
{
    struct streams *streams = streams_at(atomic_load_explicit(&connection->streams, memory_order_relaxed));
    return streams && atomic_load_explicit(&streams->entry, memory_order_acquire) ==
                          atomic_load_explicit(&connection->entry, memory_order_relaxed)
               ? streams
               : NULL;
}

/* A stream begins. False: it may not. */
bool stream_begin(struct connection *connection, struct streams *streams, uint32_t id, bool may_refuse);
/* (More of) its request was sent; `whole`: all of it. */
void stream_asked(struct connection *connection, struct streams *streams, uint32_t place, bool whole);
/* The wait for an answer is over, and the answer is not judged yet. */
void stream_wait_ends(struct connection *connection, const struct stream *stream);

/* What became of a stream's call. */
struct stream_end {
    enum seen seen;
    int error;
    unsigned int status;
    uint64_t retry_after_ns;
    bool is_stale; /* it was not processed */
};
void stream_judge(struct connection *connection, struct streams *streams, uint32_t place, const struct stream_end *end);

#endif
