/*
 * next_call.c - the next call on a kept connection: whether what is sent begins one, whether it may go, and under which
 * policy. Of judgement.h.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "connection/edited_policy.h"
#include "connection/fault_drawing.h"
#include "connection/lineage.h"
#include "connection/policy_keeping.h"
#include "connection/system.h"
#include "connection/tls_sessions.h"
#include "connection/upload.h"
#include "segment/circuits.h"

/* Whether what is sent now is a request, which may begin a call; if we can tell. A TLS alert to a peer that is gone is
 * none. */
bool next_call_may_begin(const struct connection *connection)
{
    uint32_t properties = atomic_load_explicit(&connection->properties, memory_order_relaxed);
    const uint32_t never = (uint32_t)CONNECTION_SHUT_WRITE | (uint32_t)CONNECTION_STREAM |
                           (uint32_t)CONNECTION_RELEASED | (uint32_t)CONNECTION_ONE_WAY;
    const enum connection_state state = connection_state(connection);
    bool is_called = state_takes_calls(state) && connection->place.call != CALL_NONE;
    if ((properties & never) || (!is_called && !state_is_aside(state)))
        return false;
    /* In TLS only what the program writes is one; with a library that we do not see into, nothing can be told. */
    if (properties & (uint32_t)CONNECTION_TLS)
        return (properties & (uint32_t)CONNECTION_TLS_SEEN) &&
               ((properties & (uint32_t)CONNECTION_TLS_KEPT) || (tls_thread.session && tls_thread.doing == TLS_WRITE));
    return true;
}

/*
 * Of several threads that send at once, one moves the connection on, and begins the next call. The record may know of
 * an end of which nothing is said here: a handler of a signal jumped out before, or a thread is just about to say it.
 * Then guard_begin chooses among the threads. False: the call has begun.
 */
static bool takes_turn(struct connection *connection)
{
    const enum connection_state former = connection_happens(connection, ON_BEGINNING);
    if (!state_takes_calls(former) ||
        (state_is_open(former) && !guard_is_over(&connection->station->guard, connection->place.call)))
        return false;
    if (former != STATE_UNANSWERED) {
        connection_mark(connection, CONNECTION_REUSED);
        if (!connection_has(connection, CONNECTION_ASKED))
            connection_mark(connection, CONNECTION_GREETED);
        else if (connection_has(connection, CONNECTION_GREETED))
            connection_unmark(connection, CONNECTION_GREETED);
    }
    connection_mark(connection, CONNECTION_SENT);
    return true;
}

/*
 * A connection whose request was refused is dead to the program, as after a reset, and for good: GnuTLS keeps a record
 * that could not be sent and sends it with its goodbye, and libpq reads on to hear why the send failed. The reading
 * side is shut, which tells the peer nothing: whoever waits for the connection sees its end (tests/e2e/test_pools.py,
 * tests/e2e/matrix: kept_refused).
 */
static void break_off(int fd)
{
    sys.shutdown(fd, SHUT_RD);
}

/* After a reload the connection goes on under the target of that name in the present policy, if there is one. */
void next_call_follow_policy(struct connection *connection)
{
    edited_policy_look();
    if (atomic_load_explicit(&connection->policy, memory_order_relaxed) == engine_policy())
        return;
    const struct policy *policy = policy_keeping_hold();
    const struct target *former = connection_target(connection);
    const struct target *target = policy_target_named(policy, former->name);
    bool guards = target && target->mode != MODE_OFF &&
                  (target->scope == SCOPE_PROCESS) == (former->scope == SCOPE_PROCESS); /* it has the same segment */
    if (guards)
        connection_unmark(connection, CONNECTION_RELEASED);
    else
        connection_mark(connection, CONNECTION_RELEASED);
    judgement_follow(connection, policy, guards ? target : former);
    policy_keeping_drop(policy);
}

/* The request was refused, unless the number has come to mean another socket since (its close was missed). */
OWN_FRAME int next_call_refuse(struct connection *connection, int fd)
{
    connection_happens(connection, ON_REFUSAL);
    if (!judgement_is_same_socket(connection, fd)) {
        connection_closing(fd); /* forgets it: the cookie keeps this from judging anything */
        return 0;
    }
    break_off(fd);
    return ECONNRESET;
}

