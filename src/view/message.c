/*
 * message.c - messages that are safe to print. See message.h.
 */
#define _GNU_SOURCE
#include "view/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#undef warnx
#undef warn
#undef errx
#undef err
#undef getopt_long

#define SHOWN_MAX 8 /* names in one printf */

_Noreturn void no_memory(void)
{
    err(EXIT_FAILURE, "no memory");
}

char *printable(const char *text)
{
    size_t size = strlen(text) * 4 + 1; /* in the worst case every byte becomes \xNN */
    char *copy = malloc(size);
    struct text safe;
    if (copy == NULL)
        no_memory();
    text_start(&safe, copy, size);
    text_add_printable(&safe, text);
    return copy;
}

const char *shown(const char *text)
{
    static char *copies[SHOWN_MAX];
    static unsigned int next;
    char **place = &copies[next++ % SHOWN_MAX];
    free(*place);
    return *place = printable(text);
}

/* With the error's words behind it, unless `error` is 0. errno is kept. */
static void say(const char *format, va_list arguments, int error)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        no_memory();
    char *safe = printable(text);
    errno = error;
    if (error != 0)
        warn("%s", safe);
    else
        warnx("%s", safe);
    free(safe);
    free(text);
    errno = error;
}

void message_warnx(const char *format, ...)
{
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    say(format, arguments, 0);
    va_end(arguments);
    errno = error;
}

void message_warn(const char *format, ...)
{
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    say(format, arguments, error);
    va_end(arguments);
}

void message_errx(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments, 0);
    va_end(arguments);
    exit(status);
}

void message_err(int status, const char *format, ...)
{
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    say(format, arguments, error);
    va_end(arguments);
    exit(status);
}

int message_getopt(int argc, char *const *argv, const char *letters, const struct option *options, int *index)
{
    char *text = NULL;
    size_t size = 0;
    FILE *real = stderr, *caught = open_memstream(&text, &size);
    if (caught == NULL)
        no_memory();
    stderr = caught; /* glibc's may be set, and is what getopt writes to */
    int letter = getopt_long(argc, argv, letters, options, index);
    stderr = real;
    if (fclose(caught) != 0)
        no_memory();
    if (size > 0 && text[size - 1] == '\n')
        text[size - 1] = '\0';
    if (size > 0)
        fprintf(stderr, "%s\n", shown(text));
    free(text);
    return letter;
}
