/*
 * judgement.c - the turns of a connection's life: connected, requested, ended. See judgement.h.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include <errno.h>

#include "base/clock.h"
#include "breaker/http.h"
#include "connection/deferred.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "connection/races.h"
#include "connection/socket_state.h"
#include "connection/stopping.h"
#include "connection/system.h"
#include "connection/upload.h"

/* A program's last words before it closes (TLS close_notify, "quit") are no new request: the wait before them counts.
 */
#define LAST_WORDS_NS (50 * NS_PER_MS)
/* A shutdown of the sending side this long before the close was the end of the request, not of the program's patience.
 */
#define HALF_CLOSE_NS (100 * NS_PER_MS)

/* What has come later than this after a request is no TLS session ticket. */
#define TICKETS_NS (50 * NS_PER_MS)
/* The kernel's clock for when data came goes in steps of a tick. */
#define DATA_STEP_NS (20 * NS_PER_MS)
/* Pending attempts that the kernel is asked about when one of their siblings is given up. */
#define LOOKS 8u

/*
 * Circuits that have answered this process after it had spoken first: a further connection that is opened and closed
 * unused did not wait for a greeting (node's fetch keeps one in reserve). Two circuits that share a place may hide
 * that, never make it up.
 */
#define POLITE_PLACES 512u
static _Atomic uint32_t polite[POLITE_PLACES]; /* circuit + 1; a root of this file alone */

static void note_polite(const struct connection *connection)
{
    if (connection_has(connection, CONNECTION_SENT) && !connection_has(connection, CONNECTION_REUSED))
        atomic_store_explicit(&polite[connection->place.circuit % POLITE_PLACES], connection->place.circuit + 1,
                              memory_order_relaxed);
}

static bool is_spare(const struct connection *connection)
{
    return connection_state(connection) == STATE_CONNECTED &&
           atomic_load_explicit(&polite[connection->place.circuit % POLITE_PLACES], memory_order_relaxed) ==
               connection->place.circuit + 1;
}

void judgement_follow(struct connection *connection, const struct policy *policy, const struct target *target)
{
    if (target->enforce_timeouts || target->fault_count)
        atomic_store_explicit(&engine.tends_waits, true, memory_order_relaxed);
    if (connect_is_success(&target->rules))
        connection_mark(connection, CONNECTION_ONE_WAY);
    else
        connection_unmark(connection, CONNECTION_ONE_WAY);
    if (target->fault_count)
        connection_mark(connection, CONNECTION_DRAWS);
    else
        connection_unmark(connection, CONNECTION_DRAWS);
    /* The new one is followed before anybody can find it here, and the former one until nobody can. */
    uint32_t follows = policy_keeping_follow(target);
    atomic_store_explicit(&connection->target, target, memory_order_release);
    atomic_store_explicit(&connection->policy, policy, memory_order_relaxed);
    policy_keeping_leave(atomic_exchange_explicit(&connection->follows, follows, memory_order_acq_rel));
}

void judgement_unfollow(struct connection *connection)
{
    policy_keeping_leave(atomic_exchange_explicit(&connection->follows, 0, memory_order_acq_rel));
}

enum phase judgement_phase(const struct connection *connection)
{
    bool settled = false;
    enum phase phase = guard_phase(&connection->station->guard, connection->place.call, &settled);
    return settled ? PHASE_ANSWERED : phase;
}

/* A moment of the circuits' clock that lies so far back. */
static uint64_t before(uint64_t now_ns, uint64_t ago_ns)
{
    return now_ns > ago_ns ? now_ns - ago_ns : 1;
}

/*
 * The program has seen something at last, and its call is beyond its limit. The kernel knows when it came: a program
 * whose event loop was blocked for a while is late itself, and not its peer. (Of a UNIX socket nothing is known. Of an
 * answer in many parts the last one is: whoever was blocked while a peer was sending can't be told from a late one.)
 */
