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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment_layout;

struct segment {
    char path[PATH_MAX];        /* "" for a private one (scope = process) */
    uint64_t device, inode;     /* of the file when it was mapped; 0 for a private one */
    struct segment_layout *map; /* NULL: not attached. Last, beside what its owner keeps behind it */
};

struct segment_error {
    char text[PATH_MAX + 160]; /* what is wrong and what to do, one line */
};

/*
 * The folder of the segments: SOCKFUSE_STATE, else $XDG_RUNTIME_DIR/sockfuse, else /run/sockfuse for root, else
 * /tmp/sockfuse-UID. A relative SOCKFUSE_STATE is made absolute from the present working folder. Touches no file.
 * False: the name is too long.
 */
bool state_folder(const char *(*environment)(const char *name), char *folder, size_t size);

#define SEGMENT_SUFFIX ".segment"
/* The file of the policy with that identity: FOLDER/NAME-HASH.segment. Touches no file. False: the name is too long. */
bool segment_path(const char *folder, const char *identity, char *path, size_t size);

/*
 * Maps the policy's segment, made if it is missing (0600, with its folder and that one's parent, 0700). False:
 * `error` says why and what to do. True with a text in `error`: a bad file was replaced, to be said once; else the
 * text is "". A file that somebody cuts short while it is mapped kills by SIGBUS, as any mapped file does; only its
 * owner can.
 */
bool segment_attach(struct segment *segment, const char *folder, const char *identity, struct segment_error *error);

/*
 * Maps an existing segment for an observer: never makes or replaces one. Other users' segments: for root only, and
 * only to read. `writable` false may map it writable all the same, in 32 bit.
 */
bool segment_open(struct segment *segment, const char *path, bool writable, struct segment_error *error);

/* A segment in this process's own memory, for scope = process. Shared with nobody; a fork's child gets a copy. */
bool segment_private(struct segment *segment, const char *identity);

/* Unmaps. Never in a host process: other threads may be inside. */
void segment_detach(struct segment *segment);

/* Whether the path still leads to the file that is mapped (one system call). Deleted, replaced or cut short: false. */
bool segment_is_current(const struct segment *segment);

/*
 * Calls `visit` for the path of each segment in the folder, in the order of their names; stops when it returns false.
 * False: the folder can't be read (errno); one that does not exist has no segments, and that is true.
 */
bool segment_list(const char *folder, bool (*visit)(const char *path, void *context), void *context);

/* Calls that passed unguarded because a table was full. */
uint64_t segment_unguarded(const struct segment *segment);

const char *segment_identity(const struct segment *segment); /* safe to print: always ends within its size */

#endif
