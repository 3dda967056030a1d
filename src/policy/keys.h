/*
 * keys.h - the one table of the keys that a policy can have: name, other names, kind of value, default, limits, and
 * where the value is stored. Private to src/policy, but for the command line's and the tests' own reading of the
 * table.
 *
 * The reader of files, -o, policy_describe and the manual's test all take it from here; a new key is one more row.
 */
#ifndef SOCKFUSE_POLICY_KEYS_H
#define SOCKFUSE_POLICY_KEYS_H

#include "policy/policy_model.h"
#include "policy/value.h"

/* The rows of the table, and the bits of target.keys_set. */
enum key_index {
    KEY_MATCH,
    KEY_CIRCUIT,
    KEY_MODE,
    KEY_FAILURE_THRESHOLD,
    KEY_WINDOW,
    KEY_MINIMUM_CALLS,
    KEY_FAILURE_RATE,
    KEY_SLOW_CALL,
    KEY_SLOW_CALL_RATE,
    KEY_RESET_TIMEOUT,
    KEY_RESET_TIMEOUT_MAX,
    KEY_BACKOFF_MULTIPLIER,
    KEY_JITTER,
    KEY_HALF_OPEN_MAX_CALLS,
    KEY_SUCCESS_THRESHOLD,
    KEY_PROBE_TIMEOUT,
    KEY_HEALTH_CHECK,
    KEY_HEALTH_INTERVAL,
    KEY_HEALTH_TIMEOUT,
    KEY_HEALTH_RISE,
    KEY_HEALTH_PATIENCE,
    KEY_ALERT,
    KEY_ALERT_ON,
    KEY_ALERT_EVERY,
    KEY_ALERT_TIMEOUT,
    KEY_FLAPPING,
    KEY_CONNECT_TIMEOUT,
    KEY_RESPONSE_TIMEOUT,
    KEY_ENFORCE_TIMEOUTS,
    KEY_ABANDON_AFTER,
    KEY_SUCCESS,
    KEY_FAILURES,
    KEY_HTTP,
    KEY_HTTP_FAILURES,
    KEY_GRPC_FAILURES,
    KEY_RETRY_AFTER,
    KEY_RETRY_AFTER_MAX,
    KEY_EXISTING,
    KEY_MAX_CONNECTIONS,
    KEY_RETRY,
    KEY_RETRY_BACKOFF,
    KEY_RETRY_BUDGET,
    KEY_ON_OPEN,
    KEY_FALLBACK,
    KEY_RECORD,
    KEY_SCOPE,
    KEY_FLEET_QUORUM,
    KEY_INJECT,
    KEY_INJECT_SEED,
    KEY_CAPACITY,
    KEY_JOURNAL,
    KEYS
};

#define KEY_ALIASES_MAX 2

struct key {
    const char *name;
    const char *aliases[KEY_ALIASES_MAX];
    struct value_rule rule;
    const char *built_in; /* the default as a file would have it; NULL: match */
    size_t offset, size;  /* of the member of struct target; 0: more than one (VALUE_STATUSES, …), or none */
    bool of_policy;       /* of the policy as a whole: stands in [defaults] alone, and is the same in every target */
};

extern const struct key key_table[KEYS];

static inline uint64_t key_bit(enum key_index index)
{
    return UINT64_C(1) << index;
}

/* The row of that name or alias, or KEYS. */
enum key_index key_named(const char *name);

/* For a name that no key has: "did you mean `...`?", or at least which one looks most like it. */
#define KEY_WORDS_MAX 80
void key_nearest_words(const char *name, char *text, size_t size);

/* Reads `text` into the target. Not for KEY_MATCH. False: `why` says what is expected. */
bool key_set(enum key_index index, struct target *target, const char *text, char *why, size_t why_size);

/* Copies the value of one key from target to target. Not for KEY_MATCH. */
void key_copy(enum key_index index, struct target *to, const struct target *from);

/* The target's value as the file writes it. Not for KEY_MATCH. */
void key_format(enum key_index index, const struct target *target, char *text, size_t size);

/* A target with every key at its built-in value; no name, no patterns. */
void target_set_built_in(struct target *target);

#endif
