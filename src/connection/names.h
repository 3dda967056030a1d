/*
 * names.h - by which names this program came to an address.
 *
 * getaddrinfo and its elders are watched, so that a policy may name hosts. The table is per process, since the thread
 * that resolves is often not the one that connects (curl, node). Fixed size; only names that the policy wants are kept.
 * Readers never wait: an entry that is just being written is not seen. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_CONNECTION_NAMES_H
#define SOCKFUSE_CONNECTION_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/endpoint.h"

#define NAMES_MAX 256 /* (name, address) pairs that are remembered */

/* A number for one answer of the resolver: all its addresses are noted under it. */
uint32_t names_new_answer(void);
/* Notes that `name` led to the address (its port is ignored). The oldest pair gives its place. */
void names_note(uint32_t answer, const char *name, const struct endpoint *address);

/* As the table keeps it: lower case, without the final dot, zeros behind it. */
struct host_name {
    _Alignas(8) char text[HOST_NAME_SIZE];
};

/*
 * The names that led to an address, the most recent first: begin with NAMES_BEGIN, and go on with what `answer` is set
 * to. One at a time, for a thread's stack may be small. False: there is no further one.
 */
#define NAMES_BEGIN UINT32_MAX
bool names_next(const struct endpoint *address, uint32_t *answer, struct host_name *name);
/* Another number whenever a pair was noted since: what was found before may not be what is found now. */
uint32_t names_changes(void);
/* Endpoint hashes, with this port, of all addresses in the latest answer for `name`. Returns how many. */
size_t names_siblings(const struct host_name *name, uint16_t port, uint64_t *hashes, size_t limit);

#endif
