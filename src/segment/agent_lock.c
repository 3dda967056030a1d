/*
 * agent_lock.c - see agent_lock.h.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/agent_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Behind the locks of proof.h, which need 2^32 bytes from 2^40 on. */
#define AGENT_LOCK_BASE (INT64_C(1) << 41)
#define PAGE_BYTES 4096u

/* All have its first byte, so one alone has it. */
static struct flock range_of(uint32_t pid)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = AGENT_LOCK_BASE, .l_len = (off_t)pid + 1};
}

static enum agent_lock ask_who(int fd, uint32_t *pid)
{
    struct flock lock = range_of(0);
    *pid = 0;
    if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_start == AGENT_LOCK_BASE &&
        lock.l_len > 1 && lock.l_len - 1 <= INT32_MAX)
        *pid = (uint32_t)(lock.l_len - 1);
    return AGENT_LOCK_ANOTHERS;
}

enum agent_lock agent_lock_take(const struct segment *segment, int fd, void **page, uint32_t *pid)
{
    struct stat status;
    struct flock lock = range_of((uint32_t)getpid());
    *page = NULL;
    if (fstat(fd, &status) != 0 || !segment_is_of(segment, &status))
        return AGENT_LOCK_NONE;
    void *kept = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    if (kept == MAP_FAILED)
        return AGENT_LOCK_NONE;
    /* What the agent starts must not keep it. */
    if (madvise(kept, PAGE_BYTES, MADV_DONTFORK) == 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        *page = kept;
        return AGENT_LOCK_OURS;
    }
    const int code = errno;
    munmap(kept, PAGE_BYTES);
    return code == EAGAIN || code == EACCES ? ask_who(fd, pid) : AGENT_LOCK_NONE;
}

void agent_lock_end(void *page)
{
    munmap(page, PAGE_BYTES);
}
