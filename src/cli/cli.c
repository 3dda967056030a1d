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

int finish_output(int status)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0)
        failed = true;
    if (!failed)
        return status;
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
        err(EXIT_FAILURE, "no memory");
    return memory;
}

char *copy_text(const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL)
        err(EXIT_FAILURE, "no memory");
    return copy;
}

char *format_text(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        err(EXIT_FAILURE, "no memory");
    return text;
}
