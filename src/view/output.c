/*
 * output.c - how output ends, and memory for it. See output.h.
 */
#define _GNU_SOURCE
#include "view/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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
