/*
 * alert.c - alerts. See alert.h.
 *
 * To root's agent segments and policies of others are hostile: of each user so many circuits are kept and so many
 * commands run at a time, and whoever has none running may always have one.
 */
#define _GNU_SOURCE
#include "agent/alert.h"

#include <stdlib.h>
#include <string.h>

#include "agent/alert_send.h"
#include "agent/alert_state.h"
#include "agent/flapping.h"
#include "agent/fleet_alert.h"
#include "agent/watched.h"
#include "base/clock.h"
#include "segment/circuits.h"
#include "segment/journal.h"
#include "view/output.h"

/* Of each user so many circuits have something kept: what waits, when the last one was sent, how often they opened. */
#define CIRCUITS_MAX 2048u
/* What happened so long before the agent began, and no agent has taken, is told. */
#define BACKLOG_NS (10 * NS_PER_MINUTE)
/* Of another user's journal that many events of then, at the most. */
#define BACKLOG_OTHERS_MAX 1024u
/* At the agent's end commands have so long. */
#define FINISH_S 5.0

struct alerted {
    uint64_t key;
    char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];
    struct alert_state state;
    struct flapping *flapping; /* NULL: it has not opened */
    struct alert_sending *sending;
    struct asking *asking;
};

/* One of which the fleet is asked whether another host tells of it: with what it needs, whatever becomes of its circuit. */
struct asking {
    struct watched *watched;
    struct alerted *of; /* NULL: gone */
    struct user *user;
    struct alert_told told;
    struct event event;
    struct flapping_rule flapping;
    uint64_t limit_ns;
};

/* How many circuits of a user are kept. */
struct user {
    struct user *next;
    uid_t uid;
    size_t count;
    struct alert_user alerts;
    bool was_told; /* that there are too many */
};

struct alert_segment {
    struct user *user;
    struct alerted **at;
    size_t count;
    size_t first; /* who is asked first in this look */
};

static void begin(struct watched *watched);
static void hear(struct watched *watched, const struct event *event);
static void look(struct watched *watched, uint64_t now_ns);
static void end(struct watched *watched);

static struct watcher watcher = {.name = "alerts", .begin = begin, .event = hear, .look = look, .end = end};
static struct ev_loop *the_loop;
static struct user *users;
static bool is_finishing;

void alert_register(struct ev_loop *loop)
{
    the_loop = loop;
    watched_register(&watcher);
}

static struct alert_segment *of(const struct watched *watched)
{
    return watched->data[watcher.number];
}

static struct user *user_of(uid_t uid)
{
    struct user *user = users;
    while (user != NULL && user->uid != uid)
        user = user->next;
    if (user == NULL) {
        user = allocate(1, sizeof *user);
        *user = (struct user){.next = users, .uid = uid};
        users = user;
    }
    return user;
}

/* --- what happened ------------------------------------------------------------------------------------------------ */

static bool is_opening(const struct event *event)
{
    return event->type == EVENT_OPEN && event->from == CIRCUIT_CLOSED;
}

/* What an event is for alerts, as bits. */
static uint32_t kinds_of(const struct event *event)
{
    switch (event->type) {
    case EVENT_OPEN:
        return 1u << (is_opening(event) ? ALERT_OPEN : ALERT_PROBE_FAILED);
    case EVENT_CLOSE:
        return 1u << ALERT_CLOSE;
    case EVENT_FORCED:
        return 1u << ALERT_FORCED;
    case EVENT_FAILURE:
        return event->overran == OVERRAN_HANGS ? 1u << ALERT_OVERDUE : 0;
    default:
        return 0;
    }
}

static enum alert_kind kind_of(uint32_t kinds)
{
    return (kinds & 1u << ALERT_FLAPPING) != 0 ? ALERT_FLAPPING : (enum alert_kind)__builtin_ctz(kinds);
}

/* NULL: nobody wants to hear of it. */
static const struct target *target_of(struct watched *watched, const char *name)
{
    const struct policy *policy = watched_policy(watched);
    const struct target *target = policy != NULL ? policy_target_named(policy, name) : NULL;
    return target != NULL && target->alert[0] != '\0' && target->mode != MODE_OFF ? target : NULL;
}

