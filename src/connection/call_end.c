/*
 * call_end.c - the ends of a call that the kernel has to be asked about: one that the program was told of, and one that
 * it brings about by ending its interest. Of judgement.h.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include <errno.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/lineage.h"
#include "connection/races.h"
#include "connection/socket_state.h"

/* Pending attempts that the kernel is asked about when one of their siblings is given up. */
#define LOOKS 8u

/* Whether what the kernel has counted is the answer: then its wait was over when it came. */
static bool was_answered(struct connection *connection, const struct socket_state *state)
{
    if (!judgement_is_answer(connection, state))
        return false;
    if (connection_has(connection, CONNECTION_TLS) && state->data_ns)
        atomic_fetch_add_explicit(&connection->waiting_since_ns, state->data_ns, memory_order_relaxed);
    return true;
}

void judgement_ended(struct connection *connection, int fd, enum seen seen, int error)
{
    if (seen != SEEN_BYTES) {
        if (!judgement_is_same_socket(connection, fd))
            return;
        if (connection_has(connection, CONNECTION_HTTP2) && http2_lost(connection, seen, error))
            return;
        if (judgement_breaks_off(connection))
            return;
        struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
        /* A peer's reset leaves the socket dead; one that lives was shut on this side, before or by another process. */
        if (seen == SEEN_ERROR && error == EPIPE && !connection_has(connection, CONNECTION_UNIX) &&
            state.stage != SOCKET_DEAD && state.stage != SOCKET_UNKNOWN) {
            connection_mark(connection, CONNECTION_SHUT_WRITE);
            return;
        }
        if (was_answered(connection, &state))
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

/* What the program has not asked about, and did by other ways than ours. */
static void catch_up(struct connection *connection, const struct socket_state *state)
{
    if ((state->stage == SOCKET_CONNECTED || state->stage == SOCKET_PEER_DONE) &&
        judgement_phase(connection) == PHASE_CONNECTING) {
        judgement_found_connected(connection, state); /* success leaves no trace in many programs */
        /* It has waited for its server to speak since then, not since now. */
        atomic_store_explicit(&connection->waiting_since_ns, clock_real_ns() - state->quiet_ns, memory_order_relaxed);
    }
    if (judgement_phase(connection) == PHASE_CONNECTED && state->data_out &&
        !connection_has(connection, CONNECTION_SENT) && !connection_has(connection, CONNECTION_SWAPPED) &&
        !judgement_may_be_anothers(connection)) {
        /* Sent by stdio, unseen: when is not known, so the wait counts from the connection. */
        connection_mark(connection, CONNECTION_SENT);
        connection_happens(connection, ON_REQUEST);
        guard_requested(&connection->station->guard, connection->place.call, connection_target(connection),
                        clock_circuit_ns());
    }
}

/* What became of a call whose socket is dead. False: nothing is to be said of it. */
static bool see_dead(const struct connection *connection, int fd, enum judgement_end end, enum phase phase,
                     enum seen *seen, int *error)
{
    /* The error is the program's, and another process's that has the socket too: it is taken only where nobody can read
     * it. */
    if (end == LIFE_SHUTS || connection->forks != lineage_forks() || connection_has(connection, CONNECTION_SHARED))
        return false;
    if (end == LIFE_CLOSES)
        *error = socket_take_error(fd);
    else if (phase == PHASE_CONNECTING)
        return false; /* which error it is, only taking it would tell */
    else
        *error = socket_has_error(fd) ? ECONNRESET : 0;
    if (*error)
        *seen = SEEN_ERROR;
    else if (phase != PHASE_CONNECTING)
        *seen = seen_dead(connection, error);
    else
        /* Somebody whom we did not see has taken the error; or, in rehearsal, it is given up before it had begun. */
        return connection_fault_is(connection, FAULT_DELAYED);
    return true;
}

/* A program that sent nothing and looks no longer: it only wanted to see a connection, unless it has waited. */
static bool hears_end(const struct connection *connection, enum phase phase)
{
    return !judgement_may_be_anothers(connection) &&
           (phase == PHASE_REQUESTED ||
            judgement_waited_ns(connection, clock_real_ns()) >= connection_target(connection)->rules.abandon_after_ns);
}

/* The program gives the call up. False: that is not to be said of it. */
static bool gives_up(struct connection *connection, enum judgement_end end, enum phase phase, enum socket_stage stage)
{
    if (judgement_may_be_anothers(connection) && stage == SOCKET_CONNECTED)
        judgement_handed(connection);
    if (end == LIFE_EXITS || judgement_may_be_anothers(connection))
        return false;
    if (stage == SOCKET_UNKNOWN && phase == PHASE_CONNECTING)
        return false; /* the kernel says nothing of this protocol */
    if (phase == PHASE_CONNECTING &&
        !races_won(connection->place.circuit, connection->address_key, connection->raced_since))
        look_for_winners(connection);
    return true;
}

/* The call has not ended: the kernel is asked. */
SELDOM static void judge_open(struct connection *connection, int fd, enum judgement_end end)
{
    if (connection_has(connection, CONNECTION_HTTP2) && http2_ending(connection, fd, end))
        return;
    if (!judgement_is_same_socket(connection, fd) || judgement_breaks_off(connection))
        return;
    struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
    enum seen seen = SEEN_GAVE_UP;
    int error = 0;

    catch_up(connection, &state);
    enum phase phase = judgement_phase(connection);
    bool unread = connection_has(connection, CONNECTION_REUSED) && !connection_has(connection, CONNECTION_TLS_SEEN) &&
                  socket_has_unread(fd);
    if (unread || was_answered(connection, &state))
        seen = SEEN_BYTES;
    else if (state.stage == SOCKET_DEAD && !see_dead(connection, fd, end, phase, &seen, &error))
        return;
    else if (state.stage == SOCKET_PEER_DONE && hears_end(connection, phase))
        seen = SEEN_END;
    if (seen == SEEN_GAVE_UP && !gives_up(connection, end, phase, state.stage))
        return;
    judgement_settle(connection, seen, error, false);
}

/* Its call is over, or was charged; of a connection that speaks HTTP/2, whose state stays open, others may not be. */
static inline void answered_ends(struct connection *connection, int fd, enum judgement_end end)
{
    if (LIKELY(!state_is_open(connection_state(connection))))
        return;
    if (connection_has(connection, CONNECTION_HTTP2))
        judge_open(connection, fd, end);
    else
        judgement_came_late(connection, SEEN_GAVE_UP, 0);
}

HOT void judgement_judge_end(struct connection *connection, int fd, enum judgement_end end)
{
    if (LIKELY(judgement_phase(connection) == PHASE_ANSWERED))
        answered_ends(connection, fd, end);
    else
        judge_open(connection, fd, end);
}
