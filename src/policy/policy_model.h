/*
 * policy_model.h - what a policy consists of: targets with their patterns and keys; and what is wrong in one.
 *
 * Built once, and only read afterwards.
 */
#ifndef SOCKFUSE_POLICY_POLICY_MODEL_H
#define SOCKFUSE_POLICY_POLICY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "breaker/settings.h"
#include "policy/agent_section.h"
#include "policy/capacity.h"
#include "policy/endpoint.h"

#define TARGET_NAME_MAX 128 /* bytes with the end */
/* The most that max_connections can say: a segment has records of so many. */
#define TARGET_CONNECTIONS_MAX 8192u
#define HEALTH_CHECK_SIZE 256u /* bytes of what `health_check` says, with the end */
#define ALERT_SIZE 256u        /* of what `alert` says */

enum pattern_kind { PATTERN_HOST, PATTERN_HOST_SUFFIX, PATTERN_NETWORK, PATTERN_UNIX };

/*
 * One pattern of `match`. PATTERN_NETWORK with a full prefix is a single address; prefix 0 and family NONE is the
 * host `*`: whatever has a port.
 */
struct pattern {
    enum pattern_kind kind;
    char *text;              /* as written, for messages */
    char *host;              /* HOST: lower case, no final dot; HOST_SUFFIX: ".example.com" of "*.example.com",
                                "" of "*."; UNIX: the glob, without the '@' of an abstract name */
    struct endpoint network; /* NETWORK; UNIX: its `abstract` alone */
    unsigned int prefix;     /* NETWORK: bits */
    uint16_t port_first, port_last;
    unsigned int line;
};

enum target_mode { MODE_ENFORCE, MODE_OBSERVE, MODE_OFF, MODE_OPEN, MODE_CLOSED };
enum circuit_key { CIRCUIT_BY_DESTINATION, CIRCUIT_BY_ADDRESS, CIRCUIT_BY_TARGET };
enum target_scope { SCOPE_HOST, SCOPE_PROCESS, SCOPE_FLEET /* as SCOPE_HOST, and the agent tells other hosts */ };

/* The faults that a rehearsal gives to calls. */
enum fault_kind {
    FAULT_NONE,
    FAULT_REFUSE,
    FAULT_RESET,
    FAULT_HANG,
    FAULT_SILENCE,
    FAULT_EARLY_CLOSE,
    FAULT_DELAY,
    FAULT_SLOW,
    FAULT_HTTP, /* the last one: sane.c */
};
#define FAULTS_MAX 7u
struct injection {
    uint32_t kind;     /* enum fault_kind */
    uint32_t status;   /* FAULT_HTTP: 400 to 599 */
    uint32_t permille; /* how many calls get it */
    uint32_t reserved;
    uint64_t delay_ns; /* FAULT_DELAY, FAULT_SLOW */
};

/* What an alert can be about, and the bits of `alert_on`. Values are stored in shared memory: append only. */
enum alert_kind {
    ALERT_OPEN,
    ALERT_CLOSE,
    ALERT_FLAPPING,
    ALERT_OVERDUE,
    ALERT_PROBE_FAILED,
    ALERT_FORCED,
    ALERT_KINDS
};

/* A circuit flaps that opens so often within the span. */
struct flapping_rule {
    uint64_t span_ns;
    uint32_t openings;
    uint32_t reserved;
};

/* Where an attempt goes that would be refused. */
struct fallback {
    char host[HOST_NAME_SIZE]; /* "": an address or a path, which is at[0] */
    uint16_t port;             /* of the host */
    struct endpoint at[2];     /* of a host: its IPv4 and its IPv6 address, as far as resolved; or ENDPOINT_NONE */
};

