/*
 * target.h - makes a target of what a file, [defaults] and -o say, and finds what contradicts itself. Private to
 * src/policy.
 */
#ifndef SOCKFUSE_POLICY_TARGET_H
#define SOCKFUSE_POLICY_TARGET_H

#include "policy/draft.h"

/* A target in the making: where its keys were set, for messages. 0: by -o, or not at all. */
struct target_draft {
    struct target target;
    unsigned int lines[KEYS];
};

/* Reads the entries of a section (not `match`) into the target and notes them in `set`, a member of it. */
void target_apply(struct target_draft *draft, const struct entry *entries, size_t count, uint64_t *set,
                  struct policy_problems *problems);

/* Adds the patterns of a `match` value, or a single pattern that is not split. False: a problem was added. */
bool target_match(struct target *target, const struct entry *entry, struct policy_problems *problems);
bool target_add_pattern(struct target *target, const char *text, unsigned int line, char *why, size_t why_size);

/* Reads -o's strings into `overrides`; target_override puts them over a target. */
void overrides_read(struct target *overrides, const char *const *texts, struct policy_problems *problems);
/*
 * Writes them back, each once: key by its first name, value as a file has it. NULL-terminated, to be freed with
 * overrides_free; NULL: no memory.
 */
char **overrides_write(const struct target *overrides);
void overrides_free(char **texts);
void target_override(struct target_draft *draft, const struct target *overrides);

/*
 * Holds the keys against each other, and makes the built-in reset_timeout and reset_timeout_max give way to the
 * other one where only one of them was set, and a built-in minimum_calls to a window of fewer calls. What [defaults]
 * and -o do to each other is reported once, for `is_defaults`.
 */
void target_check(struct target_draft *draft, bool is_defaults, struct policy_problems *problems);

void target_release(struct target *target);

/* Notes in the policy what kinds of targets it has. Async-signal-safe. */
void policy_note_kinds(struct policy *policy);

#endif
