/*
 * segment_model.h - a segment as a process has it mapped. Finding, making and mapping one is in segment.h.
 */
#ifndef SOCKFUSE_SEGMENT_SEGMENT_MODEL_H
#define SOCKFUSE_SEGMENT_SEGMENT_MODEL_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "policy/capacity.h"

struct segment_header;
struct process_slot;
struct call;
struct call_group;
struct event_slot;
struct circuit_entry;
struct latency;
struct learnt;
struct fleet_board;

struct segment {
    const char *path;       /* "" for a private one; lives as long as its place, or is `own_path` */
    uint64_t device, inode; /* of the file when it was mapped; 0 for a private one */
    size_t size;            /* of the base, which is mapped */
    /*
     * What the file said when it was mapped. Nothing of this is read from shared memory again: whatever is written
     * there moves no pointer.
     */
    struct capacity capacity;
    struct process_slot *processes;
    struct event_slot *events;
    _Atomic uint32_t *call_circuit; /* each record's circuit once more */
    _Atomic uint64_t *call_full;    /* a bit for each group of which all records are taken, as a hint */
    struct call_group *call_group;
    struct circuit_entry *circuits;
    _Atomic uint32_t *call_owner; /* the identity of the process that has the record (processes.h); 0: free */
    struct call *calls;
    struct latency *latency;    /* of each circuit's calls, apart from what decides */
    struct learnt *learnt;      /* and what they have taught */
    struct fleet_board *fleet;  /* what an agent tells of the fleet */
    char *own_path;             /* an observer's; NULL in a host process */
    _Atomic uint64_t proof;     /* the page that keeps this process's lock, and of which identity (proof.h); 0: none */
    struct segment_header *map; /* NULL: not attached. Last, beside what its owner keeps behind it */
};

static inline bool segment_is_private(const struct segment *segment)
{
    return segment->path[0] == '\0';
}

/* Whether this is the file that is mapped. */
static inline bool segment_is_of(const struct segment *segment, const struct stat *status)
{
    return (uint64_t)status->st_ino == segment->inode && (uint64_t)status->st_dev == segment->device;
}

struct segment_error {
    char text[PATH_MAX + 160]; /* what is wrong and what to do, one line */
};

#define SEGMENT_SUFFIX ".segment"

/* How to attach, and to what. */
struct attaching {
    const char *identity; /* the policy's */
    const struct capacity
        *capacity; /* of a segment that has to be made; one that is there keeps its own. NULL: built in */
    /*
     * At start-up and for commands: waits for others (0.2 s at most), and cleans the folder. Without it nothing waits:
     * inside a host's call.
     */
    bool patient;
};

/* What there was no room for, so that a call passed unguarded. */
enum no_room { NO_ROOM_CIRCUITS, NO_ROOM_CONNECTIONS, NO_ROOM_PROCESSES, NO_ROOM_KINDS };

/* Values are stored in shared memory: append only. What a record of a call says of its present one. */
enum call_settled {
    CALL_UNSETTLED = 0,
    CALL_SETTLED,       /* its outcome was reported */
    CALL_OVERDUE,       /* charged while it still hung */
    CALL_OVERDUE_ENDED, /* charged, and what became of it afterwards was seen too */
    CALL_RESERVED,      /* settled, and somebody is about to begin the next one */
    CALL_CLAIMED,       /* the record was claimed, and its first call has not begun */
};

#endif
