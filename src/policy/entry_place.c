/*
 * entry_place.c - in which line a word of a value stands, for messages. See draft.h.
 */
#include <string.h>

#include "policy/draft.h"

#define BLANKS " \t\r\v\f"

struct entry_place entry_begin(const struct entry *entry)
{
    struct entry_place place = {entry->raw, entry->raw + entry->raw_length, entry->line};
    const char *equals = memchr(entry->raw, '=', entry->raw_length); /* no key has one in its name */
    if (equals != NULL)
        place.at = equals + 1;
    return place;
}

/* Past the end of a line that is continued, if there is one here. */
static bool skip_continuation(struct entry_place *place)
{
    if (place->end - place->at < 2 || place->at[0] != '\\' || place->at[1] != '\n')
        return false;
    place->at += 2;
    place->line++;
    return true;
}

/* One byte of a word; the file may have a backslash in front of a `#`, or continue the line within the word. */
static bool skip_byte(struct entry_place *place, char byte)
{
    while (skip_continuation(place)) {
    }
    if (byte == '#' && place->end - place->at >= 2 && place->at[0] == '\\' && place->at[1] == '#')
        place->at++;
    if (place->at == place->end || *place->at != byte)
        return false;
    place->at++;
    return true;
}

unsigned int entry_word_line(struct entry_place *place, const char *word)
{
    for (;;) {
        if (skip_continuation(place))
            continue;
        if (place->at == place->end || strchr(BLANKS, *place->at) == NULL)
            break;
        place->at++;
    }
    const unsigned int line = place->line;
    while (*word != '\0' && skip_byte(place, *word))
        word++;
    return line;
}
