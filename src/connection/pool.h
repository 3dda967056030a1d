/*
 * pool.h - the memory of guarded connections: what this process knows of each beyond its record in the segment.
 *
 * Records are taken from chunks that are mapped when needed and never given back to the kernel, so that a late reader
 * always finds memory; a serial number tells it that the record has moved on. Lock-free, async-signal-safe.
 */
#ifndef SOCKFUSE_CONNECTION_POOL_H
#define SOCKFUSE_CONNECTION_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/seqlock.h"
#include "base/shared.h"
#include "breaker/http.h"
#include "breaker/http_request.h"
#include "connection/connection_state.h"
#include "connection/descriptors.h"
#include "connection/engine.h"
#include "connection/pages.h"
#include "policy/policy.h"

#define CONNECTION_NONE UINT32_MAX

/* What is so of a connection beside its state (connection_state.h). Those that the short way (short_exchange.c) looks
 * at are all in one word. */
enum connection_property {
    /* Its socket. */
    CONNECTION_UNIX = 1u << 0,
    CONNECTION_MAY_LOOP = 1u << 1,  /* over IP, to a port that the kernel may have given to the socket itself, for all
                                       that is known (judgement_meets_itself) */
    CONNECTION_FAST_OPEN = 1u << 2, /* connect or send succeeded while the kernel still waits for the peer */
    CONNECTION_SWAPPED = 1u << 3,   /* another preload has talked on it before the program could */
    /* What the present policy says of it. Another thread may be in a call, which that does not end: no state. */
    CONNECTION_ONE_WAY = 1u << 4,  /* its target asks for a connection alone: what is sent on it is no call */
    CONNECTION_RELEASED = 1u << 5, /* nothing: what is sent on it is no call */
    CONNECTION_DRAWS = 1u << 6,    /* in rehearsal: its calls may be given faults */
    /* What was said on it so far. */
    CONNECTION_ASKED = 1u << 7,    /* the program has begun to send on it, known before any answer can come */
    CONNECTION_SENT = 1u << 8,     /* the program has sent something */
    CONNECTION_REUSED = 1u << 9,   /* a former call on it was answered */
    CONNECTION_GREETED = 1u << 10, /* all that was answered on it came unasked: its server spoke first */
    /* Its protocol. */
    CONNECTION_TLS = 1u << 11,      /* it speaks TLS */
    CONNECTION_TLS_SEEN = 1u << 12, /* with a library whose plaintext we see: bytes on the wire are no answer */
    CONNECTION_TLS_KEPT = 1u << 13, /* plaintext went into its TLS session, and its record is still to be sent */
    CONNECTION_REJECTED = 1u << 14, /* by the program itself, in the TLS handshake: a certificate it does not trust */
    CONNECTION_STREAM = 1u << 15,   /* HTTP/2 or an upgrade: one request after another is not what is spoken any more */
    CONNECTION_CLOSES = 1u << 16,   /* the end of the stream is the answer to what was asked */
    /* Its present request. */
    CONNECTION_BODY = 1u << 17,    /* it is known, and more of it is to come */
    CONNECTION_LARGE = 1u << 18,   /* much of it was sent at once: the kernel may still be at it */
    CONNECTION_SENDING = 1u << 19, /* much is being sent just now */
    /* The program's own side. */
    CONNECTION_SHUT_READ = 1u << 20,
    CONNECTION_SHUT_WRITE = 1u << 21,
    CONNECTION_GAVE_UP = 1u << 22, /* it had waited long for the answer when it ended its side */
    /* Other processes. */
    CONNECTION_PASSED = 1u << 23, /* its descriptor was passed to one, for its use */
    CONNECTION_SHARED = 1u << 24, /* the same, and it stays so: its error may be another's to read */
    /* In rehearsal. */
    CONNECTION_FAULTY = 1u << 25, /* its present call was given a fault: `fault` says which */
    /* Its protocol again. */
    CONNECTION_HTTP2 = 1u << 26, /* STREAM, and its streams are told apart (http2_calls.h) */
};

