/*
 * sane.h - whether the members of a target or pattern, which may have come from anywhere, are what a policy can have.
 * Private to src/policy.
 *
 * Looks at no pointer: those are flat.c's. Every member is looked at as bytes first, for a bool or an enum that is none
 * must not be read as one. Async-signal-safe.
 */
#ifndef SOCKFUSE_POLICY_SANE_H
#define SOCKFUSE_POLICY_SANE_H

#include "policy/policy_model.h"

bool target_is_sane(const struct target *target);
bool pattern_is_sane(const struct pattern *pattern);

/* Whether a pattern of this (sane) kind must have a host. */
bool pattern_needs_host(const struct pattern *pattern);

#endif
