/*
 * flat.h - a policy in one piece of memory without pointers, to be handed from the command line to running processes.
 *
 * policy_flatten writes it, policy_unfold makes a policy of it where it lies. Only the same version and word size can
 * read it. What is read may be anything: it becomes a policy only if all of it is what a policy can be.
 */
#ifndef SOCKFUSE_POLICY_FLAT_H
#define SOCKFUSE_POLICY_FLAT_H

#include <stddef.h>

#include "policy/policy_model.h"

/* More is no policy: ten thousand targets have 20 MB. */
#define POLICY_FLAT_MAX (UINT32_C(64) << 20)

/* The policy in one piece, to be freed; `*size` is its length in bytes. NULL: no memory, or it is too large. */
void *policy_flatten(const struct policy *policy, size_t *size);

/* What can be wrong with a piece. Values are stored in shared memory: append only. */
enum flat_fault {
    FLAT_GOOD = 0,
    FLAT_CUT,
    FLAT_NO_POLICY,
    FLAT_OTHER_BUILD,
    FLAT_DAMAGED,
    FLAT_OTHER_POLICY,
    FLAT_FAULTS
};
/* In words, "it is ...". */
const char *flat_fault_text(unsigned int fault);
/* Which of them a text of policy_unfold's is. */
enum flat_fault flat_fault_of(const char *why);

/*
 * Checks everything and puts pointers where offsets stood. The policy lies in `bytes` (aligned as malloc or mmap have
 * it), which must live as long as it does and is spoiled where this fails. `identity` is whose policy is expected.
 * NULL: `*why` says what is wrong. Async-signal-safe; nothing is allocated.
 */
const struct policy *policy_unfold(void *bytes, size_t size, const char *identity, const char **why);

#endif
