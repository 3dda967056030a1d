/*
 * memory.h - looking at memory that the kernel has not accepted yet.
 *
 * A wrapper must not read what the program passed before the kernel has: a bad pointer is to end in EFAULT, not in a
 * crash of ours. Where it has to look first (the address of a connect, a message that connects, what a rehearsal takes
 * from its program) it asks here. An address on the caller's stack, or in the executable's own data or heap, costs no
 * system call once its page was looked at; any other costs one. Async-signal-safe. errno is not kept.
 */
#ifndef SOCKFUSE_CONNECTION_MEMORY_H
#define SOCKFUSE_CONNECTION_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Start-up only: finds the program's data. */
void memory_start(void);
/* Before and after the program takes away the right to read some memory (mprotect): nothing is known of it any more. */
void memory_protected(void);

/* Whether all of it can be read; where the kernel does not let us ask (seccomp), the program is trusted. */
bool memory_is_readable(const void *at, size_t count);
/* Whether that is known of it without a system call, but for one now and then; false: it may be readable all the same. */
bool memory_is_at_hand(const void *at, size_t count);

/* Whether a vector and all that it leads to can be read: for rehearsals, which take what the kernel never sees. */
bool memory_vector_is_readable(const struct iovec *vector, size_t count);

/* Where a message goes. Whether the address itself can be read is not said. */
struct message_address {
    const struct sockaddr *at;
    socklen_t length;
};
/* Whether sending the message with these flags connects: MSG_FASTOPEN and an address. */
bool memory_message_connects(const struct msghdr *message, int flags, struct message_address *address);

/* The bytes of a message, of which there are none if it, its name or its control can't be read: the kernel will say so.
 * For rehearsals. */
const struct iovec *memory_message_vector(const struct msghdr *message);
size_t memory_message_count(const struct msghdr *message);

#endif
