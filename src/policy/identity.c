/*
 * identity.c - puts a policy's identity together and takes it apart. See identity.h.
 */
#include "policy/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bare.h"
#include "base/span.h"

#define PATTERNS "patterns:"
#define OPTIONS "options:"
#define JOINT " + "

static size_t length_of(const char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

static bool has_words(const char *const *list)
{
    while (list != NULL && *list != NULL && **list == '\0')
        list++;
    return list != NULL && *list != NULL;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_list(const char *text)
{
    return starts_with(text, PATTERNS) || starts_with(text, OPTIONS);
}

/* --- writing --- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_path(FILE *stream, const char *path)
{
    for (; *path != '\0'; path++) {
        putc(*path, stream);
        /* What would be taken for a list; and what stands for that, too. */
        if (*path == ' ' && starts_with(path, JOINT) && is_list(path + 3 + span_of(path + 3, "\\"))) {
            fputs("+ \\", stream);
            path += 2;
        }
    }
}

static void write_word(FILE *stream, const char *word)
{
    putc(' ', stream);
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == ' ' || *at == '\\' || (*at == '+' && at == word))
            putc('\\', stream);
        putc(*at, stream);
    }
}

static bool write_list(FILE *stream, const char *name, const char *const *list)
{
    const size_t count = length_of(list);
    const char **sorted = reallocarray(NULL, count + 1, sizeof *sorted);
    if (sorted == NULL)
        return false;
    if (count > 0) {
        memcpy(sorted, list, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_text);
    }
    fputs(name, stream);
    for (size_t i = 0; i < count; i++) {
        if (sorted[i][0] != '\0' && (i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0))
            write_word(stream, sorted[i]);
    }
    free(sorted);
    return true;
}

char *identity_write(const char *path, const char *const *patterns, const char *const *options)
{
    char *text = NULL;
    size_t size;
    bool good = true;
    /* Each process at its start: a path that stands as it is, and nothing behind it. */
    if (path != NULL && !has_words(patterns) && !has_words(options) && strstr(path, JOINT) == NULL)
        return strdup(path);
    FILE *stream = bare_open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    if (path != NULL)
        write_path(stream, path);
    if (path == NULL || has_words(patterns)) {
        fputs(path != NULL ? JOINT : "", stream);
        good = write_list(stream, PATTERNS, patterns);
    }
    if (has_words(options)) {
        fputs(JOINT, stream);
        good = write_list(stream, OPTIONS, options) && good;
    }
    good = !ferror(stream) && good;
    if (bare_fclose(stream) == 0 && good)
        return text;
    free(text);
    return NULL;
}

/* --- reading --- */

/* Where a list begins, its JOINT before it; or the end. */
static const char *next_list(const char *text)
{
    for (; (text = strstr(text, JOINT)) != NULL; text++) {
        if (is_list(text + strlen(JOINT)))
            return text;
    }
    return NULL;
}

size_t identity_path_length(const char *text)
{
    const char *list = next_list(text);
    if (starts_with(text, PATTERNS))
        return 0;
    return list != NULL ? (size_t)(list - text) : strlen(text);
}

static bool has_list(const char *text, const char *name)
{
    for (const char *list = next_list(text); list != NULL; list = next_list(list + 1)) {
        if (starts_with(list + strlen(JOINT), name))
            return true;
    }
    return false;
}

bool identity_has_patterns(const char *text)
{
    return starts_with(text, PATTERNS) || has_list(text, PATTERNS);
}

bool identity_has_options(const char *text)
{
    return has_list(text, OPTIONS);
}

static char *read_path(const char *text, size_t length)
{
    char *path = malloc(length + 1), *to = path;
    if (path == NULL)
        return NULL;
    for (const char *from = text; from < text + length; from++) {
        *to++ = *from;
        const char *escape = from + strlen(JOINT);
        if (*from == ' ' && starts_with(from, JOINT) && *escape == '\\' && is_list(escape + span_of(escape, "\\"))) {
            *to++ = '+';
            *to++ = ' ';
            from = escape;
        }
    }
    *to = '\0';
    return path;
}

/* The word at `*text`, behind which it moves; "" at the list's end; NULL: no memory. */
static char *read_word(const char **text)
{
    const char *from = *text;
    while (*from == ' ')
        from++;
    char *word = malloc(strlen(from) + 1), *to = word;
    if (word == NULL)
        return NULL;
    const bool is_end = *from == '+';
    for (; !is_end && *from != '\0' && *from != ' '; from++) {
        if (*from == '\\' && from[1] != '\0')
            from++;
        *to++ = *from;
    }
    *to = '\0';
    *text = from;
    return word;
}

static void free_list(char **list)
{
    for (char **word = list; word != NULL && *word != NULL; word++)
        free(*word);
    free(list);
}

/* The words behind a list's name, until its end, to which `*text` moves. NULL: no memory. */
static char **read_list(const char **text)
{
    size_t count = 0;
    char **list = calloc(strlen(*text) / 2 + 2, sizeof *list);
    while (list != NULL) {
        char *word = read_word(text);
        if (word == NULL) {
            free_list(list);
            return NULL;
        }
        if (word[0] == '\0') {
            free(word);
            break;
        }
        list[count++] = word;
    }
    return list;
}

bool identity_read(struct identity *identity, const char *text)
{
    const size_t length = identity_path_length(text);
    *identity = (struct identity){0};
    bool good = true;
    if (!starts_with(text, PATTERNS)) {
        identity->path = read_path(text, length);
        good = identity->path != NULL;
        text += length;
    }
    while (good && is_list(text += span_of(text, " +"))) {
        char ***list = starts_with(text, PATTERNS) ? &identity->patterns : &identity->options;
        if (*list != NULL)
            break;
        text = strchr(text, ':') + 1;
        *list = read_list(&text);
        good = *list != NULL;
    }
    if (!good)
        identity_free(identity);
    return good;
}

void identity_free(struct identity *identity)
{
    free(identity->path);
    free_list(identity->patterns);
    free_list(identity->options);
    *identity = (struct identity){0};
}

/* --- comparing --- */

/* Both are sorted, if they come of identity_write. */
static bool are_equal(char *const *one, char *const *other)
{
    size_t i = 0;
    for (; one != NULL && one[i] != NULL; i++) {
        if (other == NULL || other[i] == NULL || strcmp(one[i], other[i]) != 0)
            return false;
    }
    return other == NULL || other[i] == NULL;
}

bool identity_names(const struct identity *wanted, const struct identity *identity)
{
    if ((wanted->path == NULL) != (identity->path == NULL) ||
        (wanted->path != NULL && strcmp(wanted->path, identity->path) != 0))
        return false;
    return (wanted->patterns == NULL || are_equal(wanted->patterns, identity->patterns)) &&
           (wanted->options == NULL || are_equal(wanted->options, identity->options));
}

/* --- paths --- */

void path_clean(char *path, bool parents)
{
    char *to = path;
    for (const char *from = path; *from != '\0';) {
        const size_t slashes = span_of(from, "/"), length = span_until(from + slashes, "/");
        const char *name = from + slashes;
        from = name + length;
        if (length == 0 || (length == 1 && name[0] == '.'))
            continue;
        if (parents && length == 2 && name[0] == '.' && name[1] == '.') {
            while (to > path && *--to != '/') {
            }
            continue;
        }
        *to++ = '/';
        memmove(to, name, length);
        to += length;
    }
    if (to == path)
        *to++ = '/';
    *to = '\0';
}
