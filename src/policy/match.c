/*
 * match.c - which target takes a destination, and what the destination is called. Runs inside connect(): nothing here
 * allocates, asks the system or takes a lock.
 */
#include <string.h>

#include "base/ascii.h"
#include "base/text.h"
#include "policy/index.h"
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

/* What a pattern is held against. */
struct destination {
    const struct endpoint *endpoint;
    const char *name;
};

static bool takes_destination(const struct pattern *pattern, const void *context)
{
    const struct destination *destination = context;
    return takes(pattern, destination->endpoint, destination->name);
}

static bool names_destination(const struct pattern *pattern, const void *context)
{
    return pattern_is_name(pattern) && takes_destination(pattern, context);
}

bool policy_names(const struct policy *policy, const struct endpoint *endpoint, const char *name)
{
    const struct destination destination = {endpoint, name};
    const struct index_query query = {.name = name, .port = endpoint->port};
    struct policy_match ignored;
    return policy->has_host_patterns && index_search(policy, &query, names_destination, &destination, &ignored);
}

/* The index of the most recent name that some pattern takes, or -1. */
static int meant_name(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                      size_t name_count)
{
    for (size_t n = 0; n < name_count; n++) {
        if (policy_names(policy, endpoint, names[n]))
            return (int)n;
    }
    return -1;
}

bool policy_match(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                  size_t name_count, struct policy_match *match)
{
    const int meant = meant_name(policy, endpoint, names, name_count);
    const struct destination destination = {endpoint, meant >= 0 ? names[meant] : NULL};
    struct index_query query = {.port = endpoint->port, .name = destination.name};
    if (endpoint->family == ENDPOINT_UNIX) {
        query.path = endpoint->path;
        query.abstract = endpoint->abstract;
    } else {
        query.anywhere = true;
        query.family = endpoint->family;
        query.address = endpoint->family == ENDPOINT_NONE ? NULL : endpoint->address;
        query.prefix = endpoint->family == ENDPOINT_IPV4 ? 32 : 128;
    }
    if (!index_search(policy, &query, takes_destination, &destination, match))
        return false;
    match->name = pattern_is_name(match->pattern) ? meant : -1;
    return true;
}

/* "host:port", lower case and without the final dot, however the program wrote it: one circuit for one host. */
static size_t format_host(const char *name, uint16_t port, char *buffer, size_t size)
{
    struct text text;
    size_t length = strlen(name);
    text_start(&text, buffer, size);
    if (length > 0 && name[length - 1] == '.')
        length--;
    if (length == 0 || length > HOST_NAME_BYTES_MAX)
        return 0;
    for (size_t i = 0; i < length; i++)
        text_add_byte(&text, ascii_lower(name[i]));
    text_add_byte(&text, ':');
    text_add_unsigned(&text, port);
    return text_whole(&text);
}

size_t policy_destination(const struct policy_match *match, const struct endpoint *endpoint, const char *const *names,
                          char *buffer, size_t size)
{
    if (match->target->circuit == CIRCUIT_BY_TARGET) {
        struct text text;
        text_start(&text, buffer, size);
        text_add_bytes(&text, match->target->name, strnlen(match->target->name, sizeof match->target->name));
        return text_whole(&text);
    }
    if (match->target->circuit == CIRCUIT_BY_DESTINATION && match->name >= 0)
        return format_host(names[match->name], endpoint->port, buffer, size);
    return endpoint_format(endpoint, buffer, size);
}

static bool names_host(const struct pattern *pattern, const void *context)
{
    return pattern_names_host(pattern, context);
}

bool policy_wants_name(const struct policy *policy, const char *name)
{
    struct policy_match ignored;
    if (!policy->has_host_patterns || name == NULL)
        return false;
    const struct index_query query = {.name = name, .any_port = true};
    return index_search(policy, &query, names_host, name, &ignored);
}

const struct target *policy_target_named(const struct policy *policy, const char *name)
{
    return index_target(policy, name);
}
