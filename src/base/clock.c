/*
 * clock.c - reading the clocks, and the file that replaces one of them.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"

struct clocks clocks = {.read = clock_gettime};

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
    bare_close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* "NAME SECONDS NANOSECONDS", one of two lines (time_namespaces(7)); 0: there is none. */
static uint64_t offset_in(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    char *end;
    if (!line)
        return 0;
    long long seconds = strtoll(line + strlen(name), &end, 10);
    return (uint64_t)seconds * NS_PER_S + (uint64_t)strtoll(end, NULL, 10);
}

/* The file tells of the name space of children to come; mostly that is this process's own. */
static bool children_share_our_time(void)
{
    struct stat own, children;
    return stat("/proc/self/ns/time", &own) == 0 && stat("/proc/self/ns/time_for_children", &children) == 0 &&
           own.st_ino == children.st_ino;
}

/* The host's own has this number (linux/nsfs.h: TIME_NS_INIT_INO), and is ahead of nothing: one question, not five. */
#define HOSTS_TIME UINT64_C(0xeffffffa)

static bool is_hosts_time(void)
{
    struct stat own;
    return stat("/proc/self/ns/time", &own) == 0 && own.st_ino == HOSTS_TIME;
}

static void learn_offsets(void)
{
    char text[128];
    clocks.ahead_ns = clocks.boot_ahead_ns = 0;
    if (is_hosts_time())
        return;
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t length = bare_read(fd, text, sizeof text - 1);
    bare_close(fd);
    if (length <= 0 || !children_share_our_time())
        return;
    text[length] = '\0';
    clocks.ahead_ns = offset_in(text, "monotonic");
    clocks.boot_ahead_ns = offset_in(text, "boottime");
}

bool clock_start(const char *file)
{
    learn_offsets();
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
    return clocks.replaced ? atomic_load_explicit(clocks.replaced, memory_order_relaxed) : clock_real_ns();
}

uint64_t clock_real_ns(void)
{
    return now(CLOCK_MONOTONIC) - clocks.ahead_ns;
}

uint64_t clock_coarse_ns(void)
{
    return now(CLOCK_MONOTONIC_COARSE) - clocks.ahead_ns;
}

uint64_t clock_wall_ns(void)
{
    return now(CLOCK_REALTIME);
}
