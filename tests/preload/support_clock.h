/*
 * support_clock.h - the circuits' clock of a scene that was started with SOCKFUSE_CLOCK.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_SUPPORT_CLOCK_H
#define SOCKFUSE_TESTS_PRELOAD_SUPPORT_CLOCK_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *clock_ns;

static inline void advance_s(uint64_t seconds)
{
    atomic_fetch_add(clock_ns, seconds * 1000000000u);
}

/* Maps it. False: there is none. */
static inline bool find_clock(void)
{
    int fd = open(getenv("SOCKFUSE_CLOCK"), O_RDWR | O_CLOEXEC);
    clock_ns = mmap(NULL, sizeof *clock_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return fd >= 0 && clock_ns != MAP_FAILED;
}

#endif
