/*
 * agent_lock.h - which agent looks after a segment: the one that has the lock.
 *
 * Two that both did would start each command, make each check and vote twice. So an agent takes an OFD lock (fcntl(2)) on
 * the segment's file, far behind all data and all locks of proof.h, and the kernel ends it with the process. The range that
 * is locked is as long as the process number is large, so whoever does not get it learns who has it. As with proof.h, a
 * page that is mapped keeps the open file, and no descriptor stays.
 *
 * Whoever may write to the file can hold it, so its owner can keep root's agent from his own circuits, and from nobody
 * else's. For the agent; not async-signal-safe.
 */
#ifndef SOCKFUSE_SEGMENT_AGENT_LOCK_H
#define SOCKFUSE_SEGMENT_AGENT_LOCK_H

#include <stdint.h>

#include "segment/segment_model.h"

enum agent_lock {
    AGENT_LOCK_OURS,
    AGENT_LOCK_ANOTHERS,
    AGENT_LOCK_NONE, /* it can't be had here: a file system without such locks, or the file has gone */
};

/*
 * Asks for the lock of the segment by a descriptor of its very file, which may be closed then. AGENT_LOCK_OURS: `*page` is
 * to be given to agent_lock_end. AGENT_LOCK_ANOTHERS: `*pid` is the number that the other one gave for its own, 0 if there
 * is none to be told.
 */
enum agent_lock agent_lock_take(const struct segment *segment, int fd, void **page, uint32_t *pid);
void agent_lock_end(void *page);

#endif
