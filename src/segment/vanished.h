/*
 * vanished.h - a segment whose file is gone: whether it was really deleted or written over, and how its memory goes
 * back under threads that may still be inside.
 *
 * Async-signal-safe, little stack; system calls as said. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_VANISHED_H
#define SOCKFUSE_SEGMENT_VANISHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment/segment_model.h"

/* Where paths lead from here, and as whom: what a process may change after its start. */
struct standpoint {
    uint64_t root_device, root_inode;
    uint64_t mounts;  /* of its root: the mount's number, or the inode of the mount name space; 0: unknown */
    bool is_of_mount; /* the former */
    uid_t user;
};

/*
 * Two system calls. Start-up only: statx(2) is not among the calls that a confined program allows. With it /proc need
 * not be asked, which costs a start more.
 */
void standpoint_take(struct standpoint *standpoint);
/* Six. Opens descriptors: to be called undisturbed. */
bool standpoint_is_same(const struct standpoint *standpoint);

/*
 * Whether the file that is mapped was deleted, by the kernel's word (/proc/self/maps): true only if that is certain.
 * For a process from which its path is hidden. Opens a descriptor: to be called undisturbed. Reads a bounded part.
 */
bool segment_is_deleted(const struct segment *segment);

/* Whether what is mapped is still this policy's segment, and nobody has written something else over it. */
bool segment_is_intact(const struct segment *segment, const char *identity);

/*
 * Gives the memory of a segment back: from now on its addresses read as zeros, and what is written there is nobody's.
 * False: for want of memory nothing was done.
 */
bool segment_clear(const struct segment *former);
/* Puts a segment of the same capacity at the addresses of `former`, in one step. False: nothing was done. */
bool segment_move(struct segment *segment, const struct segment *former);

#endif
