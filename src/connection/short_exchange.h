/*
 * short_exchange.h - the short way of a request and its answer, the first of its connection or a later one: nothing is
 * wrong, and nothing is special.
 *
 * Asked by the wrappers (wrapper.h) before the long way, connection.h. For this a connection must be plain: it is no TLS
 * and no HTTP/2, not shut, not in rehearsal, nor anything else that a flag could say of it. False: nothing was done, and
 * the long way is to be gone.
 *
 * They are a second truth of the rules, and stay for what they save of a busy client's time: a fifth of a microsecond at
 * the beginning and a third at the answer, where redis-benchmark spends some 15 on each request, and wrk 12.
 * test_short_way_histories holds both ways against each other.
 *
 * What such a call costs is memory that the kernel's work has pushed out of the caches, code and data, more than
 * instructions. So these functions and what they call are few lines in one place, and leave errno alone by touching
 * nothing that sets it.
 */
#ifndef SOCKFUSE_CONNECTION_SHORT_EXCHANGE_H
#define SOCKFUSE_CONNECTION_SHORT_EXCHANGE_H

#include <stdbool.h>

#include "connection/connection.h"
#include "connection/descriptors.h"

/*
 * The first request: its call is the attempt's, which waits for it. Before the send, instead of connection_sending; and
 * after it, instead of connection_sent, when the kernel has taken `sent` bytes of `first`: a request that is whole.
 */
bool short_exchange_speaks(descriptor entry);
bool short_exchange_spoke(descriptor entry, int fd, const struct iovec *first, size_t count, size_t sent);
/*
 * Before a send on a connection that has answered before: it begins a call, which is admitted, and when the kernel has
 * taken it there is no more to tell.
 */
bool short_exchange_begins(descriptor entry);
/*
 * After a receive of at least a byte, of which the first `count` are at `first` (NULL: not in the program's memory):
 * it is the answer, and a success. `flags`: MSG_….
 */
bool short_exchange_answers(descriptor entry, const void *first, size_t count, int flags);

#endif
