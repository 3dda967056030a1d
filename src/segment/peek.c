/*
 * peek.c - looks into a file that is no segment of this build. See peek.h.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"
#include "segment/file.h"
#include "segment/layout.h"

#define IDENTITY_AT (offsetof(struct segment_header, identity))
#define IDENTITY_AT_OF_1 256
#define FIRST_LAYOUT 1u
_Static_assert(PEEK_IDENTITY_MAX == SEGMENT_IDENTITY_MAX, "the same");
_Static_assert(offsetof(struct segment_header, identity) == 512, "where other builds look for it");

/* False: errno, or 0 for a file that ends before. */
static bool read_at(int fd, void *bytes, size_t size, size_t at)
{
    ssize_t length;
    do
        length = pread(fd, bytes, size, (off_t)at);
    while (length < 0 && errno == EINTR);
    if (length >= 0)
        errno = 0;
    return length == (ssize_t)size;
}

/* A newer build may have put it elsewhere: what is no identity is unknown. */
static void read_identity(int fd, struct peek *peek)
{
    const size_t at = peek->version == FIRST_LAYOUT ? IDENTITY_AT_OF_1 : IDENTITY_AT;
    char *text = peek->identity;
    if (!read_at(fd, text, PEEK_IDENTITY_MAX, at) || memchr(text, '\0', PEEK_IDENTITY_MAX) == NULL ||
        (text[0] != '/' && strncmp(text, "patterns: ", strlen("patterns: ")) != 0))
        text[0] = '\0';
}

static enum peek_kind kind_of(const struct segment_stamp *stamp)
{
    struct contents here;
    if (stamp->magic != SEGMENT_MAGIC)
        return PEEK_DAMAGED;
    contents_know(&here, "", NULL);
    if (stamp->version != FIRST_LAYOUT && here.boot_id[0] != '\0' && stamp->boot_id[0] != '\0' &&
        strncmp(stamp->boot_id, here.boot_id, sizeof stamp->boot_id) != 0)
        return PEEK_OTHER_BOOT;
    return stamp->version != SEGMENT_VERSION ? PEEK_OTHER_LAYOUT : PEEK_GOOD;
}

/* Any lock on any byte: whoever proves that it lives has one. */
static bool is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return bare_fcntl(fd, F_OFD_GETLK, (long)&lock) == 0 && lock.l_type != F_UNLCK;
}

bool segment_peek(int fd, struct peek *peek)
{
    struct segment_stamp stamp;
    struct stat status;
    *peek = (struct peek){.kind = PEEK_DAMAGED, .own_version = SEGMENT_VERSION};
    if (fstat(fd, &status) != 0)
        return false;
    peek->device = (uint64_t)status.st_dev;
    peek->inode = (uint64_t)status.st_ino;
    peek->owner = status.st_uid;
    if (!S_ISREG(status.st_mode))
        return true;
    if (!read_at(fd, &stamp, sizeof stamp, 0))
        return errno == 0;
    peek->kind = kind_of(&stamp);
    peek->version = stamp.version;
    peek->has_locks = stamp.version > FIRST_LAYOUT;
    peek->is_locked = is_locked(fd);
    if (peek->kind != PEEK_DAMAGED)
        read_identity(fd, peek);
    return true;
}
