/*
 * attaching.c - attaching, and attaching anew. See station.h.
 */
#define _GNU_SOURCE
#include "connection/station.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/log.h"
#include "base/text.h"
#include "base/undisturbed.h"
#include "breaker/counters.h"
#include "connection/engine.h"
#include "connection/left_behind.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "preload/station_places.h"
#include "segment/circuits.h"
#include "segment/editions.h"
#include "segment/handover.h"
#include "segment/processes.h"
#include "segment/vanished.h"

#define ASK_DELETED_NS (60 * NS_PER_S)
#define TRY_AGAIN_NS NS_PER_S /* after a vain try to join: it asks for a few others each time */
#define NOTE_USE_NS NS_PER_HOUR

static struct state_places places;
static struct standpoint standpoint;
static const char *identity;              /* the policy's: the same after a reload */
static _Atomic uint32_t working;          /* the lineage's epoch while one of its threads changes stations; else 0 */
static _Atomic uint64_t asked_deleted_ns; /* real clock */
static _Atomic uint64_t noted_use_ns;     /* real clock: when it was last noted that the segment is in use */

/* --- words ------------------------------------------------------------------------------------------------------- */

/* Once in a process's life. */
__attribute__((noinline)) static void say_apart(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char line[400];
    struct text text;
    if (atomic_flag_test_and_set(&said))
        return;
    text_start(&text, line, sizeof line - 1);
    text_add(&text, "sockfuse: ");
    text_add_printable(&text, engine.program);
    text_add(&text, ": the file of its circuits is gone and can't be had again now (");
    text_add_printable(&text, places.at[0].folder);
    text_add(&text, "); it keeps circuits of its own until it can");
    line[text.length] = '\n';
    log_append(LOG_STDERR, line, text.length + 1);
}

/* --- joining ----------------------------------------------------------------------------------------------------- */

