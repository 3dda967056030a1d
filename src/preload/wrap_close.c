/*
 * wrap_close.c - the ways to end a connection: close and its relatives, shutdown, the end of the process.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio_ext.h>

#include "base/hot.h"
#include "base/libc.h"
#include "connection/engine.h"
#include "preload/real.h"
#include "preload/wrapper.h"

static APART void tell_closing(int fd)
{
    int error = errno;
    connection_closing(fd);
    errno = error;
}

HOT int wrap_close(int fd)
{
    if (UNLIKELY(descriptor_get(fd)))
        tell_closing(fd);
    return real.close(fd);
}

int wrap_close_range(unsigned int first, unsigned int last, int flags)
{
    if (engine_ready() && range_closes(first, last, (unsigned int)flags)) {
        int error = errno;
        connection_closing_range(first, last);
        errno = error;
    }
    return real.close_range(first, last, flags);
}

void wrap_closefrom(int first)
{
    if (engine_ready()) {
        int error = errno;
        connection_closing_range(first < 0 ? 0 : (unsigned int)first, ~0u);
        errno = error;
    }
    real.closefrom(first);
}

/* stdio closes the descriptor by itself, unseen. A stream without one (open_memstream) has none to tell of. */
int wrap_fclose(FILE *file)
{
    if (file && engine_ready()) {
        int error = errno;
        int fd = fileno(file);
        if (fd >= 0 && descriptor_get(fd)) {
            if (__fpending(file) > 0)
                connection_leaving(fd);
            else
                connection_closing(fd);
        }
        errno = error;
    }
    return real.fclose(file);
}

int wrap_shutdown(int fd, int how)
{
    descriptor entry;
    int keep = errno;
    if (GUARDED(fd, entry)) {
        int error = errno;
        connection_shutting(fd, how);
        errno = error;
    }
    int result = real.shutdown(fd, how);
    if (result < 0 && errno == ENOTCONN && GUARDED(fd, entry) && connection_is_over(entry)) {
        errno = keep;
        result = 0;
    }
    return result;
}

void wrap__exit(int status)
{
    connection_exit(status);
    real._exit(status);
}

void wrap__Exit(int status)
{
    connection_exit(status);
    real._Exit(status);
}

void wrap_quick_exit(int status)
{
    connection_exit(status);
    real.quick_exit(status);
}

#if !LIBC_HAS_ON_EXIT
/* A return from main does not come by here. */
static atomic_int told_status;

void wrap_exit(int status)
{
    atomic_store_explicit(&told_status, status, memory_order_relaxed);
    real.exit(status);
}

int wrapper_exit_status(void)
{
    return atomic_load_explicit(&told_status, memory_order_relaxed);
}
#endif
