/*
 * faults.h - the faults of a rehearsal, as `inject` has them: `refuse`, `hang at 30%`, `delay 200ms at 10%, http-503 at
 * 5%`. Private to src/policy.
 *
 * Of several faults an attempt gets one at the most, so their shares add up to 100% or less.
 */
#ifndef SOCKFUSE_POLICY_FAULTS_H
#define SOCKFUSE_POLICY_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy_model.h"

/* Reads faults between commas, or `none`, into the target. False: `why` says what is expected. */
bool faults_parse(struct target *target, const char *text, char *why, size_t why_size);

/* Writes them back; VALUE_TEXT_MAX bytes are room enough. */
void faults_format(const struct target *target, char *text, size_t size);

/* Whether one of them can't be played on a UNIX socket: its name, or NULL. */
const char *faults_beyond_unix(const struct target *target);

#endif
