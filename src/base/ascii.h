/*
 * ascii.h - letters, digits, blanks and decimal numbers as files and protocols have them, whatever the locale is.
 *
 * Pure; async-signal-safe. Everybody may use it.
 */
#ifndef SOCKFUSE_BASE_ASCII_H
#define SOCKFUSE_BASE_ASCII_H

#include <stdbool.h>
#include <stdint.h>

/* Of a char or an unsigned char. */
static inline bool ascii_is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

/* As HTTP has it: OWS of RFC 9110, 5.6.3. */
static inline bool ascii_is_blank(int byte)
{
    return byte == ' ' || byte == '\t';
}

static inline char ascii_lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static inline bool ascii_is_letter(char byte)
{
    return ascii_lower(byte) >= 'a' && ascii_lower(byte) <= 'z';
}

/* In any case of the letters. */
static inline bool ascii_equal(const char *one, const char *other)
{
    while (*one != '\0' && ascii_lower(*one) == ascii_lower(*other)) {
        one++;
        other++;
    }
    return *one == *other;
}

/*
 * The decimal number at `*at`, behind which it moves; UINT64_MAX if it is that or more. False: no digit stands there.
 * No sign, and no blanks before it, as strtoull would take them.
 */
static inline bool ascii_number(const char **at, uint64_t *number)
{
    const char *digit = *at;

    *number = 0;
    for (; ascii_is_digit(*digit); digit++)
        if (__builtin_mul_overflow(*number, 10u, number) ||
            __builtin_add_overflow(*number, (unsigned int)(*digit - '0'), number))
            *number = UINT64_MAX;
    const bool found = digit > *at;
    *at = digit;
    return found;
}

/* The same of a text that holds nothing else. */
static inline bool ascii_is_number(const char *text, uint64_t *number)
{
    return ascii_number(&text, number) && *text == '\0';
}

/* Exactly so many digits; where there are fewer, false. */
static inline bool ascii_digits(const char **at, unsigned int count, unsigned int *number)
{
    for (*number = 0; count > 0; count--, (*at)++) {
        if (!ascii_is_digit(**at))
            return false;
        *number = *number * 10 + (unsigned int)(**at - '0');
    }
    return true;
}

#endif
