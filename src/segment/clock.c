/*
 * clock.c - reading the clocks, and the file that replaces one of them.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct clocks clocks = {NULL, clock_gettime};

static const _Atomic uint64_t *map_clock(const char *file)
{
    int fd;
    do
        fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return NULL;
    /* A page beyond the end of its file can't be read, so a file that is too short is no clock. */
    struct stat status;
    void *map = MAP_FAILED;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= (off_t)sizeof(uint64_t))
        map = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

bool clock_start(const char *file)
{
    clocks.replaced = NULL;
    if (!file || !*file)
        return true;
    clocks.replaced = map_clock(file);
    return clocks.replaced != NULL;
}

void clock_use(int (*gettime)(clockid_t, struct timespec *))
{
    clocks.read = gettime ? gettime : clock_gettime;
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    if (clocks.read(clock, &time) != 0 || time.tv_sec < 0)
        return 0;
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

uint64_t clock_circuit_ns(void)
{
    /* Relaxed: the clock orders nothing; one aligned word is never torn. */
    return clocks.replaced ? atomic_load_explicit(clocks.replaced, memory_order_relaxed) : now(CLOCK_MONOTONIC);
}

uint64_t clock_real_ns(void)
{
    return now(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void)
{
    return now(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_wall_ns(void)
{
    return now(CLOCK_REALTIME);
}