struct target {
    char name[TARGET_NAME_MAX];
    unsigned int line; /* of its section; 0 if it was made on the spot */
    struct pattern *patterns;
    size_t pattern_count;
    enum circuit_key circuit;
    enum target_scope scope;
    uint32_t fleet_quorum;    /* with SCOPE_FLEET: quorum.h */
    int on_open;              /* errno of a refusal */
    uint32_t max_connections; /* guarded connections over all processes; 0: no limit */
    uint64_t connect_timeout_ns;
    bool existing_allowed; /* new requests on established connections are never refused */
    bool retry_after;      /* Retry-After is a floor under the pause */
    bool enforce_timeouts; /* the library also ends the wait */
    /* What each request asks for, with the beginning of `breaker`. */
    bool http_read;    /* answers are looked at for HTTP */
    bool all_recorded; /* every outcome goes to the journal */
    enum target_mode mode;
    uint64_t response_timeout_ns; /* 0: off */
    struct settings breaker;
    struct outcome_rules rules;
    struct injection faults[FAULTS_MAX]; /* of a rehearsal */
    uint32_t fault_count;
    uint64_t inject_seed;
    struct fallback fallback;
    uint32_t retries;               /* of a blocking connect that failed; 0: none */
    uint32_t retry_budget_permille; /* what they may come to, of the calls */
    uint64_t retry_backoff_ns;      /* the longest wait before the first one, twice as long before the second… */
    /* For the agent alone. */
    char health_check[HEALTH_CHECK_SIZE]; /* as the file has it (check_value.h); "": none */
    uint64_t health_interval_ns, health_timeout_ns;
    uint32_t health_rise;     /* passed so often in a row, it ends the pause */
    uint32_t health_patience; /* one that fails holds for so many times the pause */
    char alert[ALERT_SIZE];   /* the command's words (alert_value.h); "": none */
    uint32_t alert_on;        /* bit n: enum alert_kind n */
    uint64_t alert_every_ns, alert_timeout_ns;
    struct flapping_rule flapping;
    struct capacity capacity; /* of the policy: the same in all of its targets */
    uint64_t keys_set;        /* bit n: key n of the table (keys.h) was set in the section itself */
    uint64_t keys_defaulted;  /* bit n: key n came from [defaults] */
    uint64_t keys_overridden; /* bit n: key n came from -o */
};

/* Finds patterns and targets; see index.h. */
#define POLICY_INDEX_LENGTHS 4
struct policy_index {
    uint32_t *heads; /* one piece of memory with the places */
    struct policy_place *places;
    uint64_t lengths[POLICY_INDEX_LENGTHS][3]; /* for some kinds of keys, a bit for each length that is in use */
    uint32_t mask;                             /* of a key's hash, for the heads */
};

/* What a policy says in [agent]. */
struct policy_agent {
    struct agent_settings settings;
    uint64_t keys_set; /* bit n: key n of the table (agent_section.h) was set */
    unsigned int line;
};

struct policy {
    char *path;     /* the file's, as policy_file_path has it; NULL for a policy made on the spot */
    char *identity; /* what the segment is named after: identity.h */
    struct target *targets;
    size_t target_count;
    struct policy_index index; /* of targets and patterns, which change no more once it is made */
    bool has_host_patterns;    /* somebody must watch the names that the program resolves */
    bool has_process_scope, has_host_scope;
    struct capacity capacity; /* of a segment that is made for it */
    uint64_t revision;        /* hash of the file's bytes and of the patterns of -t */
    char *text; /* the file's, so that others can read what is in force (segment/editions.h); NULL: there is none */
    struct policy_agent *agent; /* NULL: it has no section `[agent]` */
};

/* One thing that is wrong in a policy: an error refuses the file, a warning does not. */
struct policy_problem {
    bool is_error;
    unsigned int line; /* 0: the file as a whole */
    char text[400];    /* what was found, what is expected, the nearest known key; one line, no newline at its end */
};
struct policy_problems {
    struct policy_problem *at;
    size_t count, errors;
};
void policy_problems_free(struct policy_problems *problems);

/* Which target takes a destination, and by what. */
struct policy_match {
    const struct target *target;
    const struct pattern *pattern;
    int name; /* index of the name that matched, or -1: the address did */
};

#endif
