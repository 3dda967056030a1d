/*
 * lease.h - the leases of the probes in flight: who holds one, until when, and which addresses it has tried.
 *
 * Private to src/breaker. `standing` is everywhere the lease bits of a word that was
 * loaded with acquire: only those leases count. Nothing here changes the word; whoever acts on what it learned here
 * does so by a CAS of that word, which fails if any lease has come or gone since.
 */
#ifndef SOCKFUSE_BREAKER_LEASE_H
#define SOCKFUSE_BREAKER_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit_model.h"

#define LEASE_NONE (-1)

/*
 * Claims a free slot for the caller and fills it: the lease begins when its bit is put into the word. A slot that a
 * dead process left claimed is taken back. LEASE_NONE if there is none: then at least CIRCUIT_LEASES others are at
 * it.
 */
int lease_claim(struct circuit *circuit, const struct caller *caller, uint32_t standing, uint64_t now_ns,
                uint64_t timeout_ns, uint64_t *token);
/* Frees a slot whose bit is not, or no longer, in the word. Does nothing if it has another token by now. */
void lease_release(struct circuit *circuit, int slot, uint64_t token);

/* The tokens of the standing leases, taken before the CAS that ends them; lease_release_all frees those after it. */
struct lease_tokens {
    uint64_t at[CIRCUIT_LEASES]; /* 0: not standing */
};
struct lease_tokens lease_tokens(const struct circuit *circuit, uint32_t standing);
void lease_release_all(struct circuit *circuit, const struct lease_tokens *tokens);

/* The slot of the standing lease with that token, or LEASE_NONE. */
int lease_find(const struct circuit *circuit, uint32_t standing, uint64_t token);
/*
 * Whether a standing lease has reached its deadline; `deadline_ns` is the earliest such deadline, never after
 * `now_ns`, and `token` that lease's. One that lies further ahead than a lease lasts, by the settings or when it was taken, was set by another
 * clock or is corrupt: that lease runs out now.
 */
bool lease_expired(const struct circuit *circuit, const struct settings *settings, uint32_t standing, uint64_t now_ns,
                   uint64_t *deadline_ns, uint64_t *token);
/* How many standing leases have a living holder, as `alive` says. */
uint32_t lease_living(const struct circuit *circuit, uint32_t standing, holder_alive_fn *alive, void *context);
/* The standing leases whose holders are dead; the caller's own are not asked about. */
uint32_t lease_dead(const struct circuit *circuit, uint32_t standing, const struct caller *caller);

/*
 * Adds the caller's address to a probe that its process holds and that has not tried this address. The slot, or
 * LEASE_NONE. The lease may have ended meanwhile: look at the word again before believing it.
 */
int lease_join(struct circuit *circuit, uint32_t standing, const struct caller *caller, uint64_t *token);

/* What is left of a probe after one of its attempts ended. */
enum lease_rest {
    LEASE_GOES_ON, /* other attempts are in flight or still to come */
    LEASE_DECIDED, /* nothing is left: the probe is over, and nobody joins it any more */
    LEASE_LOST,    /* the slot has another lease by now */
};
/* The attempt to `address` failed. DECIDED when no known address is left, or when the address is not known. */
enum lease_rest lease_attempt_failed(struct circuit *circuit, int slot, uint64_t token, int address);
/* Whether the attempt to `address` has not ended, or the probe is over and its lease stands all the same. */
bool lease_attempt_stands(const struct circuit *circuit, int slot, uint64_t token, int address);
/* The attempt to `address` proved nothing; it may be tried again. DECIDED when no attempt is in flight any more. */
enum lease_rest lease_attempt_returned(struct circuit *circuit, int slot, uint64_t token, int address);

#endif
