/*
 * fault_drawing.h - injected faults: which calls get one, and how it is played so that the program meets it where it
 * would meet a real one.
 *
 * An injected call is admitted, tracked and judged like any other; only where its packets go differs, and that is never
 * the destination. An attempt:
 *
 *   refuse    the kernel connects to port 0 of this host, which answers with a reset
 *   hang      the socket connects to itself and hears nothing: it stays in SYN-SENT until the program or the kernel
 *             gives up
 *   silence   the socket connects to itself, and what is sent is taken: nothing comes, not even its own end
 *   early-close  the same; after the first request its receiving side is shut
 *   reset     the socket connects to itself; after the first request it is disconnected, which leaves ECONNRESET in it
 *   http-NNN  the same; instead of the request the canned answer goes into the socket, and comes out where the program
 *             reads
 *   slow      the attempt goes to the destination; its first request is sent so that its end leaves later
 *             (fault_slow.h)
 *   delay     connect, which does go to the destination, begins that much later
 *
 * A request on a kept connection, which leads to the destination:
 *
 *   refuse    as one that the circuit refuses
 *   hang, silence  it is taken, and the socket made deaf to its peer
 *   early-close  the same, and the receiving side is shut
 *   reset     the socket leaves its peer
 *   http-NNN  it leaves its peer and connects to itself; then as above
 *   delay     the send begins that much later
 *   slow      it is sent so that its end leaves that much later
 *
 * No thread, no process, no descriptor. Where a fault can't be played (on UNIX sockets and on MPTCP's, which take no
 * filter, of an attempt all but refuse and delay, of a request reset and http-NNN) the call goes on untouched,
 * unmarked. Private to src/connection.
 * Async-signal-safe, errno is kept by the callers.
 */
#ifndef SOCKFUSE_CONNECTION_FAULT_DRAWING_H
#define SOCKFUSE_CONNECTION_FAULT_DRAWING_H

#include "connection/connection.h"
#include "connection/pool.h"
#include "guard/guard.h"

/* After an attempt was admitted and tracked: draws its fault and readies the socket.
 * PASSAGE_GUARDED (none) or PASSAGE_DIVERTED. */
enum passage rehearsal_begin(struct connection *connection, int fd, const struct attempt *attempt,
                             const struct sockaddr *address, struct attempt_ticket *ticket);

/*
 * The wait of `delay`, and then the attempt. Returns what connect would, errno included: the program's own SO_SNDTIMEO
 * counts from the beginning, and a signal that interrupts does so.
 */
int rehearsal_connect_late(struct connection *connection, struct attempt_ticket *ticket, const struct sockaddr *address,
                           socklen_t length);
/* The wait alone. False: interrupted. */
bool rehearsal_wait(struct connection *connection, uint64_t delay_ns);

/*
 * Before a blocking receive of a program that has sent nothing: a reset or an end comes now, for such a server speaks
 * first.
 */
void rehearsal_receiving(struct connection *connection, int fd, int flags);

/*
 * After a request on a kept connection was admitted: draws its fault. Returns what connection_sending shall: an errno
 * with which nothing is sent (ECONNRESET: it is refused), SENDING_FAULTY, SENDING_BEGINS.
 */
int rehearsal_request(struct connection *connection, int fd);

/* What the present call of a connection with CONNECTION_FAULTY meets. */
static inline enum fault_kind rehearsal_kind(const struct connection *connection)
{
    return (enum fault_kind)(atomic_load_explicit(&connection->fault, memory_order_relaxed) & FAULT_KIND_MASK);
}

/* It is about to be closed: lets it hear its own end, for which the kernel would wait. */
void rehearsal_closing(struct connection *connection, int fd);

/* The socket is to be used for another attempt: takes off what readied it. */
void rehearsal_over(struct connection *connection, int fd);

#endif
