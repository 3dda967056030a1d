/*
 * fault_slow.h - a request whose answer is to come later, though the program does not wait in its send, and whatever it
 * waits with: the kernel holds the request's end back.
 *
 * Knows no circuit and no connection. Async-signal-safe; some thirty system calls at the most. Callers preserve errno.
 */
#ifndef SOCKFUSE_CONNECTION_FAULT_SLOW_H
#define SOCKFUSE_CONNECTION_FAULT_SLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * Sends in place of the program, and so that the last of it, and whatever is sent after it, leaves so much later.
 * Returns how many bytes were taken, as send does. 0: none, for it can't be done: of another socket than TCP's, or one
 * that is corked, tells of what was sent without a copy, or still has something to send; with too few bytes (one for
 * each second, and up to nine more), or on a kernel that does not pace. The vector must be readable.
 */
size_t slow_send(int fd, const struct iovec *vector, size_t count, uint32_t delay_ms);

#endif
