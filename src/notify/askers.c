/*
 * askers.c - threads and processes by their numbers. See askers.h.
 */
#define _GNU_SOURCE
#include "notify/askers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "segment/processes.h"

#define PIDFD_OF_THREAD O_EXCL /* PIDFD_THREAD, 6.9 */
#define TIDIED_AT_ONCE 16u
#define FLAG_EXITING 4u /* PF_EXITING, of field 9 of /proc/PID/stat */

static void path_of(char path[48], uint32_t pid, const char *what)
{
    struct text text;
    text_start(&text, path, 48);
    text_add(&text, "/proc/");
    text_add_unsigned(&text, pid);
    text_add(&text, what);
}

static ssize_t read_file(uint32_t pid, const char *what, char *bytes, size_t size)
{
    char path[48];
    path_of(path, pid, what);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const ssize_t length = read(fd, bytes, size - 1);
    close(fd);
    bytes[length > 0 ? length : 0] = '\0';
    return length;
}

static uint64_t net_space_of(uint32_t pid)
{
    char path[48];
    struct stat status;
    path_of(path, pid, "/ns/net");
    return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

void askers_start(struct askers *askers, const struct guard *model, uint64_t revision)
{
    askers->model = *model;
    askers->revision = revision;
    askers->net_space = net_space_of((uint32_t)getpid());
    for (unsigned int i = 0; i < THREADS_MAX; i++)
        askers->threads[i].descriptor = -1;
}

bool asker_read(uint32_t tid, uint64_t address, void *bytes, size_t size)
{
    const struct iovec here = {bytes, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv((pid_t)tid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static uint32_t process_of(uint32_t tid)
{
    char text[1024];
    if (read_file(tid, "/status", text, sizeof text) <= 0)
        return 0;
    const char *line = strstr(text, "\nTgid:");
    return line ? (uint32_t)strtoul(line + 6, NULL, 10) : 0;
}

/* Kernels before 6.9 have no descriptor of a thread; its process's will do, for the files are the same mostly. */
static int open_task(uint32_t tid, uint32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, tid, tid == pid ? 0 : PIDFD_OF_THREAD);
    if (fd < 0 && errno == EINVAL)
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd;
}

static void drop_thread(struct asking_thread *thread)
{
    if (thread->descriptor >= 0)
        close(thread->descriptor);
    thread->descriptor = -1;
    thread->tid = 0;
}

static struct asking_thread *know_thread(struct askers *askers, uint32_t tid)
{
    struct asking_thread *oldest = &askers->threads[0];
    const uint64_t now_ns = clock_coarse_ns();
    for (struct asking_thread *at = askers->threads; at < askers->threads + THREADS_MAX; at++) {
        if (at->tid == tid) {
            at->used_ns = now_ns;
            return at;
        }
        if (at->used_ns < oldest->used_ns)
            oldest = at;
    }
    drop_thread(oldest);
    const uint32_t pid = process_of(tid);
    const int descriptor = pid ? open_task(tid, pid) : -1;
    if (descriptor < 0)
        return NULL;
    *oldest = (struct asking_thread){.tid = tid, .pid = pid, .descriptor = descriptor, .used_ns = now_ns};
    return oldest;
}

int askers_take_descriptor(struct askers *askers, uint32_t tid, int fd, uint32_t *pid)
{
    /* Twice, for the number may have been a former thread's. */
    for (unsigned int times = 0; times < 2; times++) {
        struct asking_thread *thread = know_thread(askers, tid);
        if (!thread)
            return -1;
        const int copy = (int)syscall(SYS_pidfd_getfd, thread->descriptor, fd, 0);
        *pid = thread->pid;
        if (copy >= 0 || (errno != ESRCH && errno != EMFILE))
            return copy;
        /* Where there is no room for one more, the other threads' give theirs. */
        const bool all = errno == EMFILE;
        for (struct asking_thread *at = askers->threads; at < askers->threads + THREADS_MAX; at++)
            if (all ? at != thread : at == thread)
                drop_thread(at);
    }
    return -1;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* As it was called: the last part of its executable's name. */
static void name_of(uint32_t pid, char name[PROGRAM_NAME_MAX])
{
    char path[48], target[512];
    path_of(path, pid, "/exe");
    const ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(target, '/');
    const char *last = slash ? slash + 1 : target;
    memcpy(name, last, strnlen(last, PROGRAM_NAME_MAX - 1));
}

static void drop(struct asker *asker)
{
    process_leave(asker->guard.segment, asker->guard.holder);
    asker->pid = 0;
}

/* A holder that is not its own any more, for others took the process for dead, is joined anew. */
static bool join(struct askers *askers, struct asker *asker, uint32_t pid)
{
    asker->guard = askers->model;
    asker->guard.pid = pid;
    name_of(pid, asker->guard.program);
    asker->guard.holder = process_join_for(askers->model.segment, pid, asker->guard.program, askers->revision);
    if (asker->guard.holder == 0) {
        segment_note_no_room(askers->model.segment, NO_ROOM_PROCESSES);
        return false;
    }
    process_runs(askers->model.segment, asker->guard.holder, askers->revision, true);
    asker->pid = pid;
    asker->calls = 0;
    return true;
}

struct asker *askers_find(struct askers *askers, uint32_t pid)
{
    struct asker *room = NULL;
    const uint64_t now_ns = clock_coarse_ns();
    if (process_guards_itself(askers->model.segment, pid))
        return NULL;
    for (struct asker *at = askers->at; at < askers->at + ASKERS_MAX; at++) {
        if (at->pid == pid && process_asked(askers->model.segment, at->guard.holder) != NULL) {
            at->used_ns = now_ns;
            return at;
        }
        if (at->calls == 0 && (!room || (room->pid != 0 && (at->pid == 0 || at->used_ns < room->used_ns))))
            room = at;
    }
    if (!room || net_space_of(pid) != askers->net_space)
        return NULL;
    if (room->pid != 0)
        drop(room);
    room->used_ns = now_ns;
    return join(askers, room, pid) ? room : NULL;
}

void askers_tidy(struct askers *askers)
{
    for (unsigned int i = 0; i < TIDIED_AT_ONCE; i++) {
        struct asker *asker = &askers->at[askers->cursor++ % ASKERS_MAX];
        if (asker->pid != 0 && asker->calls == 0 && asker_end(asker->pid) != ASKER_GOES_ON)
            drop(asker);
    }
    for (struct asking_thread *at = askers->threads; at < askers->threads + THREADS_MAX; at++)
        if (at->tid != 0 && syscall(SYS_pidfd_send_signal, at->descriptor, 0, NULL, 0) != 0 && errno == ESRCH)
            drop_thread(at);
}

void askers_leave(struct askers *askers)
{
    for (struct asker *at = askers->at; at < askers->at + ASKERS_MAX; at++)
        if (at->pid != 0)
            drop(at);
}

/* The state and, numbered as in proc(5), the fields behind the name of /proc/PID/stat. */
static bool read_stat(uint32_t pid, char *state, uint64_t *flags, uint64_t *code)
{
    char text[1024];
    if (read_file(pid, "/stat", text, sizeof text) <= 0)
        return false;
    const char *at = strrchr(text, ')');
    if (!at || at[1] == '\0')
        return false;
    *state = at[2];
    at += 2;
    for (unsigned int field = 4; field <= 52 && (at = strchr(at, ' ')) != NULL; field++) {
        at++;
        if (field == 9)
            *flags = strtoul(at, NULL, 10);
        if (field == 52)
            *code = strtoul(at, NULL, 10);
    }
    return true;
}

enum asker_end asker_end(uint32_t pid)
{
    char state;
    uint64_t flags = 0, code = 0;
    if (!read_stat(pid, &state, &flags, &code))
        return ASKER_IS_KILLED; /* gone, and nobody can say how */
    if (state != 'Z' && state != 'X' && (flags & FLAG_EXITING) == 0)
        return ASKER_GOES_ON;
    return (code & 0x7f) != 0 ? ASKER_IS_KILLED : code != 0 ? ASKER_EXITS : ASKER_EXITS_WELL;
}