/* The fault of its present call: enum fault_kind, these, and an HTTP status or milliseconds. */
#define FAULT_KIND_MASK 0xfu
#define FAULT_KEPT (1u << 4)    /* it was given to a request on a kept connection, which leads to the destination */
#define FAULT_PLAYED (1u << 5)  /* what comes after the connection was played */
#define FAULT_DELAYED (1u << 6) /* its attempt has not begun yet */
#define FAULT_VALUE_SHIFT 8
#define FAULT_VALUE_MASK 0xffffffu
_Static_assert(FAULT_HTTP <= FAULT_KIND_MASK, "the last kind fits");

enum pool_keeping { POOL_FREE, POOL_TAKEN };
#define HTTP_WORDS WORDS(struct http_reader)
#define REQUEST_WORDS WORDS(struct http_request)
_Static_assert(sizeof(struct http_reader) % sizeof(uint64_t) == 0, "it is read and written by words");

struct connection {
    /* What each send and receive looks at: two cache lines. */
    _Alignas(64) _Atomic descriptor entry; /* of its descriptors: another one whenever the record is taken */
    _Atomic uint32_t properties;           /* enum connection_property */
    _Atomic uint32_t state;                /* enum connection_state */
    uint32_t epoch;                        /* the process (lineage.h) whose call it is */
    _Atomic(const struct target *) target; /* another one after a reload */
    _Atomic(const struct policy *) policy; /* the target's */
    struct call_place place;               /* in the segment: its circuit, and the record of its calls */
    /* The second line, with the end of `place`. */
    uint64_t address_key;
    _Atomic uint64_t waiting_since_ns; /* real clock: since the attempt, the connection, or its last request */
    _Atomic uint64_t waited_before_ns; /* real clock: since when it had waited when it spoke again; 0: it did not */
    _Atomic uint64_t shut_write_ns;    /* real clock; 0: not shut */
    _Atomic uint64_t http[HTTP_WORDS]; /* struct http_reader: how far the answer is read */
    /* The rest. */
    _Atomic uint64_t request[REQUEST_WORDS]; /* struct http_request: how far the request is sent */
    _Atomic uint64_t first_sent;             /* how what was sent on it begins: bytes:56 | how many:8; 0: not seen */
    _Atomic(struct station *) station;
    _Atomic bool is_stationed;     /* its calls are in the station's segment, until it is given back */
    _Atomic uint32_t aliases;      /* descriptors of this process that stand for it; 0: free */
    _Atomic uint32_t next;         /* in the list of free ones */
    _Atomic uint32_t keeping;      /* enum pool_keeping, or a round of left_behind.c's that found it left behind */
    _Atomic int fd;                /* one of its descriptors */
    struct seqlock answer_seqlock; /* of `http` */
    _Atomic uint32_t sharers;      /* the group of their numbers (sharers.h); 0: there is one alone */
    _Atomic uint32_t follows;      /* its policy, as policy_keeping.h has it */
    _Atomic uint32_t forks;        /* lineage_forks() when the socket was made */
    _Atomic uint32_t streams;      /* with HTTP2: streams.h */
    uint32_t raced_since;          /* races_now() when the attempt began */
    _Atomic uint32_t heard;        /* in a fork's child: which of the record's calls it last heard of */
    _Atomic bool is_childs;        /* PASSED since a child got the last answer, until one comes here again */
    _Atomic uint32_t fault;        /* FAULT_…; 0: none */
    _Atomic uint64_t cookie;       /* of its socket (SO_COOKIE) */
    const struct sockaddr *at;     /* where its attempt was given the address; it may have gone since */
    socklen_t at_length;
    size_t sibling_count;                 /* 0: it has no name */
    uint64_t siblings[CIRCUIT_ADDRESSES]; /* hashes of all addresses that its name has */
};

/*
 * Takes a free record, or CONNECTION_NONE. Maps memory now and then. It has no alias yet: others leave it alone until
 * it is filled and pool_publish has given it its first.
 */
uint32_t pool_take(void);
void pool_publish(struct connection *connection);
/* One more descriptor stands for the record; false if none does any more: it is being given back. */
bool pool_add_alias(struct connection *connection);
/* Whether the record is filled and stands for a descriptor. */
bool pool_is_live(const struct connection *connection);
/* Of several who give it back one does. */
void pool_give(uint32_t number);

