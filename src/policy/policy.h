/*
 * policy.h - a policy: reading it, and which target takes a destination. What it consists of is in policy_model.h.
 *
 * A policy is built once (policy_load, policy_from_patterns), at start-up or in the command line, and only read
 * afterwards: policy_match and policy_destination allocate nothing and are async-signal-safe. policy_load allocates
 * and does I/O.
 */
#ifndef SOCKFUSE_POLICY_POLICY_H
#define SOCKFUSE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_model.h"

/*
 * Reads a policy file: whole or not at all. Returns the policy, or NULL when there was an error (also when the file
 * could not be read: the text says why). `problems` is filled in both cases, in the order of the lines; free it
 * with policy_problems_free. `overrides`: the "KEY=VALUE" strings of -o, NULL-terminated, or NULL. They win over
 * everything, over [defaults] and over the sections' own keys, in every target; of two for one key the later wins.
 * A problem in one of them has line 0 and names it. Not async-signal-safe (malloc, stdio).
 */
struct policy *policy_load(const char *path, const char *const *overrides, struct policy_problems *problems);
/*
 * A policy on the spot: one target for each pattern of the NULL-terminated list, named like the pattern. The same one
 * twice counts once. As policy_load otherwise.
 */
struct policy *policy_from_patterns(const char *const *patterns, const char *const *overrides,
                                    struct policy_problems *problems);
/*
 * A file's policy with further targets of -t behind its own, to which the file's [defaults] apply too. Without a file
 * (NULL) it is policy_from_patterns, without patterns (NULL or none) policy_load.
 */
struct policy *policy_load_with_patterns(const char *path, const char *const *patterns, const char *const *overrides,
                                         struct policy_problems *problems);
/*
 * The policy of an identity (identity.h) as it is now: its file, its patterns and its options. As policy_load
 * otherwise.
 */
struct policy *policy_load_identity(const char *identity, struct policy_problems *problems);
/*
 * The same as it was when its file had that text (as the `text` of a policy has it), with the revision that it had
 * then: whatever became of the file since, which is not looked at.
 */
struct policy *policy_from_text(const char *identity, const char *text, uint64_t revision,
                                struct policy_problems *problems);
/*
 * The identity of what policy_load_with_patterns would read of `path` (from policy_file_path; or NULL); the file is not
 * asked. To be freed. NULL: something is wrong with the options, it is too long, or there is no memory: `problems` has
 * it.
 */
char *policy_identity(const char *path, const char *const *patterns, const char *const *overrides,
                      struct policy_problems *problems);
/*
 * Adds a warning for each target and pattern that never takes anything because an earlier one takes all of it. For
 * those who show problems to people; the library need not know. Allocates.
 */
void policy_check_order(const struct policy *policy, struct policy_problems *problems);
void policy_free(struct policy *policy);

/*
 * The first section in file order that has a pattern for `endpoint` or for the name by which the program came to it.
 * `names`: what the address is called (no ports in them; any case; the most recent first). Meant is the most recent
 * one that some section names. False: nobody guards it. Async-signal-safe.
 */
bool policy_match(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                  size_t name_count, struct policy_match *match);

/*
 * The name of the circuit's destination by the target's `circuit` key: "host:port" of the name that matched (lower
 * case, no final dot), the endpoint, or the target's name. Returns its length, or 0 if it does not fit (then it is
 * not guarded). Async-signal-safe.
 */
size_t policy_destination(const struct policy_match *match, const struct endpoint *endpoint, const char *const *names,
                          char *text, size_t size);

/* Whether some pattern takes the endpoint by this name (without a port; any case). Async-signal-safe. */
bool policy_names(const struct policy *policy, const struct endpoint *endpoint, const char *name);

/*
 * Whether a host name (any case) is named by some pattern: only such names need to be remembered.
 * Async-signal-safe.
 */
bool policy_wants_name(const struct policy *policy, const char *name);

/* The target of that name, or NULL. Async-signal-safe. */
const struct target *policy_target_named(const struct policy *policy, const char *name);

/*
 * Takes an address for a host that fallbacks name (any case; the address's port is ignored). The first of each family
 * counts. For who starts a program, before the policy is used.
 */
void policy_resolve_fallbacks(struct policy *policy, const char *host, const struct endpoint *address);

/* The name of a mode as the file writes it; never NULL. */
const char *target_mode_name(enum target_mode mode);
const char *target_scope_name(enum target_scope scope);

/*
 * Calls `line` for each key of the table that this version has, in its order, with the value that is in force for
 * the target, written as a file would have it, and where it came from: "section", "[defaults]", "-o", "built in";
 * "the name" for a `match` that is not there; "as reset_timeout" or "as reset_timeout_max" for a built-in pause
 * that gave way to the other one, "as window" for a built-in minimum_calls that did. Allocates; false: no memory.
 */
bool policy_describe(const struct target *target,
                     void (*line)(const char *key, const char *value, const char *origin, void *context),
                     void *context);
/* The same for the keys of the policy as a whole, which stand in [defaults] alone; policy_describe leaves them out. */
bool policy_describe_common(const struct target *target,
                            void (*line)(const char *key, const char *value, const char *origin, void *context),
                            void *context);

/* All of it as a file that says the same, with where each value came from in comments. To be freed; NULL: no memory. */
char *policy_write(const struct policy *policy);

#endif
