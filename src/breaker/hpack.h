/*
 * hpack.h - header blocks of HTTP/2 (RFC 7541), read byte by byte as they pass, without keeping any header.
 *
 * Of a header four things are wanted: the status, grpc-status, whether its content is gRPC, and Retry-After in seconds.
 * Later blocks refer to former headers by their places in a table, so that must be followed: of each entry it is kept
 * what it says of these four (a number), and how long its name and it are, for by that the peer makes room. So the state
 * is of fixed size, whatever the headers are, and holds nothing that anybody sent; and there are no pointers in it.
 * Everything is bounded by masks: a state that two threads have mixed up is a wrong one, and no harm.
 *
 * An entry has 32 bytes at the least, so a table of the usual 4,096 bytes fits always, and larger ones as long as their
 * headers are longer. A peer that fills one with more entries is LOST: nothing can be said of it any more.
 *
 * Pure; async-signal-safe. All zero but `table_most` at the start: hpack_start.
 */
#ifndef SOCKFUSE_BREAKER_HPACK_H
#define SOCKFUSE_BREAKER_HPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HPACK_ENTRIES 256u /* a power of two */

/* A header's value: of CONTENT_TYPE whether it is gRPC; else a number, at most HPACK_MOST. */
#define HPACK_NO_VALUE 0x1fffu
#define HPACK_MOST (HPACK_NO_VALUE - 1)

/* What a block says. HPACK_NO_VALUE: nothing. */
struct hpack_head {
    uint16_t status, grpc_status, retry_after_s;
    bool is_grpc;
};

/* The members are the reader's own. */
struct hpack {
    uint64_t table[HPACK_ENTRIES]; /* a ring: kind:3 | value:13 | length of the name:24 | of both:24 */
    uint32_t table_first, table_count, table_size, table_most;
    uint64_t number;    /* an integer that is being read */
    uint64_t bits;      /* of a Huffman code: those that are not decoded yet */
    uint32_t left;      /* bytes of a string to come */
    uint32_t length;    /* of the string, decoded, so far */
    uint32_t name_size; /* of the header's name */
    uint32_t value;     /* of the header, so far */
    uint8_t bit_count, shift;
    uint8_t state, form; /* of the representation that is being read */
    uint8_t kind;        /* of the header */
    uint8_t may_be;      /* the names that this one may be so far: bits */
    uint8_t is_value, is_coded;
    struct hpack_head head;
};

void hpack_start(struct hpack *hpack);
/* A block begins. */
void hpack_begin(struct hpack *hpack);
/* Its next bytes. False: it is no header block, or more than can be followed. Final: the table is not known any more. */
bool hpack_read(struct hpack *hpack, const unsigned char *bytes, size_t count);
/* It has ended; false: within a header. */
bool hpack_end(const struct hpack *hpack);

#endif