#define POOL_MAX 65536u
#define POOL_AT_HAND 16u /* records that need no mapping */
#define POOL_CHUNK 128u
#define POOL_CHUNKS (POOL_MAX / POOL_CHUNK)
/* Roots: the first records are at hand (a place is left for them in the first chunk, which is never written); the
 * chunks are mapped when needed. */
extern struct connection pool_first[POOL_AT_HAND];
extern pages_root pool_chunks[POOL_CHUNKS];

/* NULL if the number is out of range. */
static inline struct connection *pool_at(uint32_t number)
{
    if (__builtin_expect(number < POOL_AT_HAND, 1))
        return &pool_first[number];
    if (number >= POOL_MAX)
        return NULL;
    struct connection *chunk = pages_present(&pool_chunks[number / POOL_CHUNK]);
    return chunk ? &chunk[number % POOL_CHUNK] : NULL;
}

/*
 * What a connection's record in the segment is known by (guard_name): the number + 1, and under it the low bits of the
 * serial number, by which a child that has the memory of an older use tells it from this one. Below HELD_NUMBER.
 */
#define POOL_NAME_NUMBER_BITS 17
#define POOL_NAME_BITS 30
_Static_assert(POOL_MAX < 1u << POOL_NAME_NUMBER_BITS, "a number + 1 fits");
static inline uint32_t pool_name(descriptor entry)
{
    uint32_t serial = descriptor_serial(entry) << POOL_NAME_NUMBER_BITS;
    return (serial & ((1u << POOL_NAME_BITS) - 1)) | descriptor_connection(entry);
}

/* The connection of a name; NULL: there is none, or it has moved on. */
static inline struct connection *pool_named(uint32_t name)
{
    uint32_t number = name & ((1u << POOL_NAME_NUMBER_BITS) - 1);
    struct connection *connection = number ? pool_at(number - 1) : NULL;
    return connection && pool_name(atomic_load_explicit(&connection->entry, memory_order_relaxed)) == name ? connection
                                                                                                           : NULL;
}

/* No record at or above this number was ever taken. */
uint32_t pool_high(void);

/* What it goes by. A reload may put another one in its place at any time: who needs it twice asks once. */
static inline const struct target *connection_target(const struct connection *connection)
{
    /* Acquire: all of the target was written before. */
    return atomic_load_explicit(&connection->target, memory_order_acquire);
}

/*
 * How far the present answer is read: from its beginning, if another thread is just writing that, or has jumped away
 * from it.
 */
static inline struct http_reader connection_http(const struct connection *connection)
{
    struct http_reader reader;
    uint32_t version;
    if (!seqlock_look(&connection->answer_seqlock, &version))
        return (struct http_reader){0};
    words_load(&reader, connection->http, HTTP_WORDS);
    return seqlock_stands(&connection->answer_seqlock, version) ? reader : (struct http_reader){0};
}

/* Of threads that write at once, one does. */
static inline void connection_set_http(struct connection *connection, const struct http_reader *reader)
{
    uint32_t version;
    const uint32_t mine =
        seqlock_look(&connection->answer_seqlock, &version) ? seqlock_begin(&connection->answer_seqlock, version) : 0;
    if (mine == 0)
        return;
    words_store(connection->http, reader, HTTP_WORDS);
    seqlock_end(&connection->answer_seqlock, mine);
}

/* A new answer is to come; whoever was about to write of the former one may have jumped away. */
static inline void connection_reset_http(struct connection *connection)
{
    static const struct http_reader fresh = {0};
    const uint32_t mine = seqlock_seize(&connection->answer_seqlock);
    words_store(connection->http, &fresh, HTTP_WORDS);
    seqlock_end(&connection->answer_seqlock, mine);
}

/* Nothing of an answer has been read, and nobody is at it. */
static inline bool connection_http_is_fresh(const struct connection *connection)
{
    struct http_reader reader = connection_http(connection);
    return http_is_fresh(&reader) &&
           !seqlock_is_written(atomic_load_explicit(&connection->answer_seqlock.version, memory_order_relaxed));
}

/*
 * Of threads that send at the same time one is believed. All that the reader goes by is in one of the two words, so
 * that what two have written is still a state of its.
 */
static inline struct http_request connection_request(const struct connection *connection)
{
    struct http_request request;
    words_load(&request, connection->request, REQUEST_WORDS);
    return request;
}

