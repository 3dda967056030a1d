/*
 * tls_watch.h - TLS connections whose plaintext nobody has shown: their records are followed (breaker/tls_records.h),
 * from the ClientHello until it is known that an answer came, or that nothing can be told.
 *
 * Where a library of TLS works in memory, its session is found here, too: by the client's random, 32 bytes that the
 * library tells and that the connection has sent in plain.
 *
 * One at a time follows a connection's records; who finds another one at it for long, or what a jump has left, gives the
 * reading up, and then bytes are an answer as they come. Private to src/connection.
 */
#ifndef SOCKFUSE_CONNECTION_TLS_WATCH_H
#define SOCKFUSE_CONNECTION_TLS_WATCH_H

#include <stdbool.h>
#include <sys/uio.h>

#include "breaker/tls_records.h"
#include "connection/connection.h"
#include "connection/pool.h"
#include "connection/socket_state.h"

/* A ClientHello is the first that was sent on it, from outside of any library that is seen; or what came tells so. Told
 * again it changes nothing. */
void tls_watch_begin(struct connection *connection);
/* Before a send; one system call, until the program has asked for something. */
void tls_watch_sending(struct connection *connection, int fd);
/* After it, with what it took: bytes > 0 of the vector, or none. */
void tls_watch_sent(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);
/* What came. Whether it is to be held, as no answer so far. */
bool tls_watch_holds(struct connection *connection, size_t bytes, const struct received *received);
/* After a send, when its wait has begun: an answer may have come meanwhile, or nothing may have been asked. */
void tls_watch_look(struct connection *connection);

/*
 * The program has asked, and it is certain that nothing came which may be an answer: all that the kernel has counted was
 * seen. Or it has broken the handshake off.
 */
bool tls_watch_is_silent(const struct connection *connection, const struct socket_state *state);

#endif
