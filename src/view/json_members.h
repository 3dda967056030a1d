/*
 * json_members.h - members of a JSON object by their names, and where their values go.
 *
 * For json_reader.h. What is of another type than its member leaves the value as it was.
 */
#ifndef SOCKFUSE_VIEW_JSON_MEMBERS_H
#define SOCKFUSE_VIEW_JSON_MEMBERS_H

#include "view/json_reader.h"

struct text_member {
    const char *key;
    char *at;
    size_t size;
};
struct number_member {
    const char *key;
    uint64_t *at;
};
struct flag_member {
    const char *key;
    bool *at;
};
struct json_members {
    const struct text_member *texts;
    size_t text_count;
    const struct number_member *numbers;
    size_t number_count;
    const struct flag_member *flags;
    size_t flag_count;
};

/* Reads the value of that key; false: it is none of these, and nothing was read. */
bool json_members_take(struct json_reader *reader, const char *key, const struct json_members *members);
/* A whole object, of which nothing else is wanted; what is none is skipped. */
void json_members_read(struct json_reader *reader, const struct json_members *members);

#endif