static inline void connection_set_request(struct connection *connection, struct http_request request)
{
    words_store(connection->request, &request, REQUEST_WORDS);
}

/* The beginning of what is sent or received, in seven bytes at the most: bytes:56 | how many:8. */
#define BEGINNING_BYTES 7u
static inline uint64_t connection_beginning(const void *bytes, size_t count)
{
    uint64_t word = 0;
    if (__builtin_expect(count > BEGINNING_BYTES, 1))
        memcpy(&word, bytes, sizeof word); /* which is faster than so many as there are */
    else
        memcpy(&word, bytes, count);
    return word << 8 | (count < BEGINNING_BYTES ? count : BEGINNING_BYTES);
}

static inline void connection_begins_with(struct connection *connection, const void *bytes, size_t count)
{
    atomic_store_explicit(&connection->first_sent, connection_beginning(bytes, count), memory_order_relaxed);
}

/*
 * Whether what came first can't be what was sent first: as far as both are known they are not the same. (Where a
 * machine's first byte is its highest, fewer than seven tell nothing.)
 */
static inline bool connection_hears_another(const struct connection *connection, const void *bytes, size_t count)
{
    const uint64_t sent = atomic_load_explicit(&connection->first_sent, memory_order_relaxed);
    const uint64_t heard = bytes ? connection_beginning(bytes, count) : 0;
    const uint64_t both = (sent & 7) < (heard & 7) ? sent & 7 : heard & 7;
    return (sent ^ heard) & ((UINT64_C(1) << (8 * both)) - 1) << 8;
}

static inline enum connection_state connection_state(const struct connection *connection)
{
    return (enum connection_state)atomic_load_explicit(&connection->state, memory_order_relaxed);
}

/*
 * That happens to it. Of several threads that say so at once one moves it on: the one that is told of another state
 * than it leads to. Returns the state before.
 */
static inline enum connection_state connection_happens(struct connection *connection, enum connection_event event)
{
    uint32_t state = atomic_load_explicit(&connection->state, memory_order_relaxed), next;
    do {
        next = state_after((enum connection_state)state, event);
        if (next == state)
            break;
    } while (!atomic_compare_exchange_weak_explicit(&connection->state, &state, next, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return (enum connection_state)state;
}

/* The same by a plain store, for who has just seen the state, and does not mind whom he overtakes. */
static inline void connection_moves_on(struct connection *connection, enum connection_state state,
                                       enum connection_event event)
{
    atomic_store_explicit(&connection->state, state_after(state, event), memory_order_relaxed);
}

static inline bool connection_has(const struct connection *connection, enum connection_property property)
{
    return atomic_load_explicit(&connection->properties, memory_order_relaxed) & (uint32_t)property;
}

static inline void connection_unmark(struct connection *connection, enum connection_property property)
{
    atomic_fetch_and_explicit(&connection->properties, ~(uint32_t)property, memory_order_relaxed);
}

static inline void connection_mark(struct connection *connection, enum connection_property property)
{
    atomic_fetch_or_explicit(&connection->properties, (uint32_t)property, memory_order_relaxed);
}

/* Whether that is so of its fault: FAULT_KEPT, FAULT_PLAYED, FAULT_DELAYED. */
static inline bool connection_fault_is(const struct connection *connection, uint32_t how)
{
    return atomic_load_explicit(&connection->fault, memory_order_relaxed) & how;
}

/* A child has read the last answer: whoever sends here is not the one who waits. */
static inline void connection_leave_to_child(struct connection *connection)
{
    atomic_store_explicit(&connection->is_childs, true, memory_order_relaxed);
    connection_mark(connection, CONNECTION_PASSED);
}

/* Something was sent, or (`has_come`) received here: the connection is this process's after all. */
static inline void connection_keep(struct connection *connection, bool has_come)
{
    if (!connection_has(connection, CONNECTION_PASSED) ||
        (!has_come && atomic_load_explicit(&connection->is_childs, memory_order_relaxed)))
        return;
    if (has_come && !atomic_exchange_explicit(&connection->is_childs, false, memory_order_relaxed))
        return; /* what came here was not what the other process waits for */
    connection_unmark(connection, CONNECTION_PASSED);
}

#endif
