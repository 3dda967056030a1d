/*
 * real.c - finding the functions behind ours. See real.h.
 */
#define _GNU_SOURCE
#include "preload/real.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/libc.h"
#include LIBC_OWN_HEADER
#include "connection/system.h"
#include "preload/next_functions.h"

/*
 * Stubs: the first call through a pointer that nobody has resolved yet. Other libraries' constructors run before ours,
 * and an allocator may read files while it starts: so this neither allocates nor waits, and nothing else of this
 * library has to be ready.
 */
#define SYMBOL(name, type, parameters, arguments)                                                                      \
    JUMPS static type early_##name parameters                                                                          \
    {                                                                                                                  \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&real.name, &found, sizeof found);                                                                      \
        JUMP real.name arguments;                                                                                      \
    }
#define NEEDED SYMBOL
#define missing_int                                                                                                    \
    errno = ENOSYS;                                                                                                    \
    return -1
#define missing_ssize_t                                                                                                \
    errno = ENOSYS;                                                                                                    \
    return -1
#define missing_void return
#define OPTIONAL(name, type, parameters, arguments)                                                                    \
    static type missing_##name parameters                                                                              \
    {                                                                                                                  \
        missing_##type;                                                                                                \
    }                                                                                                                  \
    JUMPS static type early_##name parameters                                                                          \
    {                                                                                                                  \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        if (found)                                                                                                     \
            memcpy(&real.name, &found, sizeof found);                                                                  \
        else                                                                                                           \
            real.name = missing_##name;                                                                                \
        JUMP real.name arguments;                                                                                      \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "preload/symbols.def"
#pragma GCC diagnostic pop

struct real real = {
#define SYMBOL(name, type, parameters, arguments) .name = early_##name,
#define NEEDED SYMBOL
#include "preload/symbols.def"
};

static int real_ioctl(int fd, unsigned long request, void *argument)
{
    return ioctl(fd, (LIBC_IOCTL_REQUEST)request, argument);
}

/* What the judging asks: the functions behind the wrappers, and those in front of which nothing stands. */
#define SYSTEM(of)                                                                                                     \
    {                                                                                                                  \
        .getsockopt = of(getsockopt), .connect = of(connect), .send = of(send), .sendmsg = of(sendmsg),                \
        .shutdown = of(shutdown), .poll = of(poll), .fcntl = of(fcntl), .clock_nanosleep = of(clock_nanosleep),        \
        .syscall = of(syscall), .setsockopt = setsockopt, .getsockname = getsockname, .getpeername = getpeername,      \
        .bind = bind, .ioctl = real_ioctl, .getpid = getpid,                                                           \
    }
#define EARLY(name) early_##name
#define RESOLVED(name) real.name
struct system sys = SYSTEM(EARLY);

/* In the order of the pointers. */
static const char names[] =
#define SYMBOL(name, type, parameters, arguments) #name "\0"
#define NEEDED SYMBOL
#include "preload/symbols.def"
    ;

enum {
#define SYMBOL(name, type, parameters, arguments) NUMBER_##name,
#define NEEDED SYMBOL
#include "preload/symbols.def"
    FUNCTIONS
};
_Static_assert(FUNCTIONS * sizeof(void *) <= sizeof(struct real), "pointers and nothing else");

/* The loader has the last word: what it says of one name must be so. An auditor may tell it something else of each. */
static bool are_trustworthy(void *const *found)
{
    return !secure_getenv("LD_AUDIT") && found[NUMBER_connect] == dlsym(RTLD_NEXT, "connect");
}

void real_resolve(void)
{
    const char *name = names;
    void *found[FUNCTIONS];
    next_functions(names, names, FUNCTIONS, found);
    if (!are_trustworthy(found))
        memset(found, 0, sizeof found);
    for (size_t i = 0; i < FUNCTIONS; i++, name += strlen(name) + 1) {
        void *function = found[i] ? found[i] : dlsym(RTLD_NEXT, name);
        if (function)
            memcpy((char *)&real + i * sizeof function, &function, sizeof function);
    }
#define SYMBOL(name, type, parameters, arguments)
#define OPTIONAL(name, type, parameters, arguments)                                                                    \
    if (real.name == early_##name)                                                                                     \
        real.name = missing_##name;
#include "preload/symbols.def"
    sys = (struct system)SYSTEM(RESOLVED);
}

/* The object in which an address lies. dladdr would look through all its symbols for one that nobody wants to know. */
struct object {
    uintptr_t address, base;
    const char *path; /* NULL: none */
};

static int is_in_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct object *object = context;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || object->address - (info->dlpi_addr + part->p_vaddr) >= part->p_memsz)
            continue;
        object->base = info->dlpi_addr;
        object->path = info->dlpi_name;
        return 1;
    }
    return 0;
}

