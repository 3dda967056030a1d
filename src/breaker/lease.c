/*
 * lease.c - the leases of the probes in flight.
 *
 * A slot goes round: free (token 0), claimed (token set, fields being filled), standing (its bit is in the word),
 * ended (its bit is cleared), free. A process may be killed between any two of these steps, and a signal handler may
 * siglongjmp away; what is left is found by the next who needs the slot:
 *   - claimed or ended, holder dead: taken back at once;
 *   - claimed or ended, holder alive, its deadline passed: taken back. Should the claimer only have slept between its
 *     claim and its CAS of the word, for a whole probe_timeout, then its bit stands without a token: lease_dead frees
 *     it.
 * Every loop runs over the slots or ends after a fixed number of rounds.
 */
#include "breaker/lease.h"

#include <stdatomic.h>
#include <stddef.h>

#include "breaker/word.h"

/* A CAS of `attempts` loses only to another attempt of the same lease, of which there are 8, each ending once. */
#define ATTEMPT_ROUNDS 64u
/*
 * A deadline that lies further back (3 months) is corrupt, or nobody called since: a word could not express the
 * sequel.
 */
#define DEADLINE_AGE_MAX_NS (UINT64_C(1) << 53)

/* No lease is longer (104 days); what says so is corrupt. */
#define TIMEOUT_MAX_NS (UINT64_C(1) << 53)

#define TRIED_SHIFT 8
#define FAILED_SHIFT 16
#define ADDRESS_MASK 0xffu
#define ATTEMPTS_DECIDED (UINT64_C(1) << 31)
#define SERIAL_SHIFT 32

_Static_assert((1u << CIRCUIT_ADDRESSES) - 1 == ADDRESS_MASK, "a bit for each address");

static uint32_t holder_of(uint64_t token)
{
    return (uint32_t)(token >> 32);
}

static uint32_t serial_of(uint64_t token)
{
    return (uint32_t)token;
}

static bool is_standing(uint32_t standing, unsigned int slot)
{
    return (standing >> slot & 1) != 0;
}

/* The bit of an address in a mask; 0 for ADDRESS_NONE and whatever else is no address. */
static uint32_t address_bit(int address)
{
    return address >= 0 && (unsigned int)address < CIRCUIT_ADDRESSES ? 1u << address : 0;
}

/* Relaxed: the token of a standing lease was published by the word, which the caller loaded with acquire. */
static uint64_t token_at(const struct circuit *circuit, unsigned int slot)
{
    return atomic_load_explicit(&circuit->leases[slot].token, memory_order_relaxed);
}

static bool is_alive(const struct caller *caller, uint32_t holder)
{
    return holder == caller->holder || caller->alive == NULL || caller->alive(holder, caller->context);
}

/*
 * When the lease runs out, for one whose leases last `timeout_ns` (0: not known); never after `now_ns` if the deadline
 * can't be believed. Relaxed: published by the word, like the token, or by `attempts`.
 */
static uint64_t deadline_of(const struct lease *lease, uint64_t timeout_ns, uint64_t now_ns)
{
    uint64_t deadline = atomic_load_explicit(&lease->deadline_ns, memory_order_relaxed);
    uint64_t lasts = atomic_load_explicit(&lease->timeout_ns, memory_order_relaxed);

    if (time_reached(now_ns, deadline) || timeout_ns == 0 || time_can_be_ahead(deadline - now_ns, timeout_ns) ||
        (lasts <= TIMEOUT_MAX_NS && time_can_be_ahead(deadline - now_ns, lasts)))
        return deadline;
    return now_ns;
}

/* Whether a slot that is claimed but not standing was abandoned, see the top of this file. */
static bool is_abandoned(const struct lease *lease, uint64_t token, const struct caller *caller, uint64_t timeout_ns,
                         uint64_t now_ns)
{
    /*
     * Acquire: pairs with the release of `attempts` in lease_claim. With this token's serial, the deadline is its
     * own.
     */
    uint64_t attempts = atomic_load_explicit(&lease->attempts, memory_order_acquire);

    if (attempts >> SERIAL_SHIFT == serial_of(token) && time_reached(now_ns, deadline_of(lease, timeout_ns, now_ns)))
        return true;
    return !is_alive(caller, holder_of(token));
}

/* Puts `token` into the slot if it still has `expected`. */
static bool slot_take(struct lease *lease, uint64_t expected, uint64_t token)
{
    /*
     * Acquire: the fields are filled only after the slot is ours, and after all that its former holder did. Release is
     * not needed: nobody reads the fields for this token before the word, or `attempts`, publishes them.
     */
    return atomic_compare_exchange_strong_explicit(&lease->token, &expected, token, memory_order_acquire,
                                                   memory_order_relaxed);
}

