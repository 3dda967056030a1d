/*
 * lost.h - records of this very process that nobody will ever end.
 *
 * A signal's handler may siglongjmp out of any wrapper, and a cancelled thread ends in the middle of one. What it had
 * claimed or begun is found by the process's own next attempts. Private to src/segment, but for the engine's half,
 * guard->keeps. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_LOST_H
#define SOCKFUSE_SEGMENT_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/guard.h"

/* Looks at a part of the table, in one round a second, and gives back what was lost in an earlier round. */
void lost_look(struct guard *guard, unsigned int shard, uint64_t now_ns, uint64_t real_ns);

#endif
