/*
 * newer_calls.h - system calls for which not every C library has a function yet. Private to src/segment.
 */
#ifndef SOCKFUSE_SEGMENT_NEWER_CALLS_H
#define SOCKFUSE_SEGMENT_NEWER_CALLS_H

#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1u << 0)
static inline int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned int flags)
{
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
#endif

#ifndef STATX_MNT_ID
#include <linux/stat.h>
static inline int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *result)
{
    return (int)syscall(SYS_statx, folder, path, flags, mask, result);
}
#endif

#endif
