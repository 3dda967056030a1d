/*
 * index.c - a hash table of keys. See index.h.
 *
 * Places are numbered in the order of the file, and those of one key are linked in that order: the first that takes a
 * destination is the first of its key that does, and of several keys the one with the lowest number.
 */
#include "policy/index.h"

#include <string.h>

#include "base/hash.h"
#include "base/span.h"
#include "policy/pattern.h"

/* What a key is a key of. For the kinds before LENGTHS, the index knows which lengths its keys have. */
enum kind {
    BY_IPV4,
    BY_IPV6,
    BY_PREFIX, /* of a path: a glob that is one */
    BY_GLOB,   /* the text in front of what is more in it */
    LENGTHS,
    BY_ANYWHERE,
    BY_HOST,
    BY_DOMAIN,
    BY_PATH,
    BY_TARGET
};
_Static_assert((int)LENGTHS == POLICY_INDEX_LENGTHS, "policy.h has a set of lengths for each kind");

#define ANY_PORT (-2)
#define META "*?[\\"
#define PLACES_OF_PATTERN 2u

/* One entry of a key. */
struct policy_place {
    uint32_t next; /* number + 1 of the next one in the same list; 0: none */
    uint32_t tag;  /* of the key: others are in the list too */
    uint32_t target, pattern;
};

/* --- keys --- */

size_t index_plain_length(const char *glob)
{
    return span_until(glob, META);
}

bool index_is_glob(const struct pattern *pattern)
{
    return pattern->host[index_plain_length(pattern->host)] != '\0';
}

bool index_is_prefix(const char *glob)
{
    const size_t length = index_plain_length(glob);
    return glob[length] == '*' && glob[length + 1] == '\0';
}

static uint64_t begin_key(enum kind kind, size_t length, int32_t port)
{
    const uint32_t head[3] = {(uint32_t)kind, (uint32_t)length, (uint32_t)port};
    return hash_bytes(HASH_BEGIN, head, sizeof head);
}

static uint64_t network_key(enum endpoint_family family, const uint8_t *address, unsigned int prefix, int32_t port)
{
    const uint64_t key = begin_key(family == ENDPOINT_IPV4 ? BY_IPV4 : BY_IPV6, prefix, port);
    const uint64_t whole = hash_bytes(key, address, prefix / 8);
    if (prefix % 8 == 0)
        return whole;
    const uint8_t rest = (uint8_t)(address[prefix / 8] & (0xff00u >> prefix % 8));
    return hash_bytes(whole, &rest, 1);
}

/* A name without its final dot; any case. */
static uint64_t name_key(enum kind kind, const char *name, size_t length, int32_t port)
{
    uint64_t key = begin_key(kind, 0, port);
    for (size_t i = 0; i < length; i++) {
        const char byte = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
        key = hash_bytes(key, &byte, 1);
    }
    return key;
}

static uint64_t path_key(enum kind kind, bool abstract, const char *path, size_t length)
{
    return hash_bytes(begin_key(kind, length, abstract), path, length);
}

static int32_t port_of(const struct pattern *pattern)
{
    return pattern->port_first == pattern->port_last ? pattern->port_first : INDEX_PORTS;
}

static void note_length(struct policy_index *index, enum kind kind, size_t length)
{
    if (length / 64 < sizeof index->lengths[kind] / sizeof index->lengths[kind][0])
        index->lengths[kind][length / 64] |= UINT64_C(1) << length % 64;
}

static size_t path_keys(struct policy_index *index, const struct pattern *pattern, uint64_t keys[PLACES_OF_PATTERN])
{
    const bool abstract = pattern->network.abstract;
    const size_t length = index_plain_length(pattern->host), whole = strlen(pattern->host);
    if (length == whole) {
        keys[0] = path_key(BY_PATH, abstract, pattern->host, whole);
        return 1;
    }
    if (length > ENDPOINT_PATH_MAX)
        return 0; /* no path is so long */
    const enum kind kind = index_is_prefix(pattern->host) ? BY_PREFIX : BY_GLOB;
    note_length(index, kind, length);
    keys[0] = path_key(kind, abstract, pattern->host, length);
    keys[1] = path_key(BY_PATH, abstract, pattern->host, whole); /* its text, for those that look for one like it */
    return 2;
}

