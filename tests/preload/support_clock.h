/*
 * support_clock.h - scenes whose circuits have a clock of their own, which stands unless they let it go on.
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

#include "support.h"

static _Atomic uint64_t *clock_ns;

/* Plays a scene with such a clock, which it finds by find_clock. `policy` and `argument` may be NULL. */
static inline void play_with_clock(const char *scene, const char *policy, const char *argument)
{
    char name[64], clock[PATH_MAX + 32];
    snprintf(name, sizeof name, "clock-of-%s", scene);
    snprintf(clock, sizeof clock, "SOCKFUSE_CLOCK=%s", stage_file(name, "12345678")); /* any eight bytes */
    struct scene_options options = {.policy = policy, .environment = {clock}, .arguments = {argument}};
    assert_true(exited_well(scene_run(scene, &options)));
}

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

/* An attempt that gives occasion to look for what is overdue, and comes to nothing; and what is counted then. */
static inline void look_for_overdue(struct server *server, const char *words)
{
    int fd = caller_connect(server, 0);
    close(fd);
    bare.close(server_accept(server));
    expect(server, words);
}

#endif
