/*
 * file.c - making and checking a segment's file.
 *
 * A fresh file is made whole under a temporary name, then gets its name by one rename. Where none was, the rename
 * must not replace (somebody else's circuits may stand there by now); where a bad one was, it must replace that one
 * only: the caller holds the folder's lock meanwhile.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/span.h"
#include "base/text.h"
#include "segment/folder.h"
#include "segment/newer_calls.h"

/*
 * The tmpfs of older kernels gives all of an allocation up when a signal comes: in pieces, a program with a fast
 * timer gets there too.
 */
#define ALLOCATION_PIECE (UINT64_C(256) * 1024)
#define ALLOCATION_TRIES 1000u

OWN_FRAME static void read_boot_id(char id[BOOT_ID_SIZE])
{
    memset(id, 0, BOOT_ID_SIZE);
    int fd = folder_openat(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
    if (fd < 0)
        return;
    ssize_t length;
    do
        length = bare_read(fd, id, BOOT_ID_SIZE - 1);
    while (length < 0 && errno == EINTR);
    bare_close(fd);
    id[length > 0 ? length : 0] = '\0';
    id[span_until(id, "\n")] = '\0';
}

void contents_know(struct contents *contents, const char *identity, const struct capacity *capacity)
{
    contents->identity = identity;
    contents->patient = true;
    read_boot_id(contents->boot_id);
    contents->capacity = capacity ? *capacity : CAPACITY_BUILT_IN;
}

void contents_fill(struct segment_header *map, const struct contents *contents)
{
    struct segment_stamp *stamp = &map->stamp;
    stamp->version = SEGMENT_VERSION;
    stamp->capacity = contents->capacity;
    stamp->size = layout_measure(&contents->capacity).size;
    memcpy(stamp->boot_id, contents->boot_id, sizeof stamp->boot_id);
    stamp->created_ns = clock_wall_ns();
    struct text text;
    text_start(&text, map->identity, sizeof map->identity);
    text_add(&text, contents->identity);
    stamp->magic = SEGMENT_MAGIC;
}

/* What is wrong with the stamp of a file of that size; NULL: nothing. */
static const char *stamp_fault(const struct segment_stamp *stamp, off_t size, const struct contents *contents)
{
    if (stamp->magic != SEGMENT_MAGIC)
        return "it is no segment";
    if (stamp->version != SEGMENT_VERSION)
        return "it is of another version";
    if (!capacity_is_sane(&stamp->capacity) || stamp->size != layout_measure(&stamp->capacity).size)
        return "its capacities are damaged";
    if ((uint64_t)size < stamp->size)
        return "it had a wrong size";
    /* Where one of both could not be known, nothing is proved. */
    if (contents->boot_id[0] && stamp->boot_id[0] &&
        strncmp(stamp->boot_id, contents->boot_id, sizeof stamp->boot_id) != 0)
        return "it is from before the last boot, so its times are void";
    return NULL;
}

void file_unmap(struct segment *segment)
{
    munmap(segment->map, segment->size);
    segment->map = NULL;
}

OWN_FRAME bool file_map(int fd, off_t size, bool writable, const struct contents *contents, struct segment *segment,
                        const char **fault)
{
    struct segment_stamp stamp;
    ssize_t length;
    do
        length = pread(fd, &stamp, sizeof stamp, 0);
    while (length < 0 && errno == EINTR);
    *fault = NULL;
    if (length < 0)
        return false;
    *fault = length < (ssize_t)sizeof stamp ? "it had a wrong size" : stamp_fault(&stamp, size, contents);
    if (*fault)
        return false;
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void *map = mmap(NULL, (size_t)stamp.size, protection, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return false;
    layout_point(segment, map, &stamp.capacity);
    if (contents->identity[0] && strncmp(segment->map->identity, contents->identity, SEGMENT_IDENTITY_MAX - 1) != 0) {
        *fault = "it belongs to another policy";
        file_unmap(segment);
    } else if (contents->identity[0] && layout_is_given_up(segment)) {
        *fault = "it was given up";
        file_unmap(segment);
    }
    return *fault == NULL;
}

int file_allocate(int fd, uint64_t from, uint64_t size)
{
    const uint64_t end = from + size;
    struct rlimit limit;
    /* Beyond this limit the kernel does not only refuse: it kills by SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)end)
        return EFBIG;
    unsigned int tries = 0;
    for (uint64_t at = from; at < end;) {
        uint64_t piece = end - at < ALLOCATION_PIECE ? end - at : ALLOCATION_PIECE;
        int code = posix_fallocate(fd, (off_t)at, (off_t)piece);
        if (code == 0)
            at += piece;
        else if (code != EINTR || ++tries > ALLOCATION_TRIES)
            return code;
    }
    return 0;
}

static bool has_room(int folder, uint64_t size)
{
    struct statfs status;
    return fstatfs(folder, &status) != 0 || status.f_blocks == 0 ||
           (uint64_t)status.f_bavail * (uint64_t)status.f_bsize >= size;
}

/* Makes a whole fresh file under a temporary name. Returns 0 or an errno; then there is none. */
OWN_FRAME static int make_fresh(int folder, char name[TEMPORARY_NAME_SIZE], const struct contents *contents)
{
    /* Who tries each second is not to fill and empty the last of a full disk each second. */
    if (!contents->patient && !has_room(folder, layout_measure(&contents->capacity).size))
        return ENOSPC;
    folder_temporary_name(name);
    int fd = folder_openat(folder, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return errno;
    /* The umask may have taken something from the mode. */
    int code = fchmod(fd, 0600) != 0 ? errno : file_allocate(fd, 0, layout_measure(&contents->capacity).size);
    void *header = MAP_FAILED;
    if (code == 0) {
        header = mmap(NULL, sizeof(struct segment_header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        code = header == MAP_FAILED ? errno : 0;
    }
    bare_close(fd);
    if (code == 0) {
        contents_fill(header, contents);
        munmap(header, sizeof(struct segment_header));
    } else {
        unlinkat(folder, name, 0);
    }
    return code;
}

/* Gives a temporary file its name unless there is one of that name. Returns 0 or an errno. */
static int name_if_missing(int folder, const char *temporary, const char *name, bool patient)
{
    if (renameat2(folder, temporary, folder, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /*
     * A file system without that flag: for a moment the file has two names. Nobody takes such a file for good, and who
     * wants to replace it waits for the lock; if its maker is killed here, it is replaced.
     */
    folder_lock(folder, patient);
    if (linkat(folder, temporary, folder, name, 0) != 0)
        return errno;
    unlinkat(folder, temporary, 0);
    return 0;
}

OWN_FRAME bool file_is_at(int folder, const char *name, const struct stat *file)
{
    struct stat present;
    return fstatat(folder, name, &present, AT_SYMLINK_NOFOLLOW) == 0 && present.st_ino == file->st_ino &&
           present.st_dev == file->st_dev;
}

OWN_FRAME bool file_install(int folder, const char *name, const struct stat *bad, const struct contents *contents,
                            const char *path, struct segment_error *error, bool *installed)
{
    char temporary[TEMPORARY_NAME_SIZE];
    *installed = false;
    int code = make_fresh(folder, temporary, contents);
    if (code != 0)
        return segment_fail(error, path, "the segment can't be made", code);
    if (!bad)
        code = name_if_missing(folder, temporary, name, contents->patient);
    else if (!file_is_at(folder, name, bad))
        code = EEXIST;
    else
        code = renameat(folder, temporary, folder, name) == 0 ? 0 : errno;
    if (code == 0) {
        *installed = true;
        return true;
    }
    unlinkat(folder, temporary, 0);
    /* ENOENT: somebody swept our temporary file; the caller looks again and then makes another one. */
    return code == EEXIST || code == ENOENT || segment_fail(error, path, "the segment can't be put in its place", code);
}
