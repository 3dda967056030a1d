/*
 * shadow.c - finds patterns and targets that never take anything, because an earlier one takes all of it. See
 * policy_check_order in policy.h.
 *
 * What a name's addresses are is not known here, so a host is shadowed by hosts, domains and `*` alone. The index finds
 * those that may shadow a pattern, so that ten thousand of them cost milliseconds.
 */
#include <stdio.h>
#include <string.h>

#include "policy/glob.h"
#include "policy/index.h"
#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/problem.h"

/* --- whether one pattern takes all that another one takes --- */

static bool path_covers(const struct pattern *wide, const struct pattern *narrow)
{
    if (wide->network.abstract != narrow->network.abstract)
        return false;
    if (!index_is_glob(narrow))
        return glob_match(wide->host, narrow->host);
    const size_t length = index_plain_length(wide->host);
    return strcmp(wide->host, narrow->host) == 0 ||
           (index_is_prefix(wide->host) && strncmp(wide->host, narrow->host, length) == 0);
}

static bool network_covers(const struct pattern *wide, const struct pattern *narrow)
{
    if (wide->network.family == ENDPOINT_NONE)
        return true;
    if (narrow->kind != PATTERN_NETWORK || narrow->network.family != wide->network.family ||
        narrow->prefix < wide->prefix)
        return false;
    struct endpoint first = narrow->network;
    first.port = wide->port_first; /* ports are another matter */
    return pattern_takes_endpoint(wide, &first);
}

static bool host_covers(const struct pattern *wide, const struct pattern *narrow)
{
    if (!pattern_is_name(narrow))
        return false;
    /* The host of a suffix begins with its dot, so it reads like a name that is one longer. */
    return (wide->kind == narrow->kind && strcmp(wide->host, narrow->host) == 0) ||
           (wide->kind == PATTERN_HOST_SUFFIX && pattern_names_host(wide, narrow->host));
}

static bool covers(const struct pattern *wide, const void *narrow_one)
{
    const struct pattern *narrow = narrow_one;
    if (wide->kind == PATTERN_UNIX || narrow->kind == PATTERN_UNIX)
        return wide->kind == narrow->kind && path_covers(wide, narrow);
    if (wide->port_first > narrow->port_first || wide->port_last < narrow->port_last)
        return false;
    return wide->kind == PATTERN_NETWORK ? network_covers(wide, narrow) : host_covers(wide, narrow);
}

/* --- who shadows whom --- */

/* The first pattern that takes all of this one; without a pattern if that is the pattern itself. */
static struct policy_match shadow_of(const struct policy *policy, const struct pattern *pattern)
{
    const struct endpoint *network = &pattern->network;
    const bool is_unix = pattern->kind == PATTERN_UNIX;
    const struct index_query query = {
        .address = !is_unix && network->family != ENDPOINT_NONE ? network->address : NULL,
        .family = network->family,
        .prefix = pattern->prefix,
        .anywhere = !is_unix,
        .name = pattern_is_name(pattern) ? pattern->host : NULL,
        .path = is_unix ? pattern->host : NULL,
        .abstract = network->abstract,
        .is_glob = is_unix && index_is_glob(pattern),
        .port = pattern->port_first == pattern->port_last ? pattern->port_first : INDEX_PORTS,
    };
    struct policy_match shadow = {0};
    if (!index_search(policy, &query, covers, pattern, &shadow) || shadow.pattern == pattern)
        shadow.pattern = NULL;
    return shadow;
}

/* --- what is said of it --- */

static void describe(const struct target *target, const struct policy_match *by, char *text, size_t size)
{
    char where[TARGET_NAME_MAX + 32] = "the same section";
    if (by->target != target)
        snprintf(where, sizeof where, "`[%.60s]`", by->target->name);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is told of patterns that have a shadow */
    if (by->pattern->line != 0)
        snprintf(text, size, "`%.80s` of %s (line %u)", by->pattern->text, where, by->pattern->line);
    else
        snprintf(text, size, "`%.80s` of %s", by->pattern->text, where);
}

static void report(const struct policy *policy, const struct target *target, struct policy_problems *problems)
{
    char by[300];
    size_t shadowed = 0;
    struct policy_match shadow;
    while (shadowed < target->pattern_count && shadow_of(policy, &target->patterns[shadowed]).pattern != NULL)
        shadowed++;
    if (shadowed > 0 && shadowed == target->pattern_count) {
        shadow = shadow_of(policy, &target->patterns[0]);
        describe(target, &shadow, by, sizeof by);
        problem_warning(problems, target->line,
                        "target `[%.60s]` takes nothing: %s comes first%s; put the narrower target above the wider one",
                        target->name, by, shadowed > 1 ? ", and so on with its other patterns" : "");
        return;
    }
    for (size_t i = 0; i < target->pattern_count; i++) {
        const struct pattern *pattern = &target->patterns[i];
        shadow = shadow_of(policy, pattern);
        if (shadow.pattern == NULL)
            continue;
        describe(target, &shadow, by, sizeof by);
        problem_warning(problems, pattern->line, "pattern `%.80s` takes nothing: %s takes all of it first",
                        pattern->text, by);
    }
}

void policy_check_order(const struct policy *policy, struct policy_problems *problems)
{
    for (size_t i = 0; i < policy->target_count; i++)
        report(policy, &policy->targets[i], problems);
    problems_sort(problems);
}
