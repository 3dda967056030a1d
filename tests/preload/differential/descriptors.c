/*
 * descriptors.c - operations of a play: what happens to numbers, on the calling side alone. See player.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "player.h"

/*
 * What came of a duplication: it takes a slot, whose own number stays open, as a number that nobody looks at does. But
 * not of one of the stage's own, whose flags would change with the copy's.
 */
static void keep_copy(long fd)
{
    if (fd >= player.base && player.fd >= player.base)
        ONE_OF(player.slots) = (int)fd;
    else if (fd >= player.base)
        close((int)fd);
}

/* Never one of the stage's own. */
static int any_own(void)
{
    int to = any_target();
    return to >= 0 && to < player.base ? -1 : to;
}

static void play_dup(void)
{
    int fd = any_descriptor();
    long result = EITHER(dup(fd), syscall(SYS_dup, fd));
    keep_copy(result);
    told("dup", result, "%s", "");
}

/* Not every processor's kernel has it. */
static long number_dup2(int fd, int to)
{
#ifdef SYS_dup2
    return syscall(SYS_dup2, fd, to);
#else
    return dup2(fd, to);
#endif
}

static void play_dup2(void)
{
    int fd = any_descriptor(), to = any_own();
    long result = EITHER(dup2(fd, to), number_dup2(fd, to));
    keep_copy(result);
    told("dup2", result, "%d", to);
}

static void play_dup3(void)
{
    static const int flags[] = {0, O_CLOEXEC, O_NONBLOCK, -1};
    int fd = any_descriptor(), to = any_own(), flag = ONE_OF(flags);
    long result = EITHER(dup3(fd, to, flag), syscall(SYS_dup3, fd, to, flag));
    keep_copy(result);
    told("dup3", result, "%d, %x", to, (unsigned int)flag);
}

static void duplicate_up(void)
{
    static const long lowest[] = {0, 60, DESCRIPTORS - 1, DESCRIPTORS, -1};
    int fd = any_descriptor(), command = once_in(2) ? F_DUPFD : F_DUPFD_CLOEXEC;
    long least = ONE_OF(lowest);
    bool large = once_in(2);
    long result = player.by_number ? CALL(syscall(SYS_fcntl, fd, command, least))
                  : large          ? CALL(fcntl64(fd, command, least))
                                   : CALL(fcntl(fd, command, least));
    keep_copy(result);
    told("fcntl:dup", result, "%d, %ld", command, least);
}

static void set_flags(void)
{
    static const int flags[] = {0, O_NONBLOCK, O_NONBLOCK | O_APPEND, O_DIRECT};
    int fd = player.fd = any_own(), flag = ONE_OF(flags);
    player.by_number = once_in(4);
    long result = EITHER(fcntl(fd, F_SETFL, flag), syscall(SYS_fcntl, fd, F_SETFL, flag));
    told("fcntl:F_SETFL", result, "%x", (unsigned int)flag);
    result = EITHER(fcntl(fd, F_SETFD, flag ? FD_CLOEXEC : 0), syscall(SYS_fcntl, fd, F_SETFD, flag ? FD_CLOEXEC : 0));
    told("fcntl:F_SETFD", result, "%s", "");
}

static void odd_fcntl(void)
{
    static const int commands[] = {F_GETOWN, F_GETLK, F_GETPIPE_SZ, 9999, -1};
    int fd = any_descriptor(), command = ONE_OF(commands);
    long result = EITHER(fcntl(fd, command, player.forbidden), syscall(SYS_fcntl, fd, command, player.forbidden));
    told("fcntl", result, "%d", command);
}

static void play_close(void)
{
    int fd = player.fd = any_own();
    player.by_number = once_in(4);
    long result = EITHER(close(fd), syscall(SYS_close, fd));
    told("close", result, "%s", "");
}

static void play_close_range(void)
{
    static const unsigned int flags[] = {0, 0, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, 0xff};
    unsigned int first = (unsigned int)player.base + chance(30), last = first + chance(4), flag = ONE_OF(flags);
    if (once_in(10))
        last = first - 1;
    player.fd = (int)first;
    player.by_number = once_in(4);
    long result = EITHER(close_range(first, last, (int)flag), syscall(SYS_close_range, first, last, flag));
    told("close_range", result, "%u, %x", last, flag);
}

static void play_closefrom(void)
{
    player.fd = player.base + 8 + (int)chance(20);
    player.by_number = false;
    CALL((closefrom(player.fd), 0));
    told("closefrom", 0, "%s", "");
}

/* stdio writes and closes unseen. */
static void use_as_stream(void)
{
    int fd = player.fd = any_own();
    player.by_number = false;
    FILE *file = fdopen(fd, once_in(2) ? "w" : "r");
    told("fdopen", file != NULL, "%s", "");
    if (!file)
        return;
    if (once_in(2))
        fprintf(file, "%d words", (int)chance(100));
    if (once_in(8))
        close(fd);
    long result = CALL(fclose(file));
    told("fclose", result, "%s", "");
}

const struct operation descriptors[] = {
    {"dup", 2, play_dup},
    {"dup2", 3, play_dup2},
    {"dup3", 2, play_dup3},
    {"duplicate up", 2, duplicate_up},
    {"set flags", 4, set_flags},
    {"odd fcntl", 1, odd_fcntl},
    {"close", 5, play_close},
    {"close_range", 1, play_close_range},
    {"closefrom", 1, play_closefrom},
    {"as a stream", 1, use_as_stream},
    {NULL, 0, NULL},
};
