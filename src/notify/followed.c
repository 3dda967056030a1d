/*
 * followed.c - the table of connections, and what each piece of news means for its call. See followed.h.
 *
 * A blocking connect tells nothing when it is over: such a socket is looked for in the kernel's list a few milliseconds
 * later, if it was not closed by then. From then on, or from the program's asking for SO_ERROR, its two ends are known,
 * and it is asked about by them.
 */
#define _GNU_SOURCE
#include "notify/followed.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "segment/calls.h"

#define FIRST_LOOK_NS (2 * NS_PER_MS)
#define LAST_LOOK_NS (100 * NS_PER_MS)
/* A blocking connect's thread may not have come to it at the first look. */
#define LOOKS_UNTIL_LOST 6u
/* For so long after its close a socket's last counters are waited for. */
#define DEATH_NS (250 * NS_PER_MS)
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

static struct followed *find_watch(struct followers *followers, int watch)
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

static struct guard *guard_of(const struct followed *followed)
{
    return &followed->asker->guard;
}

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

static void settle(struct followed *followed, enum seen seen, int error, uint64_t came_ns, uint64_t since_ns)
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
        settle(followed, SEEN_CONNECTED, 0, connected_ns, followed->begun_ns);
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
    settle(followed, SEEN_BYTES, 0, moment(now_ns, facts->last_received_ms, since_ns), since_ns);
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

static void apply(struct followed *followed, const struct socket_facts *facts)
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

static void end(struct followers *followers, struct followed *followed, const struct socket_facts *facts)
{
    const uint64_t now_ns = clock_real_ns(), closed_ns = followed->closed_ns ? followed->closed_ns : now_ns;
    if (followed->story.has_facts && followed->is_settled)
        look_for_next(followed, facts, now_ns);
    if (!followed->is_settled) {
        const struct judged judged = judge_gone(facts, &followed->story);
        if (followed->story.has_facts)
            tell(followed, &judged, facts, now_ns);
        const enum asker_end leaves =
            judged.seen == SEEN_GAVE_UP && !judged.unknown ? asker_end(followed->asker->pid) : ASKER_GOES_ON;
        /* Who was killed, or is done, has not given up: it is left as unknown. */
        if (!followed->is_settled && !judged.unknown && leaves != ASKER_IS_KILLED && leaves != ASKER_EXITS_WELL)
            settle(followed, judged.seen, judged.error, closed_ns, waits_since(followed));
    }
    forget(followers, followed);
}

void followed_abandon(struct followers *followers, struct followed *followed)
{
    forget(followers, followed);
}

/* Who went first is to be seen by its state while it stands, or pauses. */
static void note_order(struct story *story, uint8_t state)
{
    if (state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK)
        story->peer_ended_first = true;
    else if (state != TCP_SYN_SENT && state != TCP_CLOSE)
        story->program_ended_first = true;
}

static void closed(int watch, void *context)
{
    struct followers *followers = context;
    struct followed *followed = find_watch(followers, watch);
    struct socket_facts facts;
    if (!followed || followed->closed_ns != 0)
        return;
    const uint64_t now_ns = clock_real_ns();
    followed->closed_ns = now_ns;
    if (followed->story.age_ns == 0)
        followed->story.age_ns = now_ns - followed->begun_ns;
    followed->look_ns = now_ns + DEATH_NS;
    if (!followed->has_tuple || !socket_news_ask(&followers->news, &followed->tuple, 0, &facts))
        return;
    note_order(&followed->story, facts.state);
    if (facts.state == TCP_TIME_WAIT || facts.segs_in == 0)
        return; /* its last counters are on their way */
    followed->story.has_facts = true;
    end(followers, followed, &facts);
}

static void died(uint64_t cookie, const struct socket_tuple *tuple, const struct socket_facts *facts, void *context)
{
    struct followers *followers = context;
    struct followed *followed = followed_find(followers, cookie);
    struct socket_facts left;
    if (!followed)
        return;
    struct story *story = &followed->story;
    story->has_facts = true;
    if (story->age_ns == 0)
        story->age_ns = clock_real_ns() - followed->begun_ns;
    if (!story->peer_ended_first && !story->program_ended_first && tuple->peer != 0 &&
        socket_news_ask(&followers->news, tuple, 0, &left))
        story->pauses = left.state == TCP_TIME_WAIT || left.state == TCP_FIN_WAIT2;
    end(followers, followed, facts);
}

