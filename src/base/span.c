/*
 * span.c - how far a text is of some bytes, or not. See span.h.
 */
#include "base/span.h"

#include <string.h>

size_t span_of(const char *text, const char *set)
{
    size_t length = 0;
    while (text[length] != '\0' && strchr(set, text[length]))
        length++;
    return length;
}

size_t span_until(const char *text, const char *set)
{
    size_t length = 0;
    while (text[length] != '\0' && !strchr(set, text[length]))
        length++;
    return length;
}
