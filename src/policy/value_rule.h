/*
 * value_rule.h - of which kind a key's value is, and its limits. Reading them is value.h's.
 */
#ifndef SOCKFUSE_POLICY_VALUE_RULE_H
#define SOCKFUSE_POLICY_VALUE_RULE_H

#include <stdint.h>

enum value_type {
    VALUE_PATTERNS,        /* read by pattern.h, not here */
    VALUE_COUNT,           /* a whole number */
    VALUE_DURATION,        /* nanoseconds, written with a unit */
    VALUE_DURATION_OR_OFF, /* the same; `off` is 0 */
    VALUE_WINDOW,          /* nanoseconds, or WINDOW_CALLS | a number, written `N calls` */
    VALUE_PERCENT,         /* permille, written with %; 0 may stand without */
    VALUE_FACTOR,          /* permille, written as a decimal */
    VALUE_CHOICE,          /* one word of a list */
    VALUE_FAILURE_KINDS,   /* a mask of enum failure_kind, written as their names */
    VALUE_STATUSES,        /* a list of HTTP statuses, read by statuses.h, not here */
    VALUE_GRPC_STATUSES,   /* a mask of gRPC's statuses, read by grpc_statuses.h */
    VALUE_FAULTS,          /* what a rehearsal injects, read by faults.h, not here */
    VALUE_QUORUM,          /* a number or a share of hosts, read by quorum.h, not here */
    VALUE_FALLBACK,        /* an endpoint or a host, read by fallback.h, not here */
    VALUE_CHECK,           /* a health check, read by check_value.h, not here */
    VALUE_COMMAND,         /* a command's words, read by alert_value.h, not here */
    VALUE_WORDS,           /* a mask, written as words of a list */
    VALUE_FLAPPING,        /* how often in how long, read by alert_value.h, not here */
    VALUE_CAPACITY,        /* the sizes of a segment's tables, read by capacity.h, not here */
    VALUE_EVENTS,          /* a whole number, written `N events` */
};

struct choice {
    const char *name; /* NULL ends a list */
    uint64_t value;
};

struct value_rule {
    enum value_type type;
    uint64_t minimum,
        maximum; /* in the value's own unit; VALUE_FAILURE_KINDS: maximum is the mask of what may be named; VALUE_WORDS: of all */
    const struct choice *choices; /* VALUE_CHOICE; VALUE_WORDS: their bits */
};

#endif
