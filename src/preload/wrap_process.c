/*
 * wrap_process.c - the ways to make a process that pthread_atfork(3) does not tell of: vfork, clone, posix_spawn and
 * what libc builds on them (system, popen); and to become another program.
 *
 * The child may have any connection that stands now, so it is counted (lineage.h) before the call; then the way ends in
 * a jump, for vfork returns twice on one stack. A descriptor that posix_spawn is told to hand over is marked, and a
 * probe whose connection another program is to have is settled.
 */
#define _GNU_SOURCE
#include "base/libc.h"
#include "connection/lineage.h"
#include "preload/real.h"
#include "preload/wrapper.h"

JUMPS pid_t wrap_vfork(void)
{
    lineage_lend_to_vfork();
    JUMP real.vfork();
}

JUMPS int wrap_clone(int (*start)(void *), void *stack, int flags, void *argument, void *parent, void *tls, void *child)
{
    lineage_lend((uint64_t)(unsigned int)flags);
    JUMP real.clone(start, stack, flags, argument, parent, tls, child);
}

JUMPS int wrap_posix_spawn(pid_t *pid, const char *path, const void *actions, const void *attributes,
                           char *const *arguments, char *const *environment)
{
    lineage_note_child();
    wrapper_executing(true);
    JUMP real.posix_spawn(pid, path, actions, attributes, arguments, environment);
}

JUMPS int wrap_posix_spawnp(pid_t *pid, const char *file, const void *actions, const void *attributes,
                            char *const *arguments, char *const *environment)
{
    lineage_note_child();
    wrapper_executing(true);
    JUMP real.posix_spawnp(pid, file, actions, attributes, arguments, environment);
}

JUMPS int wrap_system(const char *command)
{
    lineage_note_child();
    JUMP real.system(command);
}

JUMPS FILE *wrap_popen(const char *command, const char *mode)
{
    lineage_note_child();
    JUMP real.popen(command, mode);
}

#if LIBC_HAS__FORK
JUMPS pid_t wrap__Fork(void)
{
    lineage_note_child();
    JUMP real._Fork();
}
#endif

#if LIBC_HAS_PIDFD_SPAWN
JUMPS int wrap_pidfd_spawn(int *fd, const char *path, const void *actions, const void *attributes,
                           char *const *arguments, char *const *environment)
{
    lineage_note_child();
    wrapper_executing(true);
    JUMP real.pidfd_spawn(fd, path, actions, attributes, arguments, environment);
}

JUMPS int wrap_pidfd_spawnp(int *fd, const char *file, const void *actions, const void *attributes,
                            char *const *arguments, char *const *environment)
{
    lineage_note_child();
    wrapper_executing(true);
    JUMP real.pidfd_spawnp(fd, file, actions, attributes, arguments, environment);
}
#endif

int wrap_posix_spawn_file_actions_adddup2(void *actions, int fd, int to)
{
    descriptor entry;
    int result = real.posix_spawn_file_actions_adddup2(actions, fd, to);
    if (result == 0 && GUARDED(fd, entry)) {
        int error = errno;
        connection_handed(fd);
        errno = error;
    }
    return result;
}

/* --- becoming another program --- */

JUMPS int wrap_execve(const char *path, char *const *arguments, char *const *environment)
{
    wrapper_executing(false);
    JUMP real.execve(path, arguments, environment);
}

JUMPS int wrap_execv(const char *path, char *const *arguments)
{
    wrapper_executing(false);
    JUMP real.execv(path, arguments);
}

JUMPS int wrap_execvp(const char *file, char *const *arguments)
{
    wrapper_executing(false);
    JUMP real.execvp(file, arguments);
}

JUMPS int wrap_execvpe(const char *file, char *const *arguments, char *const *environment)
{
    wrapper_executing(false);
    JUMP real.execvpe(file, arguments, environment);
}

JUMPS int wrap_fexecve(int fd, char *const *arguments, char *const *environment)
{
    wrapper_executing(false);
    JUMP real.fexecve(fd, arguments, environment);
}

JUMPS int wrap_execl(const char *path, long a, long b, long c, long d, long e)
{
    wrapper_executing(false);
    JUMP real.execl(path, a, b, c, d, e);
}

JUMPS int wrap_execlp(const char *file, long a, long b, long c, long d, long e)
{
    wrapper_executing(false);
    JUMP real.execlp(file, a, b, c, d, e);
}

JUMPS int wrap_execle(const char *path, long a, long b, long c, long d, long e)
{
    wrapper_executing(false);
    JUMP real.execle(path, a, b, c, d, e);
}

#if LIBC_HAS_EXECVEAT
JUMPS int wrap_execveat(int folder, const char *path, char *const *arguments, char *const *environment, int flags)
{
    wrapper_executing(false);
    JUMP real.execveat(folder, path, arguments, environment, flags);
}
#endif
