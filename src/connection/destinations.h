/*
 * destinations.h - where an attempt goes: the target that takes it, and its circuit.
 *
 * Which target takes an address goes by the policy and by the names that led to it, and a circuit goes by texts: that
 * is half of what an admission costs. So the answers to the last few addresses are kept (per process, of fixed size,
 * without a lock), each for as long as nothing was noted of a name and no other policy came into force. What is kept of
 * the circuit is its key, which is looked up in whatever segment is the present one: places change hands, keys do not.
 * Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_CONNECTION_DESTINATIONS_H
#define SOCKFUSE_CONNECTION_DESTINATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "breaker/circuit.h"
#include "connection/station.h"
#include "policy/policy.h"

struct destination {
    const struct policy *policy;
    const struct target *target;
    struct endpoint endpoint;
    uint64_t address_key; /* the endpoint's hash */
    uint64_t circuit_key; /* as segment/circuits.h has it */
    uint64_t siblings[CIRCUIT_ADDRESSES];
    size_t sibling_count;
    /* The caller's: */
    struct station *station;
    uint32_t serial, circuit; /* of the station, and there */
};

/* False: no target takes it. The policy is held meanwhile (policy_keeping.h). */
bool destinations_find(const struct policy *policy, const struct sockaddr *address, socklen_t length,
                       struct destination *destination);
/* The index of its circuit; made if it is missing. CIRCUIT_INDEX_NONE: no place. */
uint32_t destinations_circuit(struct segment *segment, struct destination *destination, uint64_t now_ns);

#endif
