/*
 * peek.h - what can be told of a segment's file that can't be used: of another build's layout, of another boot,
 * damaged.
 *
 * Magic, version, boot id and identity stand at the same places in all layouts since the second (layout.h). For
 * commands. System calls, but no malloc and no stdio.
 */
#ifndef SOCKFUSE_SEGMENT_PEEK_H
#define SOCKFUSE_SEGMENT_PEEK_H

#include <stdbool.h>
#include <stdint.h>

#define PEEK_IDENTITY_MAX 4096u

enum peek_kind {
    PEEK_DAMAGED,      /* no segment, or cut short */
    PEEK_OTHER_BOOT,   /* nobody who used it can run any more */
    PEEK_OTHER_LAYOUT, /* of another build, for all that can be seen */
    PEEK_GOOD,         /* of this layout and boot; what else may be wrong is another matter */
};

struct peek {
    enum peek_kind kind;
    uint32_t version, own_version; /* the file's layout, and this build's */
    bool has_locks; /* of a layout whose processes prove by a lock that they use it (proof.h): all but the first */
    bool is_locked; /* some process does so now, wherever it runs */
    uint64_t device, inode;
    uint32_t owner;
    char identity[PEEK_IDENTITY_MAX]; /* "": unknown */
};

/* Looks into an open file. False: it can't be read (errno). */
bool segment_peek(int fd, struct peek *peek);

#endif
