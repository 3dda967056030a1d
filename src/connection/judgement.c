/*
 * judgement.c - a call's end becomes an observation, and moves its connection on. See judgement.h, which says what its
 * other files have.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include "base/clock.h"
#include "base/hot.h"
#include "breaker/http.h"
#include "connection/deferred.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "connection/races.h"
#include "connection/stopping.h"

struct connection *judgement_of_call(uint32_t call, uint32_t number, const void *station)
{
    struct connection *connection = pool_named(number);
    return connection && pool_is_live(connection) && connection->station == station &&
                   connection->epoch == lineage_epoch() &&
                   (connection->place.call == call || http2_has_call(connection, call))
               ? connection
               : NULL;
}

/* Mostly it is so already: a load, in the place of an atomic step. */
static inline void mark_as(struct connection *connection, enum connection_property property, bool holds)
{
    if (LIKELY(connection_has(connection, property) == holds))
        return;
    if (holds)
        connection_mark(connection, property);
    else
        connection_unmark(connection, property);
}

/* Goes by that policy, as policy_keeping.h has it. 0, mostly: by the program's own, which nobody counts. */
static inline void follow(struct connection *connection, uint32_t follows)
{
    const uint32_t former = atomic_load_explicit(&connection->follows, memory_order_relaxed);
    if (UNLIKELY((former | follows) != 0))
        policy_keeping_leave(atomic_exchange_explicit(&connection->follows, follows, memory_order_acq_rel));
}

HOT void judgement_follow(struct connection *connection, const struct policy *policy, const struct target *target)
{
    if (UNLIKELY(target->enforce_timeouts || target->fault_count))
        atomic_store_explicit(&engine.tends_waits, true, memory_order_relaxed);
    mark_as(connection, CONNECTION_ONE_WAY, connect_is_success(&target->rules));
    mark_as(connection, CONNECTION_DRAWS, target->fault_count != 0);
    /* The new one is followed before anybody can find it here, and the former one until nobody can. */
    uint32_t follows = policy_keeping_follow(target);
    atomic_store_explicit(&connection->target, target, memory_order_release);
    atomic_store_explicit(&connection->policy, policy, memory_order_relaxed);
    follow(connection, follows);
}

HOT void judgement_unfollow(struct connection *connection)
{
    follow(connection, 0);
}

HOT enum phase judgement_phase(const struct connection *connection)
{
    bool settled = false;
    enum phase phase = guard_phase(&connection->station->guard, connection->place.call, &settled);
    return settled ? PHASE_ANSWERED : phase;
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

/* And its call is not ended yet. */
static bool is_connected(const struct connection *connection)
{
    const enum connection_state state = connection_state(connection);
    return state_is_open(state) && state != STATE_CONNECTING;
}

static struct outcome settle(struct connection *connection, enum seen seen, int error, bool at_once,
                             const struct http_head *head)
{
    uint64_t real_ns = clock_real_ns(), now_ns = clock_circuit_at(real_ns);
    struct guard *guard = &connection->station->guard;
    if (is_connected(connection) && seen != SEEN_REFUSED && judgement_meets_itself(connection)) {
        seen = SEEN_REFUSED;
        head = NULL;
        error = 0;
    }
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
        .own_end = rejected || (seen == SEEN_GAVE_UP && judgement_is_spare(connection)) ||
                   connection_has(connection, CONNECTION_SHUT_READ) ||
                   (connection_has(connection, CONNECTION_SHUT_WRITE) && !connection_has(connection, CONNECTION_SENT)),
        .waited_ns = judgement_waited_ns(connection, real_ns),
        .stands_for = place_stands_for(&connection->place),
    };
    uint64_t due_ns = guard_due(guard, connection->place.call);
    if (now_ns >= due_ns)
        observation.came_ns = judgement_came_at(connection, seen, now_ns, due_ns);
    if (seen == SEEN_GAVE_UP)
        observation.waited_ns = judgement_waited_for_peer(connection, observation.waited_ns);
    if (seen == SEEN_GAVE_UP)
        observation.sibling_won =
            races_won(connection->place.circuit, connection->address_key, connection->raced_since);
    connection_happens(connection, event_of(seen));
    if (seen == SEEN_BYTES)
        judgement_note_polite(connection);
    if (seen != SEEN_BYTES && seen != SEEN_CONNECTED &&
        ((connection->sibling_count > 1 && deferred_take(connection, &observation)) ||
         is_parting(connection, &observation)))
        return (struct outcome){.verdict = VERDICT_NONE};
    return guard_settle(guard, connection->place.call, connection_target(connection), connection->place.call,
                        &observation, now_ns);
}

struct outcome judgement_settle(struct connection *connection, enum seen seen, int error, bool at_once)
{
    return settle(connection, seen, error, at_once, NULL);
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
    if (!peeked && http2_begins_by_server(connection, vector, count, bytes))
        return;
    enum http_progress progress = judgement_read_head(connection, vector, count, bytes, peeked, &head);
    if (progress == HTTP_MORE) {
        connection_happens(connection, ON_PART);
        return;
    }
    if (progress == HTTP_KNOWN && head.status == HTTP_SWITCHING_PROTOCOLS) {
        if (!peeked && http2_upgrades(connection, vector, count, bytes))
            return;
        connection_mark(connection, CONNECTION_STREAM);
    }
    settle(connection, SEEN_BYTES, 0, false, progress == HTTP_KNOWN ? &head : NULL);
}

bool judgement_breaks_off(struct connection *connection)
{
    struct http_head head;
    struct http_reader reader = connection_http(connection);
    if (connection_state(connection) != STATE_ANSWERING || !http_has_begun(&reader))
        return false;
    bool known = http_break(&reader, &head) == HTTP_KNOWN;
    settle(connection, SEEN_BYTES, 0, false, known ? &head : NULL);
    return true;
}

void judgement_came_late(struct connection *connection, enum seen seen, int error)
{
    if (UNLIKELY(state_is_open(connection_state(connection))))
        judgement_settle(connection, seen, error, false);
}

void judgement_handed(struct connection *connection)
{
    if (judgement_meets_itself(connection)) {
        judgement_settle(connection, SEEN_REFUSED, 0, false);
        return;
    }
    if (guard_hand_on(&connection->station->guard, connection->place.call, connection_target(connection),
                      connection->place.call, clock_circuit_ns()))
        connection_happens(connection, ON_ANSWER);
}

HOT void judgement_forget(struct connection *connection)
{
    struct guard *guard = &connection->station->guard;
    if (LIKELY(connection->epoch == lineage_epoch()) &&
        UNLIKELY(!(guard->takes_short_way && guard_forget_short(&connection->place))))
        guard_forget(guard, connection->place.call, connection_target(connection), connection->place.call,
                     clock_circuit_ns());
}
