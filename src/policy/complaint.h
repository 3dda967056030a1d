/*
 * complaint.h - where a reader of values or patterns says what is wrong and what is expected instead. Private to
 * src/policy.
 */
#ifndef SOCKFUSE_POLICY_COMPLAINT_H
#define SOCKFUSE_POLICY_COMPLAINT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct complaint {
    char *text;
    size_t size;
};

/* Always false, so that a reader can end with it. */
__attribute__((format(printf, 2, 3))) static inline bool complain(struct complaint why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why.text, why.size, format, arguments);
    va_end(arguments);
    return false;
}

#endif
