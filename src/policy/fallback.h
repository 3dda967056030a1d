/*
 * fallback.h - where `fallback` leads: `address:port`, `[v6]:port`, `unix:/path`, or `host:port`. Private to
 * src/policy.
 *
 * A host's addresses are not known here: who starts the program resolves them (policy_resolve_fallbacks).
 */
#ifndef SOCKFUSE_POLICY_FALLBACK_H
#define SOCKFUSE_POLICY_FALLBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy_model.h"

/* Reads one, or `none`. False: `why` says what is expected. */
bool fallback_parse(struct fallback *fallback, const char *text, char *why, size_t why_size);

/* Writes it back; VALUE_TEXT_MAX bytes are room enough. */
void fallback_format(const struct fallback *fallback, char *text, size_t size);

#endif
