/*
 * alert_value.h - what `alert` and `flapping` may say. Private to src/policy, but for who tells of alerts.
 */
#ifndef SOCKFUSE_POLICY_ALERT_VALUE_H
#define SOCKFUSE_POLICY_ALERT_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy_model.h"
#include "policy/value.h"

/* As many times are kept for each circuit. */
#define FLAPPING_OPENINGS_MAX 100u

/* Both copy a good value; false: `why` says what is expected. */
bool alert_parse(char value[ALERT_SIZE], const char *text, char *why, size_t why_size);
bool flapping_parse(struct flapping_rule *rule, const char *text, char *why, size_t why_size);

void flapping_format(const struct flapping_rule *rule, char *text, size_t size);
bool flapping_is_sane(const struct flapping_rule *rule);

/* In the order of enum alert_kind: each one's bit. */
extern const struct choice alert_choices[];
/* "open", "probe-failed", ...; NULL: there is no such kind. */
const char *alert_kind_name(unsigned int kind);

#endif
