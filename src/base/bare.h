/*
 * bare.h - libc's own functions, where the library stands in front of them or programs bring their own.
 *
 * In libsockfuse.so the plain name is a wrapper: a close in here would judge the number as if the program had closed
 * it, on top of what its own call has taken of the stack. So the core says bare_close, and the library leads that to
 * the function behind its wrapper (preload/real.c); everywhere else it is libc's. preload/test_exports.c finds a name
 * that was forgotten. Async-signal-safe like the functions, but for those of streams.
 */
#ifndef SOCKFUSE_BASE_BARE_H
#define SOCKFUSE_BASE_BARE_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

int bare_close(int fd);
/*
 * A stream is opened and closed by one library: a sanitizer in the program keeps account of those that it saw opened.
 */
FILE *bare_fmemopen(void *bytes, size_t size, const char *mode);
FILE *bare_open_memstream(char **text, size_t *size);
int bare_fclose(FILE *stream);
ssize_t bare_read(int fd, void *buffer, size_t count);
ssize_t bare_write(int fd, const void *buffer, size_t count);
int bare_fcntl(int fd, int command, long argument); /* with what it points to as a number */
int bare_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int bare_poll(struct pollfd *look, nfds_t count, int timeout_ms);
int bare_nanosleep(const struct timespec *time, struct timespec *left);
int bare_sigtimedwait(const sigset_t *set, siginfo_t *information, const struct timespec *timeout);
int bare_mprotect(void *at, size_t length, int protection);
/*
 * By a system call: for who reads a clock a few times in all it costs less than the pages of the vDSO and of libc's way
 * there, which a process is given first.
 */
int bare_gettime(clockid_t clock, struct timespec *time);

#endif
