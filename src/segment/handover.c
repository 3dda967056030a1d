/*
 * handover.c - the edited policies behind a segment's tables, and the number of the last. See handover.h.
 *
 * A reader has no descriptor, and the tables' mapping ends where they end. But a shared mapping can be had a second
 * time, and longer, by mremap(2) with an old size of 0: that is how it sees what lies behind. Pages beyond the file's
 * end, which a damaged header may point to, would kill by SIGBUS: so it is the kernel that touches each page first.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "breaker/frame.h"
#include "breaker/hash.h"
#include "policy/bare.h"
#include "policy/flat.h"
#include "segment/clock.h"
#include "segment/file.h"
#include "segment/folder.h"
#include "segment/layout.h"
#include "segment/undisturbed.h"

#define HANDOVER_MAGIC UINT64_C(0x3176646e61486673) /* "sfHandv1", little endian */
#define GRAIN ((uint64_t)SEGMENT_BASE_GRAIN)
/* Both places lie within this behind the tables, whatever sizes they had. */
#define REACH (UINT64_C(8) * POLICY_FLAT_MAX)
/* Another command that is stopped in the middle must not stop all others for ever. */
#define LOCK_TRIES 1000u
#define LOCK_WAIT_NS (5 * NS_PER_MS)
#define READ_TRIES 4u
#define INTERRUPTIONS_MAX 1000u

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Before the bytes, in their place. */
struct handover_head {
    uint64_t magic;
    uint32_t number, reserved;
    uint64_t length, checksum;
    uint64_t reserved2[4];
};
_Static_assert(sizeof(struct handover_head) == 64, "one line");

static uint64_t checksum_of(const void *bytes, size_t size)
{
    return hash_bytes(HASH_BEGIN, bytes, size);
}

static uint64_t round_up(uint64_t size)
{
    return (size + GRAIN - 1) / GRAIN * GRAIN;
}

static bool is_good(const struct handover_head *head, uint32_t number)
{
    return head->magic == HANDOVER_MAGIC && head->number == number && head->length > 0 &&
           head->length <= POLICY_FLAT_MAX;
}

static bool place_is_sane(const struct segment *segment, uint64_t at)
{
    return at >= segment->size && at % GRAIN == 0 && at - segment->size <= REACH;
}

/* --- writing --- */

/* Returns 0 or an errno. */
static int write_at(int fd, const void *bytes, size_t size, uint64_t at)
{
    unsigned int interruptions = 0;
    for (const char *next = bytes; size > 0;) {
        ssize_t written = pwrite(fd, next, size, (off_t)at);
        if (written < 0 && errno == EINTR && ++interruptions <= INTERRUPTIONS_MAX)
            continue;
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        next += written;
        at += (uint64_t)written;
        size -= (size_t)written;
    }
    return 0;
}

/* Where the next one goes: never over the present one, which others may be reading. */
static uint64_t next_place(int fd, const struct segment *segment, uint32_t present, uint64_t needed)
{
    struct handover_head head;
    uint64_t other = atomic_load_explicit(&segment->map->handover_at[present & 1], memory_order_relaxed);
    if (present == 0 || !place_is_sane(segment, other) ||
        pread(fd, &head, sizeof head, (off_t)other) != (ssize_t)sizeof head || !is_good(&head, present))
        return segment->size;
    if (other - segment->size >= needed)
        return segment->size;
    return other + round_up(sizeof head + head.length);
}

/* Returns 0 or an errno. */
static int write_next(int fd, struct segment *segment, const void *bytes, size_t size)
{
    struct handover_head head = {.magic = HANDOVER_MAGIC, .length = size, .checksum = checksum_of(bytes, size)};
    uint32_t present = atomic_load_explicit(&segment->map->reloads, memory_order_relaxed), number = present + 1;
    uint64_t needed = round_up(sizeof head + size), at = next_place(fd, segment, present, needed);
    head.number = number != 0 ? number : 2; /* 0 is none; the place of an even one */
    int code = file_allocate(fd, at, needed);
    if (code == 0)
        code = write_at(fd, bytes, size, at + sizeof head);
    if (code == 0)
        code = write_at(fd, &head, sizeof head, at);
    if (code != 0)
        return code;
    atomic_store_explicit(&segment->map->handover_at[head.number & 1], at, memory_order_relaxed);
    atomic_store_explicit(&segment->map->reloaded_ns, clock_real_ns(), memory_order_relaxed);
    /* Release: who sees the number finds the time, the place, and what was written there before. */
    atomic_store_explicit(&segment->map->reloads, head.number, memory_order_release);
    return 0;
}

static bool lock(int fd)
{
    const struct timespec wait = {.tv_nsec = (long)LOCK_WAIT_NS};
    for (unsigned int tries = 0; tries < LOCK_TRIES; tries++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        nanosleep(&wait, NULL);
    }
    errno = EBUSY;
    return false;
}

