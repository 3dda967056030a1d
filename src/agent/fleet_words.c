/*
 * fleet_words.c - values as they lie in a fleet's Redis. See fleet_words.h.
 */
#include "agent/fleet_words.h"

#include <string.h>

#include "base/hash.h"
#include "base/text.h"

/* Times and lengths: the year 10889, and room to add two of them. */
#define NUMBER_MAX (UINT64_C(1) << 48)
#define TOKEN_DIGITS 16u

bool fleet_number_read(const char *text, size_t length, uint64_t most, uint64_t *number)
{
    uint64_t value = 0;

    if (length == 0 || length > 20)
        return false;
    for (size_t i = 0; i < length; i++) {
        const unsigned int digit = (unsigned int)((unsigned char)text[i]) - '0';
        if (digit > 9 || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

static bool token_read(const char *text, size_t length, uint64_t *token)
{
    uint64_t value = 0;

    if (length != TOKEN_DIGITS)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char *const digit = text[i] != '\0' ? strchr("0123456789abcdef", text[i]) : NULL;
        if (digit == NULL)
            return false;
        value = value << 4 | (uint64_t)(digit - strchr("0123456789abcdef", '0')) % 16;
    }
    *token = value;
    return value != 0;
}

bool fleet_value_read(const struct fleet_reply *reply, bool hexadecimal, uint64_t *first, uint64_t *second)
{
    if (reply->type != REPLY_TEXT || reply->length >= FLEET_VALUE_MAX)
        return false;
    const char *const blank = memchr(reply->text, ' ', reply->length);
    if (blank == NULL)
        return false;
    const size_t length = (size_t)(blank - reply->text);
    const char *const rest = blank + 1, *const end = memchr(rest, ' ', reply->length - length - 1);
    const size_t left = end != NULL ? (size_t)(end - rest) : reply->length - length - 1;
    return (hexadecimal ? token_read(reply->text, length, first)
                        : fleet_number_read(reply->text, length, NUMBER_MAX, first)) &&
           fleet_number_read(rest, left, NUMBER_MAX, second);
}

uint64_t fleet_host_number(const char *text, size_t length)
{
    uint64_t number;

    return token_read(text, length, &number) ? number : 0;
}

uint64_t fleet_value_host(const struct fleet_reply *reply)
{
    return reply->type == REPLY_TEXT && reply->length > TOKEN_DIGITS
               ? fleet_host_number(reply->text + reply->length - TOKEN_DIGITS, TOKEN_DIGITS)
               : 0;
}

void fleet_value_write(char value[FLEET_VALUE_MAX], bool hexadecimal, uint64_t first, uint64_t second)
{
    struct text text;

    text_start(&text, value, FLEET_VALUE_MAX);
    if (hexadecimal)
        text_add_hex(&text, first, TOKEN_DIGITS);
    else
        text_add_unsigned(&text, first);
    text_add(&text, " ");
    text_add_unsigned(&text, second);
}

void fleet_host_read(const char *text, size_t length, char name[FLEET_HOST_MAX])
{
    name[0] = '\0';
    if (length >= FLEET_HOST_MAX)
        return;
    for (size_t i = 0; i < length; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return;
    }
    memcpy(name, text, length);
    name[length] = '\0';
}

bool fleet_time_read(const struct fleet_reply *reply, uint64_t *ms)
{
    uint64_t seconds, microseconds;

    if (reply->type != REPLY_LIST || reply->count != 2 || reply->items[0].type != REPLY_TEXT ||
        reply->items[1].type != REPLY_TEXT ||
        !fleet_number_read(reply->items[0].text, reply->items[0].length, NUMBER_MAX / 1000 - 1, &seconds) ||
        !fleet_number_read(reply->items[1].text, reply->items[1].length, 999999, &microseconds))
        return false;
    *ms = seconds * 1000 + microseconds / 1000;
    return true;
}

/* A name stands between braces in keys, and people read it: so it has no braces, blanks or controls. */
static bool is_plain(const char *name)
{
    const size_t length = strlen(name);

    for (size_t i = 0; i < length; i++) {
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '{' || name[i] == '}' || name[i] == '#')
            return false;
    }
    return length > 0 && length < FLEET_NAME_MAX;
}

void fleet_name_from(const char *identity, char name[FLEET_NAME_MAX])
{
    struct text text;

    text_start(&text, name, FLEET_NAME_MAX);
    if (is_plain(identity)) {
        text_add(&text, identity);
        return;
    }
    text_add(&text, "#"); /* no plain name has one */
    text_add_hex(&text, hash_spread(hash_bytes(HASH_BEGIN, identity, strlen(identity))), 16);
}