static uint64_t came_at(const struct connection *connection, enum seen seen, uint64_t now_ns, uint64_t due_ns)
{
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    if (connection_has(connection, CONNECTION_UNIX) || !judgement_is_same_socket(connection, fd))
        return now_ns;
    struct socket_state state = socket_state(fd, false);
    uint64_t timeout_ns = connection_target(connection)->response_timeout_ns;
    switch (seen) {
    case SEEN_BYTES:
        /* The request may have been on its way for long after the program had sent it. */
        if (connection_has(connection, CONNECTION_LARGE) && state.sent_ns < state.data_ns + timeout_ns)
            return due_ns - 1;
        return before(now_ns, state.data_ns);
    case SEEN_CONNECTED:
    case SEEN_END: /* it came with an acknowledgement, and nothing comes after it */
        return before(now_ns, state.quiet_ns);
    default:
        return now_ns;
    }
}

/*
 * Since when it is connected: now as a rule. One that was found connected and not asked for may have been so for long;
 * where the circuits' clock is not the kernel's, nobody can say for how long.
 */
static uint64_t connected_at(const struct connection *connection, bool found)
{
    uint64_t now_ns = clock_circuit_ns();
    uint64_t due_ns = guard_due(&connection->station->guard, connection->place.call);
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    if (now_ns < due_ns || connection_has(connection, CONNECTION_UNIX) || !judgement_is_same_socket(connection, fd))
        return now_ns;
    if (found && clock_is_replaced())
        return due_ns - 1;
    struct socket_state state = socket_state(fd, false);
    uint64_t came_ns = before(now_ns, state.quiet_ns);
    /* Where data has come the acknowledgement was later than the connection, and that is not known. */
    return state.data_in && came_ns >= due_ns ? due_ns - 1 : came_ns;
}

/*
 * Nobody listens at a port of the ephemeral range, and the kernel has given the socket that very port: both SYNs meet,
 * and the program is connected to itself (RFC 9293, 3.5: simultaneous open). One system call, if the socket's state is
 * not known or leaves it open.
 */
static bool is_own_peer(const struct connection *connection, const struct socket_state *state)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    struct endpoint endpoint;
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    return connection_has(connection, CONNECTION_MAY_LOOP) && !(state && state->met_a_peer) &&
           sys.getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
           endpoint_from_sockaddr(&endpoint, (struct sockaddr *)&own, length) &&
           endpoint_hash(&endpoint) == connection->address_key;
}

static void note_connected(struct connection *connection, const struct socket_state *state, bool found)
{
    if (connection_state(connection) != STATE_CONNECTING || judgement_phase(connection) != PHASE_CONNECTING)
        return;
    if (is_own_peer(connection, state)) {
        judgement_settle(connection, SEEN_REFUSED, 0, false);
        return;
    }
    connection_happens(connection, ON_CONNECTION);
    if (connection_has(connection, CONNECTION_SENT)) /* with Fast Open, before */
        connection_happens(connection, ON_REQUEST);
    races_connected(connection->place.circuit, connection->address_key);
    if (connect_is_success(&connection_target(connection)->rules)) {
        judgement_settle(connection, SEEN_CONNECTED, 0, false);
        return;
    }
    atomic_store_explicit(&connection->waiting_since_ns, clock_real_ns(), memory_order_relaxed);
    guard_connected(&connection->station->guard, connection->place.call, connection_target(connection),
                    connected_at(connection, found));
}

void judgement_connected(struct connection *connection, const struct socket_state *state)
{
    note_connected(connection, state, false);
}

void judgement_found_connected(struct connection *connection, const struct socket_state *state)
{
    note_connected(connection, state, true);
}

bool judgement_may_be_anothers(const struct connection *connection)
{
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    enum phase phase = judgement_phase(connection);
    if (connection_has(connection, CONNECTION_PASSED) ||
        lineage_is_taken_over(atomic_load_explicit(&connection->entry, memory_order_relaxed), since_ns))
        return true;
    if (phase == PHASE_CONNECTED)
        return connection->forks != lineage_forks();
    uint64_t now_ns = clock_real_ns();
    if (phase != PHASE_REQUESTED || !lineage_has_just_made_child(since_ns, now_ns))
        return false;
    /* Sooner it is a cancellation anyway, which only a probe is worse off by. */
    return now_ns - since_ns >= connection_target(connection)->rules.abandon_after_ns ||
           guard_probes(&connection->station->guard, connection->place.call);
}

void judgement_requested(struct connection *connection)
{
    uint64_t now_ns = clock_real_ns();
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    if (connection_has(connection, CONNECTION_SENT) && now_ns - since_ns >= LAST_WORDS_NS)
        atomic_store_explicit(&connection->waited_before_ns, since_ns, memory_order_relaxed);
    connection_mark(connection, CONNECTION_SENT);
    connection_happens(connection, ON_REQUEST);
    connection_keep(connection, false);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    upload_wait(connection, clock_circuit_at(now_ns));
}