/* What is kept of the event's circuit; made, if it is new. NULL: there are too many. */
static struct alerted *alerted_of(struct watched *watched, const struct event *event)
{
    struct alert_segment *segment = of(watched);
    const uint64_t key = circuits_key(event->target, event->destination);
    for (size_t i = 0; i < segment->count; i++) {
        struct alerted *alerted = segment->at[i];
        if (alerted->key == key && strcmp(alerted->target, event->target) == 0 &&
            strcmp(alerted->destination, event->destination) == 0)
            return alerted;
    }
    if (segment->user->count == CIRCUITS_MAX) {
        if (!segment->user->was_told)
            warnx("%s%s: so much happens to so many circuits that not all of it is told", watched->selected->identity,
                  watched->selected->whose);
        segment->user->was_told = true;
        return NULL;
    }
    struct alerted *alerted = allocate(1, sizeof *alerted);
    alerted->key = key;
    memcpy(alerted->target, event->target, sizeof alerted->target);
    memcpy(alerted->destination, event->destination, sizeof alerted->destination);
    segment->at = grow(segment->at, segment->count, sizeof *segment->at);
    segment->at[segment->count++] = alerted;
    segment->user->count++;
    return alerted;
}

static bool flaps(struct alerted *alerted, const struct target *target, const struct event *event)
{
    if (alerted->flapping == NULL)
        alerted->flapping = allocate(1, sizeof *alerted->flapping);
    return flapping_opened(alerted->flapping, &target->flapping, event->mono_ns);
}

/* Takes an event, once and for all. */
static void take(struct watched *watched, uint64_t number, const struct event *event)
{
    uint32_t kinds = kinds_of(event);
    const struct target *target = kinds != 0 ? target_of(watched, event->target) : NULL;
    if (target == NULL || (watched->writable != NULL && !journal_take(watched->writable, number)))
        return;
    const bool counts = is_opening(event) && (target->alert_on & 1u << ALERT_FLAPPING) != 0;
    if ((kinds & target->alert_on) == 0 && !counts)
        return;
    struct alerted *alerted = alerted_of(watched, event);
    if (alerted == NULL)
        return;
    if (counts && flaps(alerted, target, event))
        kinds |= 1u << ALERT_FLAPPING;
    if ((kinds & target->alert_on) != 0)
        alert_happened(&alerted->state, kind_of(kinds & target->alert_on), event);
}

static void hear(struct watched *watched, const struct event *event)
{
    if (!is_finishing)
        take(watched, watched->next, event);
}

/* What happened while no agent ran. */
static void take_backlog(struct watched *watched)
{
    const struct segment *journal = &watched->selected->segment;
    const uint64_t wall_ns = clock_wall_ns(), until = watched->next;
    uint64_t number = journal_oldest(journal);
    if (watched->writable != NULL && journal_untaken(journal) > number)
        number = journal_untaken(journal);
    if (watched->selected->is_foreign && number + BACKLOG_OTHERS_MAX < until)
        number = until - BACKLOG_OTHERS_MAX;
    for (; number < until; number++) {
        struct event event;
        if (journal_read(journal, number, &event) && event.time_ns + BACKLOG_NS >= wall_ns)
            take(watched, number, &event);
    }
}

/* --- what is told ------------------------------------------------------------------------------------------------- */

static void note_end(void *context)
{
    struct alerted *alerted = context;
    alert_ended(&alerted->state);
    alerted->sending = NULL; /* what waits is for the next look: a look for each end could be had by whoever likes */
}

static void send_one(struct watched *watched, struct alerted *alerted, const struct alert_told *told, uint64_t limit_ns)
{
    const struct alert_sender sender = {&of(watched)->user->alerts, note_end, alerted};
    alerted->sending = alert_send(the_loop, watched, told, limit_ns, &sender);
    if (alerted->sending == NULL)
        alert_undone(&alerted->state, told->kind, told->event);
}

/* What the fleet says; another host's agent may be the one that tells. */
static void note_answer(void *context, const struct fleet_claimed *claimed)
{
    struct asking *asking = context;
    struct alerted *alerted = asking->of;
    asking->user->alerts.asking--;
    if (alerted != NULL) {
        alerted->asking = NULL;
        asking->told.identity = asking->watched->selected->identity;
        asking->told.unasked = claimed->claim == CLAIM_ALONE ? claimed->word : "";
        if (claimed->claim == CLAIM_OTHERS)
            alert_ended(&alerted->state);
        else
            send_one(asking->watched, alerted, &asking->told, asking->limit_ns);
    }
    free(asking);
}

/* Of a call of this host's, or what its operator said, each host tells for itself. */
static bool is_of_fleet(enum alert_kind kind)
{
    return kind == ALERT_OPEN || kind == ALERT_CLOSE || kind == ALERT_FLAPPING;
}

