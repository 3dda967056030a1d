/*
 * flapping.c - whether a circuit flaps. See flapping.h.
 */
#include "agent/flapping.h"

#include <string.h>

/* AT its end the span holds no more. */
static bool is_within(uint64_t at_ns, const struct flapping_rule *rule, uint64_t now_ns)
{
    return now_ns < at_ns || now_ns - at_ns < rule->span_ns;
}

bool flapping_opened(struct flapping *flapping, const struct flapping_rule *rule, uint64_t now_ns)
{
    uint32_t old = 0;
    while (old < flapping->count && !is_within(flapping->at_ns[old], rule, now_ns))
        old++;
    if (old == 0 && flapping->count == FLAPPING_OPENINGS_MAX) /* a rule of fewer would have ended it before */
        old = 1;
    flapping->count -= old;
    memmove(flapping->at_ns, flapping->at_ns + old, flapping->count * sizeof *flapping->at_ns);
    flapping->at_ns[flapping->count++] = now_ns;
    if (flapping->count < rule->openings)
        return false;
    flapping->count = 0;
    return true;
}

bool flapping_is_over(const struct flapping *flapping, const struct flapping_rule *rule, uint64_t now_ns)
{
    return flapping->count == 0 || !is_within(flapping->at_ns[flapping->count - 1], rule, now_ns);
}
