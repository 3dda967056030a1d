/*
 * grpc_statuses.h - lists of gRPC's statuses, as `grpc_failures` has them: `UNAVAILABLE DEADLINE_EXCEEDED`, or `14 4`.
 * Private to src/policy.
 */
#ifndef SOCKFUSE_POLICY_GRPC_STATUSES_H
#define SOCKFUSE_POLICY_GRPC_STATUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/complaint.h"

/* Reads a list, or `none`: bit n for status n. False: `why` says what is expected. */
bool grpc_statuses_parse(const char *text, uint64_t *mask, struct complaint why);
/* The list by names, or `none`. */
void grpc_statuses_format(uint64_t mask, char *text, size_t size);

#endif
