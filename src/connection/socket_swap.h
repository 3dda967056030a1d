/*
 * socket_swap.h - another preload that puts another socket under the program's number while it connects.
 *
 * proxychains opens a connection to its proxy, and dup2s it over the program's socket; ip2unix does so with a UNIX
 * socket. From the program's side it is the same attempt, and what stands at the number when the real connect returns
 * is its connection. Costs nothing where nobody stands between our connect and libc's. Async-signal-safe.
 */
#ifndef SOCKFUSE_CONNECTION_SOCKET_SWAP_H
#define SOCKFUSE_CONNECTION_SOCKET_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/descriptors.h"

struct connection;

/* The attempt that a thread is just making by the real connect. */
struct swap_attempt {
    descriptor entry; /* 0: none */
    uintptr_t frame;  /* of the wrapper */
};

/* Written by the engine at start-up: the connect that it calls is not the system's own, but another preload's. */
extern bool swap_is_possible;

/* Before the real connect of that attempt, in whose wrapper's frame, and after it. Attempts nest. */
void swap_enter(descriptor entry, uintptr_t frame, struct swap_attempt *outer);
void swap_leave(const struct swap_attempt *outer);
#define SWAP_BEGIN(entry, outer)                                                                                       \
    ((void)(__builtin_expect(swap_is_possible, 0) &&                                                                   \
            (swap_enter(entry, (uintptr_t)__builtin_frame_address(0), outer), 0)))
#define SWAP_END(outer) ((void)(__builtin_expect(swap_is_possible, 0) && (swap_leave(outer), 0)))

/*
 * Whether this thread is inside the real connect of that entry's attempt: then another number that it puts over the
 * entry's does not end the attempt, but carries it.
 */
bool swap_carries(descriptor entry);

/* After the real connect: the record goes on with the socket that stands at the number. A system call, or two, where
 * another preload's connect is behind ours. */
void swap_follow(struct connection *connection, int fd);

#endif
