/*
 * glob.c - shell patterns. See glob.h.
 */
#include "policy/glob.h"

#include <stddef.h>
#include <string.h>

/* One byte of a set, past a backslash if there is one. NULL at the end of the glob. */
static const char *set_byte(const char *at, unsigned char *byte)
{
    if (*at == '\\')
        at++;
    if (*at == '\0')
        return NULL;
    *byte = (unsigned char)*at;
    return at + 1;
}

/*
 * The set that begins behind '['. A ']' that stands first is a member. Returns what follows the set, or NULL if it
 * never ends: then the '[' stands for itself.
 */
static const char *match_set(const char *at, unsigned char byte, bool *matches)
{
    const bool negated = *at == '!' || *at == '^';
    bool found = false;
    at += negated;
    for (bool first = true; first || *at != ']'; first = false) {
        unsigned char low, high;
        if ((at = set_byte(at, &low)) == NULL)
            return NULL;
        high = low;
        if (at[0] == '-' && at[1] != ']' && at[1] != '\0' && (at = set_byte(at + 1, &high)) == NULL)
            return NULL;
        found = found || (low <= byte && byte <= high);
    }
    *matches = found != negated;
    return at + 1;
}

/* Matches one byte with the element at `glob` (not a star); returns what follows the element, or NULL. */
static const char *match_one(const char *glob, unsigned char byte)
{
    switch (*glob) {
    case '\0':
        return NULL;
    case '?':
        return glob + 1;
    case '[': {
        bool matches = false;
        const char *next = match_set(glob + 1, byte, &matches);
        if (next != NULL)
            return matches ? next : NULL;
        break;
    }
    case '\\':
        if (glob[1] != '\0')
            glob++;
        break;
    default:
        break;
    }
    return (unsigned char)*glob == byte ? glob + 1 : NULL;
}

/* Only the last star ever needs to be tried again: what an earlier one took can't help the rest. */
bool glob_match(const char *glob, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text != '\0') {
        if (*glob == '*') {
            star = ++glob;
            retry = text;
            continue;
        }
        const char *next = match_one(glob, (unsigned char)*text);
        if (next != NULL) {
            glob = next;
            text++;
        } else if (star != NULL) {
            glob = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

const char *glob_complaint(const char *glob)
{
    for (; *glob != '\0'; glob++) {
        if (*glob == '\\') {
            if (*++glob == '\0')
                return "it ends with a single backslash";
        } else if (*glob == '[') {
            bool matches;
            const char *next = match_set(glob + 1, 0, &matches);
            if (next == NULL)
                return "its `[` has no `]`: write `\\[` for the byte itself";
            if (strstr(glob, "[:") != NULL && strstr(glob, "[:") < next)
                return "classes such as `[:digit:]` are not known here: write `[0-9]`";
            glob = next - 1;
        }
    }
    return NULL;
}