static struct object object_of(const void *pointer_to_function)
{
    struct object object = {.path = NULL};
    memcpy(&object.address, pointer_to_function, sizeof object.address);
    dl_iterate_phdr(is_in_object, &object);
    return object;
}

bool real_is_another_copy(void)
{
    const struct real *const mine = &real;
    struct object self = object_of(&mine), next = object_of(&real.connect);
    if (!self.path || !next.path)
        return false;
    const char *slash = strrchr(next.path, '/');
    return self.base != next.base && !strcmp(slash ? slash + 1 : next.path, "libsockfuse.so");
}

bool real_is_anothers(const void *pointer_to_function)
{
    __typeof__(&LIBC_OWN) of_libc = LIBC_OWN;
    struct object libc = object_of(&of_libc), behind = object_of(pointer_to_function);
    return libc.path && behind.path && libc.base != behind.base;
}

/* --- the core's own calls (base/bare.h) --- */

int bare_close(int fd)
{
    return real.close(fd);
}

FILE *bare_fmemopen(void *bytes, size_t size, const char *mode)
{
    FILE *(*opens)(void *, size_t, const char *);
    void *found = dlsym(RTLD_NEXT, "fmemopen");
    memcpy(&opens, &found, sizeof opens);
    return found ? opens(bytes, size, mode) : NULL;
}

FILE *bare_open_memstream(char **text, size_t *size)
{
    FILE *(*opens)(char **, size_t *);
    void *found = dlsym(RTLD_NEXT, "open_memstream");
    memcpy(&opens, &found, sizeof opens);
    return found ? opens(text, size) : NULL;
}

int bare_fclose(FILE *stream)
{
    return real.fclose(stream);
}

ssize_t bare_read(int fd, void *buffer, size_t count)
{
    return real.read(fd, buffer, count);
}

ssize_t bare_write(int fd, const void *buffer, size_t count)
{
    return real.write(fd, buffer, count);
}

/* The one of the name takes the locks of 64 bits also in a program of 32. */
int bare_fcntl(int fd, int command, long argument)
{
#if LIBC_HAS_FCNTL64
    return real.fcntl64(fd, command, argument);
#else
    return real.fcntl(fd, command, argument);
#endif
}

int bare_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    return real.getsockopt(fd, level, option, value, length);
}

int bare_poll(struct pollfd *look, nfds_t count, int timeout_ms)
{
    return real.poll(look, count, timeout_ms);
}

int bare_nanosleep(const struct timespec *time, struct timespec *left)
{
    return real.nanosleep(time, left);
}

int bare_sigtimedwait(const sigset_t *set, siginfo_t *information, const struct timespec *timeout)
{
    return real.sigtimedwait(set, information, timeout);
}

int bare_gettime(clockid_t clock, struct timespec *time)
{
#if __SIZEOF_LONG__ == 8
    return (int)real.syscall(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
#else
    return clock_gettime(clock, time); /* which of two calls has this libc's time */
#endif
}

int bare_mprotect(void *at, size_t length, int protection)
{
    return real.mprotect(at, length, protection);
}
