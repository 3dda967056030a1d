/*
 * behind.c - writing and reading pieces behind a segment's tables. See behind.h.
 *
 * A reader has no descriptor, and the tables' mapping ends where they end. But a shared mapping can be had a second
 * time, and longer, by mremap(2) with an old size of 0: that is how it sees what lies behind. Pages beyond the file's
 * end, which a damaged header may point to, would kill by SIGBUS: so it is the kernel that touches each page first.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/behind.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/hash.h"
#include "policy/flat.h"
#include "segment/file.h"
#include "segment/folder.h"
#include "segment/layout.h"

#define PIECE_MAGIC UINT64_C(0x3165636569506673) /* "sfPiece1", little endian */
#define GRAIN ((uint64_t)SEGMENT_BASE_GRAIN)
/* All pieces lie within this behind the tables, whatever sizes they have had. */
#define REACH (UINT64_C(8) * POLICY_FLAT_MAX)
#define PIECES_MAX (1u + EDITIONS)
#define LOCK_WAIT_NS (5 * NS_PER_MS)
#define INTERRUPTIONS_MAX 1000u

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Before a piece's bytes, in its place. */
struct piece_head {
    uint64_t magic, name;
    uint64_t length, checksum;
    uint64_t reserved[4];
};
_Static_assert(sizeof(struct piece_head) == 64, "one line");

static uint64_t round_up(uint64_t size)
{
    return (size + GRAIN - 1) / GRAIN * GRAIN;
}

static bool is_good(const struct piece_head *head, uint64_t name)
{
    return head->magic == PIECE_MAGIC && head->name == name && head->length > 0 && head->length <= POLICY_FLAT_MAX;
}

static bool place_is_sane(const struct segment *segment, uint64_t at)
{
    return at >= segment->size && at % GRAIN == 0 && at - segment->size <= REACH;
}

/* --- room --- */

struct extent {
    uint64_t from, to;
};

struct standing {
    struct extent at[PIECES_MAX];
    unsigned int count;
};

/* A piece that the header names, if it is one. */
static void note_piece(int fd, const struct segment *segment, struct standing *standing, uint64_t name, uint64_t at)
{
    struct piece_head head;
    if (name == 0 || !place_is_sane(segment, at) || pread(fd, &head, sizeof head, (off_t)at) != (ssize_t)sizeof head ||
        !is_good(&head, name))
        return;
    standing->at[standing->count++] = (struct extent){at, at + round_up(sizeof head + head.length)};
}

/* Relaxed: who writes them has the lock. */
static void find_standing(int fd, const struct segment *segment, struct standing *standing)
{
    const struct segment_header *map = segment->map;
    const uint32_t number = atomic_load_explicit(&map->reloads, memory_order_relaxed);
    standing->count = 0;
    note_piece(fd, segment, standing, number,
               atomic_load_explicit(&map->handover_at[number & 1], memory_order_relaxed));
    for (unsigned int i = 0; i < EDITIONS; i++)
        note_piece(fd, segment, standing, atomic_load_explicit(&map->edition_revision[i], memory_order_relaxed),
                   segment->size + GRAIN * atomic_load_explicit(&map->edition_at[i], memory_order_relaxed));
}

/* The end of a piece that stands within; 0: nothing does. */
static uint64_t end_of_hindrance(const struct standing *standing, uint64_t from, uint64_t needed)
{
    for (unsigned int i = 0; i < standing->count; i++)
        if (standing->at[i].from < from + needed && from < standing->at[i].to)
            return standing->at[i].to;
    return 0;
}

/* The first room that is large enough; 0: there is none within reach. */
static uint64_t find_room(int fd, const struct segment *segment, uint64_t needed)
{
    struct standing standing;
    uint64_t at = segment->size, end;
    find_standing(fd, segment, &standing);
    for (unsigned int i = 0; (end = end_of_hindrance(&standing, at, needed)) != 0; i++) {
        if (i == PIECES_MAX)
            return 0;
        at = end;
    }
    return place_is_sane(segment, at) ? at : 0;
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

int behind_write(int fd, const struct segment *segment, uint64_t name, const void *bytes, size_t size, uint64_t *at)
{
    struct piece_head head = {
        .magic = PIECE_MAGIC, .name = name, .length = size, .checksum = hash_bytes(HASH_BEGIN, bytes, size)};
    uint64_t needed = round_up(sizeof head + size);
    *at = find_room(fd, segment, needed);
    if (*at == 0)
        return ENOSPC;
    int code = file_allocate(fd, *at, needed);
    if (code == 0)
        code = write_at(fd, bytes, size, *at + sizeof head);
    if (code == 0)
        code = write_at(fd, &head, sizeof head, *at);
    return code;
}

static bool lock(int fd, unsigned int tries)
{
    const struct timespec wait = {.tv_nsec = (long)LOCK_WAIT_NS};
    for (;;) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        if (--tries == 0)
            break;
        bare_nanosleep(&wait, NULL);
    }
    errno = EBUSY;
    return false;
}

static bool is_mapped_file(int fd, const struct segment *segment)
{
    struct stat status;
    return fstat(fd, &status) == 0 && segment_is_of(segment, &status);
}

OWN_FRAME int behind_open(const struct segment *segment, unsigned int tries)
{
    int fd = folder_openat(AT_FDCWD, segment->path, O_RDWR, 0);
    if (fd < 0)
        return -1;
    int code = is_mapped_file(fd, segment) ? lock(fd, tries) ? 0 : errno : ESTALE;
    if (code == 0)
        return fd;
    bare_close(fd);
    errno = code;
    return -1;
}

/* --- reading --- */

/*
 * Copies from `offset` behind the beginning of a page, from pages that may not be there. Linux 5.14 can be asked to
 * touch them; before, it has to copy itself.
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

void *behind_read(const struct segment *segment, uint64_t at, uint64_t name, size_t most, size_t *size, bool *again)
{
    struct piece_head head;
    if (!place_is_sane(segment, at) || !copy_from(segment, at, 0, &head, sizeof head, again) || !is_good(&head, name) ||
        head.length > most)
        return NULL;
    *size = (size_t)head.length;
    void *bytes = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        *again = true;
        return NULL;
    }
    if (copy_from(segment, at, sizeof head, bytes, *size, again) &&
        hash_bytes(HASH_BEGIN, bytes, *size) == head.checksum)
        return bytes;
    munmap(bytes, *size);
    return NULL;
}

void behind_free(void *bytes, size_t size)
{
    munmap(bytes, size);
}
