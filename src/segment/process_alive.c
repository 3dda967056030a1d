/*
 * process_alive.c - asking /proc whether a process lives.
 *
 * Of /proc/PID/stat the state, the number of threads and the start time are read, with open, read and close.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/process_alive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/text.h"
#include "base/undisturbed.h"

/*
 * This process's pid name space, and whether /proc speaks of it. Kept, for process_life_goes_on may be asked inside a
 * wrapper. Every process_life_know_self writes them, so also a fork's child, which may be in another space. Relaxed:
 * each stands alone.
 */
static _Atomic uint64_t own_space;
static _Atomic uint32_t own_pid; /* whose that is */
static _Atomic uint32_t own_proc;
enum { PROC_UNKNOWN = 0, PROC_USABLE, PROC_UNUSABLE };

struct stat_fields {
    uint32_t pid;
    char state;
    uint64_t threads, start;
};

/*
 * When a process started, in ticks after boot, as the host tells it; 0, unknown, where a tick begins at another moment
 * in this time name space.
 */
static uint64_t start_on_host(uint64_t ticks)
{
    const uint64_t tick_ns = NS_PER_S / (getauxval(AT_CLKTCK) ? getauxval(AT_CLKTCK) : 100);
    const int64_t ahead_ns = (int64_t)clocks.boot_ahead_ns;
    if (ahead_ns % (int64_t)tick_ns != 0)
        return 0;
    return (ticks - (uint64_t)(ahead_ns / (int64_t)tick_ns)) & PROCESS_LIFE_MASK;
}

/* "PID (NAME) STATE ...", proc(5). A name may hold anything, also ") R 1": what counts stands behind the last ")". */
static bool parse_stat(const char *text, struct stat_fields *fields)
{
    uint64_t pid;
    const char *at = text, *end = strrchr(text, ')');
    if (!ascii_number(&at, &pid) || !end || end[1] != ' ' || end[2] == '\0')
        return false;
    fields->pid = (uint32_t)pid;
    fields->state = end[2];
    at = end + 3;
    /* The state was field 3. Some fields may be negative; of those that are kept none is. */
    for (unsigned int field = 4; field <= 22; field++) {
        uint64_t number;
        if (*at++ != ' ')
            return false;
        if (*at == '-')
            at++;
        if (!ascii_number(&at, &number))
            return false;
        if (field == 20)
            fields->threads = number;
        else if (field == 22)
            fields->start = start_on_host(number);
    }
    return true;
}

/* The length of what was read of the file's beginning; none: 0, or less. */
static ssize_t read_beginning(const char *path, char *text, size_t size)
{
    struct undisturbed before;
    ssize_t length = -1;

    undisturbed_begin(&before);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0) {
        length = bare_read(fd, text, size);
        bare_close(fd);
    }
    undisturbed_end(&before);
    return length;
}

OWN_FRAME static bool read_stat(const char *path, struct stat_fields *fields)
{
    char text[400]; /* what comes after field 22 may be cut: those up to it have 360 bytes at the most */
    ssize_t length = read_beginning(path, text, sizeof text - 1);

    if (length <= 0)
        return false;
    text[length] = '\0';
    return parse_stat(text, fields);
}

/* The kernel gives each program image 16 bytes of chance. */
static uint64_t own_image(void)
{
    uint64_t chance = 0;
    const void *bytes = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    if (bytes)
        memcpy(&chance, bytes, sizeof chance);
    return chance & PROCESS_LIFE_MASK;
}

static uint64_t ask_for_space(void)
{
    struct stat space;
    return stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino & PROCESS_LIFE_MASK : 0;
}

static void keep_own_space(const struct process_life *self)
{
    atomic_store_explicit(&own_space, self->space, memory_order_relaxed);
    atomic_store_explicit(&own_pid, self->pid, memory_order_relaxed);
}

/*
 * Of itself a process asks for its main thread, which began when it did: QEMU's user mode makes up /proc/self/stat and
 * what has the process's number instead, and others, who look from outside, see another start there.
 */
#define OWN_STAT "/proc/self/task/"

static bool read_stat_at(const char *before, uint32_t pid, struct stat_fields *fields)
{
    char path[40];
    struct text text;
    text_start(&text, path, sizeof path);
    text_add(&text, before);
    text_add_unsigned(&text, pid);
    text_add(&text, "/stat");
    return read_stat(path, fields);
}

