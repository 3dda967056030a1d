/*
 * watched.c - the segments that the agent watches. See watched.h.
 *
 * A segment is the same as before if its file is: device and inode. What a watcher keeps of it stands in `data`; what
 * was selected is opened anew with each finding, so nothing is to be kept of that.
 */
#define _GNU_SOURCE
#include "agent/watched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/found.h"
#include "base/clock.h"
#include "segment/agent_lock.h"
#include "segment/journal.h"
#include "view/output.h"
#include "view/truncation.h"

/* Events of one segment in one look: the rest waits for the next one. */
#define EVENTS_OWN_MAX 65536u
#define EVENTS_OTHERS_MAX 1024u
/* Where another agent looks after a segment it is asked this often whether it still does. */
#define ASK_AGAIN_NS NS_PER_S
/* Another user's segments have so much time in a look. */
#define OTHERS_TIME_NS (50 * NS_PER_MS)

struct place {
    struct watched watched;
    uint64_t device, inode;
    bool is_current; /* it is among what was found last */
    bool waited;     /* its next event could not be read at the last look: perhaps it was just being written */
    uint64_t looked; /* the number of the last look at it */
    bool is_wanted;  /* it is to be looked at soon */
    bool is_ours;    /* no other agent looks after it: the watchers know of it */
    bool stood_by;   /* it was said that another does */
    void *lock;      /* agent_lock.h */
    uint64_t asked_ns;
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
    ev_timer timer, soon;
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
    for (unsigned int i = 0; place->is_ours && i < state.watcher_count; i++)
        if (state.watchers[i]->end != NULL)
            state.watchers[i]->end(&place->watched);
    in_force_free(&place->watched.in_force);
    if (place->watched.writable != NULL)
        select_detach(place->watched.writable);
    free(place->watched.writable);
    if (place->lock != NULL)
        agent_lock_end(place->lock);
    free(place);
}

static void tell_begin(struct place *place)
{
    for (unsigned int i = 0; i < state.watcher_count; i++)
        if (state.watchers[i]->begin != NULL)
            state.watchers[i]->begin(&place->watched);
}

/* --- another agent ------------------------------------------------------------------------------------------------ */

static void tell_another(const struct selected *selected, uint32_t pid)
{
    char number[32] = "";
    if (pid != 0)
        snprintf(number, sizeof number, ", process %" PRIu32 ",", pid);
    warnx("%s%s: another agent%s looks after it; this one stands by", selected->identity, selected->whose, number);
}

/* What can't be locked is looked after: without its file nobody else finds it, and who may not write can do little. */
static enum agent_lock ask_for_lock(struct place *place, uint32_t *pid)
{
    const struct selected *selected = place->watched.selected;
    const int fd = select_descriptor(selected);
    const enum agent_lock answer =
        fd >= 0 ? agent_lock_take(&selected->segment, fd, &place->lock, pid) : AGENT_LOCK_NONE;
    if (fd >= 0)
        close(fd);
    return answer;
}

/*
 * Whether it is for this agent to look after it. What happened since it was last asked is told then: some of that twice,
 * if the other one ended only just now, rather than not at all.
 */
static bool is_for_us(struct place *place)
{
    const struct selected *selected = place->watched.selected;
    uint32_t pid = 0;
    if (place->is_ours)
        return true;
    const uint64_t now_ns = clock_real_ns();
    if (place->asked_ns != 0 && now_ns - place->asked_ns < ASK_AGAIN_NS)
        return false;
    const bool is_first = place->asked_ns == 0;
    place->asked_ns = now_ns;
    if (ask_for_lock(place, &pid) == AGENT_LOCK_ANOTHERS) {
        if (is_first)
            tell_another(selected, pid);
        place->stood_by = true;
        place->watched.next = journal_head(&selected->segment);
        return false;
    }
    place->is_ours = true;
    if (place->stood_by)
        warnx("%s%s: the other agent has gone; this one looks after it", selected->identity, selected->whose);
    tell_begin(place);
    return true;
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
                is_for_us(place);
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
    place->is_wanted = false;
    if (!is_for_us(place))
        return;
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

static void look_at_wanted(struct ev_loop *loop, ev_timer *soon, int events)
{
    const uint64_t now_ns = clock_circuit_ns();
    (void)loop, (void)soon, (void)events;
    for (size_t i = 0; i < state.place_count; i++)
        if (state.places[i]->is_wanted)
            look_at(state.places[i], now_ns);
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
    ev_timer_init(&state.soon, look_at_wanted, 0, 0);
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

/* Several that are wanted at once are looked at once each. */
void watched_look_at_soon(struct watched *watched)
{
    struct place *place = (struct place *)(void *)((char *)watched - offsetof(struct place, watched));
    place->is_wanted = true;
    ev_feed_event(state.loop, &state.soon, EV_TIMER);
}

void watched_stop(void)
{
    ev_timer_stop(state.loop, &state.timer);
    ev_clear_pending(state.loop, &state.soon);
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
        if (state.places[i]->is_ours)
            visit(&state.places[i]->watched, context);
}

size_t watched_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < state.place_count; i++)
        count += state.places[i]->is_ours;
    return count;
}

size_t watched_aside(void)
{
    return state.place_count - watched_count();
}
