/*
 * watched.c - the segments that the agent watches. See watched.h.
 *
 * A segment is the same as before if its file is: device and inode. What a watcher keeps of it stands in `data`; what
 * was selected is opened anew with each finding, so nothing is to be kept of that.
 */
#define _GNU_SOURCE
#include "agent/watched.h"

#include <stdlib.h>
#include <string.h>

#include "agent/found.h"
#include "base/clock.h"
#include "segment/journal.h"
#include "view/output.h"
#include "view/truncation.h"

/* Events of one segment in one look: the rest waits for the next one. */
#define EVENTS_OWN_MAX 65536u
#define EVENTS_OTHERS_MAX 1024u
/* Another user's segments have so much time in a look. */
#define OTHERS_TIME_NS (50 * NS_PER_MS)

struct place {
    struct watched watched;
    uint64_t device, inode;
    bool is_current; /* it is among what was found last */
    bool waited;     /* its next event could not be read at the last look: perhaps it was just being written */
    uint64_t looked; /* the number of the last look at it */
};

static struct {
    struct watcher *watchers[WATCHERS_MAX];
    unsigned int watcher_count;
    struct watching wanted;
    struct found found;
    struct place **places; /* users' stand together, as selections have them */
    size_t place_count;
    uint64_t started_ns; /* wall clock */
    uint64_t looks;
    struct ev_loop *loop;
    ev_timer timer;
} state;

void watched_register(struct watcher *watcher)
{
    if (state.watcher_count == WATCHERS_MAX)
        errx(EXIT_FAILURE, "%s: there is no place for one more watcher", watcher->name);
    watcher->number = state.watcher_count;
    state.watchers[state.watcher_count++] = watcher;
}

/* --- what there is ------------------------------------------------------------------------------------------------ */

static struct place *place_of(const struct segment *segment)
{
    for (size_t i = 0; i < state.place_count; i++)
        if (state.places[i]->device == segment->device && state.places[i]->inode == segment->inode)
            return state.places[i];
    return NULL;
}

static void open_to_write(struct watched *watched)
{
    struct segment_error *error = allocate(1, sizeof *error);
    watched->writable = allocate(1, sizeof *watched->writable);
    if (!select_to_write(watched->writable, watched->selected, error)) {
        warnx("%s; it is only looked at", error->text);
        free(watched->writable);
        watched->writable = NULL;
    }
    free(error);
}

/* What was there when the agent began has no news; of what comes later all is. */
static struct place *begin(const struct selected *selected, bool is_first)
{
    struct place *place = allocate(1, sizeof *place);
    place->device = selected->segment.device;
    place->inode = selected->segment.inode;
    place->watched.selected = selected;
    place->watched.found_ns = clock_wall_ns();
    place->watched.next = is_first ? journal_head(&selected->segment) : journal_oldest(&selected->segment);
    open_to_write(&place->watched);
    return place;
}

static void end(struct place *place)
{
    for (unsigned int i = 0; i < state.watcher_count; i++)
        if (state.watchers[i]->end != NULL)
            state.watchers[i]->end(&place->watched);
    in_force_free(&place->watched.in_force);
    if (place->watched.writable != NULL)
        select_detach(place->watched.writable);
    free(place->watched.writable);
    free(place);
}

static void tell_begin(struct place *place)
{
    for (unsigned int i = 0; i < state.watcher_count; i++)
        if (state.watchers[i]->begin != NULL)
            state.watchers[i]->begin(&place->watched);
}

/* Finds what there is now; of what was there before all goes on. */
static void find(bool is_first)
{
    struct found former = state.found;
    struct place **places = NULL;
    size_t count = 0;
    found_open(&state.found, state.wanted.choices, state.wanted.count);
    for (size_t i = 0; i < state.place_count; i++)
        state.places[i]->is_current = false;
    for (size_t i = 0; i < state.found.count; i++) {
        const struct selection *selection = &state.found.at[i];
        for (size_t j = 0; j < selection->count; j++) {
            const struct segment *segment = &selection->at[j].segment;
            struct place *place = segment->map != NULL ? place_of(segment) : NULL;
            if (segment->map == NULL || (place != NULL && place->is_current)) /* two choices may have it */
                continue;
            const bool is_new = place == NULL;
            if (is_new)
                place = begin(&selection->at[j], is_first);
            place->is_current = true;
            place->watched.selected = &selection->at[j];
            places = grow(places, count, sizeof(struct place *));
            places[count++] = place;
            if (is_new)
                tell_begin(place);
        }
    }
    for (size_t i = 0; i < state.place_count; i++)
        if (!state.places[i]->is_current)
            end(state.places[i]);
    free(state.places);
    state.places = places;
    state.place_count = count;
    found_close(&former);
}

