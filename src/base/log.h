/*
 * log.h - SOCKFUSE_LOG: one line at the end of a file, or on standard error as it was when the program began.
 *
 * Inside somebody else's process: never waits for a reader, never raises a signal in the host, is no cancellation
 * point, lets no handler jump out of it, keeps no descriptor. A line that can't be written is lost. Async-signal-safe;
 * a handful of system calls.
 */
#ifndef SOCKFUSE_BASE_LOG_H
#define SOCKFUSE_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#define LOG_STDERR "stderr" /* instead of a file's name */

/*
 * Remembers what descriptor 2 is now, before anybody else has used the number: later lines go there only while it is
 * the same. Start-up only. What is no standard error never gets a line: a descriptor that is closed, a connection (a
 * server that inetd started has its client there), a socket that is standard input too.
 */
void log_begin(void);

/*
 * Appends the line with one write(2) to the file, made if it is missing (0666, less the umask); LOG_STDERR: to what
 * standard error was. False: it is lost.
 */
bool log_append(const char *file, const char *line, size_t length);

/*
 * The same of a line of `most` bytes at the most that is made of something. It is made in a page of its own, for the
 * stack may be a signal handler's; without memory it is lost. Returns its length, 0: there is none.
 */
typedef size_t log_maker(const void *what, char *line, size_t size);
bool log_append_made(const char *file, log_maker *make, const void *what, size_t most);

#endif
