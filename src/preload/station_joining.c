/*
 * station_joining.c - how a process joins the segment of a station, and joins it anew. See station_joining.h.
 */
#define _GNU_SOURCE
#include "preload/station_joining.h"

#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/hot.h"
#include "base/undisturbed.h"
#include "connection/engine.h"
#include "connection/left_behind.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "connection/still_hangs.h"
#include "segment/editions.h"
#include "segment/handover.h"
#include "segment/processes.h"

#define TRY_AGAIN_NS NS_PER_S /* after a vain try to join: it asks for a few others each time */

static uint32_t join(struct station *station, const struct policy *policy)
{
    bool is_start = !atomic_load_explicit(&engine.ready, memory_order_relaxed), is_known = true;
    uint32_t holder = is_start ? process_join_briefly(&station->segment, engine.program, policy->revision, &is_known)
                               : process_join(&station->segment, engine.program, policy->revision);
    atomic_store_explicit(&station->guard.is_brief, !is_known, memory_order_relaxed);
    if (holder && engine.keeps_policy)
        process_runs(&station->segment, holder, policy->revision, true);
    /* A fork's child has looked at what its parent has. */
    uint64_t answer = atomic_load_explicit(&station->reload_answer, memory_order_relaxed);
    if (holder && answer != 0)
        process_answers(&station->segment, holder, (uint32_t)(answer >> 32), (uint32_t)answer);
    return holder;
}

/*
 * Who is late with the holder of the segment that lay at these addresses before is nobody in this one: the holder is
 * another, though both were fresh.
 */
static uint32_t join_as_another(struct station *station, const struct policy *policy, uint32_t former)
{
    uint32_t holder = join(station, policy);
    if (holder == 0 || holder != former)
        return holder;
    process_leave(&station->segment, holder);
    return join(station, policy);
}

/* What was handed over before our policy was read is in it; what came between that and now may not be. */
static void watch_reloads(struct station *station)
{
    station->reloads = handover_number(&station->segment);
    uint32_t number = atomic_load_explicit(station->reloads, memory_order_acquire);
    bool missed = handover_was_since(&station->segment, engine.loaded_ns);
    atomic_store_explicit(&station->reloads_seen, missed ? number - 1 : number, memory_order_relaxed);
}

/* What this process runs is to be read by others, also when the policy's file says something else by then. */
static void keep_edition(struct station *station)
{
    const struct policy *policy = policy_keeping_hold();
    editions_keep(&station->segment, policy->revision, policy->text,
                  !atomic_load_explicit(&engine.ready, memory_order_relaxed));
    policy_keeping_drop(policy);
}

/* For struct guard. */
static const struct target *target_named(const char *name, void *context)
{
    (void)context;
    return policy_target_named(engine_policy(), name);
}

OWN_FRAME void station_equip(struct station *station, bool is_private, bool apart)
{
    const struct policy *policy = engine_policy();
    station->apart = apart;
    station->is_clear = false;
    station->guard.segment = &station->segment;
    station->guard.pid = lineage_pid();
    station->guard.still_hangs = still_hangs;
    station->guard.keeps = left_behind_keeps;
    station->guard.target_named = target_named;
    station->guard.context = station;
    station->guard.takes_short_way = true;
    station->guard.log = engine.log;
    memcpy(station->guard.program, engine.program, sizeof engine.program);
    atomic_store_explicit(&station->guard.ask_after_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&station->guard.need_after_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&station->guard.lost_after_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&station->guard.lost_round, 0, memory_order_relaxed);
    atomic_store_explicit(&station->guard.sharers_cursor, 0, memory_order_relaxed);
    atomic_store_explicit(&station->reload_claim, 0, memory_order_relaxed);
    atomic_store_explicit(&station->reload_after_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&station->reload_answer, 0, memory_order_relaxed);
    station->guard.holder = join_as_another(station, policy, station->guard.holder);
    if (!is_private)
        keep_edition(station);
    if (is_private || engine.keeps_policy)
        station->reloads = NULL;
    else
        watch_reloads(station);
    atomic_store_explicit(&station->identity, (uint64_t)lineage_epoch() << 32 | station->guard.holder,
                          memory_order_release);
}

/* Whether it is time for one thread to look for a place again. */
static bool may_try_again(struct station *station)
{
    uint64_t now_ns = clock_real_ns(), tried_ns = atomic_load_explicit(&station->tried_ns, memory_order_relaxed);
    return now_ns - tried_ns >= TRY_AGAIN_NS &&
           atomic_compare_exchange_strong_explicit(&station->tried_ns, &tried_ns, now_ns, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Joins, unless another thread was faster; returns the identity that stands. Jumped out of, it would keep a place. */
OWN_FRAME static uint64_t join_anew(struct station *station, uint64_t present, uint32_t epoch)
{
    struct undisturbed before;
    undisturbed_begin(&before);
    uint32_t holder = join(station, engine_policy());
    uint64_t mine = (uint64_t)epoch << 32 | holder;
    if (atomic_compare_exchange_strong_explicit(&station->identity, &present, mine, memory_order_acq_rel,
                                                memory_order_acquire))
        present = mine;
    else
        process_leave(station->guard.segment, holder);
    undisturbed_end(&before);
    return present;
}

/*
 * After a fork the child joins with a slot of its own. Its threads may race: one identity stands, and each thread
 * copies its holder, which is the same for all, before it goes on.
 */
SELDOM static void adopt(struct station *station, uint32_t epoch)
{
    uint64_t present = atomic_load_explicit(&station->identity, memory_order_acquire);
    if (present >> 32 != epoch || ((uint32_t)present == 0 && may_try_again(station))) {
        if (present >> 32 != epoch && segment_is_private(&station->segment))
            guard_disown(&station->segment, (uint32_t)present);
        present = join_anew(station, present, epoch);
    }
    if (station->guard.holder != (uint32_t)present) {
        station->guard.pid = lineage_pid();
        station->guard.holder = (uint32_t)present;
    }
}

struct station *engine_station_now(enum target_scope scope)
{
    return scope == SCOPE_PROCESS ? atomic_load_explicit(&engine.process, memory_order_acquire)
                                  : atomic_load_explicit(&engine.host, memory_order_acquire);
}

HOT struct station *engine_station(enum target_scope scope)
{
    struct station *station = engine_station_now(scope);
    if (UNLIKELY(!station))
        return NULL;
    const uint64_t present = atomic_load_explicit(&station->identity, memory_order_acquire);
    const uint32_t epoch = lineage_epoch();
    if (UNLIKELY(present >> 32 != epoch || (uint32_t)present == 0 || station->guard.holder != (uint32_t)present))
        adopt(station, epoch);
    return station->guard.holder ? station : NULL;
}

void station_give_up_lost_place(struct station *station)
{
    uint64_t mine = atomic_load_explicit(&station->identity, memory_order_acquire);
    uint32_t holder = (uint32_t)mine;
    if (holder == 0 || mine >> 32 != lineage_epoch() || process_asked(&station->segment, holder) != NULL ||
        lineage_is_borrowed())
        return;
    process_leave(&station->segment, holder); /* its proof */
    atomic_compare_exchange_strong_explicit(&station->identity, &mine, mine - holder, memory_order_release,
                                            memory_order_relaxed);
}
