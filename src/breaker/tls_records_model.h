/*
 * tls_records_model.h - what is known of a TLS session from outside; the members are the readers' own.
 *
 * Whoever includes it to have such a thing uses tls_records.h for all else.
 */
#ifndef SOCKFUSE_BREAKER_TLS_RECORDS_MODEL_H
#define SOCKFUSE_BREAKER_TLS_RECORDS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define TLS_RANDOM_BYTES 32u
#define TLS_HEADER_BYTES 5u
#define VERSION_1_2 0x0303u /* or an older one, which makes no difference */
#define VERSION_1_3 0x0304u

/* How far one direction is. */
struct tls_stream {
    uint64_t bytes; /* so far */
    uint32_t left;  /* of the present record */
    uint8_t have;   /* bytes of the header */
    uint8_t header[TLS_HEADER_BYTES];
    bool is_hello; /* the present record is read */
};

/* How far the message of a hello is. */
struct tls_hello {
    uint8_t step;
    bool is_retry;      /* the server's random is so far that of a HelloRetryRequest */
    uint16_t type;      /* of the present extension */
    uint32_t left;      /* bytes of the present field */
    uint32_t number;    /* what they come to */
    uint32_t remaining; /* of the whole message */
};

/* All zero at the start of a connection. */
struct tls_records {
    struct tls_stream out, in;
    struct tls_hello client, server;
    uint8_t random[TLS_RANDOM_BYTES]; /* the client's, once has_random */
    uint64_t finished_from;           /* the server's bytes when the send of the Finished began */
    uint64_t asked_from;              /* and of the request, or of the last send so far */
    uint32_t tail;                    /* the server's records since finished_from, */
    uint32_t tail_length;             /* the first one's length, */
    uint32_t after;                   /* those since asked_from */
    uint16_t version, suite;
    uint16_t offered; /* the length of the ticket that the client has shown */
    uint8_t padding;  /* of the client's records */
    uint8_t others;   /* the client's encrypted records before its Finished */
    bool is_lost, has_random, is_resumed, is_finished, is_rejected, has_asked, is_answered;
    bool is_uneven;  /* the tail's records are not of one length */
    bool is_sending; /* a send is under way */
};

#endif
