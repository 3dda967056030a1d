/*
 * identity.h - what a policy is called: who has the same identity shares circuits.
 *
 * The path of its file as it was named, absolute and cleaned, links not resolved (a link that moves to an edited file
 * is the same policy); behind it " + patterns: A B" of `run -t` and " + options: KEY=VALUE …" of `run -o`, where there
 * are any, each sorted. Without a file it begins with "patterns:". It can be taken apart again, whatever bytes a path,
 * a pattern or a value has: in words a blank, a backslash and a plus sign at the beginning have a backslash before
 * them; a path that itself has " + patterns:" in it has a backslash before that word.
 *
 * Pure text. Allocates, but for identity_path_length.
 */
#ifndef SOCKFUSE_POLICY_IDENTITY_H
#define SOCKFUSE_POLICY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes with the end: a segment has room for so many. */
#define IDENTITY_MAX 4096u

/* An identity taken apart. Lists end with NULL; a list that the text does not mention is NULL itself. */
struct identity {
    char *path; /* NULL: patterns alone */
    char **patterns;
    char **options; /* "KEY=VALUE" */
};

/*
 * Puts an identity together: lists (NULL-terminated, or NULL) in any order; a word that is there twice counts once. A
 * list with nothing in it is not mentioned, unless there is neither path nor pattern. The caller frees it; NULL: no
 * memory.
 */
char *identity_write(const char *path, const char *const *patterns, const char *const *options);

/* Takes it apart; free it with identity_free. False: no memory. Any text has parts: what is no list is a path. */
bool identity_read(struct identity *identity, const char *text);
void identity_free(struct identity *identity);

/* Whether `wanted` is the name of it: a list that `wanted` does not mention may be any. */
bool identity_names(const struct identity *wanted, const struct identity *identity);

/* How many bytes at the beginning are the path, as it stands there; 0: patterns alone. */
size_t identity_path_length(const char *text);

/* Whether it has patterns or options behind a path. */
bool identity_has_patterns(const char *text);
bool identity_has_options(const char *text);

/*
 * Cleans an absolute path in place: "//" and "/./", a slash at the end, and with `parents` "x/.." too, by its letters
 * alone.
 */
void path_clean(char *path, bool parents);

#endif
