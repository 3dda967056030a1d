/*
 * policy_names.c - a fixed table of names and addresses. See policy_names.h.
 */
#define _GNU_SOURCE
#include "notify/policy_names.h"

#include <string.h>

#define PAIRS_MAX 512u

static struct {
    const char *name;
    uint64_t address;
} pairs[PAIRS_MAX];
static size_t count;

static void note(const char *name, const char *text)
{
    struct endpoint address;
    if (count == PAIRS_MAX || !endpoint_parse_address(&address, text))
        return;
    pairs[count].name = name;
    pairs[count++].address = endpoint_host_hash(&address);
}

void policy_names_read(char *text)
{
    char *rest = NULL;
    count = 0;
    for (char *word = text ? strtok_r(text, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
        char *addresses = strchr(word, '='), *more = NULL;
        if (!addresses)
            continue;
        *addresses++ = '\0';
        for (char *address = strtok_r(addresses, ",", &more); address; address = strtok_r(NULL, ",", &more))
            note(word, address);
    }
}

size_t policy_names_of(const struct endpoint *endpoint, const char *names[NAMES_OF_ADDRESS])
{
    size_t found = 0;
    if (count == 0)
        return 0;
    const uint64_t address = endpoint_host_hash(endpoint);
    for (size_t i = 0; i < count && found < NAMES_OF_ADDRESS; i++)
        if (pairs[i].address == address)
            names[found++] = pairs[i].name;
    return found;
}
