/*
 * edited_policy.c - an edited policy is taken into a running process. See edited_policy.h.
 *
 * The claim names the process's lineage: a fork's child that has its parent's claim, but not what the parent made of
 * it, takes the policy itself.
 */
#define _GNU_SOURCE
#include "connection/edited_policy.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/undisturbed.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "policy/flat.h"
#include "segment/handover.h"
#include "segment/processes.h"

static uint64_t claim_on(uint32_t number)
{
    return (uint64_t)lineage_epoch() << 32 | number;
}

/* Another thread is at it. */
static bool is_taken(struct station *station, uint32_t number)
{
    return atomic_load_explicit(&station->reload_claim, memory_order_relaxed) == claim_on(number);
}

/* One thread of this process takes a handover. */
static bool takes_it(struct station *station, uint32_t number)
{
    uint64_t present = atomic_load_explicit(&station->reload_claim, memory_order_relaxed);
    uint64_t mine = claim_on(number);
    return present != mine && atomic_compare_exchange_strong_explicit(&station->reload_claim, &present, mine,
                                                                      memory_order_acquire, memory_order_relaxed);
}

/* What was handed over, if it is a policy, comes into force. Returns what became of it. */
OWN_FRAME static uint32_t take_policy(const void *bytes, size_t size)
{
    const char *why;
    void *room = policy_keeping_room(size);
    if (!room)
        return RELOAD_NO_MEMORY;
    const struct policy *former = policy_keeping_hold();
    const struct policy *policy = policy_unfold(memcpy(room, bytes, size), size, former->identity, &why);
    policy_keeping_drop(former);
    if (policy) {
        engine_take_policy(policy);
        policy_keeping_sweep();
    }
    policy_keeping_made(room);
    return policy ? RELOAD_TAKEN : RELOAD_REFUSED + flat_fault_of(why);
}

/* What there was no memory for is tried again once a second, not at each call. */
static bool is_due(struct station *station)
{
    uint64_t after_ns = station ? atomic_load_explicit(&station->reload_after_ns, memory_order_relaxed) : 0;
    return after_ns == 0 || clock_real_ns() >= after_ns;
}

/* Takes what was handed over, for all threads, and says what became of it. */
OWN_FRAME static void take(struct station *station, uint32_t number)
{
    size_t size;
    bool again;
    void *bytes = handover_read(&station->segment, POLICY_FLAT_MAX, &size, &again);
    uint32_t answer = again ? RELOAD_NO_MEMORY : RELOAD_UNREADABLE;
    if (bytes) {
        answer = take_policy(bytes, size);
        again = answer == RELOAD_NO_MEMORY;
        handover_free(bytes, size);
    }
    atomic_store_explicit(&station->reload_answer, (uint64_t)number << 32 | answer, memory_order_relaxed);
    process_answers(&station->segment, station->guard.holder, number, answer);
    /*
     * Seen also where it was no good: it does not become better by being read again and again. What could not be read
     * for want of memory is left to a later call.
     */
    if (again) {
        atomic_store_explicit(&station->reload_after_ns, clock_real_ns() + NS_PER_S, memory_order_relaxed);
        atomic_store_explicit(&station->reload_claim, 0, memory_order_relaxed);
    } else {
        atomic_store_explicit(&station->reloads_seen, number, memory_order_release);
    }
}

void edited_policy_take(uint32_t number)
{
    int keep = errno;
    if (!is_due(engine_station_now(SCOPE_HOST)))
        return;
    /* A vfork's child runs in its parent's memory, and is about to be another program. */
    struct station *station = lineage_is_borrowed() ? NULL : engine_station(SCOPE_HOST);
    if (station && !is_taken(station, number)) {
        /* Jumped out of, the claim would stand, and no thread of the process would ever take the policy. */
        struct undisturbed before;
        undisturbed_begin(&before);
        if (takes_it(station, number))
            take(station, number);
        undisturbed_end(&before);
    }
    errno = keep;
}