void judgement_request_sent(struct connection *connection)
{
    uint64_t now_ns = clock_real_ns();
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    upload_wait(connection, clock_circuit_at(now_ns));
}

void judgement_request_withdrawn(struct connection *connection)
{
    /* However long the send took, nobody has waited for an answer. */
    atomic_store_explicit(&connection->waiting_since_ns, clock_real_ns(), memory_order_relaxed);
    judgement_settle(connection, SEEN_GAVE_UP, 0, false);
    if (connection_has(connection, CONNECTION_REUSED))
        connection_happens(connection, ON_WITHDRAWAL);
    if (connection_has(connection, CONNECTION_GREETED))
        connection_unmark(connection, CONNECTION_ASKED);
}

/* How long the program has waited for what it waits for now. */
static uint64_t waited_ns(const struct connection *connection, uint64_t now)
{
    uint64_t since = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    uint64_t shut = atomic_load_explicit(&connection->shut_write_ns, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&connection->waited_before_ns, memory_order_relaxed);
    if (before && now - since < LAST_WORDS_NS)
        since = before;
    if (shut > since && now - shut > HALF_CLOSE_NS)
        since = shut;
    return now > since ? now - since : 0;
}

/* Of the time that the program has waited: only while the peer took nothing, where much was to be sent. */
static uint64_t waited_for_peer(const struct connection *connection, uint64_t waited)
{
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    uint64_t silent_ns;
    if (upload_silence(connection, fd, &silent_ns) && silent_ns < waited)
        return silent_ns;
    return waited;
}

void judgement_ending_own_side(struct connection *connection)
{
    uint64_t wait_ns = waited_ns(connection, clock_real_ns());
    if (judgement_phase(connection) == PHASE_REQUESTED && wait_ns >= LAST_WORDS_NS &&
        wait_ns >= connection_target(connection)->rules.abandon_after_ns)
        connection_mark(connection, CONNECTION_GAVE_UP);
}

/* Seconds from now, as the answer says; a date that is past, or absurd, says nothing. */
uint64_t judgement_retry_after_ns(const struct http_head *head)
{
    uint64_t seconds = http_retry_after_s(head, clock_wall_ns() / NS_PER_S);
    return seconds < UINT32_MAX ? seconds * NS_PER_S : UINT32_MAX * NS_PER_S;
}

/*
 * A program that gives up a wait for an answer may have been stopped: then how it goes on tells what that means. (One
 * that gives up an attempt which has hung for long has met a fault, whatever made it.)
 */
static bool is_parting(struct connection *connection, const struct observation *observation)
{
    struct observation seen = *observation;
    seen.phase = judgement_phase(connection);
    if (!engine_ready() || (seen.seen != SEEN_GAVE_UP && !(seen.seen == SEEN_END && seen.gave_up)) ||
        (seen.phase != PHASE_CONNECTED && seen.phase != PHASE_REQUESTED) ||
        outcome_judge(&seen, &connection_target(connection)->rules).verdict != VERDICT_FAILURE)
        return false;
    enum stopping stopping = stopping_now();
    return stopping != STOPPING_NOT && deferred_take_parting(connection, observation, stopping);
}

/* What the end of a call means for its connection. */
static enum connection_event event_of(enum seen seen)
{
    switch (seen) {
    case SEEN_CONNECTED:
    case SEEN_BYTES:
        return ON_ANSWER;
    case SEEN_END:
    case SEEN_ERROR:
    case SEEN_REFUSED:
        return ON_LOSS;
    default:
        return ON_SILENCE;
    }
}

