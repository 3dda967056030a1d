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
#include "base/hot.h"

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

/* Whether they are known now: without /proc they are not, and then this is taken for the host's time. */
static bool ask_for_offsets(void)
{
    char text[128];
    if (is_hosts_time())
        return true;
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = bare_read(fd, text, sizeof text - 1);
    bare_close(fd);
    if (length <= 0 || !children_share_our_time())
        return false;
    text[length] = '\0';
    clocks.ahead_ns = offset_in(text, "monotonic");
    clocks.boot_ahead_ns = offset_in(text, "boottime");
    return true;
}

static uint64_t ns_of(const struct timespec *time)
{
    return time->tv_sec < 0 ? 0 : (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    return clocks.read(clock, &time) == 0 ? ns_of(&time) : 0;
}

#define AS_FAR_NS NS_PER_MS
#define READ_TOGETHER_NS (100 * NS_PER_US)

struct distances {
    uint64_t of_monotonic_ns, of_boot_ns;
};

/* False: the readings lie too far apart to be noted; who holds them against a note finds out by that. */
static bool measure(struct distances *wall)
{
    uint64_t before_ns = now(CLOCK_MONOTONIC), boot_ns = now(CLOCK_BOOTTIME), wall_ns = clock_wall_ns();
    *wall = (struct distances){.of_monotonic_ns = wall_ns - before_ns + clocks.ahead_ns,
                               .of_boot_ns = wall_ns - boot_ns + clocks.boot_ahead_ns};
    return now(CLOCK_MONOTONIC) - before_ns < READ_TOGETHER_NS;
}

/* Relaxed, as all of the note: each of its words is held against a clock of its own. */
static bool is_as_far(_Atomic uint64_t *noted, uint64_t distance_ns)
{
    uint64_t noted_ns = atomic_load_explicit(noted, memory_order_relaxed);
    return noted_ns != 0 && distance_ns - noted_ns + AS_FAR_NS <= 2 * AS_FAR_NS;
}

void clock_learn_offsets(struct clock_note *note)
{
    struct distances wall;
    clocks.ahead_ns = clocks.boot_ahead_ns = 0;
    measure(&wall);
    if (note && is_as_far(&note->of_monotonic_ns, wall.of_monotonic_ns) &&
        is_as_far(&note->of_boot_ns, wall.of_boot_ns))
        return;
    bool know = ask_for_offsets();
    if (!note || !know || !measure(&wall))
        return;
    atomic_store_explicit(&note->of_monotonic_ns, wall.of_monotonic_ns, memory_order_relaxed);
    atomic_store_explicit(&note->of_boot_ns, wall.of_boot_ns, memory_order_relaxed);
}

bool clock_replace(const char *file)
{
    clocks.replaced = NULL;
    if (!file || !*file)
        return true;
    clocks.replaced = map_clock(file);
    return clocks.replaced != NULL;
}

bool clock_start(const char *file)
{
    clock_learn_offsets(NULL);
    return clock_replace(file);
}

void clock_use(int (*gettime)(clockid_t, struct timespec *))
{
    clocks.read = gettime ? gettime : clock_gettime;
}

uint64_t clock_circuit_ns(void)
{
    /* Relaxed: the clock orders nothing; one aligned word is never torn. */
    return clocks.replaced ? atomic_load_explicit(clocks.replaced, memory_order_relaxed) : clock_real_ns();
}

HOT uint64_t clock_real_ns(void)
{
    return now(CLOCK_MONOTONIC) - clocks.ahead_ns;
}

HOT uint64_t clock_coarse_ns(void)
{
    return now(CLOCK_MONOTONIC_COARSE) - clocks.ahead_ns;
}

uint64_t clock_wall_ns(void)
{
    return now(CLOCK_REALTIME);
}

uint64_t clock_wall_seldom_ns(void)
{
    struct timespec time;
    return bare_gettime(CLOCK_REALTIME, &time) == 0 ? ns_of(&time) : 0;
}
