/*
 * shard.h - which shard of the counters this thread uses: no system call (vDSO or rseq).
 */
#ifndef SOCKFUSE_CONNECTION_SHARD_H
#define SOCKFUSE_CONNECTION_SHARD_H

#include <sched.h>

static inline unsigned int shard_here(void)
{
    int cpu = sched_getcpu();
    return cpu < 0 ? 0 : (unsigned int)cpu;
}

#endif