static void settle(struct connection *connection, enum seen seen, int error, bool at_once, const struct http_head *head)
{
    uint64_t real_ns = clock_real_ns(), now_ns = clock_circuit_at(real_ns);
    struct guard *guard = &connection->station->guard;
    bool rejected = connection_has(connection, CONNECTION_REJECTED) && seen != SEEN_BYTES;
    if (rejected)
        seen = SEEN_END; /* of the program's own making, in whatever way the peer takes it */
    struct observation observation = {
        .seen = seen,
        .error = seen == SEEN_ERROR || seen == SEEN_REFUSED ? error : 0,
        .at_once = at_once,
        .http_status = head ? head->status : 0,
        .retry_after_ns = head && connection_target(connection)->retry_after ? judgement_retry_after_ns(head) : 0,
        .answered_before =
            connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_GREETED),
        .end_answers = connection_has(connection, CONNECTION_CLOSES),
        .gave_up = connection_has(connection, CONNECTION_GAVE_UP),
        .own_end = rejected || (seen == SEEN_GAVE_UP && is_spare(connection)) ||
                   connection_has(connection, CONNECTION_SHUT_READ) ||
                   (connection_has(connection, CONNECTION_SHUT_WRITE) && !connection_has(connection, CONNECTION_SENT)),
        .waited_ns = waited_ns(connection, real_ns),
    };
    uint64_t due_ns = guard_due(guard, connection->place.call);
    if (now_ns >= due_ns)
        observation.came_ns = came_at(connection, seen, now_ns, due_ns);
    if (seen == SEEN_GAVE_UP)
        observation.waited_ns = waited_for_peer(connection, observation.waited_ns);
    if (seen == SEEN_GAVE_UP)
        observation.sibling_won =
            races_won(connection->place.circuit, connection->address_key, connection->raced_since);
    connection_happens(connection, event_of(seen));
    if (seen == SEEN_BYTES)
        note_polite(connection);
    if (seen != SEEN_BYTES && seen != SEEN_CONNECTED &&
        ((connection->sibling_count > 1 && deferred_take(connection, &observation)) ||
         is_parting(connection, &observation)))
        return;
    guard_settle(guard, connection->place.call, connection_target(connection), connection->place.call, &observation,
                 now_ns);
}

void judgement_settle(struct connection *connection, enum seen seen, int error, bool at_once)
{
    settle(connection, seen, error, at_once, NULL);
}

enum http_progress judgement_read_head(struct connection *connection, const struct iovec *vector, size_t count,
                                       size_t bytes, bool peeked, struct http_head *head)
{
    struct http_reader reader = connection_http(connection);
    enum http_progress progress = connection_target(connection)->http_read && vector ? HTTP_MORE : HTTP_NONE;
    for (size_t i = 0; i < count && bytes > 0 && progress == HTTP_MORE; i++) {
        size_t part = vector[i].iov_len < bytes ? vector[i].iov_len : bytes;
        progress = http_read(&reader, vector[i].iov_base, part, head);
        bytes -= part;
    }
    if (!peeked)
        connection_set_http(connection, &reader);
    return progress;
}

void judgement_answer(struct connection *connection, const struct iovec *vector, size_t count, size_t bytes,
                      bool peeked)
{
    struct http_head head;
    enum http_progress progress = judgement_read_head(connection, vector, count, bytes, peeked, &head);
    if (progress == HTTP_MORE) {
        connection_happens(connection, ON_PART);
        return;
    }
    if (progress == HTTP_KNOWN && head.status == HTTP_SWITCHING_PROTOCOLS)
        connection_mark(connection, CONNECTION_STREAM);
    settle(connection, SEEN_BYTES, 0, false, progress == HTTP_KNOWN ? &head : NULL);
}

/* An answer that had begun breaks off: what was read of it counts. False: nothing but interim answers had come. */
static bool settle_broken_answer(struct connection *connection)
{
    struct http_head head;
    struct http_reader reader = connection_http(connection);
    if (connection_state(connection) != STATE_ANSWERING || !http_has_begun(&reader))
        return false;
    bool known = http_break(&reader, &head) == HTTP_KNOWN;
    settle(connection, SEEN_BYTES, 0, false, known ? &head : NULL);
    return true;
}

/*
 * Whether data that the kernel has counted is this call's answer, whoever has read it: not in TLS, and on a connection
 * that is used again, or on which another preload has talked with a proxy, only if it came after the request, as far as
 * the kernel's steps tell.
 */
static bool data_is_answer(const struct connection *connection, const struct socket_state *state)
{
    if (!state->data_in || connection_has(connection, CONNECTION_TLS_SEEN) ||
        connection_state(connection) == STATE_ANSWERING)
        return false;
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    bool is_first = !connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_SWAPPED);
    return is_first || before(clock_real_ns(), state->data_ns) >= since_ns + DATA_STEP_NS;
}

