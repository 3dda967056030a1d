/*
 * command_words.c - a command's words. See command_words.h.
 */
#include "base/span.h"
#include "policy/command_words.h"

#include <string.h>

bool words_copy(char *value, size_t size, const char *text)
{
    size_t length = 0;
    while (*(text += span_of(text, " \t")) != '\0') {
        const size_t word = span_until(text, " \t");
        if (length + 1 + word >= size)
            return false;
        if (length > 0)
            value[length++] = ' ';
        memcpy(value + length, text, word);
        length += word;
        text += word;
    }
    memset(value + length, 0, size - length);
    return true;
}

void words_split(char *value, char **words, size_t most)
{
    size_t count = 0;
    for (char *at = value; *at != '\0' && count + 1 < most;) {
        words[count++] = at;
        at += span_until(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    words[count] = NULL;
}
