/*
 * worker.c - the worker's loop, and what a connect is answered. See worker.h.
 *
 * One thread: what happened is heard before the next connect is decided, and a refusal takes some microseconds. Nothing
 * here waits but for news. What can't be found out about a connection lets it pass, unguarded.
 */
#define _GNU_SOURCE
#include "notify/worker.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "notify/askers.h"
#include "notify/filter.h"
#include "notify/followed.h"
#include "notify/policy_names.h"
#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/editions.h"
#include "segment/places.h"
#include "segment/segment.h"

/* 6.6: the asker runs on at once where the worker ran. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, uint64_t)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif
#define HEARINGS_MAX 64u
#define LOOK_AT_SEGMENT_NS NS_PER_S
/* Refusals whose connect a signal took back before it was told: it is the same attempt when it comes again. */
#define UNTOLD_MAX 64u

static struct worker {
    const struct policy *policy;
    int listener;
    struct keeper_known keeper;
    struct in_hand *in_hand;
    struct segment segment;
    struct state_places places;
    struct followers followers;
    struct askers askers;
    uint64_t untold[UNTOLD_MAX];
    uint32_t untold_cursor;
    uint64_t looked_ns;
} worker;

/* What a connect is answered. */
struct decision {
    int error; /* 0: it goes on */
    uint64_t refused;
    struct followed *followed;
};

static const struct target *target_named(const char *name, void *context)
{
    (void)context;
    return policy_target_named(worker.policy, name);
}

static const char *environment(const char *name)
{
    return secure_getenv(name);
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static bool attach(const struct notify_wish *wish)
{
    static struct segment_error error;
    const struct attaching attaching = {wish->policy->identity, &wish->policy->capacity, .patient = true};
    if (!state_places(environment, &worker.places) || !state_places_name(&worker.places, wish->policy->identity) ||
        !segment_attach_first(&worker.segment, &worker.places, &attaching, &error))
        return false;
    segment_learn_time(&worker.segment);
    editions_keep(&worker.segment, wish->policy->revision, wish->policy->text, true);
    return true;
}

static bool start(const struct notify_wish *wish, int listener, struct in_hand *in_hand)
{
    const char *what;
    const uint64_t flags = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
    memset(&worker, 0, sizeof worker); /* a keeper that a worker made has that one's */
    worker.policy = wish->policy;
    worker.listener = listener;
    worker.in_hand = in_hand;
    if (!attach(wish) || !socket_news_open(&worker.followers.news, &what))
        return false;
    followers_start(&worker.followers);
    const struct guard model = {.segment = &worker.segment,
                                .log = wish->log,
                                .still_hangs = followed_still_hangs,
                                .target_named = target_named,
                                .context = &worker.followers};
    askers_start(&worker.askers, &model, wish->policy->revision);
    policy_names_read(wish->names ? strdup(wish->names) : NULL);
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags);
    worker.looked_ns = clock_real_ns();
    return true;
}

/* --- a connect ---------------------------------------------------------------------------------------------------- */

/* Where a connect goes, and by what target and circuit. */
struct heading {
    struct endpoint endpoint;
    struct policy_match match;
    char text[DESTINATION_MAX];
    uint8_t family;
    uint16_t peer;
};

static bool read_heading(const struct seccomp_notif *question, struct asked_call *call, struct heading *heading)
{
    struct sockaddr_storage address = {0};
    uint32_t words[3];
    const char *names[NAMES_OF_ADDRESS];
    if (call->arguments != 0) {
        if (!asker_read(question->pid, call->arguments, words, sizeof words))
            return false;
        call->fd = (int)words[0];
        call->address = words[1];
        call->length = words[2];
    }
    const uint32_t length = (uint32_t)call->length;
    if (length < sizeof address.ss_family || length > sizeof address ||
        !asker_read(question->pid, call->address, &address, length) ||
        !endpoint_from_sockaddr(&heading->endpoint, (struct sockaddr *)&address, length))
        return false;
    if (heading->endpoint.family != ENDPOINT_IPV4 && heading->endpoint.family != ENDPOINT_IPV6)
        return false;
    const size_t count = policy_names_of(&heading->endpoint, names);
    if (!policy_match(worker.policy, &heading->endpoint, names, count, &heading->match) ||
        heading->match.target->mode == MODE_OFF || heading->match.target->scope == SCOPE_PROCESS ||
        policy_destination(&heading->match, &heading->endpoint, names, heading->text, sizeof heading->text) == 0)
        return false;
    heading->family = (uint8_t)address.ss_family;
    heading->peer = htons(heading->endpoint.port);
    return true;
}

