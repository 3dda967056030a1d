/*
 * followed.c - the table of connections, and what becomes of a connection's calls. See followed.h.
 */
#define _GNU_SOURCE
#include "notify/followed.h"

#include <string.h>

#include "base/clock.h"
#include "notify/followed_steps.h"

#define NOWHERE (-1)

/* --- the table ---------------------------------------------------------------------------------------------------- */

void followers_start(struct followers *followers)
{
    for (int32_t i = 0; i < (int32_t)FOLLOWED_MAX; i++) {
        followers->by_cookie[i] = followers->by_watch[i] = NOWHERE;
        followers->at[i].next_cookie = i + 1 < (int32_t)FOLLOWED_MAX ? i + 1 : NOWHERE;
    }
    followers->free = 0;
}

struct followed *followed_find(struct followers *followers, uint64_t cookie)
{
    int32_t at = followers->by_cookie[cookie % FOLLOWED_MAX];
    while (at != NOWHERE && followers->at[at].cookie != cookie)
        at = followers->at[at].next_cookie;
    return at == NOWHERE ? NULL : &followers->at[at];
}

struct followed *followed_of_watch(struct followers *followers, int watch)
{
    int32_t at = followers->by_watch[(uint32_t)watch % FOLLOWED_MAX];
    while (at != NOWHERE && followers->at[at].watch != watch)
        at = followers->at[at].next_watch;
    return at == NOWHERE ? NULL : &followers->at[at];
}

static int32_t index_of(const struct followers *followers, const struct followed *followed)
{
    return (int32_t)(followed - followers->at);
}

static void enter(struct followers *followers, struct followed *followed)
{
    int32_t *cookie = &followers->by_cookie[followed->cookie % FOLLOWED_MAX];
    int32_t *watch = &followers->by_watch[(uint32_t)followed->watch % FOLLOWED_MAX];
    followed->next_cookie = *cookie;
    followed->next_watch = *watch;
    *cookie = *watch = index_of(followers, followed);
    followers->count++;
    if ((uint32_t)*cookie >= followers->high)
        followers->high = (uint32_t)*cookie + 1;
}

static void take_out(struct followers *followers, struct followed *followed)
{
    const int32_t self = index_of(followers, followed);
    int32_t *at = &followers->by_cookie[followed->cookie % FOLLOWED_MAX];
    while (*at != self)
        at = &followers->at[*at].next_cookie;
    *at = followed->next_cookie;
    at = &followers->by_watch[(uint32_t)followed->watch % FOLLOWED_MAX];
    while (*at != self)
        at = &followers->at[*at].next_watch;
    *at = followed->next_watch;
    if (followed->closed_ns == 0)
        socket_news_unwatch(&followers->news, followed->watch);
    followed->cookie = 0;
    followed->next_cookie = followers->free;
    followers->free = self;
    followers->count--;
    while (followers->high > 0 && followers->at[followers->high - 1].cookie == 0)
        followers->high--;
}

/* --- telling the guard ---------------------------------------------------------------------------------------------*/

/* A moment of the real clock on that of the circuits. */
static uint64_t circuit_time(uint64_t real_ns)
{
    return clock_is_replaced() ? clock_circuit_ns() : real_ns;
}

/* Ages are by ticks: nothing came before what it followed. */
static uint64_t moment(uint64_t now_ns, uint32_t ago_ms, uint64_t not_before_ns)
{
    const uint64_t ago_ns = ago_ms * NS_PER_MS, at_ns = now_ns > ago_ns ? now_ns - ago_ns : 0;
    return at_ns < not_before_ns ? not_before_ns : at_ns;
}

void followed_settle(struct followed *followed, enum seen seen, int error, uint64_t came_ns, uint64_t since_ns)
{
    struct observation observation = {
        .seen = seen,
        .error = seen == SEEN_ERROR ? error : 0,
        .answered_before = followed->answered_before,
        .waited_ns = came_ns > since_ns ? came_ns - since_ns : 0,
        .stands_for = 1,
        .came_ns = circuit_time(came_ns),
    };
    guard_settle(guard_of(followed), followed->call, followed->target, followed->call, &observation,
                 clock_circuit_ns());
    followed->is_settled = true;
}

static void note_connected(struct followed *followed, const struct socket_facts *facts, uint64_t now_ns)
{
    /* At the first look, which comes late, by how long the way was. */
    const uint64_t way_ns = (uint64_t)facts->rtt_us * NS_PER_US, at_ns = followed->begun_ns + way_ns;
    if (followed->is_connected)
        return;
    followed->is_connected = followed->story.was_connected = true;
    const uint64_t connected_ns = followed->looks <= 1 && at_ns < now_ns ? at_ns : now_ns;
    guard_connected(guard_of(followed), followed->call, followed->target, circuit_time(connected_ns));
    if (connect_is_success(&followed->target->rules))
        followed_settle(followed, SEEN_CONNECTED, 0, connected_ns, followed->begun_ns);
}

static void note_requested(struct followed *followed, const struct socket_facts *facts, uint64_t now_ns)
{
    if (followed->requested_ns != 0)
        return;
    followed->requested_ns = moment(now_ns, facts->last_sent_ms, followed->begun_ns);
    guard_requested(guard_of(followed), followed->call, followed->target, circuit_time(followed->requested_ns));
}

