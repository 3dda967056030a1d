/*
 * socket_state.h - what the kernel says of a socket, without taking anything from the program.
 *
 * TCP_INFO never consumes anything. SO_ERROR does: it is read only by socket_take_error, right before the real close.
 * Knows no connection and no wrapper. Async-signal-safe; the system calls are said. Callers preserve errno.
 */
#ifndef SOCKFUSE_CONNECTION_SOCKET_STATE_H
#define SOCKFUSE_CONNECTION_SOCKET_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum socket_stage {
    SOCKET_UNKNOWN,   /* not a TCP socket, or the kernel did not say */
    SOCKET_PENDING,   /* SYN-SENT */
    SOCKET_CONNECTED, /* established, or the program's own side is shut */
    SOCKET_PEER_DONE, /* the peer's end of stream has arrived */
    SOCKET_DEAD,      /* CLOSE: refused, reset, or never connected */
};

struct socket_state {
    enum socket_stage stage;
    bool data_in;      /* the peer has sent data at some time */
    bool data_out;     /* this side has sent data at some time */
    uint64_t bytes_in; /* what the peer has sent in all, read or not, its end counted as one; UINT64_MAX: not told */
    /*
     * It is not connected to itself: one segment without data has come, which accepted the connection. Where a socket
     * meets itself two come, its own SYN and its own acknowledgement of it. False: it may be either (tests/preload/
     * test_self_connect.c).
     */
    bool met_a_peer;
    uint64_t sent_ns;  /* since data was last sent, in ms steps; not the probes of a window that is shut */
    uint64_t data_ns;  /* since data last came, in ms steps; 0: just now, or not known (a UNIX socket) */
    uint64_t quiet_ns; /* since the peer's last acknowledgement: the age of a connection on which nothing was sent; in
                          ms steps */
};

/* Asks TCP_INFO: one system call. A UNIX socket is asked in three. Takes nothing from the program. */
struct socket_state socket_state(int fd, bool is_unix);

/* The error that waits in the socket, and takes it: only right before the real close. 0: none. */
int socket_take_error(int fd);
/* Whether there is one to take. */
bool socket_has_error(int fd);

/* Whether a TCP socket has, or had, a port of its own: connect gives it one once there is a route. */
bool socket_has_port(int fd);

/* A number that stays with the socket for ever, the same for all its descriptors; 0 if the kernel has none. */
uint64_t socket_cookie(int fd);

/* Whether it is a stream socket of a family that is guarded. */
bool socket_is_guardable(int fd);
bool socket_family_is_guarded(int family);

/* Whether bytes have come that nobody has read, and how many. */
bool socket_has_unread(int fd);
uint64_t socket_unread(int fd);

/* Whether bytes are on their way that the peer has not taken; also if that is not known. And how many; 0 if not. */
bool socket_has_unsent(int fd);
uint64_t socket_unsent(int fd);

/* Waits until it is connected and can be written to, so long at the most. No cancellation point. */
bool socket_becomes_writable(int fd, int ms);

/* Whether it is a TCP socket, and no other stream (MPTCP, UNIX). */
bool socket_is_tcp(int fd);

/* Whether reads and writes on it wait. */
/* SO_RCVLOWAT: how many bytes a blocking receive waits for. */
int socket_low_water(int fd);
bool socket_blocks(int fd);

#endif
