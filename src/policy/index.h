/*
 * index.h - finds the patterns that may take a destination, without a look at all the others. Private to src/policy.
 *
 * Each pattern lies under a key: what it takes, cut down to what all of its destinations have in common (the bits of a
 * network, a host, the text in front of a glob's first `*`), and its port, if it has only one. For each length that
 * some key has, a search looks under one key of that length, so its steps do not grow with the number of patterns; but
 * for those under one key: many ranges of ports of one host, or many globs that begin alike, are looked at one by one.
 * Made once of a policy that is complete; a search is async-signal-safe.
 */
#ifndef SOCKFUSE_POLICY_INDEX_H
#define SOCKFUSE_POLICY_INDEX_H

#include "policy/policy_model.h"

/* How much memory the index of this policy takes. */
size_t index_size(const struct policy *policy);
/* Makes it in `memory`: index_size bytes, all zero, on a boundary of 16. Async-signal-safe; nothing is allocated. */
void index_build(struct policy *policy, void *memory);

/* What is looked for; the parts that are zero are not. */
struct index_query {
    const uint8_t *address; /* the patterns of networks that hold the first `prefix` bits of it */
    enum endpoint_family family;
    unsigned int prefix;
    bool anywhere;    /* the patterns of any host */
    const char *name; /* the patterns of hosts and domains that hold it; any case */
    bool any_port;    /* those of names of whatever port, but for names alone */
    const char *path; /* the patterns of UNIX sockets */
    bool abstract;    /* the path's name space */
    bool is_glob;     /* the path is itself a glob: the patterns that hold all of it */
    int32_t port;     /* INDEX_PORTS: none but patterns of several ports */
};
#define INDEX_PORTS (-1)

/* Whether the pattern is the one. */
typedef bool index_chooser(const struct pattern *pattern, const void *context);

/*
 * The first in file order that `chooses` takes, of the patterns under the query's keys (and some others, by chance).
 * False: none.
 */
bool index_search(const struct policy *policy, const struct index_query *query, index_chooser *chooses,
                  const void *context, struct policy_match *match);

/* The target of that name, or NULL. */
const struct target *index_target(const struct policy *policy, const char *name);

/* Whether the pattern's glob has anything that is not plain text. */
bool index_is_glob(const struct pattern *pattern);
/* Whether a glob is text with one `*` at its end, so that it takes whatever begins with that text. */
bool index_is_prefix(const char *glob);
/* How long the text is with which all begins that the glob takes. */
size_t index_plain_length(const char *glob);

#endif
