/*
 * utf8.h - the one reader of UTF-8 (RFC 3629). Pure; async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_UTF8_H
#define SOCKFUSE_BASE_UTF8_H

#include <stddef.h>

/*
 * How many bytes the well-formed character at `bytes` has; 0 if there is none: bytes of another encoding, an overlong
 * form, a surrogate, what lies beyond U+10FFFF, or only a character's beginning. `bytes` ends with a zero byte, behind
 * which nothing is read; that byte is a character itself.
 */
size_t utf8_character(const char *bytes);

/* The characters of a well-formed text. */
size_t utf8_count(const char *text);

#endif
