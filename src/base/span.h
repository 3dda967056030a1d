/*
 * span.h - strspn(3) and strcspn(3), by hand.
 *
 * Few programs use libc's, so a start that reads a policy with these would be given their pages for itself alone
 * (src/README.md, "A start"). Async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_SPAN_H
#define SOCKFUSE_BASE_SPAN_H

#include <stddef.h>

/* How many bytes at the text's beginning are of the set, and how many are not. */
size_t span_of(const char *text, const char *set);
size_t span_until(const char *text, const char *set);

#endif
