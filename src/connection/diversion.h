/*
 * diversion.h - addresses to which an attempt is connected instead of where its program wanted.
 *
 * Two reasons to do so: a fallback, and a fault in rehearsal. It is always the program's own socket, with its own
 * flags. Knows no circuit. Async-signal-safe; system calls: one to four each. Callers preserve errno.
 */
#ifndef SOCKFUSE_CONNECTION_DIVERSION_H
#define SOCKFUSE_CONNECTION_DIVERSION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "policy/policy.h"

struct elsewhere {
    socklen_t length; /* of the address; 0: none */
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } address;
};

/* Where a fallback is for that socket; false if it can't be connected there:
 * another family, IPV6_V6ONLY, an unresolved host. */
bool diversion_fallback(struct elsewhere *elsewhere, int fd, const struct fallback *fallback);

/* Where the kernel refuses: port 0 of this host, at which nobody can listen, or an abstract name that nobody has. */
bool diversion_refusing(struct elsewhere *elsewhere, int fd, const struct sockaddr *wanted);

/*
 * The socket's own address, to which it is bound if it was not: connected there it meets itself (a simultaneous open,
 * RFC 9293, 3.5). Only of TCP sockets.
 */
bool diversion_self(struct elsewhere *elsewhere, int fd, const struct sockaddr *wanted);

/*
 * A TCP socket that is connected leaves its peer, which is sent a reset: then ECONNRESET waits in it, and whoever polls
 * it is woken. Or the peer reads the end of the stream, and the socket is connected to itself. False: it could not be
 * done; of the second, the socket may be disconnected all the same.
 */
bool diversion_leave(int fd);
bool diversion_leave_for_self(int fd);

/* What the socket shall not receive. */
enum deafness {
    DEAF_TO_ALL,  /* from itself: it stays in SYN-SENT */
    DEAF_TO_DATA, /* from itself: it is connected, but does not read what it sends */
    DEAF_TO_PEER, /* neither data, nor an end, nor a reset: only that the peer has taken what was sent */
};
/* False if the kernel does not take the filter (no TCP socket, one of the program's own, SO_LOCK_FILTER). */
bool diversion_deafen(int fd, enum deafness deafness);
void diversion_undeafen(int fd);

#endif
