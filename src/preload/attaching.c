/*
 * attaching.c - which segments a process attaches to, at its start and anew. See station.h, which has the design.
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
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "preload/station_joining.h"
#include "preload/station_places.h"
#include "segment/circuits.h"
#include "segment/vanished.h"

#define ASK_DELETED_NS (60 * NS_PER_S)
#define NOTE_USE_NS NS_PER_HOUR

static struct state_places state_folders;
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
    text_add_printable(&text, state_folders.at[0].folder);
    text_add(&text, "); it keeps circuits of its own until it can");
    line[text.length] = '\n';
    log_append(LOG_STDERR, line, text.length + 1);
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
    return segment_attach_first(segment, &state_folders, &attaching, error);
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

/* Once: what was read of the clock before stands corrected. */
static void know_time(struct segment *segment)
{
    static bool known;
    if (known)
        return;
    known = true;
    segment_learn_time(segment);
    engine.loaded_ns -= clocks.ahead_ns;
    uint64_t now_ns = clock_real_ns();
    atomic_store_explicit(&noted_use_ns, now_ns, memory_order_relaxed); /* by attaching */
    atomic_store_explicit(&engine.checked_ns, now_ns, memory_order_relaxed);
}

static bool start(enum target_scope scope, struct segment_error *error)
{
    struct segment segment;
    struct station *station;
    if (!(scope == SCOPE_PROCESS ? get_private(&segment) : get_file(&segment, true, error)))
        return false;
    know_time(&segment);
    station = station_places_for(&segment, clock_real_ns());
    if (!station)
        return false;
    station_equip(station, scope == SCOPE_PROCESS, false);
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
    standpoint_take(&standpoint);
    if (!state_places(environment, &state_folders) || !state_places_name(&state_folders, identity)) {
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
    station_equip(station, is_private, is_private);
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
    if (!station_look_is_due(real_ns, checked) ||
        !atomic_compare_exchange_strong_explicit(&engine.checked_ns, &checked, real_ns, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    struct station *station = atomic_load_explicit(&engine.host, memory_order_acquire);
    if (!station)
        return;
    int keep = errno;
    bool stands = !station->apart && !segment_is_given_up(&station->segment) &&
                  segment_is_intact(&station->segment, identity) && segment_is_current(&station->segment);
    station_give_up_lost_place(station);
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
            station_equip(station, true, false);
            put_in_force(station, scope);
        }
        work_ends();
    }
    undisturbed_end(&before);
}