/* The keys under which the pattern is to be found. */
static size_t keys_of(struct policy_index *index, const struct pattern *pattern, uint64_t keys[PLACES_OF_PATTERN])
{
    const struct endpoint *network = &pattern->network;
    switch (pattern->kind) {
    case PATTERN_UNIX:
        return path_keys(index, pattern, keys);
    case PATTERN_NETWORK:
        if (network->family == ENDPOINT_NONE) {
            keys[0] = begin_key(BY_ANYWHERE, 0, port_of(pattern));
            return 1;
        }
        note_length(index, network->family == ENDPOINT_IPV4 ? BY_IPV4 : BY_IPV6, pattern->prefix);
        keys[0] = network_key(network->family, network->address, pattern->prefix, port_of(pattern));
        return 1;
    case PATTERN_HOST:
    case PATTERN_HOST_SUFFIX: {
        const enum kind kind = pattern->kind == PATTERN_HOST ? BY_HOST : BY_DOMAIN;
        const size_t length = strlen(pattern->host);
        keys[0] = name_key(kind, pattern->host, length, port_of(pattern));
        keys[1] = name_key(kind, pattern->host, length, ANY_PORT);
        return 2;
    }
    }
    return 0;
}

/* --- the table --- */

static size_t count_places(const struct policy *policy)
{
    size_t count = policy->target_count;
    for (size_t i = 0; i < policy->target_count; i++)
        count += policy->targets[i].pattern_count * PLACES_OF_PATTERN;
    return count;
}

/* A power of two. */
static size_t count_heads(size_t places)
{
    size_t heads = 4;
    while (heads < places)
        heads *= 2;
    return heads;
}

size_t index_size(const struct policy *policy)
{
    const size_t places = count_places(policy);
    return count_heads(places) * sizeof(uint32_t) + places * sizeof(struct policy_place);
}

static void enter(struct policy_index *index, uint32_t number, uint64_t key, size_t target, size_t pattern)
{
    const uint64_t hash = hash_spread(key);
    uint32_t *head = &index->heads[hash & index->mask];
    index->places[number] = (struct policy_place){*head, (uint32_t)(hash >> 32), (uint32_t)target, (uint32_t)pattern};
    *head = number + 1;
}

static uint64_t target_key(const char *name)
{
    return hash_bytes(begin_key(BY_TARGET, 0, ANY_PORT), name, strlen(name));
}

/* From the last to the first: whoever is entered comes to stand before those that have his key. */
void index_build(struct policy *policy, void *memory)
{
    struct policy_index *index = &policy->index;
    const size_t places = count_places(policy), heads = count_heads(places);
    *index = (struct policy_index){.heads = memory, .mask = (uint32_t)(heads - 1)};
    index->places = (struct policy_place *)(void *)((char *)memory + heads * sizeof(uint32_t));
    uint32_t number = (uint32_t)places;
    for (size_t i = policy->target_count; i-- > 0;) {
        const struct target *target = &policy->targets[i];
        for (size_t j = target->pattern_count; j-- > 0;) {
            uint64_t keys[PLACES_OF_PATTERN];
            number -= PLACES_OF_PATTERN;
            for (size_t k = keys_of(index, &target->patterns[j], keys); k-- > 0;)
                enter(index, number + (uint32_t)k, keys[k], i, j);
        }
        enter(index, --number, target_key(target->name), i, 0);
    }
}

const struct target *index_target(const struct policy *policy, const char *name)
{
    const struct policy_index *index = &policy->index;
    const uint64_t hash = hash_spread(target_key(name));
    if (policy->target_count == 0)
        return NULL;
    for (uint32_t at = index->heads[hash & index->mask]; at != 0; at = index->places[at - 1].next) {
        const struct policy_place *place = &index->places[at - 1];
        if (place->tag == (uint32_t)(hash >> 32) && strcmp(policy->targets[place->target].name, name) == 0)
            return &policy->targets[place->target];
    }
    return NULL;
}

/* --- searching --- */

