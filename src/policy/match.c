/*
 * match.c - which target takes a destination, and what the destination is called. Runs inside connect(): nothing here
 * allocates, asks the system or takes a lock.
 */
#include <string.h>

#include "policy/pattern.h"
#include "policy/policy.h"

/* By what a pattern takes a destination, if not by a name's index. */
enum { BY_ADDRESS = -1, BY_NOTHING = -2 };

static int takes(const struct pattern *pattern, const struct endpoint *endpoint, const char *const *names,
                 size_t name_count)
{
    if (!pattern_is_name(pattern))
        return pattern_takes_endpoint(pattern, endpoint) ? BY_ADDRESS : BY_NOTHING;
    if (!pattern_has_port(pattern, endpoint->port) || endpoint->family == ENDPOINT_UNIX)
        return BY_NOTHING;
    for (size_t i = 0; i < name_count; i++) {
        if (names[i] != NULL && pattern_names_host(pattern, names[i]))
            return (int)i;
    }
    return BY_NOTHING;
}

bool policy_match(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                  size_t name_count, struct policy_match *match)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        for (size_t j = 0; j < target->pattern_count; j++) {
            const int name = takes(&target->patterns[j], endpoint, names, name_count);
            if (name != BY_NOTHING) {
                *match = (struct policy_match){.target = target, .pattern = &target->patterns[j], .name = name};
                return true;
            }
        }
    }
    return false;
}

/* "host:port", lower case and without the final dot, however the program wrote it: one circuit for one host. */
static size_t format_host(const char *name, uint16_t port, char *text, size_t size)
{
    char digits[6];
    size_t count = 0, length = strlen(name);
    if (length > 0 && name[length - 1] == '.')
        length--;
    do {
        digits[count++] = (char)('0' + port % 10);
        port = (uint16_t)(port / 10);
    } while (port > 0);
    if (length == 0 || length > HOST_NAME_BYTES_MAX || length + 1 + count >= size)
        return 0;
    for (size_t i = 0; i < length; i++)
        text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    text[length++] = ':';
    while (count > 0)
        text[length++] = digits[--count];
    text[length] = '\0';
    return length;
}

size_t policy_destination(const struct policy_match *match, const struct endpoint *endpoint, const char *const *names,
                          char *text, size_t size)
{
    if (match->target->circuit == CIRCUIT_BY_TARGET) {
        const size_t length = strnlen(match->target->name, sizeof match->target->name);
        if (length >= size)
            return 0;
        memcpy(text, match->target->name, length);
        text[length] = '\0';
        return length;
    }
    if (match->target->circuit == CIRCUIT_BY_DESTINATION && match->name >= 0)
        return format_host(names[match->name], endpoint->port, text, size);
    return endpoint_format(endpoint, text, size);
}

bool policy_wants_name(const struct policy *policy, const char *name)
{
    if (!policy->has_host_patterns || name == NULL)
        return false;
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        for (size_t j = 0; j < target->pattern_count; j++) {
            if (pattern_names_host(&target->patterns[j], name))
                return true;
        }
    }
    return false;
}
