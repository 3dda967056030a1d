/*
 * vanished.c - what is known of a segment whose path leads nowhere, and its memory. See vanished.h.
 *
 * An address at which a segment lay is never unmapped: a thread may have read it before it was told to sleep. What
 * takes a segment's place is made elsewhere and moved there by one mremap, which the kernel does under the lock that
 * page faults take: a late thread finds the old memory or the new, never a hole.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/vanished.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/bare.h"
#include "base/frame.h"
#include "base/span.h"
#include "base/text.h"
#include "segment/folder.h"
#include "segment/layout.h"
#include "segment/newer_calls.h"

/* --- the standpoint --- */

static uint64_t mount_space(void)
{
    struct stat status;
    return fstatat(AT_FDCWD, "/proc/self/ns/mnt", &status, 0) == 0 ? (uint64_t)status.st_ino : 0;
}

void standpoint_take(struct standpoint *standpoint)
{
    struct statx root = {.stx_mask = 0};
    struct stat status;
    *standpoint = (struct standpoint){.user = geteuid()};
    if (statx(AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &root) == 0) {
        standpoint->root_device = (uint64_t)makedev(root.stx_dev_major, root.stx_dev_minor);
        standpoint->root_inode = root.stx_ino;
    } else if (fstatat(AT_FDCWD, "/", &status, 0) == 0) { /* a filter that does not know the call */
        standpoint->root_device = (uint64_t)status.st_dev;
        standpoint->root_inode = (uint64_t)status.st_ino;
    }
    /* Another name space has other mounts, and none of those of this one. Linux 5.8 and later tell their numbers. */
    standpoint->is_of_mount = (root.stx_mask & STATX_MNT_ID) != 0;
    standpoint->mounts = standpoint->is_of_mount ? root.stx_mnt_id : mount_space();
}

#define NO_MOUNT UINT64_MAX

/* The number behind "mnt_id:" of a descriptor's fdinfo. */
static uint64_t mount_of(int fd)
{
    char text[256]; /* it stands in the third line */
    struct text path;
    text_start(&path, text, sizeof text);
    text_add(&path, "/proc/self/fdinfo/");
    text_add_unsigned(&path, (uint64_t)fd);
    int info = folder_openat(AT_FDCWD, text, O_RDONLY, 0);
    if (info < 0)
        return NO_MOUNT;
    ssize_t length = bare_read(info, text, sizeof text - 1);
    bare_close(info);
    text[length > 0 ? length : 0] = '\0';
    const char *line = strstr(text, "mnt_id:"), *at = line ? line + span_until(line, "0123456789") : "";
    uint64_t number;
    return ascii_number(&at, &number) ? number : NO_MOUNT;
}

/* By calls that a confined program allows. */
OWN_FRAME static uint64_t mount_of_root(void)
{
    int root = folder_openat(AT_FDCWD, "/", O_PATH, 0);
    uint64_t number = root >= 0 ? mount_of(root) : NO_MOUNT;
    if (root >= 0)
        bare_close(root);
    return number;
}

bool standpoint_is_same(const struct standpoint *standpoint)
{
    struct stat root;
    return geteuid() == standpoint->user && fstatat(AT_FDCWD, "/", &root, 0) == 0 &&
           (uint64_t)root.st_dev == standpoint->root_device && (uint64_t)root.st_ino == standpoint->root_inode &&
           (standpoint->is_of_mount ? mount_of_root() : mount_space()) == standpoint->mounts;
}

/* --- deleted? --- */

#define DELETED " (deleted)"
/* Of a program with more mappings than go into this, nothing is known. */
#define MAPS_READ_MAX ((size_t)512 * 1024)
#define MAPS_PIECE 512u

/* A reader of lines that keeps the beginning and the end of each. */
struct line {
    char first[20]; /* "START-…" */
    char last[sizeof DELETED - 1];
    size_t length;
};

static void line_add(struct line *line, char byte)
{
    if (line->length < sizeof line->first)
        line->first[line->length] = byte;
    memmove(line->last, line->last + 1, sizeof line->last - 1);
    line->last[sizeof line->last - 1] = byte;
    line->length++;
}

/* "START-" as the kernel writes it. */
static size_t start_of(const void *address, char text[24])
{
    struct text builder;
    text_start(&builder, text, 24);
    text_add_hex(&builder, (uint64_t)(uintptr_t)address, 16);
    /* The kernel's has eight digits at least. */
    size_t zeros = span_of(text, "0"), digits = builder.length - zeros;
    if (digits < 8)
        zeros = builder.length - 8;
    memmove(text, text + zeros, builder.length - zeros);
    text[builder.length - zeros] = '-';
    return builder.length - zeros + 1;
}

static bool find_deleted(int fd, const void *address)
{
    char start[24], piece[MAPS_PIECE];
    size_t start_length = start_of(address, start), total = 0;
    struct line line = {.length = 0};
    while (total < MAPS_READ_MAX) {
        ssize_t count = bare_read(fd, piece, sizeof piece);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        total += (size_t)count;
        for (ssize_t i = 0; i < count; i++) {
            if (piece[i] != '\n') {
                line_add(&line, piece[i]);
                continue;
            }
            if (line.length > start_length && memcmp(line.first, start, start_length) == 0)
                return memcmp(line.last, DELETED, sizeof line.last) == 0;
            line.length = 0;
        }
    }
    return false;
}

bool segment_is_deleted(const struct segment *segment)
{
    if (segment->path[0] == '\0')
        return false;
    int fd = folder_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY, 0);
    if (fd < 0)
        return false;
    bool deleted = find_deleted(fd, segment->map);
    bare_close(fd);
    return deleted;
}

/* --- written over? --- */

bool segment_is_intact(const struct segment *segment, const char *identity)
{
    const struct segment_stamp *stamp = &segment->map->stamp;
    return stamp->magic == SEGMENT_MAGIC && stamp->version == SEGMENT_VERSION && stamp->size == segment->size &&
           memcmp(&stamp->capacity, &segment->capacity, sizeof stamp->capacity) == 0 &&
           strncmp(segment->map->identity, identity, SEGMENT_IDENTITY_MAX - 1) == 0;
}

/* --- its memory --- */

static bool put_at(void *fresh, size_t size, void *address)
{
    if (mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED)
        return true;
    munmap(fresh, size);
    return false;
}

bool segment_clear(const struct segment *former)
{
    /*
     * Made without access first: where the program has all of its memory locked (mlockall), the zeros would be filled
     * in now, and be as much as what is given back.
     */
    void *zeros = mmap(NULL, former->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return false;
    munlock(zeros, former->size);
    if (bare_mprotect(zeros, former->size, PROT_READ | PROT_WRITE) != 0) {
        munmap(zeros, former->size);
        return false;
    }
    return put_at(zeros, former->size, former->map);
}

bool segment_move(struct segment *segment, const struct segment *former)
{
    if (memcmp(&segment->capacity, &former->capacity, sizeof segment->capacity) != 0 ||
        mremap(segment->map, segment->size, segment->size, MREMAP_MAYMOVE | MREMAP_FIXED, former->map) == MAP_FAILED)
        return false;
    layout_point(segment, former->map, &former->capacity);
    return true;
}