/* In rehearsal: a request that was admitted is drawn a fault. */
static int rehearse(struct connection *connection, int fd)
{
    int verdict = rehearsal_request(connection, fd);
    if (verdict != ECONNRESET)
        return verdict;
    judgement_settle(connection, SEEN_ERROR, ECONNRESET, false);
    return next_call_refuse(connection, fd);
}

/*
 * The connection's station is retired: the call begins in the present one's segment, and later ones too. Others that
 * look at the connection in between find no call.
 */
static enum admission begin_elsewhere(struct connection *connection, struct station *present, struct attempt *attempt,
                                      uint64_t now_ns)
{
    const struct station *former = connection->station;
    struct call_place place = connection->place;
    struct circuit_texts texts;
    uint32_t call = CALL_NONE, old_circuit = attempt->circuit;
    /* A file that was written over names destinations that never were. */
    if (circuits_texts(&former->segment, place.circuit, &texts) && strcmp(texts.target, attempt->target->name) == 0)
        attempt->circuit = circuits_find(&present->segment, attempt->target->name, texts.destination, now_ns);
    else
        attempt->circuit = CIRCUIT_INDEX_NONE;
    enum admission admission = guard_admit(&present->guard, attempt, now_ns, &call);
    if (call == CALL_NONE) {
        attempt->circuit = old_circuit;
        return admission;
    }
    descriptor entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
    guard_name(&present->guard, call, pool_name(entry));
    guard_connected(&present->guard, call, attempt->target, now_ns);
    guard_requested(&present->guard, call, attempt->target, now_ns);
    connection->place.call = CALL_NONE;
    guard_forget(&connection->station->guard, place.call, attempt->target, attempt->shard, now_ns);
    connection->station = present;
    guard_call_place(&present->guard, attempt->circuit, call, &place);
    connection->place = place;
    return admission;
}

OWN_FRAME enum admission next_call_admit(struct connection *connection, bool (*must_pass)(const void *),
                                         uint64_t now_ns)
{
    struct station *station = connection->station, *present = NULL;
    struct attempt attempt = {
        .target = connection_target(connection),
        .circuit = connection->place.circuit,
        .address_key = connection->address_key,
        .shard = connection->place.call,
        .must_pass = must_pass,
        .context = connection,
    };
    if (station_is_retired(station))
        present = engine_station(attempt.target->scope);
    if (present && present != station) {
        enum admission admission = begin_elsewhere(connection, present, &attempt, now_ns);
        if (admission_refuses(admission) || connection->station == present)
            return admission;
    }
    return guard_begin(&station->guard, &attempt, connection->place.call, now_ns);
}

OWN_FRAME int next_call_begins(struct connection *connection, int fd)
{
    const enum connection_state state = connection_state(connection);
    if (state == STATE_BROKEN)
        return next_call_refuse(connection, fd);
    if (connection_has(connection, CONNECTION_BODY)) /* the server has answered before it was whole: it is the same */
        return 0;
    if (state_is_open(state)) {
        if (!guard_is_over(&connection->station->guard, connection->place.call))
            return 0;
        /* It is over, and not by this process: a child has read the answer. Or a thread is just about to say so. */
        if (connection->forks != lineage_forks())
            connection_leave_to_child(connection);
    }
    uint64_t real_ns = clock_real_ns();
    engine_look(real_ns);
    next_call_follow_policy(connection);
    if (!next_call_may_begin(connection) || judgement_phase(connection) != PHASE_ANSWERED)
        return 0;
    if (!takes_turn(connection))
        return 0;
    if (admission_refuses(next_call_admit(connection, NULL, clock_circuit_at(real_ns))))
        return next_call_refuse(connection, fd);
    connection_keep(connection, false);
    if (connection_has(connection, CONNECTION_GAVE_UP))
        connection_unmark(connection, CONNECTION_GAVE_UP);
    upload_begin(connection);
    connection_reset_http(connection);
    atomic_store_explicit(&connection->waited_before_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->waiting_since_ns, real_ns, memory_order_relaxed);
    return connection_has(connection, CONNECTION_DRAWS) ? rehearse(connection, fd) : SENDING_BEGINS;
}
