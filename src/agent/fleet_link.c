/*
 * fleet_link.c - the agent's connections to one Redis. See fleet_link.h.
 */
#include "agent/fleet_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/redis_line.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"

/* A reply's tag has the member's number above the member's own. */
#define TAG_BITS FLEET_TAG_BITS
#define TAG_MASK ((1u << TAG_BITS) - 1)
_Static_assert(LINK_MEMBERS <= 1u << (32 - TAG_BITS), "a number fits");

/* After so long without a break the next one is taken for a new one. */
#define WELL_AFTER_NS (10 * NS_PER_S)

struct member {
    struct fleet *fleet; /* NULL: a free place */
    uint32_t unanswered; /* commands on this connection: their answers may be to a former member */
    struct fleet_link *link;
    char channel[FLEET_NAME_MAX + 32];
};

struct fleet_link {
    struct ev_loop *loop;
    struct redis_line *talks, *listens;
    void (*news)(void);
    struct ev_timer soon, each_second;
    uint64_t stands_ns, random, commands;
    char trouble[200];
    struct member members[LINK_MEMBERS];
    unsigned int count; /* places that were ever used */
};

static void send_of_member(void *context, const struct fleet_command *command)
{
    struct member *const member = context;
    struct fleet_command marked = *command;

    if (!redis_line_stands(member->link->talks))
        return;
    marked.tag = (uint32_t)(member - member->link->members) << TAG_BITS | command->tag;
    member->link->commands++;
    member->unanswered++;
    redis_line_send(member->link->talks, &marked);
}

static void note_trouble(struct fleet_link *link, const char *words)
{
    struct text text;

    if (words[0] == '\0')
        return;
    text_start(&text, link->trouble, sizeof link->trouble);
    text_add(&text, words);
}

/* The next look of whoever is due first, if that is before the second is over. */
static void come_soon(struct fleet_link *link, const struct fleet *fleet, uint64_t now_ns)
{
    const uint64_t due_ns = fleet_due_ns(fleet);

    if (due_ns == UINT64_MAX)
        return;
    const double in_s = due_ns > now_ns ? (double)(due_ns - now_ns) / (double)NS_PER_S : 0;
    if (ev_is_active(&link->soon) && ev_timer_remaining(link->loop, &link->soon) <= in_s)
        return;
    ev_timer_stop(link->loop, &link->soon);
    ev_timer_set(&link->soon, in_s, 0);
    ev_timer_start(link->loop, &link->soon);
}

void fleet_link_turn(struct fleet_link *link, struct fleet *fleet, uint64_t now_ns)
{
    fleet_turn(fleet, now_ns);
    if (fleet_has_failed(fleet, now_ns)) {
        note_trouble(link, fleet_trouble(fleet));
        redis_line_give_up(link->talks, fleet_trouble(fleet));
    } else {
        come_soon(link, fleet, now_ns);
    }
}

static void let_all_look(struct fleet_link *link, uint64_t now_ns)
{
    for (unsigned int i = 0; i < link->count; i++) {
        if (link->members[i].fleet != NULL)
            fleet_link_turn(link, link->members[i].fleet, now_ns);
    }
}

static void on_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    let_all_look(timer->data, clock_real_ns());
}

/* Also without anybody who watches its circuits: what takes too long is found. */
static void on_second(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct fleet_link *link = timer->data;
    const uint64_t now_ns = clock_real_ns();
    (void)loop, (void)events;

    if (redis_line_stands(link->talks) && now_ns - link->stands_ns >= WELL_AFTER_NS) {
        redis_line_is_well(link->talks);
        link->trouble[0] = '\0';
    }
    note_trouble(link, redis_line_trouble(link->talks));
    let_all_look(link, now_ns);
}

/* --- what the lines tell --- */

static void talk_stands(void *context)
{
    struct fleet_link *link = context;

    link->stands_ns = clock_real_ns();
    for (unsigned int i = 0; i < link->count; i++) {
        if (link->members[i].fleet != NULL)
            fleet_connected(link->members[i].fleet, link->stands_ns);
    }
    let_all_look(link, link->stands_ns);
}

static void talk_broken(void *context)
{
    struct fleet_link *link = context;

    for (unsigned int i = 0; i < link->count; i++) {
        link->members[i].unanswered = 0;
        if (link->members[i].fleet != NULL)
            fleet_broken(link->members[i].fleet);
    }
}

static void talk_answers(void *context, uint32_t tag, const struct fleet_reply *reply)
{
    struct fleet_link *link = context;
    struct member *const member = &link->members[tag >> TAG_BITS];
    struct fleet *const fleet = member->fleet;
    const uint64_t now_ns = clock_real_ns();

    member->unanswered -= member->unanswered > 0;
    if (fleet == NULL)
        return;
    fleet_answer(fleet, tag & TAG_MASK, reply, now_ns);
    if (fleet_has_failed(fleet, now_ns)) {
        note_trouble(link, fleet_trouble(fleet));
        redis_line_give_up(link->talks, fleet_trouble(fleet));
        return;
    }
    come_soon(link, fleet, now_ns);
    if (fleet_due_ns(fleet) != UINT64_MAX && fleet_has_news(fleet, now_ns) && link->news != NULL)
        link->news();
}

