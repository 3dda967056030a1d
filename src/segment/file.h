/*
 * file.h - a segment's file: what its header must say, mapping it, making a fresh one.
 *
 * Private to src/segment. All takes place in a folder that folder_open has opened. A file gets its name only when it
 * is whole, in one step: nobody ever sees a half-made one, whenever its maker is killed. System calls, but no malloc
 * and no stdio.
 */
#ifndef SOCKFUSE_SEGMENT_FILE_H
#define SOCKFUSE_SEGMENT_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "segment/layout.h"
#include "segment/segment_model.h"

/* What the header of this policy's segment says on this machine since its last boot. */
struct contents {
    const char *identity;       /* cut to fit; the hash in the file's name covers all of it */
    char boot_id[BOOT_ID_SIZE]; /* "" without /proc */
    struct capacity capacity;   /* of a file that is made */
    bool patient;               /* waits for others */
};

/* Three system calls. `capacity`: NULL for the built-in one. */
void contents_know(struct contents *contents, const char *identity, const struct capacity *capacity);

/* Writes the header of an empty segment: the rest of it is zero. */
void contents_fill(struct segment_header *map, const struct contents *contents);

/*
 * Maps the base of a file of `size` bytes if its header is good, whatever its capacities. False: `*fault` says what is
 * wrong with it, for messages, or is NULL and errno tells why it can't be read or mapped. With the identity "" any
 * policy's will do.
 */
bool file_map(int fd, off_t size, bool writable, const struct contents *contents, struct segment *segment,
              const char **fault);

/* Unmaps what file_map has mapped; the rest of the segment stays. */
void file_unmap(struct segment *segment);

/*
 * Gives that part of the file its blocks now: a full disk is an error here, and would be SIGBUS in the middle of
 * somebody's connect later. Returns 0 or an errno.
 */
int file_allocate(int fd, uint64_t from, uint64_t size);

/*
 * Puts a fresh file under the name if none is there, or, with `bad`, in the place of that very file. True also when
 * somebody else was faster: `*installed` tells. `path` is for the error's text.
 */
bool file_install(int folder, const char *name, const struct stat *bad, const struct contents *contents,
                  const char *path, struct segment_error *error, bool *installed);

/* Whether the name leads to the file with that status. */
bool file_is_at(int folder, const char *name, const struct stat *file);

#endif
