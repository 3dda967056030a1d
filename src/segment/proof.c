/*
 * proof.c - the locks of living images. See proof.h; what it rests on is tried in tests/unit/test_proof.c.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/proof.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/file_status.h"
#include "base/undisturbed.h"
#include "segment/folder.h"

/* Behind all data. An identity's byte: the next owner of the same place has another one, so nobody waits for it. */
#define PROOF_BASE (INT64_C(1) << 40)
/* Of a file all pages have the same size at least; one is enough. */
#define PAGE_BYTES 4096u

static struct flock byte_of(uint32_t holder)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = PROOF_BASE + holder, .l_len = 1};
}

/* The very file that is mapped; -1: it can't be had. */
static int open_file(const struct segment *segment, int flags)
{
    struct stat status;
    if (segment->path[0] == '\0')
        return -1;
    int fd = folder_openat(AT_FDCWD, segment->path, flags, 0);
    if (fd < 0)
        return -1;
    if (file_status(fd, &status) == 0 && segment_is_of(segment, &status))
        return fd;
    bare_close(fd);
    return -1;
}

/*
 * Mapped and kept from children before it is locked. A child that another thread forks in between has the open file
 * too, and would keep the lock for as long as it lives; so who asks believes /proc as well, where that can tell.
 */
static void *map_and_lock(int fd, uint32_t holder)
{
    struct flock lock = byte_of(holder);
    void *page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, PAGE_BYTES, MADV_DONTFORK) == 0 && bare_fcntl(fd, F_OFD_SETLK, (long)&lock) == 0)
        return page;
    munmap(page, PAGE_BYTES);
    return NULL;
}

void *proof_take(const struct segment *segment, uint32_t holder)
{
    struct undisturbed before;
    void *page = NULL;
    undisturbed_begin(&before);
    int fd = open_file(segment, O_RDWR);
    if (fd >= 0) {
        page = map_and_lock(fd, holder);
        bare_close(fd);
    }
    undisturbed_end(&before);
    return page;
}

void proof_end(void *page)
{
    munmap(page, PAGE_BYTES);
}

/* The page's number, and as much of the identity as tells those apart that one process may have at a time. */
#define PART_BITS 19u
static uint64_t word_of(const void *page, uint32_t holder)
{
    return (uint64_t)((uintptr_t)page / PAGE_BYTES) << PART_BITS |
           ((holder ^ holder >> PART_BITS) & ((UINT32_C(1) << PART_BITS) - 1));
}

void proof_keep(struct segment *segment, void *page, uint32_t holder)
{
    atomic_store_explicit(&segment->proof, word_of(page, holder), memory_order_release);
}

void proof_drop(struct segment *segment, uint32_t holder)
{
    uint64_t word = atomic_load_explicit(&segment->proof, memory_order_acquire);
    void *page = (void *)((uintptr_t)(word >> PART_BITS) * PAGE_BYTES);
    if (page != NULL && word == word_of(page, holder) &&
        atomic_compare_exchange_strong_explicit(&segment->proof, &word, 0, memory_order_acq_rel, memory_order_relaxed))
        proof_end(page);
}

enum lock_answer proof_ask(const struct segment *segment, uint32_t holder)
{
    struct undisturbed before;
    enum lock_answer answer = LOCK_UNKNOWN;
    undisturbed_begin(&before);
    int fd = open_file(segment, O_RDONLY);
    if (fd >= 0) {
        struct flock lock = byte_of(holder);
        if (bare_fcntl(fd, F_OFD_GETLK, (long)&lock) == 0)
            answer = lock.l_type == F_UNLCK ? LOCK_GONE : LOCK_STANDS;
        bare_close(fd);
    }
    undisturbed_end(&before);
    return answer;
}