/* --- a look ------------------------------------------------------------------------------------------------------- */

static void tell_event(struct place *place, const struct event *event)
{
    if (event->time_ns < state.started_ns)
        return;
    for (unsigned int i = 0; i < state.watcher_count; i++)
        if (state.watchers[i]->event != NULL)
            state.watchers[i]->event(&place->watched, event);
}

/* An event that can't be read yet is waited for once: its writer may be at it, or dead. */
static void read_journal(struct place *place)
{
    struct watched *watched = &place->watched;
    const struct segment *segment = &watched->selected->segment;
    uint64_t oldest, head, left = watched->selected->is_foreign ? EVENTS_OTHERS_MAX : EVENTS_OWN_MAX;
    journal_span(segment, &oldest, &head);
    if (watched->next > head) /* its owner has written there at will */
        watched->next = head;
    if (watched->next < oldest) {
        watched->missed += oldest - watched->next;
        watched->next = oldest;
    }
    for (; watched->next < head && left > 0; watched->next++, left--) {
        struct event event;
        if (journal_read(segment, watched->next, &event)) {
            tell_event(place, &event);
        } else if (!place->waited) {
            place->waited = true;
            return;
        }
        place->waited = false;
    }
}

static void look_at(struct place *place, uint64_t now_ns)
{
    place->looked = state.looks;
    read_journal(place);
    for (unsigned int i = 0; i < state.watcher_count; i++)
        if (state.watchers[i]->look != NULL)
            state.watchers[i]->look(&place->watched, now_ns);
    if (cut_happened())
        warnx("%s%s: its file was cut short meanwhile", place->watched.selected->identity,
              place->watched.selected->whose);
}

static bool is_foreign(const struct place *place)
{
    return place->watched.selected->is_foreign;
}

/* Those of one user, from `first` on to before `end`: first those that the last look had no time for. */
static void look_at_users(size_t first, size_t last, uint64_t now_ns)
{
    const uint64_t from_ns = clock_real_ns();
    const bool is_limited = is_foreign(state.places[first]);
    for (unsigned int round = 0; round < 2; round++) {
        for (size_t i = first; i < last; i++) {
            struct place *place = state.places[i];
            if (place->looked == state.looks || (round == 0 && place->looked + 1 == state.looks))
                continue;
            if (is_limited && clock_real_ns() - from_ns > OTHERS_TIME_NS)
                return;
            look_at(place, now_ns);
        }
    }
}

static void look_at_all(void)
{
    const uint64_t now_ns = clock_circuit_ns();
    state.looks++;
    for (size_t first = 0, last; first < state.place_count; first = last) {
        const uid_t user = state.places[first]->watched.selected->uid;
        for (last = first; last < state.place_count && state.places[last]->watched.selected->uid == user;)
            last++;
        look_at_users(first, last, now_ns);
    }
}

static void look(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)timer, (void)events;
    look_at_all();
    if (!found_is_old(&state.found))
        return;
    look_at_all(); /* the last words of what is gone by now */
    find(false);
    look_at_all();
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

void watched_start(struct ev_loop *loop, const struct watching *watching)
{
    state.loop = loop;
    state.wanted = *watching;
    state.started_ns = clock_wall_ns();
    find(true);
    ev_timer_init(&state.timer, look, 0, seconds(watching->settings->look_every_ns));
    ev_timer_start(loop, &state.timer);
}

void watched_set(const struct agent_settings *settings)
{
    state.timer.repeat = seconds(settings->look_every_ns);
    ev_timer_again(state.loop, &state.timer);
}

void watched_look_soon(void)
{
    ev_feed_event(state.loop, &state.timer, EV_TIMER);
}

void watched_stop(void)
{
    ev_timer_stop(state.loop, &state.timer);
    look_at_all();
    for (size_t i = 0; i < state.place_count; i++)
        end(state.places[i]);
    free(state.places);
    state.places = NULL;
    state.place_count = 0;
    found_close(&state.found);
}

const struct policy *watched_policy(struct watched *watched)
{
    return in_force_look(&watched->in_force, watched->selected);
}

void watched_each(void (*visit)(struct watched *watched, void *context), void *context)
{
    for (size_t i = 0; i < state.place_count; i++)
        visit(&state.places[i]->watched, context);
}

size_t watched_count(void)
{
    return state.place_count;
}
