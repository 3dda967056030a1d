/*
 * fallback_connections.h - connections that were made while their circuit refused, and stand at its fallback.
 *
 * They have no call, and what happens on them is nobody's affair. But a pool keeps what it was given: so that it comes
 * back to the destination, a request on one of them fails, as on any connection that has gone stale, once the circuit
 * refuses no more. For that it is known which circuit it was, and whether the last answer has come.
 * Private to attempt.c and exchange.c. Async-signal-safe.
 */
#ifndef SOCKFUSE_CONNECTION_FALLBACK_CONNECTIONS_H
#define SOCKFUSE_CONNECTION_FALLBACK_CONNECTIONS_H

#include "connection/judgement.h"
#include "connection/tls_sessions.h"

/*
 * Before the attempt that goes to the fallback: its socket's entry from now on; 0: there is no room, and it goes
 * unfollowed. A system call.
 */
descriptor aside_track(int fd, const struct attempt *attempt, const struct policy *policy, struct station *station);

/* Whether the entry's socket went to the fallback, in this process or an ancestor. */
bool aside_stands(descriptor entry);
/* A further connect on such a socket asks how that stands; the kernel looks at no address then. */
enum passage aside_further_connect(int fd, const struct sockaddr *address, socklen_t length,
                                   struct attempt_ticket *ticket);
/* What became of the connect to the fallback: as long as the socket may be connected there, it is left alone. */
void aside_returned(const struct attempt_ticket *ticket, int result, int error);

/* Before a send: 0, or the errno of its refusal, as connection_sending. */
int aside_sending(struct connection *connection, int fd);
/* After a receive; and plaintext of an answer, which has come with it, but for an interim one of HTTP. */
void aside_received(struct connection *connection, ssize_t result, const struct received *received,
                    enum tls_doing doing);
void aside_answered(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes);

#endif
