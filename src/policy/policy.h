/*
 * policy.h - a policy: the targets, and how their circuits behave. The model, and which target takes a destination.
 *
 * A policy is built once (policy_load, policy_from_patterns), at start-up or in the command line, and only read afterwards:
 * policy_match and policy_destination allocate nothing and are async-signal-safe. policy_load allocates and does I/O.
 */
#ifndef SOCKFUSE_POLICY_POLICY_H
#define SOCKFUSE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "breaker/settings.h"
#include "policy/endpoint.h"

#define TARGET_NAME_MAX 128 /* bytes with the end */

enum pattern_kind { PATTERN_HOST, PATTERN_HOST_SUFFIX, PATTERN_NETWORK, PATTERN_UNIX };

/* One pattern of `match`. PATTERN_NETWORK with a full prefix is a single address; prefix 0 and family NONE is the host `*`. */
struct pattern {
    enum pattern_kind kind;
    char *text;              /* as written, for messages */
    char *host;              /* HOST: lower case, no final dot; HOST_SUFFIX: ".example.com" of "*.example.com"; UNIX: the glob */
    struct endpoint network; /* NETWORK */
    unsigned int prefix;     /* NETWORK: bits */
    uint16_t port_first, port_last;
    unsigned int line;
};

enum target_mode { MODE_ENFORCE, MODE_OBSERVE, MODE_OFF, MODE_OPEN, MODE_CLOSED };
enum circuit_key { CIRCUIT_BY_DESTINATION, CIRCUIT_BY_ADDRESS, CIRCUIT_BY_TARGET };
enum target_scope { SCOPE_HOST, SCOPE_PROCESS };

struct target {
    char name[TARGET_NAME_MAX];
    unsigned int line;           /* of its section; 0 if it was made on the spot */
    struct pattern *patterns;
    size_t pattern_count;
    enum target_mode mode;
    enum circuit_key circuit;
    enum target_scope scope;
    int on_open;                 /* errno of a refusal */
    uint64_t connect_timeout_ns;
    uint64_t response_timeout_ns; /* 0: off */
    struct settings breaker;
    struct outcome_rules rules;
    uint32_t keys_set;           /* bit n: key n of the parser's table was set in the section itself */
    uint32_t keys_defaulted;     /* bit n: key n came from [defaults] */
};

struct policy {
    char *path;                  /* the file's real path; NULL for a policy made on the spot */
    char *identity;              /* what the segment is named after: the real path, or "patterns: a b c", sorted */
    struct target *targets;
    size_t target_count;
    bool has_host_patterns;      /* somebody must watch the names that the program resolves */
    bool has_process_scope, has_host_scope;
    uint64_t revision;           /* hash of the file's bytes */
};

/* One thing that is wrong in a policy: an error refuses the file, a warning does not. */
struct policy_problem {
    bool is_error;
    unsigned int line;   /* 0: the file as a whole */
    char text[400];      /* what was found, what is expected, the nearest known key; one line, no newline at its end */
};
struct policy_problems {
    struct policy_problem *at;
    size_t count, errors;
};

/*
 * Reads a policy file: whole or not at all. Returns the policy, or NULL when there was an error (also when the file could not be
 * read: errno is in the text). `problems` is filled in both cases, in the order of the lines; free it with policy_problems_free.
 * `overrides`: "KEY=VALUE" strings of -o, which stand before the file's [defaults] and after its sections' own keys? No: they win
 * over everything; NULL-terminated or NULL. A problem in one of them has line 0 and names it.
 * Not async-signal-safe (malloc, stdio).
 */
struct policy *policy_load(const char *path, const char *const *overrides, struct policy_problems *problems);
/* A policy on the spot: one target for each pattern of the NULL-terminated list. As policy_load otherwise. */
struct policy *policy_from_patterns(const char *const *patterns, const char *const *overrides,
                                    struct policy_problems *problems);
/* A file's policy with further targets of -t behind its own. */
struct policy *policy_load_with_patterns(const char *path, const char *const *patterns, const char *const *overrides,
                                         struct policy_problems *problems);
void policy_free(struct policy *policy);
void policy_problems_free(struct policy_problems *problems);

/* Which target takes a destination, and by what. */
struct policy_match {
    const struct target *target;
    const struct pattern *pattern;
    int name; /* index of the name that matched, or -1: the address did */
};

/*
 * The first section in file order that has a pattern for `endpoint` or for one of the `names` by which the program came to it (no
 * ports in them; any case; the most recent first). False: nobody guards it. Async-signal-safe.
 */
bool policy_match(const struct policy *policy, const struct endpoint *endpoint, const char *const *names,
                  size_t name_count, struct policy_match *match);

/* The name of the circuit's destination: "host:port" of the name that matched, the endpoint, or the target's name, by the
 * target's `circuit` key. Returns its length, or 0 if it does not fit (then it is not guarded). Async-signal-safe. */
size_t policy_destination(const struct policy_match *match, const struct endpoint *endpoint, const char *const *names,
                          char *text, size_t size);

/* Whether a host name (any case) is named by some pattern: only such names need to be remembered. Async-signal-safe. */
bool policy_wants_name(const struct policy *policy, const char *name);

/* The names of modes and so on as the file writes them, for `check -v`; never NULL. */
const char *target_mode_name(enum target_mode mode);

/*
 * One line "key = value" for each key of the table, in the table's order, as they are in force for the target: calls `line` with the key, the
 * value as text, and where it came from ("section", "[defaults]", "built in").
 */
void policy_describe(const struct target *target,
                     void (*line)(const char *key, const char *value, const char *origin, void *context), void *context);

#endif
