/*
 * file_status.h - fstat for a start. Async-signal-safe; with _GNU_SOURCE.
 */
#ifndef SOCKFUSE_BASE_FILE_STATUS_H
#define SOCKFUSE_BASE_FILE_STATUS_H

#include <fcntl.h>
#include <sys/stat.h>

/*
 * What libc's fstat(2) asks the kernel, with an empty name that is our own: libc's lies among constants of which a
 * start has no page otherwise.
 */
static inline int file_status(int fd, struct stat *status)
{
    return fstatat(fd, "", status, AT_EMPTY_PATH);
}

#endif