bool judgement_was_answered(const struct connection *connection, int fd)
{
    struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
    return data_is_answer(connection, &state);
}

bool judgement_has_unread(const struct connection *connection, int fd)
{
    bool is_unix = connection_has(connection, CONNECTION_UNIX);
    bool answered = connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_GREETED);
    if (!socket_has_unread(fd)) {
        enum socket_stage stage = answered ? socket_state(fd, is_unix).stage : SOCKET_UNKNOWN;
        return stage == SOCKET_PEER_DONE || stage == SOCKET_DEAD;
    }
    if (answered || is_unix || !connection_has(connection, CONNECTION_TLS_SEEN))
        return true;
    /* Session tickets come by themselves within moments of the handshake, and with it of the first request. */
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    return before(clock_real_ns(), socket_state(fd, false).data_ns) >= since_ns + TICKETS_NS;
}

void judgement_came_late(struct connection *connection, enum seen seen, int error)
{
    if (state_is_open(connection_state(connection)))
        judgement_settle(connection, seen, error, false);
}

bool judgement_is_same_socket(const struct connection *connection, int fd)
{
    return connection->cookie == 0 || socket_cookie(fd) == connection->cookie;
}

void judgement_ended(struct connection *connection, int fd, enum seen seen, int error)
{
    if (seen != SEEN_BYTES) {
        if (!judgement_is_same_socket(connection, fd))
            return;
        if (settle_broken_answer(connection))
            return;
        struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
        /* A peer's reset leaves the socket dead; one that lives was shut on this side, before or by another process. */
        if (seen == SEEN_ERROR && error == EPIPE && !connection_has(connection, CONNECTION_UNIX) &&
            state.stage != SOCKET_DEAD && state.stage != SOCKET_UNKNOWN) {
            connection_mark(connection, CONNECTION_SHUT_WRITE);
            return;
        }
        if (data_is_answer(connection, &state))
            seen = SEEN_BYTES;
        else if (state.stage != SOCKET_PENDING && seen == SEEN_END)
            judgement_connected(connection, &state);
    }
    judgement_settle(connection, seen, error, false);
}

/*
 * How a connection ended whose socket is dead, and whose error somebody has read unseen (stdio). A socket that this
 * side has not shut dies of a reset (or of a time-out, which can't be told from it any more); one that both sides have
 * shut is at its end.
 */
static enum seen seen_dead(const struct connection *connection, int *error)
{
    if (connection_has(connection, CONNECTION_SHUT_WRITE))
        return SEEN_END;
    *error = ECONNRESET;
    return SEEN_ERROR;
}

/* Whether one of these attempts was connected, and is another address's of the same circuit; then it is told so. */
static bool has_winner(const struct connection *loser, const descriptor attempts[SIBLINGS_RECENT], unsigned int *looks)
{
    for (unsigned int i = 0; i < SIBLINGS_RECENT && *looks < LOOKS; i++) {
        struct connection *other = judgement_of(attempts[i]);
        if (!other || other->place.circuit != loser->place.circuit || other->address_key == loser->address_key ||
            other->station != loser->station || judgement_phase(other) != PHASE_CONNECTING)
            continue;
        ++*looks;
        int fd = atomic_load_explicit(&other->fd, memory_order_relaxed);
        if (!judgement_is_same_socket(other, fd))
            continue;
        struct socket_state state = socket_state(fd, connection_has(other, CONNECTION_UNIX));
        if (state.stage == SOCKET_CONNECTED) {
            judgement_found_connected(other, &state);
            return true;
        }
    }
    return false;
}

/*
 * Attempts to the circuit's other addresses that were connected without the program having asked: they make this one a
 * loser. The latest few are asked about, of the circuit and of each address of the name, and no more than LOOKS in all,
 * however many are pending: a race's attempts begin close together, and where others connect to an address, one of its
 * latest has.
 */
static void look_for_winners(const struct connection *loser)
{
    descriptor attempts[SIBLINGS_RECENT];
    unsigned int looks = 0;
    races_recent(loser->place.circuit, SIBLINGS_OF_ALL, attempts);
    bool has_won = has_winner(loser, attempts, &looks);
    for (size_t i = 0; i < loser->sibling_count && !has_won; i++) {
        races_recent(loser->place.circuit, loser->siblings[i], attempts);
        has_won = has_winner(loser, attempts, &looks);
    }
}