static int slot_claim(struct circuit *circuit, const struct caller *caller, uint32_t standing, uint64_t now_ns,
                      uint64_t timeout_ns, uint64_t token)
{
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        /* A standing slot without a token is no free one: its lease was lost, and goes by lease_dead. */
        if (!is_standing(standing, slot) && slot_take(&circuit->leases[slot], 0, token))
            return (int)slot;
    }
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        uint64_t former = token_at(circuit, slot);

        if (!is_standing(standing, slot) && former != 0 &&
            is_abandoned(&circuit->leases[slot], former, caller, timeout_ns, now_ns) &&
            slot_take(&circuit->leases[slot], former, token))
            return (int)slot;
    }
    return LEASE_NONE;
}

int lease_claim(struct circuit *circuit, const struct caller *caller, uint32_t standing, uint64_t now_ns,
                uint64_t timeout_ns, uint64_t *token)
{
    uint64_t serial = serial_draw(circuit, 32);

    *token = (uint64_t)caller->holder << 32 | serial;
    int slot = slot_claim(circuit, caller, standing, now_ns, timeout_ns, *token);
    if (slot == LEASE_NONE)
        return LEASE_NONE;

    uint32_t tried = address_bit(caller->address);
    uint64_t attempts = (caller->addresses & ADDRESS_MASK) | tried | (uint64_t)tried << TRIED_SHIFT;
    struct lease *lease = &circuit->leases[slot];
    atomic_store_explicit(&lease->deadline_ns, time_after(now_ns, timeout_ns), memory_order_relaxed);
    atomic_store_explicit(&lease->timeout_ns, timeout_ns, memory_order_relaxed);
    /* Release: the deadline before the serial that vouches for it. The CAS of the word publishes both to the others. */
    atomic_store_explicit(&lease->attempts, serial << SERIAL_SHIFT | attempts, memory_order_release);
    return slot;
}

void lease_release(struct circuit *circuit, int slot, uint64_t token)
{
    /* Release: what this thread read and wrote in the slot comes before the next claim. */
    atomic_compare_exchange_strong_explicit(&circuit->leases[slot].token, &token, 0, memory_order_release,
                                            memory_order_relaxed);
}

struct lease_tokens lease_tokens(const struct circuit *circuit, uint32_t standing)
{
    struct lease_tokens tokens = {{0}};

    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        if (is_standing(standing, slot))
            tokens.at[slot] = token_at(circuit, slot);
    }
    return tokens;
}

void lease_release_all(struct circuit *circuit, const struct lease_tokens *tokens)
{
    for (int slot = 0; slot < (int)CIRCUIT_LEASES; slot++) {
        if (tokens->at[slot] != 0)
            lease_release(circuit, slot, tokens->at[slot]);
    }
}

int lease_find(const struct circuit *circuit, uint32_t standing, uint64_t token)
{
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        if (is_standing(standing, slot) && token_at(circuit, slot) == token)
            return (int)slot;
    }
    return LEASE_NONE;
}

bool lease_expired(const struct circuit *circuit, const struct settings *settings, uint32_t standing, uint64_t now_ns,
                   uint64_t *deadline_ns, uint64_t *token)
{
    bool expired = false;

    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        uint64_t deadline = deadline_of(&circuit->leases[slot], settings->probe_timeout_ns, now_ns);

        if (is_standing(standing, slot) && time_reached(now_ns, deadline) && (!expired || deadline < *deadline_ns)) {
            *deadline_ns = deadline;
            *token = token_at(circuit, slot);
            expired = true;
        }
    }
    if (expired && now_ns - *deadline_ns > DEADLINE_AGE_MAX_NS)
        *deadline_ns = now_ns - DEADLINE_AGE_MAX_NS;
    return expired;
}

uint32_t lease_living(const struct circuit *circuit, uint32_t standing, holder_alive_fn *alive, void *context)
{
    uint32_t living = 0;

    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        uint32_t holder = is_standing(standing, slot) ? (uint32_t)(token_at(circuit, slot) >> 32) : 0;

        living += holder != 0 && alive(holder, context);
    }
    return living;
}

uint32_t lease_dead(const struct circuit *circuit, uint32_t standing, const struct caller *caller)
{
    uint32_t dead = 0;

    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++) {
        if (!is_standing(standing, slot))
            continue;
        uint64_t token = token_at(circuit, slot);
        if (token == 0 || !is_alive(caller, holder_of(token)))
            dead |= 1u << slot;
    }
    return dead;
}

