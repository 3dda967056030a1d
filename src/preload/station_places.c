/*
 * station_places.c - the places for stations. See station_places.h.
 */
#define _GNU_SOURCE
#include "preload/station_places.h"

#include "base/clock.h"
#include "connection/deferred.h"
#include "connection/engine.h"
#include "connection/lineage.h"
#include "connection/pool.h"
#include "segment/processes.h"
#include "segment/vanished.h"

#define STATIONS_MAX 8u
/* So long nobody begins anything new in a retired station; who is later than that sees another serial. */
#define QUIET_NS NS_PER_S
#define CLEAR_FIRST_NS (2 * NS_PER_S)
#define CLEAR_LAST_NS (64 * NS_PER_S)

static struct station stations[STATIONS_MAX];

/* Gives this process's slot in the station's segment back. */
static void leave(struct station *station)
{
    uint64_t identity = atomic_load_explicit(&station->identity, memory_order_acquire);
    uint32_t state = atomic_load_explicit(&station->state, memory_order_relaxed);
    if ((state != STATION_PRESENT && state != STATION_RETIRED) || station->is_clear || !identity ||
        identity >> 32 != lineage_epoch())
        return;
    process_leave(station->guard.segment, (uint32_t)identity);
}

void engine_leave(void)
{
    for (uint32_t i = 0; i < STATIONS_MAX; i++)
        leave(&stations[i]);
}

static bool is_followed(const struct station *station)
{
    uint32_t high = pool_high();
    for (uint32_t i = 0; i < high; i++) {
        const struct connection *connection = pool_at(i);
        /* seq_cst: against station_serial, which is asked after the connection has begun to follow. */
        if (connection && atomic_load_explicit(&connection->is_stationed, memory_order_seq_cst) &&
            connection->station == station && connection->epoch == lineage_epoch())
            return true;
    }
    return deferred_follows(station);
}

/* Lets go of all connections that follow it: to this process they are as an ancestor's from now on. */
static void let_go(const struct station *station)
{
    uint32_t high = pool_high();
    for (uint32_t i = 0; i < high; i++) {
        struct connection *connection = pool_at(i);
        if (connection && atomic_load_explicit(&connection->is_stationed, memory_order_relaxed) &&
            connection->station == station)
            __atomic_store_n(&connection->epoch, 0, __ATOMIC_RELAXED);
    }
}

static bool is_quiet(const struct station *station, uint64_t now_ns)
{
    return station_is_retired(station) && now_ns - station->retired_ns >= QUIET_NS;
}

/* Puts the segment where a retired station's lies, if nobody follows that. */
static bool take_over(struct station *station, struct segment *segment)
{
    if (is_followed(station))
        return false;
    atomic_fetch_add_explicit(&station->serial, 1, memory_order_seq_cst);
    /* Who began to follow it meanwhile, after the first look, is seen now, or sees the serial. */
    if (is_followed(station))
        return false;
    leave(station);
    if (!segment_move(segment, &station->segment))
        return false;
    atomic_store_explicit(&station->state, STATION_MADE, memory_order_relaxed);
    return true;
}

/* A place for the segment, which is put there; NULL: there is none before the next look. */
struct station *station_places_for(struct segment *segment, uint64_t now_ns)
{
    struct station *oldest = NULL, *unused = NULL, *found = NULL;
    for (uint32_t i = 0; i < STATIONS_MAX && !found; i++) {
        struct station *station = &stations[i];
        uint32_t state = atomic_load_explicit(&station->state, memory_order_relaxed);
        if (state == STATION_UNUSED && !unused)
            unused = station;
        if (!is_quiet(station, now_ns))
            continue;
        if (take_over(station, segment))
            found = station;
        else if (!oldest || station->retired_ns < oldest->retired_ns)
            oldest = station;
    }
    if (!found && !unused && oldest) {
        let_go(oldest);
        oldest->retired_ns = now_ns; /* it may be used again when it has been quiet once more */
    }
    if (!found && unused) {
        atomic_store_explicit(&unused->state, STATION_MADE, memory_order_relaxed);
        found = unused;
    }
    if (found)
        found->segment = *segment;
    return found;
}

/* Gives the memory of retired stations back that nobody follows. Asked more and more seldom. */
void station_places_clear(uint64_t now_ns)
{
    for (uint32_t i = 0; i < STATIONS_MAX; i++) {
        struct station *station = &stations[i];
        if (!station_is_retired(station) || station->is_clear || now_ns < station->clear_after_ns)
            continue;
        uint64_t waited_ns = now_ns - station->retired_ns;
        station->clear_after_ns = now_ns + (waited_ns < CLEAR_LAST_NS ? waited_ns : CLEAR_LAST_NS);
        if (is_followed(station))
            continue;
        atomic_fetch_add_explicit(&station->serial, 1, memory_order_seq_cst);
        if (is_followed(station)) /* as in take_over */
            continue;
        leave(station);
        station->is_clear = segment_clear(&station->segment);
    }
}

void station_places_retire(struct station *station, uint64_t now_ns)
{
    station->retired_ns = now_ns;
    station->clear_after_ns = now_ns + CLEAR_FIRST_NS;
    atomic_store_explicit(&station->state, STATION_RETIRED, memory_order_relaxed);
}

bool station_places_are_due(uint64_t now_ns)
{
    for (uint32_t i = 0; i < STATIONS_MAX; i++)
        if (station_is_retired(&stations[i]) && !stations[i].is_clear && now_ns >= stations[i].clear_after_ns)
            return true;
    return false;
}

void station_places_mend(uint64_t now_ns)
{
    for (uint32_t i = 0; i < STATIONS_MAX; i++) {
        struct station *station = &stations[i];
        if (atomic_load_explicit(&station->state, memory_order_relaxed) == STATION_MADE && station->segment.map)
            station_places_retire(station, now_ns);
    }
}
