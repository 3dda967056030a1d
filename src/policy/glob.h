/*
 * glob.h - shell patterns for the paths of UNIX sockets. Private to src/policy.
 *
 * `*` any bytes, also slashes and a leading dot (fnmatch without flags); `?` one byte; `[a-z]`, `[!a-z]`; `\x` the
 * byte x. fnmatch(3) itself is of no use inside connect(): it may call malloc and it asks the locale.
 */
#ifndef SOCKFUSE_POLICY_GLOB_H
#define SOCKFUSE_POLICY_GLOB_H

#include <stdbool.h>

/* Whether all of `text` matches. At most strlen(glob) * strlen(text) steps, no recursion. Async-signal-safe. */
bool glob_match(const char *glob, const char *text);

/* NULL if the glob can be used, else what is wrong with it. */
const char *glob_complaint(const char *glob);

#endif