/* False: it is no socket of TCP's. */
static bool know_socket(struct asked_socket *socket)
{
    int protocol = 0;
    socklen_t size = sizeof protocol, cookie_size = sizeof socket->cookie;
    return getsockopt(socket->fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP &&
           getsockopt(socket->fd, SOL_SOCKET, SO_COOKIE, &socket->cookie, &cookie_size) == 0;
}

static bool is_unconnected(int fd)
{
    struct socket_tuple tuple;
    struct socket_facts facts;
    return socket_news_read(fd, &tuple, &facts) && facts.state == TCP_CLOSE;
}

static bool was_untold(uint64_t cookie)
{
    for (uint32_t i = 0; i < UNTOLD_MAX; i++)
        if (worker.untold[i] == cookie) {
            worker.untold[i] = 0;
            return true;
        }
    return false;
}

/* What an error tells a program must be the end of its attempt: it would wait for the others for ever. */
static int error_of(const struct target *target)
{
    const int error = target->on_open;
    return error == 0 || error == EINTR || error == EINPROGRESS || error == EALREADY || error == EAGAIN ? ECONNREFUSED
                                                                                                        : error;
}

static void hear(void)
{
    for (unsigned int i = 0; i < HEARINGS_MAX && followers_hear(&worker.followers); i++) {
    }
}

static void admit(struct asker *asker, const struct heading *heading, const struct asked_socket *socket,
                  struct decision *decision)
{
    const uint64_t now_ns = clock_circuit_at(socket->now_ns);
    const struct target *target = heading->match.target;
    uint32_t call = CALL_NONE;
    struct attempt attempt = {.target = target, .address_key = endpoint_hash(&heading->endpoint)};
    attempt.endpoint = &heading->endpoint;
    attempt.shard = asker->guard.holder;
    attempt.circuit = circuits_in_use(&worker.segment, circuits_key(target->name, heading->text), now_ns);
    if (attempt.circuit == CIRCUIT_INDEX_NONE)
        attempt.circuit = circuits_find(&worker.segment, target->name, heading->text, now_ns);
    if (attempt.circuit == CIRCUIT_INDEX_NONE) {
        segment_note_no_room(&worker.segment, NO_ROOM_CIRCUITS);
        return;
    }
    const enum admission admission = guard_admit(&asker->guard, &attempt, now_ns, &call);
    if (admission != ADMIT_PASS && admission != ADMIT_PROBE) {
        decision->error = error_of(target);
        decision->refused = socket->cookie;
        return;
    }
    if (call == CALL_NONE)
        return;
    decision->followed = followed_begin(&worker.followers, asker, &attempt, call, socket);
    if (!decision->followed)
        guard_forget(&asker->guard, call, target, call, now_ns);
}

static void decide(uint32_t pid, const struct heading *heading, struct asked_socket *socket, struct decision *decision)
{
    if (!know_socket(socket))
        return;
    struct followed *followed = followed_find(&worker.followers, socket->cookie);
    if (followed) {
        /* It is pending, connected, or the attempt that a signal took back. */
        if (!followed->is_let_go || !is_unconnected(socket->fd)) {
            decision->followed = followed;
            return;
        }
        followed_abandon(&worker.followers, followed);
    }
    if (was_untold(socket->cookie)) {
        decision->error = error_of(heading->match.target);
        decision->refused = socket->cookie;
        return;
    }
    hear();
    socket->now_ns = clock_real_ns();
    struct asker *asker = askers_find(&worker.askers, pid);
    if (asker)
        admit(asker, heading, socket, decision);
}

static void answer_connect(const struct seccomp_notif *question, struct asked_call *call)
{
    struct heading heading;
    struct decision decision = {0};
    uint32_t pid;
    if (read_heading(question, call, &heading)) {
        struct asked_socket socket = {.family = heading.family, .peer = heading.peer};
        socket.fd = askers_take_descriptor(&worker.askers, question->pid, call->fd, &pid);
        if (socket.fd >= 0) {
            decide(pid, &heading, &socket, &decision);
            close(socket.fd); /* before the program goes on: no end of its own is to wait for us */
        }
    }
    if (decision.error != 0) {
        if (!answer_error(worker.listener, question->id, decision.error))
            worker.untold[worker.untold_cursor++ % UNTOLD_MAX] = decision.refused;
    } else if (answer_pass(worker.listener, question->id) && decision.followed) {
        decision.followed->is_let_go = true;
    }
}

/* A program asks how its connect went. */
static void answer_error_asked(const struct seccomp_notif *question, const struct asked_call *call)
{
    uint32_t pid, words[3];
    struct asked_socket socket = {.fd = call->fd};
    bool is_asked = worker.followers.count > 0;
    if (is_asked && call->arguments != 0) {
        is_asked = asker_read(question->pid, call->arguments, words, sizeof words) && words[1] == SOL_SOCKET &&
                   words[2] == SO_ERROR;
        socket.fd = (int)words[0];
    }
    socket.fd = is_asked ? askers_take_descriptor(&worker.askers, question->pid, socket.fd, &pid) : -1;
    if (socket.fd >= 0) {
        struct followed *followed = know_socket(&socket) ? followed_find(&worker.followers, socket.cookie) : NULL;
        if (followed)
            followed_asked(&worker.followers, followed, socket.fd);
        close(socket.fd);
    }
    answer_pass(worker.listener, question->id);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void answer_next(void)
{
    struct seccomp_notif *question = &worker.in_hand->question;
    struct asked_call call;
    if (!question_take(worker.listener, question))
        return;
    filter_read(&question->data, &call);
    if (call.kind == ASKED_CONNECT)
        answer_connect(question, &call);
    else if (call.kind == ASKED_ERROR)
        answer_error_asked(question, &call);
    else
        answer_pass(worker.listener, question->id);
    question->id = 0; /* answered: the keeper has nothing to do */
}

/* Once a second. False: the segment is another's by now, or gone. */
static bool look_around(uint64_t now_ns)
{
    if (now_ns - worker.looked_ns < LOOK_AT_SEGMENT_NS)
        return true;
    worker.looked_ns = now_ns;
    askers_tidy(&worker.askers);
    return !segment_is_given_up(&worker.segment) && segment_is_current(&worker.segment);
}

/* The keeper is gone: another is made, so that each has one to answer for it. */
static void renew_keeper(const struct notify_wish *wish)
{
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) {
    }
    close(worker.keeper.process);
    worker.keeper.process = worker.keeper.renew(wish, worker.listener, worker.in_hand);
}

enum worker_end worker_run(const struct notify_wish *wish, int listener, struct in_hand *in_hand,
                           const struct keeper_known *keeper)
{
    if (!start(wish, listener, in_hand))
        return WORKER_CANT;
    bool is_asked = true;
    worker.keeper = *keeper;
    /* When all who were guarded are gone, it still waits for what their sockets' last news tells. */
    while (is_asked || worker.followers.count > 0) {
        struct pollfd ready[] = {{.fd = is_asked ? listener : -1, .events = POLLIN},
                                 {.fd = worker.followers.news.closes, .events = POLLIN},
                                 {.fd = worker.followers.news.deaths, .events = POLLIN},
                                 {.fd = worker.keeper.process, .events = POLLIN}};
        const int pause_ms = followers_look(&worker.followers);
        atomic_fetch_add_explicit(&in_hand->beats, 1, memory_order_relaxed);
        if (poll(ready, sizeof ready / sizeof *ready, pause_ms >= 0 && pause_ms < 1000 ? pause_ms : 1000) < 0 &&
            errno != EINTR)
            return WORKER_BEGINS_ANEW;
        hear();
        if (ready[0].revents & POLLIN)
            answer_next();
        else if (ready[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            is_asked = false;
        if (ready[3].revents & POLLIN)
            renew_keeper(wish);
        if (!look_around(clock_real_ns()))
            return WORKER_BEGINS_ANEW;
    }
    askers_leave(&worker.askers);
    return WORKER_IS_DONE;
}
