/*
 * quiet.h - the short way of a request and its answer on a kept connection: nothing is wrong, and nothing is special.
 *
 * Asked by exchange.c before its own, long way. A connection is plain between and during such calls if it was used
 * before, is no TLS, no HTTP/2, not shut, not in rehearsal and whatever else a flag could say of it. False: nothing was
 * done, and the long way is to be gone.
 */
#ifndef SOCKFUSE_PRELOAD_QUIET_H
#define SOCKFUSE_PRELOAD_QUIET_H

#include "preload/life.h"

/* Before a send: it begins a call, which is admitted, and when the kernel has taken it there is no more to tell. */
bool quiet_begins(struct connection *connection);
/* After a receive of at least a byte: it is the answer, and no HTTP, so it is a success. */
bool quiet_answers(struct connection *connection, const struct received *received);

#endif