/* What was asked and came belongs to the call that was just settled. */
static void draw_line(struct followed *followed, const struct socket_facts *facts)
{
    followed->story.asked = facts_sent(facts);
    followed->story.received = facts->bytes_received;
    followed->story.data_segs = facts->data_segs_in;
    followed->requested_ns = 0;
}

static void note_answer(struct followed *followed, const struct socket_facts *facts, uint64_t now_ns)
{
    const uint64_t since_ns = followed->requested_ns ? followed->requested_ns : followed->begun_ns;
    followed_settle(followed, SEEN_BYTES, 0, moment(now_ns, facts->last_received_ms, since_ns), since_ns);
    followed->answered_before = true;
    draw_line(followed, facts);
}

static void tell(struct followed *followed, const struct judged *judged, const struct socket_facts *facts,
                 uint64_t now_ns)
{
    if (judged->phase >= PHASE_CONNECTED)
        note_connected(followed, facts, now_ns);
    if (followed->is_settled)
        return;
    if (judged->phase >= PHASE_REQUESTED && judge_has_asked(facts, &followed->story))
        note_requested(followed, facts, now_ns);
    if (judged->phase == PHASE_ANSWERED)
        note_answer(followed, facts, now_ns);
}

/*
 * Its last call is settled. Of a request and an answer since, whichever came later tells whether the request waits: two
 * requests between two looks count as one.
 */
static void look_for_next(struct followed *followed, const struct socket_facts *facts, uint64_t now_ns)
{
    const struct attempt attempt = {.target = followed->target,
                                    .circuit = followed->circuit,
                                    .address_key = followed->address_key,
                                    .endpoint = &followed->endpoint,
                                    .shard = followed->call};
    const bool came = judge_has_answer(facts, &followed->story);
    if (!followed->answered_before || connect_is_success(&followed->target->rules))
        return;
    if (!judge_has_asked(facts, &followed->story)) {
        if (came)
            draw_line(followed, facts); /* more of the same answer */
        return;
    }
    const uint64_t asked_ns = moment(now_ns, facts->last_sent_ms, followed->begun_ns);
    const enum admission admission = guard_begin(guard_of(followed), &attempt, followed->call, circuit_time(asked_ns));
    if (admission != ADMIT_PASS && admission != ADMIT_PROBE) {
        draw_line(followed, facts);
        return;
    }
    followed->is_settled = false;
    note_requested(followed, facts, now_ns);
    if (came && facts->last_received_ms <= facts->last_sent_ms) {
        note_answer(followed, facts, now_ns);
    } else {
        followed->story.received = facts->bytes_received;
        followed->story.data_segs = facts->data_segs_in;
    }
}

void followed_apply(struct followed *followed, const struct socket_facts *facts)
{
    const uint64_t now_ns = clock_real_ns();
    if (followed->is_settled) {
        look_for_next(followed, facts, now_ns);
        return;
    }
    const struct judged judged = judge_standing(facts, &followed->story);
    tell(followed, &judged, facts, now_ns);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void forget(struct followers *followers, struct followed *followed)
{
    guard_forget(guard_of(followed), followed->call, followed->target, followed->call, clock_circuit_ns());
    followed->asker->calls--;
    take_out(followers, followed);
}

/* Since when what it waits for at its end has been waited for. */
static uint64_t waits_since(const struct followed *followed)
{
    return followed->requested_ns ? followed->requested_ns : followed->begun_ns;
}

void followed_end(struct followers *followers, struct followed *followed, const struct socket_facts *facts)
{
    const uint64_t now_ns = clock_real_ns(), closed_ns = followed->closed_ns ? followed->closed_ns : now_ns;
    if (followed->story.has_facts && followed->is_settled)
        look_for_next(followed, facts, now_ns);
    if (!followed->is_settled) {
        const struct judged judged = judge_gone(facts, &followed->story);
        if (followed->story.has_facts)
            tell(followed, &judged, facts, now_ns);
        const enum asker_end leaves = judged.seen != SEEN_GAVE_UP ? ASKER_GOES_ON
                                      : followed->has_tuple       ? followed->leaves
                                                                  : asker_end(followed->asker->pid);
        /* Who was killed, or is done, has not given up: it is left as unknown. */
        if (!followed->is_settled && !judged.unknown && leaves != ASKER_IS_KILLED && leaves != ASKER_EXITS_WELL)
            followed_settle(followed, judged.seen, judged.error, closed_ns, waits_since(followed));
    }
    forget(followers, followed);
}

void followed_abandon(struct followers *followers, struct followed *followed)
{
    forget(followers, followed);
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

struct followed *followed_begin(struct followers *followers, struct asker *asker, const struct attempt *attempt,
                                uint32_t call, const struct asked_socket *socket)
{
    const int watch = followers->free != NOWHERE ? socket_news_watch(&followers->news, socket->fd) : -1;
    if (watch < 0)
        return NULL;
    struct followed *followed = &followers->at[followers->free];
    followers->free = followed->next_cookie;
    *followed = (struct followed){.cookie = socket->cookie,
                                  .asker = asker,
                                  .target = attempt->target,
                                  .address_key = attempt->address_key,
                                  .begun_ns = socket->now_ns,
                                  .look_ns = socket->now_ns + FIRST_LOOK_NS,
                                  .circuit = attempt->circuit,
                                  .call = call,
                                  .watch = watch,
                                  .peer = socket->peer,
                                  .family = socket->family,
                                  .endpoint = *attempt->endpoint};
    enter(followers, followed);
    asker->calls++;
    return followed;
}
