/*
 * upload.h - requests that take time to be sent: the wait for an answer begins when its request is complete.
 *
 * A request of HTTP/1.x is followed (breaker/http_request.h), so that a program which pauses in the middle of it is not
 * taken for a peer that is silent. Of other protocols, and of what a blocking send has still to bring out, the kernel
 * knows whether the peer takes it. Private to src/connection, but for UPLOAD_LARGE.
 */
#ifndef SOCKFUSE_CONNECTION_UPLOAD_H
#define SOCKFUSE_CONNECTION_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "connection/pool.h"

/* Sends of as much as this may have to wait for the peer: the smallest usual buffer of a socket that sends. */
#define UPLOAD_LARGE ((size_t)16384)

/* A new call begins: what is known of the former request is over. */
void upload_begin(struct connection *connection);
/* Nothing that is sent from now on is looked at as a part of the request, nor as another one: it was whole, or is none. */
void upload_is_whole(struct connection *connection);
/* Before a send of so many bytes (0: not known) on a connection of this process. */
void upload_sending(struct connection *connection, size_t bytes);
/* After it: the bytes that it took, of which `vector` has the first (NULL: they are not in the program's memory). */
void upload_sent(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);
/* The wait that begins after a send (PHASE_REQUESTED): for an answer, for the rest, or for the peer to take it. */
void upload_wait(struct connection *connection, uint64_t now_ns);
/* After a send that the kernel has no room for: now the program waits for the peer. */
void upload_stalled(struct connection *connection);

/*
 * For a call that has waited: for how long the peer has taken nothing of what was sent, or said nothing to it; 0: it is
 * the program that pauses. False: nothing is to be said of it, for the request was small. Two system calls.
 */
bool upload_silence(const struct connection *connection, int fd, uint64_t *silent_ns);

#endif
