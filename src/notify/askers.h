/*
 * askers.h - the processes whose calls the kernel asks about: who a thread belongs to, what can be read of it, and its
 * side of the segment.
 *
 * Each process has a slot of its own in the segment, taken by the worker on its behalf. Fixed tables: who has been
 * quiet for longest, and has no call, gives its place. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_ASKERS_H
#define SOCKFUSE_NOTIFY_ASKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard/guard.h"

#define ASKERS_MAX 256u
#define THREADS_MAX 64u /* each keeps a descriptor */

struct asker {
    uint32_t pid; /* 0: free */
    uint32_t calls;
    uint64_t used_ns;
    struct guard guard;
};

struct asking_thread {
    uint32_t tid, pid;
    int descriptor; /* of the task: its number may be another's later, this can't */
    uint64_t used_ns;
};

struct askers {
    struct asker at[ASKERS_MAX];
    struct asking_thread threads[THREADS_MAX];
    uint64_t net_space; /* in which the worker sees sockets */
    uint64_t revision;
    struct guard model; /* what all guards have in common */
    uint32_t cursor;
};

void askers_start(struct askers *askers, const struct guard *model, uint64_t revision);

/* Copies of the caller's memory. False: it can't be read. */
bool asker_read(uint32_t tid, uint64_t address, void *bytes, size_t size);

/*
 * A copy of the thread's descriptor, for as long as it stands in its call. -1: it can't be had; else `*pid` is its
 * process.
 */
int askers_take_descriptor(struct askers *askers, uint32_t tid, int fd, uint32_t *pid);

/* The process, joined. NULL: there is no place, it guards itself, or its sockets are of another network. */
struct asker *askers_find(struct askers *askers, uint32_t pid);

/* Looks after some: who is dead and has no call leaves the segment. */
void askers_tidy(struct askers *askers);
void askers_leave(struct askers *askers);

/* How the process ends, as its closing of all that it has tells nothing of it. */
enum asker_end { ASKER_GOES_ON, ASKER_EXITS_WELL, ASKER_EXITS, ASKER_IS_KILLED };
enum asker_end asker_end(uint32_t pid);

#endif