bool followers_hear(struct followers *followers)
{
    const struct socket_listener listener = {closed, died, followers};
    return socket_news_take(&followers->news, &listener);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void found(uint64_t cookie, const struct socket_tuple *tuple, const struct socket_facts *facts, void *context)
{
    struct followers *followers = context;
    struct followed *followed = followed_find(followers, cookie);
    if (!followed || followed->has_tuple)
        return;
    followed->tuple = *tuple;
    followed->has_tuple = true;
    followed->story.age_ns = 0;
    if (followed->closed_ns == 0)
        apply(followed, facts);
}

/* How an open one stands. */
static void look_at(struct followers *followers, struct followed *followed)
{
    struct socket_facts facts;
    if (followed->has_tuple && socket_news_ask(&followers->news, &followed->tuple, followed->cookie, &facts)) {
        apply(followed, &facts);
        return;
    }
    if (!followed->has_tuple) {
        socket_news_list(&followers->news, followed->family, followed->peer, found, followers);
        if (followed->has_tuple)
            return;
    }
    /* It failed, or was reset, and the program has not closed it: what became of it is told then. */
    if (followed->story.age_ns == 0)
        followed->story.age_ns = clock_real_ns() - followed->begun_ns;
    if (followed->looks >= LOOKS_UNTIL_LOST)
        guard_excuse(guard_of(followed), followed->call);
}

static void look_after_close(struct followers *followers, struct followed *followed)
{
    struct socket_facts facts = {0};
    if (!followed->has_tuple)
        socket_news_list(&followers->news, followed->family, followed->peer, found, followers);
    if (followed->has_tuple && socket_news_ask(&followers->news, &followed->tuple, followed->cookie, &facts)) {
        note_order(&followed->story, facts.state);
        followed->story.has_facts = true;
    }
    end(followers, followed, &facts);
}

int followers_look(struct followers *followers)
{
    const uint64_t now_ns = clock_real_ns();
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < followers->high; i++) {
        struct followed *followed = &followers->at[i];
        if (followed->cookie == 0)
            continue;
        if (followed->look_ns <= now_ns && followed->closed_ns != 0) {
            look_after_close(followers, followed);
            continue;
        }
        if (followed->look_ns <= now_ns) {
            look_at(followers, followed);
            const uint64_t pause_ns = FIRST_LOOK_NS << (followed->looks < 6 ? followed->looks : 6);
            followed->looks++;
            followed->look_ns = now_ns + (pause_ns < LAST_LOOK_NS ? pause_ns : LAST_LOOK_NS);
        }
        if (followed->look_ns < next_ns)
            next_ns = followed->look_ns;
    }
    if (next_ns == UINT64_MAX)
        return -1;
    return next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / NS_PER_MS) + 1;
}

bool followed_still_hangs(uint32_t call, enum phase phase, void *context)
{
    struct followers *followers = context;
    for (uint32_t i = 0; i < followers->high; i++) {
        struct followed *followed = &followers->at[i];
        if (followed->cookie == 0 || followed->call != call || followed->closed_ns != 0)
            continue;
        look_at(followers, followed);
        bool is_over;
        return !followed->is_settled && guard_phase(guard_of(followed), call, &is_over) == phase;
    }
    return false;
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

void followed_asked(struct followers *followers, struct followed *followed, int fd)
{
    struct socket_facts facts;
    struct socket_tuple tuple;
    (void)followers;
    if (followed->is_settled || !socket_news_read(fd, &tuple, &facts))
        return;
    if (tuple.peer != 0 && !followed->has_tuple) {
        followed->tuple = tuple;
        followed->has_tuple = true;
    }
    const uint64_t now_ns = clock_real_ns();
    const int error = followed->is_connected ? 0 : judge_connect_error(&facts, now_ns - followed->begun_ns);
    if (error != 0)
        settle(followed, SEEN_ERROR, error, now_ns, followed->begun_ns);
    else
        apply(followed, &facts);
}
