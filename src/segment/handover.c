/*
 * handover.c - the file beside the segment, and the number in it. See handover.h.
 *
 * The file is copied, not mapped: a file that is cut short later would kill a process that has it mapped.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/clock.h"
#include "segment/folder.h"
#include "segment/layout.h"
#include "segment/text.h"
#include "segment/undisturbed.h"

#define SUFFIX ".policy"
/* A write that is broken off by signals again and again is given up. */
#define INTERRUPTIONS_MAX 1000u

/* FOLDER/NAME-HASH.policy beside FOLDER/NAME-HASH.segment, and where its last part begins. */
static bool path_of(const struct segment *segment, char path[PATH_MAX], char **name)
{
    struct text text;
    size_t length = strlen(segment->path), suffix = strlen(SEGMENT_SUFFIX);
    if (length <= suffix)
        return false;
    text_start(&text, path, PATH_MAX);
    text_add_bytes(&text, segment->path, length - suffix);
    text_add(&text, SUFFIX);
    *name = strrchr(path, '/');
    if (text.cut || *name == NULL)
        return false;
    ++*name;
    return true;
}

/* --- writing --- */

/* Returns 0 or an errno. */
static int write_whole(int fd, const char *bytes, size_t size)
{
    unsigned int interruptions = 0;
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR && ++interruptions <= INTERRUPTIONS_MAX)
            continue;
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        bytes += written;
        size -= (size_t)written;
    }
    return 0;
}

/* A whole file under a temporary name gets its name in one step. Returns 0 or an errno. */
static int replace_file(int folder, const char *name, const void *bytes, size_t size)
{
    char temporary[TEMPORARY_NAME_SIZE];
    folder_temporary_name(temporary);
    int fd = folder_openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return errno;
    /* The umask may have taken something from the mode. */
    int code = fchmod(fd, 0600) != 0 ? errno : write_whole(fd, bytes, size);
    close(fd);
    if (code == 0 && renameat(folder, temporary, folder, name) != 0)
        code = errno;
    if (code != 0)
        unlinkat(folder, temporary, 0);
    return code;
}

bool handover_write(const struct segment *segment, const void *bytes, size_t size, struct segment_error *error)
{
    char path[PATH_MAX], *name;
    error->text[0] = '\0';
    if (!path_of(segment, path, &name))
        return segment_fail(error, segment->path, "a policy can't be handed over here", ENAMETOOLONG);
    name[-1] = '\0';
    int folder = folder_open(path[0] != '\0' ? path : "/", error);
    if (folder < 0)
        return false;
    int code = replace_file(folder, name, bytes, size);
    close(folder);
    name[-1] = '/';
    return code == 0 || segment_fail(error, path, "the policy can't be handed over", code);
}

/* --- the number --- */

void handover_announce(struct segment *segment)
{
    /* Release: who sees the number finds the time, and the file that was put there before. */
    atomic_store_explicit(&segment->map->reloaded_ns, clock_real_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&segment->map->reloads, 1, memory_order_release);
}

const _Atomic uint32_t *handover_number(const struct segment *segment)
{
    return &segment->map->reloads;
}

bool handover_was_since(const struct segment *segment, uint64_t real_ns)
{
    /* Acquire: see handover_announce. */
    return atomic_load_explicit(&segment->map->reloads, memory_order_acquire) != 0 &&
           atomic_load_explicit(&segment->map->reloaded_ns, memory_order_relaxed) >= real_ns;
}

/* --- reading --- */

static bool is_ours_alone(const struct stat *status)
{
    return S_ISREG(status->st_mode) && status->st_uid == geteuid() && (status->st_mode & 022) == 0;
}

/* Fills the memory; false if the file ends before, which is not to be mended, or can't be read. */
static bool read_whole(int fd, char *bytes, size_t size, bool *again)
{
    while (size > 0) {
        ssize_t length;
        do
            length = read(fd, bytes, size);
        while (length < 0 && errno == EINTR);
        if (length <= 0) {
            *again = length < 0;
            return false;
        }
        bytes += length;
        size -= (size_t)length;
    }
    return true;
}

/* The file's contents in memory of their own. */
static void *read_file(const char *path, size_t most, size_t *size, bool *again)
{
    struct stat status;
    void *bytes = MAP_FAILED;
    int fd = folder_openat(AT_FDCWD, path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0) {
        *again = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        return NULL;
    }
    if (fstat(fd, &status) == 0 && is_ours_alone(&status) && status.st_size > 0 && (uint64_t)status.st_size <= most) {
        *size = (size_t)status.st_size;
        bytes = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *again = bytes == MAP_FAILED;
    }
    bool whole = bytes != MAP_FAILED && read_whole(fd, bytes, *size, again);
    close(fd);
    if (bytes != MAP_FAILED && !whole)
        munmap(bytes, *size);
    return whole ? bytes : NULL;
}

void *handover_read(const struct segment *segment, size_t most, size_t *size, bool *again)
{
    char path[PATH_MAX], *name;
    struct undisturbed before;
    *again = false;
    if (!path_of(segment, path, &name))
        return NULL;
    undisturbed_begin(&before);
    void *bytes = read_file(path, most, size, again);
    undisturbed_end(&before);
    return bytes;
}

void handover_free(void *bytes, size_t size)
{
    munmap(bytes, size);
}
