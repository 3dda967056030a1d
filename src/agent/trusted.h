/*
 * trusted.h - what may be executed or asked for: what the policy's file says, and nobody else.
 *
 * What lies in a segment may have been written by any program that has it mapped, also by one that has given up the
 * rights with which it started. So a command or a URL is never taken from there: only from a file that belongs to the
 * user or to root, and that nobody else can write.
 */
#ifndef SOCKFUSE_AGENT_TRUSTED_H
#define SOCKFUSE_AGENT_TRUSTED_H

#include <stdbool.h>
#include <sys/types.h>

#include "policy/policy.h"

struct trusted {
    const struct target *target; /* in the policy */
    struct policy *policy;
    const char *why; /* there is none */
};

/*
 * The target of that name in the policy's file, with the segment's further patterns but without its options, as that
 * user, who the caller has become, can read it. False: there is none, or the file is not to be trusted. It waits for the
 * disk: for a child. To be freed in any case.
 */
bool trusted_open(struct trusted *trusted, const char *identity, const char *target, uid_t uid);
void trusted_free(struct trusted *trusted);

#endif
