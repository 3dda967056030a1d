/*
 * segment.c - what a process can ask and say of a segment that it has mapped.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/segment.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/layout.h"

void segment_detach(struct segment *segment)
{
    if (segment->map)
        munmap(segment->map, segment->size);
    segment->map = NULL;
    free(segment->own_path);
    segment->own_path = NULL;
    segment->path = "";
}

bool segment_is_current(const struct segment *segment)
{
    struct stat status;
    if (segment->path[0] == '\0')
        return segment->map != NULL;
    return fstatat(AT_FDCWD, segment->path, &status, AT_SYMLINK_NOFOLLOW) == 0 && segment_is_of(segment, &status) &&
           (uint64_t)status.st_size >= segment->size;
}

void segment_give_up(struct segment *segment)
{
    atomic_store_explicit(&segment->map->given_up, 1, memory_order_relaxed);
}

bool segment_is_given_up(const struct segment *segment)
{
    return layout_is_given_up(segment);
}

void segment_note_use(const struct segment *segment)
{
    utimensat(AT_FDCWD, segment->path, NULL, AT_SYMLINK_NOFOLLOW);
}

void segment_learn_time(struct segment *segment)
{
    clock_learn_offsets(segment_is_private(segment) ? NULL : &segment->map->clock_note);
}

const char *segment_identity(const struct segment *segment)
{
    const char *identity = segment->map->identity;
    return memchr(identity, '\0', SEGMENT_IDENTITY_MAX) ? identity : "";
}
