/*
 * tls_records.h - what the records of a TLS session tell whoever can't read them: has the program asked for something,
 * and has anything come since that may be an answer?
 *
 * Both directions are followed, header by header; of what is in plain only the two hellos are read. Up to TLS 1.2 a
 * record says whether it carries the program's data (RFC 5246, 6.2.1). In TLS 1.3 all look alike behind the hellos
 * (RFC 8446, 5.2), and a server sends session tickets by itself (4.6.1), so order and lengths have to tell:
 *
 *   - the client's Finished has one exact length (or one more, with Java's padding); what it sends behind that is data, but for an alert and a key update;
 *   - what the server had sent before that send began is no answer to it;
 *   - behind it two records of one length, in the form of OpenSSL's tickets, are its tickets; where a session was
 *     resumed, one whose length follows from that of the ticket which the client had shown. (OpenSSL sends them before
 *     it hands the program's first byte to its server.)
 *
 * Whatever else it may be is taken for an answer. No buffer, a fixed size; pure: the same bytes in other pieces give the
 * same result. Everybody may call it, one at a time; async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_TLS_RECORDS_H
#define SOCKFUSE_BREAKER_TLS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/tls_records_model.h"

enum tls_standing {
    RECORDS_LOST,      /* nothing can be told: early data, an unknown version, bytes that nobody showed */
    RECORDS_HANDSHAKE, /* it is not over */
    RECORDS_REJECTED,  /* the client has ended it by an alert */
    RECORDS_READY,     /* it is over, and nothing was asked; nor has the server said anything but tickets */
    RECORDS_ASKED,     /* the client has sent data, and behind that nothing came but tickets */
    RECORDS_HELD,      /* the same, but for one record that is either a ticket or the answer */
    RECORDS_ANSWERED,  /* something came that may be an answer */
};

/* Before a send, when so many bytes of the server's have come in all, also those that nobody has read. */
void tls_records_sending(struct tls_records *records, uint64_t came);
/* After it: the bytes that were sent; then tls_records_sending is over. */
void tls_records_sent(struct tls_records *records, const void *bytes, size_t count);
void tls_records_send_is_over(struct tls_records *records);
/* The bytes that came. */
void tls_records_came(struct tls_records *records, const void *bytes, size_t count);
/* Bytes went by that nobody could look at. */
void tls_records_lose(struct tls_records *records);

enum tls_standing tls_records_standing(const struct tls_records *records);
/* Whether a header has come in part, or what came is not all that there was, as the kernel counts. */
bool tls_records_saw_all(const struct tls_records *records, uint64_t came);

#endif