static uint32_t join(struct station *station, const struct policy *policy)
{
    uint32_t holder = process_join(&station->segment, engine.program, policy->revision);
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

/* Makes a station of a segment that is mapped at its place. */
OWN_FRAME static void equip(struct station *station, bool is_private, bool apart)
{
    const struct policy *policy = engine_policy();
    station->apart = apart;
    station->is_clear = false;
    station->guard.segment = &station->segment;
    station->guard.pid = lineage_pid();
    station->guard.still_hangs = left_behind_still_hangs;
    station->guard.keeps = left_behind_keeps;
    station->guard.target_named = target_named;
    station->guard.context = station;
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
OWN_FRAME static void adopt(struct station *station, uint32_t epoch)
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

struct station *engine_station(enum target_scope scope)
{
    struct station *station = engine_station_now(scope);
    if (!station)
        return NULL;
    adopt(station, lineage_epoch());
    return station->guard.holder ? station : NULL;
}

/* --- at start ---------------------------------------------------------------------------------------------------- */

static struct capacity capacity_wanted(void)
{
    const struct policy *policy = policy_keeping_hold();
    const struct capacity capacity = policy->capacity;
    policy_keeping_drop(policy);
    return capacity;
}

static bool get_file(struct segment *segment, bool patient, struct segment_error *error)
{
    const struct capacity capacity = capacity_wanted();
    const struct attaching attaching = {identity, &capacity, patient};
    return segment_attach_first(segment, &places, &attaching, error);
}

static bool get_private(struct segment *segment)
{
    const struct capacity capacity = capacity_wanted();
    return segment_private(segment, identity, &capacity);
}

static void put_in_force(struct station *station, enum target_scope scope)
{
    atomic_store_explicit(&station->state, STATION_PRESENT, memory_order_relaxed);
    /* Release: whoever finds it finds all of it. */
    atomic_store_explicit(scope == SCOPE_PROCESS ? &engine.process : &engine.host, station, memory_order_release);
}

static bool start(enum target_scope scope, struct segment_error *error)
{
    struct segment segment;
    struct station *station;
    if (!(scope == SCOPE_PROCESS ? get_private(&segment) : get_file(&segment, true, error)))
        return false;
    station = station_places_for(&segment, clock_real_ns());
    if (!station)
        return false;
    equip(station, scope == SCOPE_PROCESS, false);
    put_in_force(station, scope);
    return true;
}

bool station_start(enum target_scope scope, const char *(*environment)(const char *name), struct segment_error *error)
{
    if (!identity && !(identity = strdup(engine_policy()->identity))) {
        strcpy(error->text, "no memory left");
        return false;
    }
    if (scope == SCOPE_PROCESS)
        return start(scope, error);
    uint64_t now_ns = clock_real_ns();
    standpoint_take(&standpoint);
    atomic_store_explicit(&noted_use_ns, now_ns, memory_order_relaxed); /* by attaching */
    atomic_store_explicit(&engine.checked_ns, now_ns, memory_order_relaxed);
    if (!state_places(environment, &places) || !state_places_name(&places, identity)) {
        strcpy(error->text, "the name of the state folder is too long");
        return false;
    }
    return start(scope, error);
}

/* --- later ------------------------------------------------------------------------------------------------------- */

/*
 * One thread of a process at a time. A fork's child may find its parent's mark, which is nobody's there; what that was
 * about to make is a place that nobody uses.
 */
static bool work_begins(uint64_t now_ns)
{
    uint32_t mark = atomic_load_explicit(&working, memory_order_relaxed), epoch = lineage_epoch();
    if (mark == epoch ||
        !atomic_compare_exchange_strong_explicit(&working, &mark, epoch, memory_order_acquire, memory_order_relaxed))
        return false;
    if (mark != 0)
        station_places_mend(now_ns);
    return true;
}

static void work_ends(void)
{
    atomic_store_explicit(&working, 0, memory_order_release);
}

/* What the process guarded by itself. */
static void count_apart(const struct station *apart, struct segment *present)
{
    uint64_t calls = 0;
    for (uint32_t i = 0; i < apart->segment.capacity.circuits; i++) {
        const struct circuit *circuit = circuits_at(&apart->segment, i);
        calls += circuit ? counters_sum(&circuit->counters, COUNT_ADMITTED) : 0;
    }
    segment_note_apart(present, calls);
}

/* New calls go to another segment from now on. False: there is none, or no place for it. */
static bool move_to(struct station *former, bool is_private, uint64_t now_ns)
{
    struct segment segment;
    if (!(is_private ? get_private(&segment) : get_file(&segment, false, NULL)))
        return false;
    struct station *station = station_places_for(&segment, now_ns);
    if (!station) {
        segment_detach(&segment); /* no other thread has seen it */
        return false;
    }
    equip(station, is_private, is_private);
    if (former->apart && !is_private)
        count_apart(former, &station->segment);
    put_in_force(station, SCOPE_HOST);
    station_places_retire(former, now_ns);
    return true;
}

/* Whether it is certain that the file was deleted. The kernel is asked, which takes a while, once a minute at most. */
static bool is_over(const struct station *station, uint64_t now_ns)
{
    uint64_t asked_ns = atomic_load_explicit(&asked_deleted_ns, memory_order_relaxed);
    if (segment_is_given_up(&station->segment))
        return true;
    if (asked_ns != 0 && now_ns - asked_ns < ASK_DELETED_NS)
        return false;
    atomic_store_explicit(&asked_deleted_ns, now_ns, memory_order_relaxed);
    return segment_is_deleted(&station->segment);
}

/* The path leads elsewhere, or nowhere: see the design in station.h. */
OWN_FRAME static void renew(struct station *station, uint64_t now_ns)
{
    bool same = standpoint_is_same(&standpoint);
    if (station->apart) {
        if (!same || !move_to(station, false, now_ns))
            say_apart();
        return;
    }
    bool over = !same ? is_over(station, now_ns)
                      : segment_is_deleted(&station->segment) || !segment_is_intact(&station->segment, identity);
    if (over)
        segment_give_up(&station->segment); /* for those that can't see it */
    else if (!same)
        return;
    /* It says so when a second try was vain: at the first one others may just have been about the same. */
    if (!same || !move_to(station, false, now_ns))
        move_to(station, true, now_ns);
}

/*
 * Whose place in the table of processes was given away, or wiped out with the file, joins again with its next call.
 * Only the one thread comes here that looks in this second.
 */
static void give_up_lost_place(struct station *station)
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

OWN_FRAME static void work_on(struct station *station, bool stands, uint64_t real_ns)
{
    struct undisturbed before;
    undisturbed_begin(&before);
    if (work_begins(real_ns)) {
        /* Another thread may have changed it since. */
        if (!stands && station == atomic_load_explicit(&engine.host, memory_order_acquire))
            renew(station, real_ns);
        station_places_clear(real_ns);
        work_ends();
    }
    undisturbed_end(&before);
}

void station_look(uint64_t real_ns)
{
    uint64_t checked = atomic_load_explicit(&engine.checked_ns, memory_order_relaxed);
    if (real_ns - checked < STATION_LOOK_NS ||
        !atomic_compare_exchange_strong_explicit(&engine.checked_ns, &checked, real_ns, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    struct station *station = atomic_load_explicit(&engine.host, memory_order_acquire);
    if (!station)
        return;
    int keep = errno;
    bool stands = !station->apart && !segment_is_given_up(&station->segment) &&
                  segment_is_intact(&station->segment, identity) && segment_is_current(&station->segment);
    give_up_lost_place(station);
    if (stands && real_ns - atomic_load_explicit(&noted_use_ns, memory_order_relaxed) > NOTE_USE_NS) {
        atomic_store_explicit(&noted_use_ns, real_ns, memory_order_relaxed);
        segment_note_use(&station->segment);
    }
    /* A vfork's child has its parent's memory, and will be another program soon. */
    if ((!stands || station_places_are_due(real_ns)) && !lineage_is_borrowed())
        work_on(station, stands, real_ns);
    errno = keep;
}

void station_start_later(enum target_scope scope)
{
    struct undisturbed before;
    undisturbed_begin(&before);
    if (!lineage_is_borrowed() && work_begins(clock_real_ns())) {
        struct segment segment;
        struct station *station = NULL;
        if (!engine_station_now(scope) && get_private(&segment)) {
            station = station_places_for(&segment, clock_real_ns());
            if (!station)
                segment_detach(&segment);
        }
        if (station) {
            equip(station, true, false);
            put_in_force(station, scope);
        }
        work_ends();
    }
    undisturbed_end(&before);
}
