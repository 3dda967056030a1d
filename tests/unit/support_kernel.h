/*
 * support_kernel.h - a kernel that goes by a script: what src/connection asks of the system, without a socket.
 *
 * It fills the table `sys` and the clocks. A test makes sockets, says what becomes of them (kernel_…), and counts what
 * the system was asked. Every number below KERNEL_NUMBERS can be a socket's; time stands still unless the test, or a
 * wait, lets it pass. A fork's child has a copy, as of all memory.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_KERNEL_H
#define SOCKFUSE_TESTS_SUPPORT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/clock.h"

#define KERNEL_NUMBERS 64
#define KERNEL_SOCKETS 64
#define KERNEL_START_NS (1000 * NS_PER_S)
#define KERNEL_PORT 49152 /* which every socket is given */
#define KERNEL_SIGNALS 64

/* How the next connect on a fresh socket ends. KERNEL_AS_USUAL: at once if it blocks, else it is pending. */
#define KERNEL_AS_USUAL 0
#define KERNEL_FAST_OPEN (-1) /* it says that all is well, and the peer is still to answer */

enum kernel_stage { KERNEL_FRESH, KERNEL_PENDING, KERNEL_OPEN, KERNEL_PEER_DONE, KERNEL_DEAD };

struct kernel_socket {
    int family, protocol;
    bool blocks, was_made_to_block;
    uint64_t cookie;
    enum kernel_stage stage;
    bool answers; /* somebody waits for it: its peer answers then */
    bool told;    /* that it is connected, by connect */
    int error;    /* that waits in it */
    bool shut_read, shut_write;
    struct sockaddr_storage peer, own;
    bool data_in, data_out; /* came, or were sent, at some time */
    uint64_t sent_ns, data_ns, ack_ns;
    size_t unsent; /* bytes that the peer has not taken */
    bool is_full;  /* there is no room for more */
    bool has_filter;
    uint64_t wait_ns; /* SO_RCVTIMEO and SO_SNDTIMEO; 0: none */
    char unread[4096];
    size_t unread_bytes;
};

struct kernel {
    uint64_t now_ns;
    pid_t pid;                       /* 0: the real one */
    unsigned int asked;              /* how often the table was used */
    socklen_t info_bytes;            /* of TCP_INFO, as kernels that tell less have it; 0: all */
    int connect_ends;                /* an errno, or one of the above; for one connect */
    unsigned int connect_ends_again; /* and for so many more */
    unsigned int connects;           /* so far */
    uint64_t connect_takes_ns;
    uint64_t slept_ns[16];                  /* how long each sleep was */
    unsigned int sleeps;                    /* so far */
    void (*meanwhile)(void);                /* what happens in the next wait */
    bool interrupts;                        /* the next wait ends with EINTR */
    uintptr_t handlers[KERNEL_SIGNALS + 1]; /* of signals */
    uint64_t blocked;                       /* signals: bit number - 1 */
    struct kernel_socket sockets[KERNEL_SOCKETS];
    unsigned int made;           /* sockets so far */
    int numbers[KERNEL_NUMBERS]; /* a socket + 1; 0: free */
    bool close_on_exec[KERNEL_NUMBERS];
};
extern struct kernel kernel;

/* Everything fresh, and `sys` and the clocks go by it. */
void kernel_start(void);
void kernel_pass_ns(uint64_t ns);

/* The socket of a number; never NULL: a number that has none fails the test. */
struct kernel_socket *kernel_socket(int fd);

/* What a program's calls do, as the kernel alone has them. -1 and errno as there. */
int kernel_make(int family, int type, int protocol);
int kernel_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t kernel_send(int fd, const struct iovec *vector, size_t count, int flags);
ssize_t kernel_receive(int fd, void *bytes, size_t count, int flags);
int kernel_shutdown(int fd, int how);
int kernel_close(int fd);
/* `to` is -1: the lowest number. */
int kernel_duplicate(int fd, int to);
int kernel_take_error(int fd);

/* What the network does to a socket. */
void kernel_establishes(int fd);
void kernel_fails(int fd, int error); /* dead, and the error waits */
void kernel_brings(int fd, const char *bytes, size_t count);
void kernel_acknowledges(int fd);
void kernel_peer_ends(int fd);
/* The number is another socket's by now, and nobody saw it. */
void kernel_replaces(int fd);

/* For support_kernel_table.c alone: the socket of a number, or NULL; -1 with that errno; and what connect and SO_ERROR do. */
struct kernel_socket *kernel_find(int fd);
int kernel_says(int error);
void kernel_takes_port(struct kernel_socket *at);
int kernel_takes(struct kernel_socket *at);

#endif
