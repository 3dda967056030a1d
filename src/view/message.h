/*
 * message.h - what the commands say to people, so that no name can drive the terminal.
 *
 * File names, arguments, program names and policies' texts come from anywhere. Control characters in them, and bytes
 * that are no UTF-8, are shown as \xNN. Messages need no care: warn(3) and the like, and getopt_long, are those of this
 * file wherever cli.h is included. What goes to stdout with printf is named as shown(NAME).
 */
#ifndef SOCKFUSE_VIEW_MESSAGE_H
#define SOCKFUSE_VIEW_MESSAGE_H

#include <err.h>
#include <getopt.h>

/* The text as it may be printed; a copy that is to be freed. */
char *printable(const char *text);
/* The same for one printf: stands until the seventh call from now. */
const char *shown(const char *text);

void message_warnx(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void message_errx(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void message_err(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void no_memory(void);
#define warnx message_warnx
#define warn message_warn
#define errx message_errx
#define err message_err

/* getopt_long, whose own messages name words of the command line. */
int message_getopt(int argc, char *const *argv, const char *letters, const struct option *options, int *index);
#define getopt_long message_getopt

#endif
