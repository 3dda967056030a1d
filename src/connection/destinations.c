/*
 * destinations.c - from an address to its target and circuit, and what is kept of the last ones. See destinations.h.
 */
#define _GNU_SOURCE
#include "connection/destinations.h"

#include <stdatomic.h>
#include <string.h>

#include "base/frame.h"
#include "base/hot.h"
#include "base/hash.h"
#include "base/seqlock.h"
#include "base/shared.h"
#include "connection/engine.h"
#include "connection/names.h"
#include "segment/circuits.h"

#define NAMES_TRIED 4u /* names of one address that are held against the policy */
#define KEPT 32u       /* a power of two */

/* --- the long way --- */

/* Under which of its names the policy has the address: of those that it has, the most recent. */
static bool find_name(const struct policy *policy, const struct endpoint *endpoint, struct host_name *name)
{
    uint32_t answer = NAMES_BEGIN;
    for (unsigned int i = 0; i < NAMES_TRIED && names_next(endpoint, &answer, name); i++)
        if (policy_names(policy, endpoint, name->text))
            return true;
    return false;
}

/*
 * All but the circuit's index, and the destination's text. Not in line: its name has gone from the stack before the
 * segment is asked.
 */
OWN_FRAME static bool find(struct destination *destination, char text[DESTINATION_MAX])
{
    struct host_name name;
    struct policy_match match;
    const char *const names[1] = {name.text};
    const struct policy *policy = destination->policy;
    const struct endpoint *endpoint = &destination->endpoint;
    bool named = policy->has_host_patterns && endpoint->family != ENDPOINT_UNIX && find_name(policy, endpoint, &name);
    if (!policy_match(policy, endpoint, names, named, &match) || match.target->mode == MODE_OFF)
        return false;
    destination->target = match.target;
    destination->sibling_count = 0;
    if (match.name >= 0 && match.target->circuit != CIRCUIT_BY_ADDRESS)
        destination->sibling_count = names_siblings(&name, endpoint->port, destination->siblings, CIRCUIT_ADDRESSES);
    destination->address_key = endpoint_hash(endpoint);
    return policy_destination(&match, endpoint, names, text, DESTINATION_MAX) > 0;
}

/* --- what is kept --- */

/* What a search goes by. */
struct question {
    uint8_t address[16];
    uint32_t scope_id;
    uint16_t port, family;
    uint64_t policy;
    uint32_t policies, names; /* how many there were */
};

struct answer {
    uint64_t target, address_key, circuit_key, sibling_count;
};

/*
 * Read and written by atomic words, since it may be rewritten while it is read. What is left half written (a handler
 * jumps out of it, another thread forks) is never used again: one place of many, and nobody waits for it.
 */
struct kept {
    struct seqlock lock;
    _Atomic uint64_t question[WORDS(struct question)];
    _Atomic uint64_t answer[WORDS(struct answer)];
    _Atomic uint64_t siblings[CIRCUIT_ADDRESSES];
};

static struct kept table[KEPT]; /* a root of this file alone */

/* False: it is no address that is kept. */
static bool ask(const struct destination *destination, struct question *question)
{
    const struct endpoint *endpoint = &destination->endpoint;
    if (endpoint->family == ENDPOINT_UNIX)
        return false;
    memcpy(question->address, endpoint->address, sizeof question->address);
    question->scope_id = endpoint->scope_id;
    question->port = endpoint->port;
    question->family = (uint16_t)endpoint->family;
    question->policy = (uintptr_t)destination->policy;
    question->policies = engine_policies();
    question->names = names_changes();
    return true;
}

static struct kept *place_of(const struct question *question)
{
    uint64_t halves[2];
    memcpy(halves, question->address, sizeof halves);
    return &table[hash_spread(halves[0] ^ halves[1] * HASH_STEP ^ question->port) % KEPT];
}

HOT static bool recall(const struct question *question, struct destination *destination)
{
    const struct kept *kept = place_of(question);
    struct answer answer;
    uint32_t version;
    if (UNLIKELY(!seqlock_look(&kept->lock, &version)))
        return false;
    if (UNLIKELY(!words_are(kept->question, question, WORDS(struct question))))
        return false;
    words_load(&answer, kept->answer, WORDS(struct answer));
    if (UNLIKELY(answer.sibling_count > CIRCUIT_ADDRESSES))
        return false;
    words_load(destination->siblings, kept->siblings, (size_t)answer.sibling_count);
    destination->target = (const struct target *)(uintptr_t)answer.target;
    destination->address_key = answer.address_key;
    destination->circuit_key = answer.circuit_key;
    destination->sibling_count = (size_t)answer.sibling_count;
    return seqlock_stands(&kept->lock, version);
}

static void keep(const struct question *question, const struct destination *destination)
{
    struct kept *kept = place_of(question);
    const struct answer answer = {(uintptr_t)destination->target, destination->address_key, destination->circuit_key,
                                  destination->sibling_count};
    uint32_t version;
    if (!seqlock_look(&kept->lock, &version))
        return;
    const uint32_t mine = seqlock_begin(&kept->lock, version);
    if (mine == 0)
        return;
    words_store(kept->question, question, WORDS(struct question));
    words_store(kept->answer, &answer, WORDS(struct answer));
    words_store(kept->siblings, destination->siblings, destination->sibling_count);
    seqlock_end(&kept->lock, mine);
}

/* --- asking --- */

/* Not in line, for its texts. */
SELDOM static bool find_and_keep(struct destination *destination, const struct question *question)
{
    char text[DESTINATION_MAX];
    if (!find(destination, text))
        return false;
    destination->circuit_key = circuits_key(destination->target->name, text);
    if (question)
        keep(question, destination);
    return true;
}

HOT bool destinations_find(const struct policy *policy, const struct sockaddr *address, socklen_t length,
                           struct destination *destination)
{
    struct question question;
    if (!endpoint_from_sockaddr(&destination->endpoint, address, length))
        return false;
    destination->policy = policy;
    /* Asked before anything is looked up: what changes meanwhile makes the answer one that is not found again. */
    bool kept = ask(destination, &question);
    return LIKELY(kept && recall(&question, destination)) || find_and_keep(destination, kept ? &question : NULL);
}

/* Its text is made again, which is seldom. Should it be another target's by now, this attempt has no circuit. */
SELDOM static uint32_t make_circuit(struct segment *segment, struct destination *destination, uint64_t now_ns)
{
    const struct target *target = destination->target;
    char text[DESTINATION_MAX];
    if (!find(destination, text) || destination->target != target) {
        destination->target = target;
        return CIRCUIT_INDEX_NONE;
    }
    return circuits_find(segment, target->name, text, now_ns);
}

HOT uint32_t destinations_circuit(struct segment *segment, struct destination *destination, uint64_t now_ns)
{
    uint32_t circuit = circuits_in_use(segment, destination->circuit_key, now_ns);
    return LIKELY(circuit != CIRCUIT_INDEX_NONE) ? circuit : make_circuit(segment, destination, now_ns);
}