static void ask(struct watched *watched, struct alerted *alerted, const struct target *target,
                const struct alert_told *told)
{
    struct asking *asking = allocate(1, sizeof *asking);
    *asking = (struct asking){.watched = watched,
                              .of = alerted,
                              .user = of(watched)->user,
                              .told = *told,
                              .event = *told->event,
                              .flapping = target->flapping,
                              .limit_ns = target->alert_timeout_ns};
    asking->told.event = &asking->event;
    asking->told.flapping = &asking->flapping;
    alerted->asking = asking;
    asking->user->alerts.asking++;
    fleet_alert_claim(watched, alerted->target, alerted->destination, alert_kind_name(told->kind),
                      target->alert_every_ns, note_answer, asking);
}

static void tell(struct watched *watched, struct alerted *alerted, const struct target *target, uint64_t now_ns)
{
    const struct event event = alerted->state.event;
    const struct alert_told told = {.event = &event,
                                    .kind = alerted->state.kind,
                                    .left_out = alerted->state.left_out,
                                    .left_out_on = alerted->state.left_out_on,
                                    .identity = watched->selected->identity,
                                    .flapping = &target->flapping,
                                    .unasked = ""};
    alert_began(&alerted->state, now_ns);
    if (target->scope == SCOPE_FLEET && is_of_fleet(told.kind))
        ask(watched, alerted, target, &told);
    else
        send_one(watched, alerted, &told, target->alert_timeout_ns);
}

static bool is_over(const struct alerted *alerted, const struct target *target, uint64_t now_ns)
{
    return alerted->sending == NULL && alerted->asking == NULL &&
           (target == NULL ||
            (alert_is_over(&alerted->state, target->alert_every_ns, now_ns) &&
             (alerted->flapping == NULL || flapping_is_over(alerted->flapping, &target->flapping, now_ns))));
}

static void drop(struct alert_segment *segment, size_t which)
{
    struct alerted *alerted = segment->at[which];
    if (alerted->sending != NULL)
        alert_forget(alerted->sending);
    if (alerted->asking != NULL)
        alerted->asking->of = NULL;
    free(alerted->flapping);
    free(alerted);
    segment->at[which] = segment->at[--segment->count];
    segment->user->count--;
}

static void look(struct watched *watched, uint64_t now_ns)
{
    struct alert_segment *segment = of(watched);
    if (segment->count == 0 || is_finishing)
        return;
    segment->first = (segment->first + 1) % segment->count; /* in turn, where not all can be sent */
    for (size_t i = 0; i < segment->count; i++) {
        struct alerted *alerted = segment->at[(segment->first + i) % segment->count];
        const struct target *target = alerted->state.is_waiting ? target_of(watched, alerted->target) : NULL;
        if (target != NULL && alert_is_due(&alerted->state, target->alert_every_ns, now_ns) &&
            alert_may_send(&segment->user->alerts))
            tell(watched, alerted, target, now_ns);
    }
    for (size_t i = segment->count; i-- > 0;)
        if (is_over(segment->at[i], target_of(watched, segment->at[i]->target), now_ns))
            drop(segment, i);
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

static void begin(struct watched *watched)
{
    struct alert_segment *segment = allocate(1, sizeof *segment);
    segment->user = user_of(watched->selected->uid);
    watched->data[watcher.number] = segment;
    take_backlog(watched);
}

static void end(struct watched *watched)
{
    struct alert_segment *segment = of(watched);
    while (segment->count > 0)
        drop(segment, segment->count - 1);
    free(segment->at);
    free(segment);
    watched->data[watcher.number] = NULL;
}

static void send_all(struct watched *watched, void *context)
{
    const struct alert_segment *segment = of(watched);
    for (size_t i = 0; i < segment->count; i++) {
        struct alerted *alerted = segment->at[i];
        const struct target *target = alerted->state.is_waiting ? target_of(watched, alerted->target) : NULL;
        if (target != NULL && alert_is_due(&alerted->state, 0, 0) && alert_may_send(&segment->user->alerts))
            tell(watched, alerted, target, clock_circuit_ns());
    }
    (void)context;
}

static bool is_asking(void)
{
    for (const struct user *user = users; user != NULL; user = user->next)
        if (user->alerts.asking > 0)
            return true;
    return false;
}

static void note_late(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    *(bool *)timer->data = true;
}

void alert_finish(void)
{
    bool is_late = false;
    ev_timer limit;
    watched_each(send_all, NULL);
    is_finishing = true;
    ev_timer_init(&limit, note_late, FINISH_S, 0);
    limit.data = &is_late;
    ev_now_update(the_loop);
    ev_timer_start(the_loop, &limit);
    while ((alerts_sending() > 0 || is_asking()) && !is_late) {
        ev_run(the_loop, EVRUN_ONCE);
        watched_each(send_all, NULL);
    }
    ev_timer_stop(the_loop, &limit);
}
