/*
 * utf8.c - where a character of UTF-8 ends. See utf8.h.
 */
#include "base/utf8.h"

size_t utf8_character(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char first = bytes[0];
    if (first < 0x80)
        return 1;
    size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    /* The zero byte at the end of the text ends every sequence that is too short. */
    for (size_t at = 2; at < length; at++)
        if (bytes[at] < 0x80 || bytes[at] > 0xbf)
            return 0;
    return length;
}

size_t utf8_count(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; count++) {
        const size_t length = utf8_character(text);
        text += length > 0 ? length : 1;
    }
    return count;
}
