/*
 * streams.h - what this process knows of a connection's streams, where it speaks HTTP/2: how far both directions are
 * read, and which of its streams are calls.
 *
 * Some 6 KiB for each such connection, and nothing for any other. Taken from chunks that are mapped when needed and
 * never given back to the kernel, as pool.c's records; so a thread that is late finds memory, and by `entry` that it is
 * another's. Lock-free, async-signal-safe. Private to src/connection.
 */
#ifndef SOCKFUSE_CONNECTION_STREAMS_H
#define SOCKFUSE_CONNECTION_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "breaker/hpack.h"
#include "breaker/http2.h"
#include "connection/descriptors.h"

#define STREAMS_MAX 128u /* of one connection that are told apart at a time: what servers allow, mostly */

enum stream_flag {
    STREAM_OWN = 1u << 0,      /* its call is on the connection's own record */
    STREAM_PROBE = 1u << 1,    /* its call is a probe's */
    STREAM_AGAINST = 1u << 2,  /* it passed against its circuit's word */
    STREAM_KEPT = 1u << 3,     /* an earlier one on the connection had been answered */
    STREAM_ANSWERED = 1u << 4, /* of gRPC: the answer has begun, and its status is still to come */
};

struct stream {
    _Atomic uint64_t begun_ns, since_ns; /* real clock: when it began; since when it waits */
    _Atomic uint32_t call;               /* CALL_NONE: it is judged, or was not admitted */
    _Atomic uint32_t flags;              /* enum stream_flag */
};

/* Where the connection's own record is. */
enum own_call {
    OWN_ATTEMPT, /* its attempt's call waits for the first stream */
    OWN_STREAM,  /* some stream has it */
    OWN_IDLE,    /* its last call is over */
};

struct streams {
    _Alignas(64) _Atomic descriptor entry; /* of the connection; 0: nobody's */
    _Atomic uint32_t next;                 /* in the list of free ones */
    _Atomic uint32_t sending, receiving;   /* a thread is at what is sent, or came */
    _Atomic uint32_t high;                 /* no place of `ids` at or above was used */
    _Atomic uint32_t begun;                /* the highest id that has begun */
    _Atomic uint32_t own;                  /* enum own_call */
    _Atomic uint32_t beside;               /* calls on records beside the own one */
    struct http2_reader sent, came;
    _Atomic uint32_t ids[STREAMS_MAX]; /* of the streams; 0: free; STREAM_BUSY: it is being filled, or judged */
    struct stream streams[STREAMS_MAX];
    struct hpack hpack; /* of `came` */
};
#define STREAM_BUSY UINT32_MAX
#define STREAM_NONE UINT32_MAX

/* A free one, for that connection: its number, from 1; 0: there is none. */
uint32_t streams_take(descriptor entry);
struct streams *streams_at(uint32_t number);
/* Of several who give it back one does. One that a thread is still at is not given to others any more. */
void streams_give(uint32_t number, descriptor entry);

/* Takes a free place for the stream, which is BUSY until stream_publish; STREAM_NONE: there is none. */
uint32_t stream_claim(struct streams *streams);
void stream_publish(struct streams *streams, uint32_t place, uint32_t id);
uint32_t stream_find(const struct streams *streams, uint32_t id);
/* The stream is over: of several who say so one does. */
bool stream_end(struct streams *streams, uint32_t place, uint32_t id);

#endif
