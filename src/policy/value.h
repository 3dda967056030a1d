/*
 * value.h - the kinds of values that stand behind a policy's keys: reads them and writes them back. Private to
 * src/policy, but for commands' durations.
 *
 * Pure functions, without the locale (its decimal comma would read 1.5s as 1) and without floating point.
 */
#ifndef SOCKFUSE_POLICY_VALUE_H
#define SOCKFUSE_POLICY_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/value_rule.h"

/* Room for any value as text but patterns'. */
#define VALUE_TEXT_MAX 288

/* False: `why` says what is expected instead. */
bool value_parse(const struct value_rule *rule, const char *text, uint64_t *value, char *why, size_t why_size);

/* Writes a value as the file has it, durations in the largest unit that is exact. */
void value_format(const struct value_rule *rule, uint64_t value, char *text, size_t size);

/* The name of a choice's value, or "unknown". */
const char *choice_name(const struct choice *choices, uint64_t value);

#endif
