/*
 * json_members.c - members of a JSON object by their names. See json_members.h.
 */
#include "view/json_members.h"

#include <string.h>

#define KEY_MAX 32

bool json_members_take(struct json_reader *reader, const char *key, const struct json_members *members)
{
    for (size_t i = 0; i < members->text_count; i++) {
        if (strcmp(members->texts[i].key, key) == 0) {
            json_read_string(reader, members->texts[i].at, members->texts[i].size);
            return true;
        }
    }
    for (size_t i = 0; i < members->number_count; i++) {
        uint64_t number;
        if (strcmp(members->numbers[i].key, key) == 0) {
            if (json_read_unsigned(reader, &number))
                *members->numbers[i].at = number;
            return true;
        }
    }
    for (size_t i = 0; i < members->flag_count; i++) {
        if (strcmp(members->flags[i].key, key) == 0) {
            json_read_bool(reader, members->flags[i].at);
            return true;
        }
    }
    return false;
}

void json_members_read(struct json_reader *reader, const struct json_members *members)
{
    char key[KEY_MAX];
    if (!json_read_object(reader))
        return;
    while (json_read_key(reader, key, sizeof key)) {
        if (!json_members_take(reader, key, members))
            json_read_skip(reader);
    }
}
