/*
 * memory.h - looking at memory that the kernel has not accepted yet.
 *
 * A wrapper must not read what the program passed before the kernel has: a bad pointer is to end in EFAULT, not in a
 * crash of ours. Where it has to look first (a message with MSG_FASTOPEN, which connects), the kernel copies for it.
 * Rare paths only: one system call each. Async-signal-safe.
 */
#ifndef SOCKFUSE_PRELOAD_MEMORY_H
#define SOCKFUSE_PRELOAD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* False: it can't be read, or the kernel does not let us ask. */
bool memory_copy(void *to, const void *from, size_t count);

/* Where a message goes. */
struct message_address {
    struct sockaddr_storage at;
    socklen_t length;
};
/* Whether sending the message with these flags connects: MSG_FASTOPEN and an address, all of it readable. */
bool memory_message_connects(const struct msghdr *message, int flags, struct message_address *address);

#endif
