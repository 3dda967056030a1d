/*
 * cli.c - the little that all commands share: help and version, how errors and output end, memory.
 *
 * See cli.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cli/cli.h"

#ifndef SOCKFUSE_VERSION
#define SOCKFUSE_VERSION "unknown"
#endif

int print_help(const char *text)
{
    fputs(text, stdout);
    return finish_output(EXIT_SUCCESS);
}

int print_version(void)
{
    puts("sockfuse " SOCKFUSE_VERSION);
    return finish_output(EXIT_SUCCESS);
}

int usage_error(const char *command)
{
    fprintf(stderr, "Try 'sockfuse %s -h'.\n", command);
    return EXIT_USAGE;
}

int common_option(const char *command, const char *help, int letter)
{
    switch (letter) {
    case 'h':
        return print_help(help);
    case OPTION_VERSION:
        return print_version();
    default:
        return usage_error(command);
    }
}

int unexpected_word(const char *command, const char *word)
{
    warnx("%s: unexpected word '%s'; a policy is named with -p FILE", command, word);
    return usage_error(command);
}

/* Why output was lost before the end: the stream keeps that it was, and not why. */
static int lost_by;

void flush_output(void)
{
    if (fflush(stdout) != 0 && lost_by == 0)
        lost_by = errno;
}

void write_output(const void *bytes, size_t length, FILE *out)
{
    if (fwrite(bytes, 1, length, out) < length && lost_by == 0)
        lost_by = errno;
}

int output_error(void)
{
    return lost_by;
}

int finish_output(int status)
{
    flush_output();
    if (ferror(stdout) == 0)
        return status;
    errno = lost_by;
    if (errno != EPIPE) {
        if (errno != 0)
            warn("standard output can't be written");
        else
            warnx("standard output can't be written");
    }
    return EXIT_FAILURE;
}

void print_problems(const char *file, const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        const struct policy_problem *problem = &problems->at[i];
        const char *kind = problem->is_error ? "error" : "warning";
        if (file != NULL && problem->line > 0)
            warnx("%s:%u: %s: %s", file, problem->line, kind, problem->text);
        else if (file != NULL)
            warnx("%s: %s: %s", file, kind, problem->text);
        else
            warnx("%s: %s", kind, problem->text);
    }
}

const char *environment(const char *name)
{
    return secure_getenv(name);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count != 0 ? count : 1, size);
    if (memory == NULL)
        no_memory();
    return memory;
}

char *copy_text(const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL)
        no_memory();
    return copy;
}

FILE *open_text(char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);
    if (out == NULL)
        no_memory();
    return out;
}

void close_text(FILE *out)
{
    if (fclose(out) != 0)
        no_memory();
}

char *format_text_list(const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        no_memory();
    return text;
}

char *format_text(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text_list(format, arguments);
    va_end(arguments);
    return text;
}

void *grow(void *array, size_t count, size_t element_bytes)
{
    void *grown = array_grow(array, count, element_bytes);
    if (grown == NULL)
        no_memory();
    return grown;
}
