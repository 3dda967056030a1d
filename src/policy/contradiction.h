/*
 * contradiction.h - who has set a key, for those who hold a target's keys against each other. Private to src/policy.
 */
#ifndef SOCKFUSE_POLICY_CONTRADICTION_H
#define SOCKFUSE_POLICY_CONTRADICTION_H

#include "policy/target.h"

/* Whether nobody has set the key. */
static inline bool is_ours(const struct target *target, enum key_index key)
{
    return ((target->keys_set | target->keys_defaulted | target->keys_overridden) & key_bit(key)) == 0;
}

/* Whether the section itself decides about the key. */
static inline bool is_own(const struct target *target, enum key_index key)
{
    return (target->keys_set & ~target->keys_overridden & key_bit(key)) != 0;
}

/* Where a warning about one key of a section stands: 0 with -o. False: nobody but [defaults] has set it, or nobody. */
static inline bool has_own_line(const struct target_draft *draft, enum key_index key, unsigned int *line)
{
    *line = is_own(&draft->target, key) ? draft->lines[key] : draft->target.line;
    return !is_ours(&draft->target, key);
}

/* A part of target_check: the keys that are for the agent. */
void target_check_agent(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems);

#endif