struct search {
    const struct policy *policy;
    const struct index_query *query;
    index_chooser *chooses;
    const void *context;
    uint32_t best; /* number + 1 of the first place that was chosen; UINT32_MAX: none */
};

static void look(struct search *search, uint64_t key)
{
    const struct policy_index *index = &search->policy->index;
    const uint64_t hash = hash_spread(key);
    for (uint32_t at = index->heads[hash & index->mask]; at != 0 && at < search->best;
         at = index->places[at - 1].next) {
        const struct policy_place *place = &index->places[at - 1];
        if (place->tag == (uint32_t)(hash >> 32) &&
            search->chooses(&search->policy->targets[place->target].patterns[place->pattern], search->context))
            search->best = at;
    }
}

/* The next length from `from` on that keys of the kind have, up to `most`; -1: none. */
static int next_length(const struct policy_index *index, enum kind kind, size_t from, size_t most)
{
    for (size_t word = from / 64; word < sizeof index->lengths[kind] / sizeof index->lengths[kind][0]; word++) {
        uint64_t left = index->lengths[kind][word];
        if (word == from / 64)
            left &= ~UINT64_C(0) << from % 64;
        if (left != 0) {
            const size_t length = word * 64 + (size_t)__builtin_ctzll(left);
            return length <= most ? (int)length : -1;
        }
    }
    return -1;
}

static void look_at_networks(struct search *search, int32_t port)
{
    const struct index_query *query = search->query;
    const enum kind kind = query->family == ENDPOINT_IPV4 ? BY_IPV4 : BY_IPV6;
    if (query->anywhere)
        look(search, begin_key(BY_ANYWHERE, 0, port));
    if (query->address == NULL)
        return;
    const struct policy_index *index = &search->policy->index;
    for (int length = next_length(index, kind, 0, query->prefix); length >= 0;
         length = next_length(index, kind, (size_t)length + 1, query->prefix))
        look(search, network_key(query->family, query->address, (unsigned int)length, port));
}

/* A domain (".example.com") is under its own name and under those of which it is a part. */
static void look_at_names(struct search *search, int32_t port)
{
    const char *name = search->query->name;
    size_t length = strlen(name);
    if (length > 0 && name[length - 1] == '.')
        length--;
    look(search, name_key(BY_HOST, name, length, port));
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '.')
            look(search, name_key(BY_DOMAIN, name + i, length - i, port));
    }
    look(search, name_key(BY_DOMAIN, "", 0, port)); /* the root, under which all names are */
}

static void look_at_paths(struct search *search)
{
    const struct index_query *query = search->query;
    const struct policy_index *index = &search->policy->index;
    const size_t whole = strlen(query->path), plain = query->is_glob ? index_plain_length(query->path) : whole;
    look(search, path_key(BY_PATH, query->abstract, query->path, whole));
    for (enum kind kind = BY_PREFIX; kind <= BY_GLOB; kind++) {
        if (kind == BY_GLOB && query->is_glob)
            continue; /* which of two globs is the wider one is told only if they are alike, or one is a prefix */
        for (int length = next_length(index, kind, 0, plain); length >= 0;
             length = next_length(index, kind, (size_t)length + 1, plain))
            look(search, path_key(kind, query->abstract, query->path, (size_t)length));
    }
}

bool index_search(const struct policy *policy, const struct index_query *query, index_chooser *chooses,
                  const void *context, struct policy_match *match)
{
    struct search search = {policy, query, chooses, context, UINT32_MAX};
    if (policy->target_count == 0)
        return false;
    const int32_t ports[2] = {query->any_port ? ANY_PORT : query->port, INDEX_PORTS};
    const size_t port_count = query->any_port || query->port == INDEX_PORTS ? 1 : 2;
    for (size_t i = 0; i < port_count; i++) {
        if (query->address != NULL || query->anywhere)
            look_at_networks(&search, ports[i]);
        if (query->name != NULL)
            look_at_names(&search, ports[i]);
    }
    if (query->path != NULL)
        look_at_paths(&search);
    if (search.best == UINT32_MAX)
        return false;
    const struct policy_place *place = &policy->index.places[search.best - 1];
    match->target = &policy->targets[place->target];
    match->pattern = &match->target->patterns[place->pattern];
    return true;
}
