/*
 * flapping.h - whether a circuit opens so often that it flaps. Pure.
 */
#ifndef SOCKFUSE_AGENT_FLAPPING_H
#define SOCKFUSE_AGENT_FLAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/alert_value.h"

/* A circuit's last openings, the oldest first. Begins as zeros. */
struct flapping {
    uint64_t at_ns[FLAPPING_OPENINGS_MAX];
    uint32_t count;
};

/*
 * It has opened. True: so often within the span that it flaps; it is counted anew from here on, so that one that goes on
 * flapping does so again, and not with each opening.
 */
bool flapping_opened(struct flapping *flapping, const struct flapping_rule *rule, uint64_t now_ns);

/* Whether no opening lies within the span. */
bool flapping_is_over(const struct flapping *flapping, const struct flapping_rule *rule, uint64_t now_ns);

#endif
