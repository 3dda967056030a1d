/*
 * segment_visit.c - mapping a segment for a command, which makes and replaces nothing. See segment.h.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/shared.h"
#include "segment/file.h"
#include "segment/folder.h"
#include "segment/layout.h"
#include "segment/segment.h"

/* Who asks for the segment of `owner` has it from a name that anybody may have put there. */
static const char *owner_fault(int fd, const struct stat *status, uint32_t owner)
{
    struct statfs system;
    if (owner != SEGMENT_OF_ANYBODY && status->st_uid != owner)
        return "the segment belongs to another user";
    if (status->st_uid == geteuid()) /* nothing of it is another's */
        return NULL;
    if (status->st_nlink > 1)
        return "the segment has a second name";
    if ((status->st_mode & 022) != 0)
        return "others may write to the segment";
    /* Who reads in a hole of a file in memory fills it: this process would fill another user's file, to no use. */
    return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC &&
                   (uint64_t)status->st_blocks * 512 < (uint64_t)status->st_size
               ? "the segment has holes"
               : NULL;
}

static bool open_to_look(struct segment *segment, int fd, bool writable, struct segment_error *error)
{
    struct contents contents;
    struct stat status;
    const char *path = segment->path, *fault;
    if (fstat(fd, &status) != 0)
        return segment_fail(error, path, "the segment can't be examined", errno);
    contents_know(&contents, "", NULL);
    if (!file_map(fd, status.st_size, writable, &contents, segment, &fault))
        return fault ? segment_fail(error, path, fault, 0)
                     : segment_fail(error, path, "the segment can't be mapped", errno);
    segment->device = (uint64_t)status.st_dev;
    segment->inode = (uint64_t)status.st_ino;
    return true;
}

static bool may_look(int fd, bool writable, struct segment_error *error, const char *path)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return segment_fail(error, path, "the segment can't be examined", errno);
    if (!S_ISREG(status.st_mode))
        return segment_fail(error, path, "no segment: it is no regular file", 0);
    return (status.st_uid == geteuid() || (!writable && geteuid() == 0)) ||
           segment_fail(error, path, "the segment belongs to another user", 0);
}

static bool start_to_open(struct segment *segment, const char *path, struct segment_error *error)
{
    *segment = (struct segment){.path = "", .own_path = strdup(path)};
    error->text[0] = '\0';
    if (!segment->own_path)
        return segment_fail(error, path, "no memory left", 0);
    segment->path = segment->own_path;
    return true;
}

/*
 * A file system that its user has mounted on the very file (FUSE) could keep whoever asks it anything waiting for ever;
 * so could a lease (fcntl(2)), but for O_NONBLOCK.
 */
static int open_strictly(int folder, const char *name, int flags)
{
    const struct open_how how = {
        .flags = (uint64_t)(uint32_t)(flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY),
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    /* Before Linux 5.6, and under some filters, there is no such call. */
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? folder_openat(folder, name, flags, 0) : fd;
}

int segment_openat(int folder, const char *name, int flags, bool strictly)
{
    return strictly ? open_strictly(folder, name, flags) : folder_openat(folder, name, flags, 0);
}

/* In 32 bit an atomic load of 64 may be a compare-and-exchange, which needs a page that can be written. */
static bool needs_writable(bool writable)
{
    return writable || sizeof(void *) == 4;
}

static bool end_opening(struct segment *segment, int fd, bool opened)
{
    if (fd >= 0)
        bare_close(fd);
    if (!opened)
        segment_detach(segment);
    return opened;
}

bool segment_open(struct segment *segment, const char *path, bool writable, struct segment_error *error)
{
    writable = needs_writable(writable);
    if (!start_to_open(segment, path, error))
        return false;
    int fd = folder_openat(AT_FDCWD, path, writable ? O_RDWR : O_RDONLY, 0);
    bool opened = fd < 0 ? segment_fail(error, path, "the segment can't be opened", errno)
                         : may_look(fd, writable, error, path) && open_to_look(segment, fd, writable, error);
    return end_opening(segment, fd, opened);
}

bool segment_open_at(struct segment *segment, int folder, const char *path, uint32_t *owner, bool writable,
                     struct segment_error *error)
{
    struct stat status;
    const char *fault = NULL;
    writable = needs_writable(writable);
    if (!start_to_open(segment, path, error))
        return false;
    const char *name = strrchr(path, '/') + 1;
    const int flags = writable ? O_RDWR : O_RDONLY;
    int fd = segment_openat(folder, name, flags, *owner != geteuid());
    bool opened = fd >= 0 && fstat(fd, &status) == 0;
    if (!opened)
        segment_fail(error, path, "the segment can't be opened", errno);
    else if (!S_ISREG(status.st_mode))
        fault = "no segment: it is no regular file";
    else
        fault = owner_fault(fd, &status, *owner);
    if (fault != NULL)
        opened = segment_fail(error, path, fault, 0);
    opened = opened && open_to_look(segment, fd, writable, error);
    if (opened)
        *owner = status.st_uid;
    return end_opening(segment, fd, opened);
}

char *segment_copy_identity(const struct segment *segment)
{
    char *copy = malloc(SEGMENT_IDENTITY_MAX);
    /* Somebody may write there. */
    if (copy && shared_load_text(copy, segment->map->identity, SEGMENT_IDENTITY_MAX) == SEGMENT_IDENTITY_MAX)
        copy[0] = '\0';
    return copy;
}
