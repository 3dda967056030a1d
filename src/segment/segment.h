/*
 * segment.h - the shared-memory file that holds one policy's circuits, calls in flight and journal: finding it, making
 * it, mapping it.
 *
 * No descriptor is kept open. Attaching never changes a circuit. A truncated, corrupt, old or void (other boot) file
 * is replaced by a fresh one where it is ours, and refused where it is not. Start-up or a rare re-attach only: system
 * calls, but no malloc and no stdio, so it may also happen inside a host process. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_SEGMENT_H
#define SOCKFUSE_SEGMENT_SEGMENT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/capacity.h"
#include "segment/places.h"

struct segment_header;
struct process_slot;
struct call;
struct call_group;
struct event_slot;
struct circuit_entry;

struct segment {
    const char *path;           /* "" for a private one; lives as long as its place, or is `own_path` */
    uint64_t device, inode;     /* of the file when it was mapped; 0 for a private one */
    size_t size;                /* of the base, which is mapped */
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
    _Atomic uint32_t *call_owner; /* the identity of the process that has the record (process.h); 0: free */
    struct call *calls;
    char *own_path;             /* an observer's; NULL in a host process */
    _Atomic uint64_t proof;     /* the page that keeps this process's lock, and of which identity (proof.h); 0: none */
    struct segment_header *map; /* NULL: not attached. Last, beside what its owner keeps behind it */
};

struct segment_error {
    char text[PATH_MAX + 160]; /* what is wrong and what to do, one line */
};

#define SEGMENT_SUFFIX ".segment"
/* The file of the policy with that identity: FOLDER/NAME-HASH.segment. Touches no file. False: the name is too long. */
bool segment_path(const char *folder, const char *identity, char *path, size_t size);

/* How to attach, and to what. */
struct attaching {
    const char *identity;            /* the policy's */
    const struct capacity *capacity; /* of a segment that has to be made; one that is there keeps its own. NULL: built in */
    /*
     * At start-up and for commands: waits for others (0.2 s at most), and cleans the folder. Without it nothing waits:
     * inside a host's call.
     */
    bool patient;
};

/*
 * Maps the policy's segment in the first place that can be used: one that stands already in any of them, else a fresh
 * one (0600, its folder 0700). The places must name their segments (state_places_name). False: `error` says why and
 * what to do. True with a text in `error`: a bad file was replaced, to be said once; else the text is "". `error` may
 * be NULL. A file that somebody cuts short while it is mapped kills by SIGBUS, as any mapped file does; only its owner
 * can.
 */
bool segment_attach_first(struct segment *segment, const struct state_places *places,
                          const struct attaching *attaching, struct segment_error *error);
/* The same in one folder, as if SOCKFUSE_STATE named it; allocates. */
bool segment_attach(struct segment *segment, const char *folder, const char *identity, const struct capacity *capacity,
                    struct segment_error *error);

/*
 * Maps an existing segment for an observer: never makes or replaces one. Other users' segments: for root only, and
 * only to read. `writable` false may map it writable all the same, in 32 bit. Allocates.
 */
bool segment_open(struct segment *segment, const char *path, bool writable, struct segment_error *error);

/* Opens a file of a folder; `strictly`: as one that somebody hostile may have put there. -1: errno. */
int segment_openat(int folder, const char *name, int flags, bool strictly);

#define SEGMENT_OF_ANYBODY UINT32_MAX
/*
 * The same in a folder that is open, by the last part of `path`, of a file that somebody hostile may have put there: it
 * must be the user's `*owner`, or SEGMENT_OF_ANYBODY, which becomes its owner; it must have no second name, and nobody
 * else may write to it. What is mapped may change, or be cut short, at any time.
 */
bool segment_open_at(struct segment *segment, int folder, const char *path, uint32_t *owner, bool writable,
                     struct segment_error *error);

/*
 * A segment in this process's own memory, for scope = process. Shared with nobody; a fork's child gets a copy, with
 * what its circuits know, and is to say so (guard_disown).
 */
bool segment_private(struct segment *segment, const char *identity, const struct capacity *capacity);

static inline bool segment_is_private(const struct segment *segment)
{
    return segment->path[0] == '\0';
}

/* Unmaps. Never in a host process: other threads may be inside (segment_clear). */
void segment_detach(struct segment *segment);

/* Whether the path still leads to the file that is mapped (one system call). Deleted, replaced or cut short: false. */
bool segment_is_current(const struct segment *segment);

/*
 * A segment that is over says so to those who can't see its file any more (another root, another user): whoever deletes
 * it, or learns that it was deleted, marks it. Nobody attaches to one that is marked.
 */
void segment_give_up(struct segment *segment);
bool segment_is_given_up(const struct segment *segment);

/*
 * Notes in its file's time stamp that it is in use, for whoever looks for what is over. Attaching does so too. One
 * system call.
 */
void segment_note_use(const struct segment *segment);

/* Calls that processes guarded with circuits of their own while they could not open this file. */
void segment_note_apart(struct segment *segment, uint64_t calls);
uint64_t segment_apart(const struct segment *segment);

/*
 * Calls `visit` for the path of each segment in the folder, in the order of their names; stops when it returns false.
 * False: the folder can't be read (errno); one that does not exist has no segments, and that is true.
 */
bool segment_list(const char *folder, bool (*visit)(const char *path, void *context), void *context);

/* What there was no room for, so that a call passed unguarded. */
enum no_room { NO_ROOM_CIRCUITS, NO_ROOM_CONNECTIONS, NO_ROOM_PROCESSES, NO_ROOM_KINDS };
void segment_note_no_room(struct segment *segment, enum no_room kind);
/* How many calls that were; and all of them together. */
uint64_t segment_no_room(const struct segment *segment, enum no_room kind);
uint64_t segment_unguarded(const struct segment *segment);

/* A line of the log could not be written; and how many that were. */
void segment_note_log_lost(struct segment *segment);
uint64_t segment_log_lost(const struct segment *segment);

const char *segment_identity(const struct segment *segment); /* ends within its size, while nobody writes there */
/* A copy, which somebody hostile can't change any more: "" if it has no end. To be freed; NULL: no memory. */
char *segment_copy_identity(const struct segment *segment);

#endif
