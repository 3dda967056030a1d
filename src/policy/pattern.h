/*
 * pattern.h - reads the patterns of `match` and holds them against destinations. For src/policy and `check`.
 *
 * pattern_parse allocates and may ask the system for a service's port: at start-up and in the command line only.
 * pattern_takes_* are async-signal-safe.
 */
#ifndef SOCKFUSE_POLICY_PATTERN_H
#define SOCKFUSE_POLICY_PATTERN_H

#include "policy/policy_model.h"

/*
 * Fills `pattern` but for its line. False: `why` says what is wrong and what to write instead (whole sentence, one
 * line), and nothing is allocated.
 */
bool pattern_parse(struct pattern *pattern, const char *text, char *why, size_t why_size);
void pattern_release(struct pattern *pattern);

/*
 * Whether it can take one destination alone, and its endpoint: the address with its port, the path, or, for a host's
 * name, no family and the port.
 */
bool pattern_is_single(const struct pattern *pattern, struct endpoint *endpoint);

/* Whether such a name can stand before a pattern's port: of one host, not `*.example.com`, and no address. */
bool pattern_is_host_name(const char *name, size_t length);

/*
 * Whether the pattern takes the endpoint by its address or path. A family of ENDPOINT_NONE stands for "some
 * address".
 */
bool pattern_takes_endpoint(const struct pattern *pattern, const struct endpoint *endpoint);

/* Whether the pattern names this host; any case, with or without the final dot. Does not look at the port. */
bool pattern_names_host(const struct pattern *pattern, const char *name);

static inline bool pattern_is_name(const struct pattern *pattern)
{
    return pattern->kind == PATTERN_HOST || pattern->kind == PATTERN_HOST_SUFFIX;
}

static inline bool pattern_has_port(const struct pattern *pattern, uint16_t port)
{
    return pattern->port_first <= port && port <= pattern->port_last;
}

#endif