OWN_FRAME void process_life_know_self(struct process_life *self)
{
    struct stat_fields fields;
    self->pid = (uint32_t)getpid();
    /* A /proc that was mounted in another pid name space numbers the processes otherwise: nothing in it is of use. */
    bool usable = read_stat_at(OWN_STAT, self->pid, &fields) && fields.pid == self->pid;
    self->start = usable ? fields.start : 0;
    self->space = ask_for_space();
    /* /proc may have gone since it was asked; a process's name space never changes. */
    if (self->space == 0 && atomic_load_explicit(&own_pid, memory_order_relaxed) == self->pid)
        self->space = atomic_load_explicit(&own_space, memory_order_relaxed);
    self->image = own_image();
    keep_own_space(self);
    atomic_store_explicit(&own_proc, usable ? PROC_USABLE : PROC_UNUSABLE, memory_order_relaxed);
}

/* The device number of /proc, if that speaks of this process by the number that it has for itself; else 0. */
static uint64_t own_proc_device(uint32_t pid)
{
    struct stat proc;
    char text[16];
    const char *at = text;
    uint64_t number;
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    if (!ascii_number(&at, &number) || number != pid || stat("/proc", &proc) != 0 || major(proc.st_dev) != 0)
        return 0;
    return minor(proc.st_dev);
}

/* A note is device:20 | space:44. A device is one mount of a /proc, which is of one name space. */
void process_life_know_briefly(struct process_life *self, _Atomic uint64_t noted[PROC_SPACES])
{
    *self = (struct process_life){.pid = (uint32_t)getpid(), .image = own_image()};
    uint64_t device = own_proc_device(self->pid);
    for (unsigned int i = 0; i < PROC_SPACES && device != 0 && self->space == 0; i++) {
        uint64_t note = atomic_load_explicit(&noted[i], memory_order_relaxed);
        self->space = note >> PROCESS_LIFE_BITS == device ? note & PROCESS_LIFE_MASK : 0;
    }
    if (self->space == 0) {
        self->space = ask_for_space();
        if (device != 0 && self->space != 0)
            atomic_store_explicit(&noted[device % PROC_SPACES], device << PROCESS_LIFE_BITS | self->space,
                                  memory_order_relaxed);
    }
    keep_own_space(self);
}

bool process_life_can_ask(uint64_t space)
{
    uint64_t own = atomic_load_explicit(&own_space, memory_order_relaxed);
    return space == 0 || own == 0 || space == own;
}

static bool read_stat_of(uint32_t pid, struct stat_fields *fields)
{
    return read_stat_at(pid == (uint32_t)getpid() ? OWN_STAT : "/proc/", pid, fields);
}

OWN_FRAME void process_life_know_other(struct process_life *other, uint32_t pid)
{
    struct stat_fields fields;
    process_life_know_self(other); /* the space is that in which it has this number */
    other->pid = pid;
    other->image = 0;
    other->start = read_stat_of(pid, &fields) ? fields.start : 0;
}

OWN_FRAME bool process_life_goes_on(const struct process_life *life)
{
    struct stat_fields fields;
    if (atomic_load_explicit(&own_proc, memory_order_relaxed) == PROC_UNKNOWN) {
        struct process_life self;
        process_life_know_self(&self);
    }
    if (life->pid == 0 || life->pid > INT32_MAX)
        return false;
    if (!process_life_can_ask(life->space))
        return true;
    if (atomic_load_explicit(&own_proc, memory_order_relaxed) == PROC_USABLE && read_stat_of(life->pid, &fields)) {
        /* A main thread that has ended is a zombie while its other threads run on. */
        bool ended = (fields.state == 'Z' || fields.state == 'X') && fields.threads <= 1;
        return !ended && (life->start == 0 || fields.start == 0 || fields.start == life->start);
    }
    /* No /proc, one that hides others' processes, or no descriptor left to read it: this takes a zombie for living. */
    return kill((pid_t)life->pid, 0) == 0 || errno == EPERM;
}

bool process_is_stopped(uint32_t pid)
{
    struct stat_fields fields;
    return read_stat_of(pid, &fields) && (fields.state == 'T' || fields.state == 't');
}
