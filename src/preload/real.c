/*
 * real.c - finding the functions behind ours. See real.h.
 */
#define _GNU_SOURCE
#include "preload/real.h"

#include <errno.h>
#include <string.h>

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

void real_resolve(void)
{
    void *found;
#define SYMBOL(name, type, parameters, arguments)                                                                      \
    found = dlsym(RTLD_NEXT, #name);                                                                                   \
    if (found)                                                                                                         \
        memcpy(&real.name, &found, sizeof found);
#define NEEDED SYMBOL
#define OPTIONAL(name, type, parameters, arguments)                                                                    \
    found = dlsym(RTLD_NEXT, #name);                                                                                   \
    if (found)                                                                                                         \
        memcpy(&real.name, &found, sizeof found);                                                                      \
    else                                                                                                               \
        real.name = missing_##name;
#include "preload/symbols.def"
}

bool real_is_another_copy(void)
{
    Dl_info self, next;
    void *mine = (void *)&real;
    void *theirs;
    memcpy(&theirs, &real.connect, sizeof theirs);
    if (!dladdr(mine, &self) || !dladdr(theirs, &next) || !self.dli_fname || !next.dli_fname)
        return false;
    const char *slash = strrchr(next.dli_fname, '/');
    return self.dli_fbase != next.dli_fbase && !strcmp(slash ? slash + 1 : next.dli_fname, "libsockfuse.so");
}
