/*
 * followed_look.c - from what the kernel tells of a socket to what its connection's call is told.
 *
 * A blocking connect tells nothing when it is over: such a socket is looked for in the kernel's list a few milliseconds
 * later, if it was not closed by then. From then on, or from the program's asking for SO_ERROR, its two ends are known,
 * and it is asked about by them.
 */
#define _GNU_SOURCE
#include <netinet/tcp.h>

#include "base/clock.h"
#include "notify/followed.h"
#include "notify/followed_steps.h"

#define LAST_LOOK_NS (100 * NS_PER_MS)
/* A blocking connect's thread may not have come to it at the first look. */
#define LOOKS_UNTIL_LOST 6u
/* For so long after its close a socket's last counters are waited for. */
#define DEATH_NS (250 * NS_PER_MS)

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
    struct followed *followed = followed_of_watch(followers, watch);
    struct socket_facts facts;
    if (!followed || followed->closed_ns != 0)
        return;
    const uint64_t now_ns = clock_real_ns();
    followed->closed_ns = now_ns;
    /* Asked as soon as can be: a program that closes and ends at once has given up, one whose end closes it has not. */
    if (followed->has_tuple && !followed->is_settled)
        followed->leaves = asker_end(followed->asker->pid);
    if (followed->story.age_ns == 0)
        followed->story.age_ns = now_ns - followed->begun_ns;
    followed->look_ns = now_ns + DEATH_NS;
    if (!followed->has_tuple || !socket_news_ask(&followers->news, &followed->tuple, 0, &facts))
        return;
    note_order(&followed->story, facts.state);
    if (facts.state == TCP_TIME_WAIT || facts.segs_in == 0)
        return; /* its last counters are on their way */
    followed->story.has_facts = true;
    followed_end(followers, followed, &facts);
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
    followed_end(followers, followed, facts);
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
        followed_apply(followed, facts);
}

/* How an open one stands. */
static void look_at(struct followers *followers, struct followed *followed)
{
    struct socket_facts facts;
    if (followed->has_tuple && socket_news_ask(&followers->news, &followed->tuple, followed->cookie, &facts)) {
        followed_apply(followed, &facts);
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
    followed_end(followers, followed, &facts);
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

/* --- SO_ERROR ----------------------------------------------------------------------------------------------------- */

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
        followed_settle(followed, SEEN_ERROR, error, now_ns, followed->begun_ns);
    else
        followed_apply(followed, &facts);
}
