/*
 * problem.c - collects errors and warnings. See problem.h.
 */
#include "policy/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* UTF-8's bytes pass; half a character at the end of a text that was cut does not. */
static void make_printable(char *text, size_t size)
{
    size_t length = strlen(text);
    if (length == size - 1) {
        while (length > 0 && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
            length--;
        if (length > 0 && (unsigned char)text[length - 1] >= 0xc0)
            length--;
        text[length] = '\0';
    }
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
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
    make_printable(at->text, sizeof at->text);
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
