/*
 * match.c - which target takes a destination, and what the destination is called. Runs inside connect(): nothing here
 * allocates, asks the system or takes a lock.
 */
#include <string.h>

#include "policy/pattern.h"
#include "policy/policy.h"

/* Whether the pattern takes a destination, by its address or by this name (NULL: it has none). */
static bool takes(const struct pattern *pattern, const struct endpoint *endpoint, const char *name)
{
    if (!pattern_is_name(pattern))
        return pattern_takes_endpoint(pattern, endpoint);
    return name != NULL && endpoint->family != ENDPOINT_UNIX && pattern_has_port(pattern, endpoint->port) &&
           pattern_names_host(pattern, name);
}

/* The index of the most recent name that some pattern takes, or -1. */
static int meant_name(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                      size_t name_count)
{
    for (size_t n = 0; n < name_count; n++) {
        for (size_t i = 0; i < policy->target_count; i++) {
            const struct target *target = &policy->targets[i];
            for (size_t j = 0; j < target->pattern_count; j++) {
                if (pattern_is_name(&target->patterns[j]) && takes(&target->patterns[j], endpoint, names[n]))
                    return (int)n;
            }
        }
    }
    return -1;
}

bool policy_match(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                  size_t name_count, struct policy_match *match)
{
    const int meant = meant_name(policy, endpoint, names, name_count);
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        for (size_t j = 0; j < target->pattern_count; j++) {
            const struct pattern *pattern = &target->patterns[j];
            if (takes(pattern, endpoint, meant >= 0 ? names[meant] : NULL)) {
                const int name = pattern_is_name(pattern) ? meant : -1;
                *match = (struct policy_match){.target = target, .pattern = pattern, .name = name};
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

const struct target *policy_target_named(const struct policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        if (strcmp(policy->targets[i].name, name) == 0)
            return &policy->targets[i];
    }
    return NULL;
}
