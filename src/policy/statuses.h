/*
 * statuses.h - lists of HTTP statuses, as `http_failures` has them: `502 503 504`, `500-599 429`. Private to
 * src/policy.
 *
 * A list is kept ascending, and none of its ranges overlap; those that only touch stay apart, as they were written.
 */
#ifndef SOCKFUSE_POLICY_STATUSES_H
#define SOCKFUSE_POLICY_STATUSES_H

#include <stdbool.h>
#include <stddef.h>

#include "breaker/outcome.h"

/* Reads statuses and ranges between blanks or commas, or `none`, into the rules. False: `why` says what is expected. */
bool statuses_parse(struct outcome_rules *rules, const char *text, char *why, size_t why_size);

/* Writes them back; VALUE_TEXT_MAX bytes are room enough. */
void statuses_format(const struct outcome_rules *rules, char *text, size_t size);

#endif
