/*
 * problem.c - collects errors and warnings. See problem.h.
 */
#include "policy/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"

/* Control bytes, bytes of other encodings, and characters of which only the beginning found room become '?'. */
static void make_printable(char *text)
{
    while (*text != '\0') {
        const size_t count = utf8_character(text);
        if (count == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
            *text++ = '?';
        else
            text += count;
    }
}

static void add(struct policy_problems *problems, bool is_error, unsigned int line, const char *format,
                va_list arguments)
{
    if (is_error)
        problems->errors++;
    if (problems->count == PROBLEMS_KEPT_MAX)
        return;
    struct policy_problem *at = array_grow(problems->at, problems->count, sizeof *at);
    if (at == NULL)
        return;
    problems->at = at;
    at += problems->count++;
    at->is_error = is_error;
    at->line = line;
    vsnprintf(at->text, sizeof at->text, format, arguments);
    make_printable(at->text);
}

void problem_error(struct policy_problems *problems, unsigned int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(problems, true, line, format, arguments);
    va_end(arguments);
}

void problem_warning(struct policy_problems *problems, unsigned int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(problems, false, line, format, arguments);
    va_end(arguments);
}

/* By insertion: stable, without memory, and there are never many. */
void problems_sort(struct policy_problems *problems)
{
    for (size_t i = 1; i < problems->count; i++) {
        const struct policy_problem moved = problems->at[i];
        size_t place = i;
        for (; place > 0 && problems->at[place - 1].line > moved.line; place--)
            problems->at[place] = problems->at[place - 1];
        problems->at[place] = moved;
    }
}

void policy_problems_free(struct policy_problems *problems)
{
    free(problems->at);
    *problems = (struct policy_problems){0};
}