int lease_join(struct circuit *circuit, uint32_t standing, const struct caller *caller, uint64_t *token)
{
    uint32_t bit = address_bit(caller->address);

    for (unsigned int slot = 0; bit != 0 && slot < CIRCUIT_LEASES; slot++) {
        *token = token_at(circuit, slot);
        if (!is_standing(standing, slot) || holder_of(*token) != caller->holder)
            continue;

        struct lease *lease = &circuit->leases[slot];
        /* Relaxed: published by the word. */
        uint64_t attempts = atomic_load_explicit(&lease->attempts, memory_order_relaxed);
        for (unsigned int round = 0; round < ATTEMPT_ROUNDS; round++) {
            uint32_t tried = (uint32_t)(attempts >> TRIED_SHIFT) & ADDRESS_MASK;

            /* A probe that tried no address by its index may have tried just this one. */
            if (attempts >> SERIAL_SHIFT != serial_of(*token) || (attempts & ATTEMPTS_DECIDED) != 0 || tried == 0 ||
                (tried & bit) != 0)
                break;
            uint64_t joined = attempts | (uint64_t)bit << TRIED_SHIFT | bit | (caller->addresses & ADDRESS_MASK);
            /*
             * Acquire and release: the word is looked at again after this, and whoever decides the probe by a later
             * change of `attempts` sees this attempt in it.
             */
            if (atomic_compare_exchange_strong_explicit(&lease->attempts, &attempts, joined, memory_order_acq_rel,
                                                        memory_order_relaxed))
                return (int)slot;
        }
    }
    return LEASE_NONE;
}

/*
 * What `attempts` becomes when the attempt to `bit` ends (0: its address is not known), with DECIDED if nothing is
 * left.
 */
static uint64_t after_failure(uint64_t attempts, uint32_t bit)
{
    attempts |= (uint64_t)bit << FAILED_SHIFT;
    uint64_t left = attempts & ~(attempts >> FAILED_SHIFT) & ADDRESS_MASK;
    return bit == 0 || left == 0 ? attempts | ATTEMPTS_DECIDED : attempts;
}

static uint64_t after_return(uint64_t attempts, uint32_t bit)
{
    attempts &= ~((uint64_t)bit << TRIED_SHIFT);
    uint64_t in_flight = attempts >> TRIED_SHIFT & ~(attempts >> FAILED_SHIFT) & ADDRESS_MASK;
    return in_flight == 0 ? attempts | ATTEMPTS_DECIDED : attempts;
}

static enum lease_rest attempt_ended(struct circuit *circuit, int slot, uint64_t token, int address,
                                     uint64_t (*after)(uint64_t attempts, uint32_t bit))
{
    struct lease *lease = &circuit->leases[slot];
    /* Relaxed: published by the word; a change by another attempt since then is seen by the CAS. */
    uint64_t attempts = atomic_load_explicit(&lease->attempts, memory_order_relaxed);

    for (unsigned int round = 0; round < ATTEMPT_ROUNDS; round++) {
        if (attempts >> SERIAL_SHIFT != serial_of(token))
            return LEASE_LOST;
        uint64_t next = after(attempts, address_bit(address));
        /* Acquire and release: of several attempts that end at once, the last one sees all the others' ends. */
        if (atomic_compare_exchange_strong_explicit(&lease->attempts, &attempts, next, memory_order_acq_rel,
                                                    memory_order_relaxed))
            return (next & ATTEMPTS_DECIDED) != 0 ? LEASE_DECIDED : LEASE_GOES_ON;
    }
    return LEASE_LOST;
}

enum lease_rest lease_attempt_failed(struct circuit *circuit, int slot, uint64_t token, int address)
{
    return attempt_ended(circuit, slot, token, address, after_failure);
}

enum lease_rest lease_attempt_returned(struct circuit *circuit, int slot, uint64_t token, int address)
{
    return attempt_ended(circuit, slot, token, address, after_return);
}

bool lease_attempt_stands(const struct circuit *circuit, int slot, uint64_t token, int address)
{
    const uint64_t attempts = atomic_load_explicit(&circuit->leases[slot].attempts, memory_order_relaxed);
    const uint64_t in_flight = attempts >> TRIED_SHIFT & ~(attempts >> FAILED_SHIFT), bit = address_bit(address);

    return attempts >> SERIAL_SHIFT == serial_of(token) &&
           ((attempts & ATTEMPTS_DECIDED) != 0 || bit == 0 || (in_flight & bit) != 0);
}
