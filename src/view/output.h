/*
 * output.h - how what is written for people and machines ends, and memory for it: had, or the end of the program.
 *
 * Messages go to stderr through warn(3) and warnx(3) (message.h), each with a place and a remedy; results to stdout.
 */
#ifndef SOCKFUSE_VIEW_OUTPUT_H
#define SOCKFUSE_VIEW_OUTPUT_H

#include <stdarg.h>
#include <stdio.h>

#include "policy/policy.h"
#include "view/message.h"

/*
 * Flush stdout, or write to a stream, before the end: what could not be written then is said by finish_output, or
 * result_close, with its reason.
 */
void flush_output(void);
void write_output(const void *bytes, size_t length, FILE *out);
/* Why the first of them failed: an errno; 0: none did. */
int output_error(void);

/*
 * The last thing a command does with stdout: flushes it and returns `status`, or EXIT_FAILURE with a message when
 * something could not be written (a full disk). A reader that went away (EPIPE) is no message.
 */
int finish_output(int status);

/* Prints a policy's problems on stderr: `sockfuse: FILE:LINE: error: …`; without line or file where there is none. */
void print_problems(const char *file, const struct policy_problems *problems);

/* A variable of the environment for state_folder and policy_discover; NULL where it may not be trusted (AT_SECURE). */
const char *environment(const char *name);

/* Memory or the end of the program: `sockfuse: …` and EXIT_FAILURE. */
void *allocate(size_t count, size_t size);
char *copy_text(const char *text);
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *format_text_list(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));
/* What is written goes to `*text`, which stands, with its length, once it is closed, and is to be freed. */
FILE *open_text(char **text, size_t *length);
void close_text(FILE *out);
/* Room for one more element behind `count`; what is returned takes the array's place. */
void *grow(void *array, size_t count, size_t element_bytes);

#endif
