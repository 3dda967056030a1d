/*
 * inherited.h - connections that an ancestor made, in a fork's child: what the child sees of them counts as if the
 * ancestor itself had seen it.
 *
 * The child has the memory of the connection as it was at the fork, and with it the place of its record in the segment
 * and the name that the record bears there. As long as the record bears that name, for that owner, its call is that
 * connection's, also one that began after the fork. The child settles it, and that is all: it begins no call, gives
 * none up, and forgets none. Private to exchange.c, ending.c and waiting.c. Async-signal-safe.
 */
#ifndef SOCKFUSE_CONNECTION_INHERITED_H
#define SOCKFUSE_CONNECTION_INHERITED_H

#include "connection/judgement.h"
#include "connection/tls_sessions.h"

/* The connection that an entry names, if it is an ancestor's and the number still stands for it; or NULL. */
static inline struct connection *inherited_of(descriptor entry, int fd)
{
    struct connection *connection = descriptor_get(fd) == entry ? judgement_of_anybody(entry) : NULL;
    return connection && connection->epoch != lineage_epoch() ? connection : NULL;
}

/* Before a receive, and after it, as connection_received has it. */
void inherited_receiving(struct connection *connection);
void inherited_received(struct connection *connection, int fd, ssize_t result, int error,
                        const struct received *received, enum tls_doing doing);
/* Plaintext that came out of a TLS session over it. */
void inherited_answered(struct connection *connection, int fd, const struct iovec *vector);
/* Something was sent: whatever the ancestor waits for is waited for anew. */
void inherited_sent(struct connection *connection);
/* Another program is to have it from this child. */
void inherited_handed(struct connection *connection, int fd);
/* Whether an exec in this child hands it on, if it stays open: it was made ready for that, or is a probe's. */
bool inherited_goes_on(const struct connection *connection);

#endif