void judgement_judge_end(struct connection *connection, int fd, enum judgement_end end)
{
    bool is_unix = connection_has(connection, CONNECTION_UNIX);
    if (judgement_phase(connection) == PHASE_ANSWERED) {
        judgement_came_late(connection, SEEN_GAVE_UP, 0);
        return;
    }
    if (!judgement_is_same_socket(connection, fd) || settle_broken_answer(connection))
        return;
    struct socket_state state = socket_state(fd, is_unix);
    enum seen seen = SEEN_GAVE_UP;
    int error = 0;

    if ((state.stage == SOCKET_CONNECTED || state.stage == SOCKET_PEER_DONE) &&
        judgement_phase(connection) == PHASE_CONNECTING) {
        judgement_found_connected(connection, &state); /* success leaves no trace in many programs */
        /* It has waited for its server to speak since then, not since now. */
        atomic_store_explicit(&connection->waiting_since_ns, clock_real_ns() - state.quiet_ns, memory_order_relaxed);
    }
    if (judgement_phase(connection) == PHASE_CONNECTED && state.data_out &&
        !connection_has(connection, CONNECTION_SENT) && !connection_has(connection, CONNECTION_SWAPPED) &&
        !judgement_may_be_anothers(connection)) {
        /* Sent by stdio, unseen: when is not known, so the wait counts from the connection. */
        connection_mark(connection, CONNECTION_SENT);
        connection_happens(connection, ON_REQUEST);
        guard_requested(&connection->station->guard, connection->place.call, connection_target(connection),
                        clock_circuit_ns());
    }
    enum phase phase = judgement_phase(connection);
    bool unread = connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_TLS_SEEN) &&
                  socket_has_unread(fd);
    if (unread || data_is_answer(connection, &state)) {
        seen = SEEN_BYTES;
    } else if (state.stage == SOCKET_DEAD) {
        /* The error is the program's, and another process's that has the socket too: it is taken only where nobody can
         * read it. */
        if (end == LIFE_SHUTS || connection->forks != lineage_forks() || connection_has(connection, CONNECTION_SHARED))
            return;
        if (end == LIFE_CLOSES)
            error = socket_take_error(fd);
        else if (phase == PHASE_CONNECTING)
            return; /* which error it is, only taking it would tell */
        else
            error = socket_has_error(fd) ? ECONNRESET : 0;
        if (error)
            seen = SEEN_ERROR;
        else if (phase != PHASE_CONNECTING)
            seen = seen_dead(connection, &error);
        else if (!connection_fault_is(connection, FAULT_DELAYED)) /* in rehearsal: given up before it had begun */
            return;                                               /* the error was taken by somebody we did not see */
    } else if (state.stage == SOCKET_PEER_DONE && !judgement_may_be_anothers(connection)) {
        /* A program that sent nothing and looks no longer: it only wanted to see a connection, unless it has waited. */
        if (phase == PHASE_REQUESTED ||
            waited_ns(connection, clock_real_ns()) >= connection_target(connection)->rules.abandon_after_ns)
            seen = SEEN_END;
    }
    if (seen == SEEN_GAVE_UP) {
        if (judgement_may_be_anothers(connection) && state.stage == SOCKET_CONNECTED)
            judgement_handed(connection);
        if (end == LIFE_EXITS || judgement_may_be_anothers(connection))
            return;
        if (state.stage == SOCKET_UNKNOWN && phase == PHASE_CONNECTING)
            return; /* the kernel says nothing of this protocol */
        if (phase == PHASE_CONNECTING &&
            !races_won(connection->place.circuit, connection->address_key, connection->raced_since))
            look_for_winners(connection);
    }
    judgement_settle(connection, seen, error, false);
}

void judgement_handed(struct connection *connection)
{
    if (guard_hand_on(&connection->station->guard, connection->place.call, connection_target(connection),
                      connection->place.call, clock_circuit_ns()))
        connection_happens(connection, ON_ANSWER);
}

void judgement_forget(struct connection *connection)
{
    if (connection->epoch == lineage_epoch())
        guard_forget(&connection->station->guard, connection->place.call, connection_target(connection),
                     connection->place.call, clock_circuit_ns());
}
