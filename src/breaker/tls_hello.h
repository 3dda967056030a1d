/*
 * tls_hello.h - the messages by which a TLS session begins (RFC 8446, 4.1; RFC 5246, 7.4.1), byte by byte.
 *
 * Private to tls_records.c; pure.
 */
#ifndef SOCKFUSE_BREAKER_TLS_HELLO_H
#define SOCKFUSE_BREAKER_TLS_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/tls_records_model.h"

/* Whether the message is read to its end, or is none. */
bool tls_hello_is_over(const struct tls_hello *hello);
/* Takes the next byte of the client's, or of the server's. */
void tls_hello_read(struct tls_records *records, struct tls_hello *hello, bool is_client, uint8_t byte);

#endif
