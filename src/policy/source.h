/*
 * source.h - the bytes of a policy file. Private to src/policy.
 *
 * It is read inside other people's programs at their start, so it never waits (a FIFO is refused, not opened for
 * long), never leaves a descriptor behind, and has an upper bound.
 */
#ifndef SOCKFUSE_POLICY_SOURCE_H
#define SOCKFUSE_POLICY_SOURCE_H

#include "policy/policy_model.h"

#define SOURCE_BYTES_MAX ((size_t)16 << 20)

struct source {
    char *text; /* without a byte order mark, lines end with \n alone; may have zero bytes inside */
    size_t length;
    uint64_t hash; /* of the bytes as they were in the file */
};

/* False: the problem has been added. */
bool source_read(struct source *source, const char *path, struct policy_problems *problems);
void source_free(struct source *source);

#endif
