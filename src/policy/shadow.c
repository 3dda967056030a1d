/*
 * shadow.c - finds patterns and targets that never take anything, because an earlier one takes all of it. See
 * policy_check_order in policy.h.
 *
 * What a name's addresses are is not known here, so a host is shadowed by hosts, domains and `*` alone. Patterns of
 * one destination are compared by sorting, so that ten thousand of them cost milliseconds; only those of several are
 * held against each one behind them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/glob.h"
#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/problem.h"

/* A pattern with its place in the order of the file. */
struct place {
    const struct target *target;
    const struct pattern *pattern;
    const struct place *shadow; /* the first that takes all of it; NULL: none */
};

/* --- whether one pattern takes all that another one takes --- */

#define META "*?[\\"

static bool is_glob(const struct pattern *pattern)
{
    return pattern->host[strcspn(pattern->host, META)] != '\0';
}

/* Whether a glob is text with one `*` at its end, so that it takes whatever begins with that text. */
static bool is_prefix(const char *glob)
{
    const size_t length = strcspn(glob, META);
    return glob[length] == '*' && glob[length + 1] == '\0';
}

static bool path_covers(const struct pattern *wide, const struct pattern *narrow)
{
    if (wide->network.abstract != narrow->network.abstract)
        return false;
    if (!is_glob(narrow))
        return glob_match(wide->host, narrow->host);
    const size_t length = strcspn(wide->host, META);
    return strcmp(wide->host, narrow->host) == 0 ||
           (is_prefix(wide->host) && strncmp(wide->host, narrow->host, length) == 0);
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

static bool covers(const struct pattern *wide, const struct pattern *narrow)
{
    if (wide->kind == PATTERN_UNIX || narrow->kind == PATTERN_UNIX)
        return wide->kind == narrow->kind && path_covers(wide, narrow);
    if (wide->port_first > narrow->port_first || wide->port_last < narrow->port_last)
        return false;
    return wide->kind == PATTERN_NETWORK ? network_covers(wide, narrow) : host_covers(wide, narrow);
}

/* Whether it takes one destination only: such a one covers nothing but its equals. */
static bool is_single(const struct pattern *pattern)
{
    switch (pattern->kind) {
    case PATTERN_UNIX:
        return !is_glob(pattern);
    case PATTERN_HOST:
        return pattern->port_first == pattern->port_last;
    case PATTERN_NETWORK:
        return pattern->port_first == pattern->port_last && pattern->network.family != ENDPOINT_NONE &&
               pattern->prefix == (pattern->network.family == ENDPOINT_IPV4 ? 32 : 128);
    case PATTERN_HOST_SUFFIX:
        break;
    }
    return false;
}

/* --- who shadows whom --- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_singles(const struct pattern *a, const struct pattern *b)
{
    int order = compare(a->kind, b->kind);
    if (order == 0)
        order = compare(a->port_first, b->port_first);
    if (order == 0 && a->kind == PATTERN_UNIX)
        order = compare(a->network.abstract, b->network.abstract);
    if (order == 0 && a->kind != PATTERN_NETWORK)
        return strcmp(a->host, b->host);
    if (order == 0)
        order = compare(a->network.family, b->network.family);
    if (order == 0)
        order = compare(a->network.scope_id, b->network.scope_id);
    return order != 0 ? order : memcmp(a->network.address, b->network.address, sizeof a->network.address);
}

/* Equal ones in the order of the file, which is that of their addresses in memory. */
static int by_destination(const void *a, const void *b)
{
    struct place *const *left = a, *const *right = b;
    const int order = compare_singles((*left)->pattern, (*right)->pattern);
    return order != 0 ? order : (*left > *right) - (*left < *right);
}

static void shadow(struct place *place, const struct place *by)
{
    if (place->shadow == NULL || by < place->shadow)
        place->shadow = by;
}

static void find_equals(struct place **singles, size_t count)
{
    const struct place *first = NULL;
    if (count > 1)
        qsort(singles, count, sizeof(struct place *), by_destination);
    for (size_t i = 0; i < count; i++) {
        if (first != NULL && compare_singles(first->pattern, singles[i]->pattern) == 0)
            shadow(singles[i], first);
        else
            first = singles[i];
    }
}

/* `scratch` has room for all of them. */
static void find_shadows(struct place *places, size_t count, struct place **scratch)
{
    size_t single_count = 0, wide_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_single(places[i].pattern))
            scratch[single_count++] = &places[i];
    }
    find_equals(scratch, single_count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < wide_count; j++) {
            if (covers(scratch[j]->pattern, places[i].pattern)) {
                shadow(&places[i], scratch[j]);
                break;
            }
        }
        if (!is_single(places[i].pattern))
            scratch[wide_count++] = &places[i];
    }
}

/* --- what is said of it --- */

static void describe(const struct place *shadowed, char *text, size_t size)
{
    const struct place *by = shadowed->shadow;
    char where[TARGET_NAME_MAX + 32] = "the same section";
    if (by->target != shadowed->target)
        snprintf(where, sizeof where, "`[%.60s]`", by->target->name);
    if (by->pattern->line != 0)
        snprintf(text, size, "`%.80s` of %s (line %u)", by->pattern->text, where, by->pattern->line);
    else
        snprintf(text, size, "`%.80s` of %s", by->pattern->text, where);
}

/* The patterns of one target, which stand together. */
static void report(const struct place *places, size_t count, struct policy_problems *problems)
{
    char by[300];
    size_t shadowed = 0;
    for (size_t i = 0; i < count; i++)
        shadowed += places[i].shadow != NULL;
    if (shadowed == count) {
        describe(&places[0], by, sizeof by);
        problem_warning(problems, places[0].target->line,
                        "target `[%.60s]` takes nothing: %s comes first%s; put the narrower target above the wider one",
                        places[0].target->name, by, count > 1 ? ", and so on with its other patterns" : "");
        return;
    }
    for (size_t i = 0; i < count && shadowed > 0; i++) {
        if (places[i].shadow == NULL)
            continue;
        describe(&places[i], by, sizeof by);
        problem_warning(problems, places[i].pattern->line, "pattern `%.80s` takes nothing: %s takes all of it first",
                        places[i].pattern->text, by);
    }
}

void policy_check_order(const struct policy *policy, struct policy_problems *problems)
{
    size_t count = 0;
    for (size_t i = 0; i < policy->target_count; i++)
        count += policy->targets[i].pattern_count;
    struct place *places = reallocarray(NULL, count + 1, sizeof *places);
    struct place **scratch = reallocarray(NULL, count + 1, sizeof *scratch);
    if (places != NULL && scratch != NULL) { /* without memory no warning is better than no policy */
        size_t next = 0;
        for (size_t i = 0; i < policy->target_count; i++) {
            for (size_t j = 0; j < policy->targets[i].pattern_count; j++)
                places[next++] = (struct place){&policy->targets[i], &policy->targets[i].patterns[j], NULL};
        }
        find_shadows(places, count, scratch);
        next = 0;
        for (size_t i = 0; i < policy->target_count; i++) {
            report(&places[next], policy->targets[i].pattern_count, problems);
            next += policy->targets[i].pattern_count;
        }
        problems_sort(problems);
    }
    free(scratch);
    free(places);
}
