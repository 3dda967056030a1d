/*
 * destination.c - reading a destination.
 *
 * See destination.h. A destination is a pattern that takes one thing only.
 */
#include <stdio.h>
#include <stdlib.h>

#include "view/output.h"
#include "view/destination.h"
#include "policy/pattern.h"

/* False: more than one endpoint or host. */
static bool take_pattern(struct destination *destination, const struct pattern *pattern)
{
    if (!pattern_is_single(pattern, &destination->endpoint))
        return false;
    if (pattern->kind != PATTERN_HOST)
        return endpoint_format(&destination->endpoint, destination->text, sizeof destination->text) > 0;
    destination->name = copy_text(pattern->host);
    snprintf(destination->text, sizeof destination->text, "%s:%u", pattern->host, pattern->port_first);
    return true;
}

bool destination_read(struct destination *destination, const char *text, char why[DESTINATION_WHY_MAX])
{
    struct pattern pattern;
    *destination = (struct destination){.name = NULL};
    if (endpoint_parse(&destination->endpoint, text))
        return endpoint_format(&destination->endpoint, destination->text, sizeof destination->text) > 0;
    if (!pattern_parse(&pattern, text, why, DESTINATION_WHY_MAX))
        return false;
    bool is_one = take_pattern(destination, &pattern);
    if (!is_one)
        snprintf(why, DESTINATION_WHY_MAX, "it is more than one destination");
    pattern_release(&pattern);
    return is_one;
}

void destination_free(struct destination *destination)
{
    free(destination->name);
    destination->name = NULL;
}