static void subscribe(const struct member *member)
{
    const char *const words[] = {"SUBSCRIBE", member->channel};
    const size_t lengths[] = {9, strlen(member->channel)};
    const struct fleet_command command = {
        .tag = (uint32_t)(member - member->link->members), .count = 2, .words = words, .lengths = lengths};

    redis_line_send(member->link->listens, &command);
}

static void listen_stands(void *context)
{
    struct fleet_link *link = context;

    redis_line_is_well(link->listens);
    for (unsigned int i = 0; i < link->count; i++) {
        if (link->members[i].fleet != NULL)
            subscribe(&link->members[i]);
    }
}

static void listen_broken(void *context)
{
    (void)context;
}

/* Of a subscription. */
static void listen_answers(void *context, uint32_t tag, const struct fleet_reply *reply)
{
    struct fleet_link *link = context;
    (void)tag;

    if (reply->type == REPLY_ERROR)
        redis_line_give_up(link->listens, "it lets nobody listen");
}

static bool is_channel(const struct fleet_reply *text, const struct member *member)
{
    const size_t length = strlen(member->channel);

    return text->type == REPLY_TEXT && text->length == length && memcmp(text->text, member->channel, length) == 0;
}

/* "message", the channel, and what nobody reads. */
static void listen_hears(void *context, const struct fleet_reply *reply)
{
    struct fleet_link *link = context;

    if (reply->type != REPLY_LIST || reply->count != 3)
        return;
    for (unsigned int i = 0; i < link->count; i++) {
        if (link->members[i].fleet == NULL || !is_channel(&reply->items[1], &link->members[i]))
            continue;
        fleet_nudge(link->members[i].fleet);
        come_soon(link, link->members[i].fleet, clock_real_ns());
    }
}

/* --- its life --- */

bool fleet_link_is_possible(const struct redis_url *url, const char **why)
{
    return redis_line_is_possible(url, why);
}

struct fleet_link *fleet_link_open(struct ev_loop *loop, const struct redis_url *url, void (*news)(void))
{
    struct fleet_link *link = calloc(1, sizeof *link);
    const struct redis_line_events talk = {talk_stands, talk_broken, talk_answers, NULL, link};
    const struct redis_line_events listen = {listen_stands, listen_broken, listen_answers, listen_hears, link};

    if (link == NULL)
        return NULL;
    link->loop = loop;
    ev_timer_init(&link->soon, on_soon, 0, 0);
    ev_timer_init(&link->each_second, on_second, 1, 1);
    link->soon.data = link->each_second.data = link;
    link->news = news;
    if (getrandom(&link->random, sizeof link->random, GRND_NONBLOCK) != sizeof link->random)
        link->random = clock_real_ns() ^ (uint64_t)(uintptr_t)link;
    link->talks = redis_line_open(loop, url, &talk);
    link->listens = redis_line_open(loop, url, &listen);
    if (link->talks != NULL && link->listens != NULL) {
        ev_timer_start(loop, &link->each_second);
        return link;
    }
    redis_line_close(link->talks);
    redis_line_close(link->listens);
    free(link);
    return NULL;
}

void fleet_link_close(struct fleet_link *link)
{
    if (link == NULL)
        return;
    for (unsigned int i = 0; i < link->count; i++)
        fleet_link_leave(link, link->members[i].fleet);
    ev_timer_stop(link->loop, &link->soon);
    ev_timer_stop(link->loop, &link->each_second);
    redis_line_close(link->talks);
    redis_line_close(link->listens);
    free(link);
}

struct fleet *fleet_link_join(struct fleet_link *link, const char *name, uint64_t host)
{
    struct member *member = NULL;
    struct text text;

    for (unsigned int i = 0; i < LINK_MEMBERS && member == NULL; i++)
        member = link->members[i].fleet == NULL && link->members[i].unanswered == 0 ? &link->members[i] : NULL;
    if (member == NULL)
        return NULL;
    const struct fleet_way way = {.send = send_of_member, .context = member};
    member->link = link;
    member->fleet = fleet_create(name, host, hash_spread(link->random += HASH_STEP), &way);
    if (member->fleet == NULL)
        return NULL;
    char plain[FLEET_NAME_MAX];
    fleet_name_from(name, plain);
    text_start(&text, member->channel, sizeof member->channel);
    text_add(&text, "sockfuse:1:{");
    text_add(&text, plain);
    text_add(&text, "}:changes");
    const unsigned int number = (unsigned int)(member - link->members);
    link->count = link->count > number ? link->count : number + 1;
    if (redis_line_stands(link->talks))
        fleet_connected(member->fleet, clock_real_ns());
    subscribe(member);
    return member->fleet;
}

void fleet_link_leave(struct fleet_link *link, struct fleet *fleet)
{
    for (unsigned int i = 0; fleet != NULL && i < link->count; i++) {
        if (link->members[i].fleet != fleet)
            continue;
        fleet_leave(fleet);
        fleet_free(fleet);
        link->members[i].fleet = NULL;
        return;
    }
}

const char *fleet_link_trouble(const struct fleet_link *link)
{
    return link->trouble;
}

bool fleet_link_works(const struct fleet_link *link)
{
    return redis_line_stands(link->talks);
}

uint64_t fleet_link_commands(const struct fleet_link *link)
{
    return link->commands;
}