static bool is_mapped_file(int fd, const struct segment *segment)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (uint64_t)status.st_ino == segment->inode &&
           (uint64_t)status.st_dev == segment->device;
}

bool handover_write(struct segment *segment, const void *bytes, size_t size, struct segment_error *error)
{
    const char *path = segment->path;
    if (path[0] == '\0' || size == 0 || size > POLICY_FLAT_MAX)
        return segment_fail(error, path, "a policy can't be handed over here", EINVAL);
    int fd = folder_openat(AT_FDCWD, path, O_RDWR, 0);
    if (fd < 0)
        return segment_fail(error, path, "the policy can't be handed over", errno);
    bool done = false;
    if (!is_mapped_file(fd, segment)) {
        segment_fail(error, path, "the segment was replaced meanwhile; try again", 0);
    } else if (!lock(fd)) {
        segment_fail(error, path, "another command hands a policy over, and does not come to an end", errno);
    } else {
        int code = write_next(fd, segment, bytes, size);
        done = code == 0 || segment_fail(error, path, "the policy can't be handed over", code);
    }
    bare_close(fd);
    return done;
}

/* --- the number --- */

const _Atomic uint32_t *handover_number(const struct segment *segment)
{
    return &segment->map->reloads;
}

bool handover_was_since(const struct segment *segment, uint64_t real_ns)
{
    /* Acquire: see write_next. */
    return atomic_load_explicit(&segment->map->reloads, memory_order_acquire) != 0 &&
           atomic_load_explicit(&segment->map->reloaded_ns, memory_order_relaxed) >= real_ns;
}

/* --- reading --- */

/*
 * Copies from `offset` behind the beginning of a page, from pages that may not be there. Linux 5.14 can be asked to touch
 * them; before, it has to copy itself.
 */
static bool copy_carefully(void *to, char *page, size_t offset, size_t size)
{
    if (madvise(page, offset + size, MADV_POPULATE_READ) == 0) {
        memcpy(to, page + offset, size);
        return true;
    }
    if (errno != EINVAL)
        return false;
    struct iovec local = {to, size}, remote = {page + offset, size};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Copies `size` bytes that begin `offset` behind that place of the file. */
static bool copy_from(const struct segment *segment, uint64_t at, size_t offset, void *to, size_t size, bool *again)
{
    /* From the end of the tables on; the grain is a multiple of all sizes that pages have. */
    char *last = (char *)segment->map + segment->size - GRAIN;
    size_t before = (size_t)(at - segment->size + GRAIN), length = before + (size_t)round_up(offset + size);
    char *view = mremap(last, 0, length, MREMAP_MAYMOVE);
    if (view == MAP_FAILED) {
        *again = errno == ENOMEM || errno == EAGAIN;
        return false;
    }
    bool copied = copy_carefully(to, view + before, offset, size);
    munmap(view, length);
    return copied;
}

/* NULL: it is no good, or `again`. */
static void *read_number(const struct segment *segment, uint32_t number, size_t most, size_t *size, bool *again)
{
    struct handover_head head;
    uint64_t at = atomic_load_explicit(&segment->map->handover_at[number & 1], memory_order_relaxed);
    if (!place_is_sane(segment, at) || !copy_from(segment, at, 0, &head, sizeof head, again) || !is_good(&head, number) ||
        head.length > most)
        return NULL;
    *size = (size_t)head.length;
    void *bytes = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        *again = true;
        return NULL;
    }
    if (copy_from(segment, at, sizeof head, bytes, *size, again) && checksum_of(bytes, *size) == head.checksum)
        return bytes;
    munmap(bytes, *size);
    return NULL;
}

static void *read_last(const struct segment *segment, size_t most, size_t *size, bool *again)
{
    for (unsigned int tries = 0; tries < READ_TRIES; tries++) {
        /* Acquire: see write_next. */
        uint32_t number = atomic_load_explicit(&segment->map->reloads, memory_order_acquire);
        void *bytes = number != 0 ? read_number(segment, number, most, size, again) : NULL;
        if (bytes != NULL || *again || atomic_load_explicit(&segment->map->reloads, memory_order_relaxed) == number)
            return bytes;
    }
    *again = true; /* it is written faster than it can be read */
    return NULL;
}

OWN_FRAME void *handover_read(const struct segment *segment, size_t most, size_t *size, bool *again)
{
    struct undisturbed before;
    *again = false;
    if (segment->inode == 0) /* a private one */
        return NULL;
    undisturbed_begin(&before);
    void *bytes = read_last(segment, most, size, again);
    undisturbed_end(&before);
    return bytes;
}

void handover_free(void *bytes, size_t size)
{
    munmap(bytes, size);
}
