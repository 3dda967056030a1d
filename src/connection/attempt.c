/*
 * attempt.c - one connect: where does it go, may it go, and what did it come to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/hot.h"
#include "connection/deferred.h"
#include "connection/destinations.h"
#include "connection/edited_policy.h"
#include "connection/fallback_connections.h"
#include "connection/fault_drawing.h"
#include "connection/judgement.h"
#include "connection/left_behind.h"
#include "connection/lineage.h"
#include "connection/measured.h"
#include "connection/memory.h"
#include "connection/policy_keeping.h"
#include "connection/races.h"
#include "connection/shard.h"
#include "connection/socket_state.h"
#include "connection/socket_swap.h"
#include "connection/system.h"
#include "segment/circuits.h"

/*
 * "No route on this host" comes back from connect within microseconds, or a thread had to wait for its processor: then
 * the kernel has given the socket no port yet. An answer of the network takes a round trip. (A blocking connect leaves
 * nothing else to tell them by: the kernel resets the socket's counters when it fails.)
 */
#define AT_ONCE_NS NS_PER_MS
#define AT_ONCE_WITHOUT_A_PORT_NS (100 * NS_PER_MS) /* at the most: not every kernel may let a port stand */

/* A time-out of the socket's own takes a tick of the kernel's at least, 1 ms or more: what came back sooner did not
 * wait, and need not be asked whether it can. */
#define SHORTEST_TIMEOUT_NS (NS_PER_MS / 2)

/* Ports below are given to nobody who has not asked for them, as ip_local_port_range is usually set and ought to be. */
#define LOWEST_EPHEMERAL 1024

/* When it begins, by both clocks. */
struct moment {
    uint64_t real_ns, circuit_ns;
};

/*
 * Enters an admitted attempt into the tables, so that whatever happens next finds it. No system call stands before the
 * entry: a signal's handler that jumps out of the wrapper would leave a call that nobody ends.
 */
HOT OWN_FRAME static bool track(int fd, const struct destination *destination, uint32_t call, uint64_t real_ns,
                                struct attempt_ticket *ticket)
{
    struct station *station = destination->station;
    const uint32_t circuit = destination->circuit;
    descriptor former, mine;
    struct connection *connection = judgement_enrol(station, destination->policy, destination->target, fd);
    if (UNLIKELY(!connection))
        return false;
    guard_call_place(&station->guard, circuit, call, &connection->place); /* it has both: it was admitted there */
    place_stands(&connection->place, measured_attempt(real_ns));
    connection->raced_since = races_now();
    connection->address_key = destination->address_key;
    connection->at = ticket->at;
    connection->at_length = ticket->length;
    connection->sibling_count = destination->sibling_count;
    memcpy(connection->siblings, destination->siblings, sizeof connection->siblings);
    atomic_store_explicit(&connection->waiting_since_ns, real_ns, memory_order_relaxed);
    if (destination->endpoint.family == ENDPOINT_UNIX)
        connection_mark(connection, CONNECTION_UNIX);
    else if (destination->endpoint.port >= LOWEST_EPHEMERAL)
        connection_mark(connection, CONNECTION_MAY_LOOP);
    connection_moves_on(connection, STATE_NONE, ON_ATTEMPT); /* nobody else has it yet */
    ticket->entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
    pool_publish(connection);
    bool entered =
        guard_name(&station->guard, call, pool_name(ticket->entry)) && descriptor_set(fd, ticket->entry, &former);
    if (LIKELY(entered && !lineage_is_lent())) {
        lineage_connects();
        races_began(circuit, connection->address_key, ticket->entry);
        judgement_take_number(connection, fd, former);
        if (!ticket->sends)
            judgement_limit_attempt(connection, fd, ticket);
        return true;
    }
    if (entered) /* a vfork's child: the table is its parent's */
        descriptor_set(fd, former, &mine);
    judgement_dismiss(connection);
    return false;
}

static bool dissolves(const struct sockaddr *address, socklen_t length)
{
    return length >= sizeof address->sa_family && address->sa_family == AF_UNSPEC;
}

/*
 * A program asks how its attempt stands by the same connect once more. Then the address, where the kernel would have to
 * be asked first whether it can be read, need not be, but for one that was made AF_UNSPEC in its place: see note_result.
 */
static bool asks_again(descriptor entry, const struct attempt_ticket *ticket)
{
    const struct connection *connection = descriptor_connection(entry) ? judgement_of(entry) : NULL;
    return connection && connection->at == ticket->at && connection->at_length == ticket->length &&
           connection_state(connection) == STATE_CONNECTING && !memory_is_at_hand(ticket->at, ticket->length);
}

/* A connect on a socket that is known already. True if that settles what to do with it. */
static bool is_further_connect(int fd, const struct sockaddr *address, socklen_t length, descriptor entry,
                               struct attempt_ticket *ticket, enum passage *passage)
{
    struct connection *connection = judgement_of(entry);
    *passage = PASSAGE_FREE;
    if (!connection) /* an ancestor's attempt, or one whose record has moved on */
        return judgement_of_anybody(entry) != NULL;
    if (!ticket->unread && dissolves(address, length)) {
        if (connection_has(connection, CONNECTION_UNIX))
            return true; /* the kernel will say EINVAL */
        rehearsal_over(connection, fd);
        judgement_part(entry, fd); /* dissolves the association: the socket is fresh again, but for its error */
        return true;
    }
    const enum connection_state state = connection_state(connection);
    if (state == STATE_IDLE || state == STATE_BROKEN)
        return true; /* the kernel will say EISCONN */
    if (state_is_open(state)) {
        ticket->entry = entry;
        ticket->again = true;
        if (!ticket->sends && judgement_phase(connection) == PHASE_CONNECTING)
            judgement_limit_attempt(connection, fd, ticket);
        *passage = PASSAGE_GUARDED;
        return true;
    }
    rehearsal_over(connection, fd);
    judgement_part(entry, fd); /* the former attempt failed: this is a new one on the same socket */
    ticket->after_failure = true;
    return false;
}

/* A refused attempt goes to the fallback instead, if there is one for its socket. */
SELDOM static enum passage refuse(int fd, const struct attempt *attempt, const struct policy *policy,
                                  struct station *station, int sends, struct attempt_ticket *ticket)
{
    const struct target *target = attempt->target;
    ticket->error = target->on_open;
    if (sends || attempt->is_retry ||
        (target->fallback.host[0] == '\0' && target->fallback.at[0].family == ENDPOINT_NONE) ||
        !diversion_fallback(&ticket->elsewhere, fd, &target->fallback))
        return PASSAGE_REFUSED;
    struct circuit *circuit = circuits_at(&station->segment, attempt->circuit);
    if (circuit)
        counters_add(&circuit->counters, attempt->shard, COUNT_FALLBACK);
    ticket->fallback = true;
    ticket->entry = aside_track(fd, attempt, policy, station);
    return PASSAGE_DIVERTED;
}

/* This thread was late, and what it was admitted by is another segment by now (station.h): the attempt passes. */
SELDOM static enum passage leave_untracked(int fd, struct station *station, uint32_t call, const struct target *target,
                                           struct attempt_ticket *ticket)
{
    guard_forget(&station->guard, call, target, shard_here(), clock_circuit_ns());
    judgement_part(ticket->entry, fd);
    ticket->entry = 0;
    return PASSAGE_FREE;
}

/* False: it passes. */
HOT static bool find_circuit(const struct policy *policy, int fd, const struct sockaddr *address, socklen_t length,
                             struct destination *destination, struct moment *now)
{
    if (!destinations_find(policy, address, length, destination))
        return false;
    /* A number that socket() did not give to us (inherited, received, from before our start): only the kernel knows
     * what it is. */
    if (UNLIKELY(!(descriptor_get(fd) & DESCRIPTOR_STREAM)) && !socket_is_guardable(fd))
        return false;
    const struct target *target = destination->target;
    now->real_ns = clock_real_ns();
    now->circuit_ns = clock_circuit_at(now->real_ns);
    engine_look(now->real_ns);
    struct station *station = destination->station = engine_station(target->scope);
    if (UNLIKELY(!station)) {
        engine_note_no_place(target->scope);
        return false;
    }
    destination->serial = station_serial(station);
    destination->circuit = destinations_circuit(&station->segment, destination, now->circuit_ns);
    return true;
}

/* An attempt on a socket that has none, under the present policy, which is held meanwhile. */
HOT OWN_FRAME static enum passage begin_attempt(const struct policy *policy, int fd, const struct sockaddr *address,
                                                socklen_t length, int sends, struct attempt_ticket *ticket)
{
    struct destination destination;
    struct moment now;
    if (!find_circuit(policy, fd, address, length, &destination, &now))
        return PASSAGE_FREE;
    const struct target *target = destination.target;
    struct station *station = destination.station;
    struct attempt attempt = {
        .target = target,
        .circuit = destination.circuit,
        .address_key = destination.address_key,
        .endpoint = &destination.endpoint,
        .siblings = destination.siblings,
        .sibling_count = destination.sibling_count,
        .shard = shard_here(),
        .is_retry = ticket->retry != 0,
    };
    left_behind_look(now.real_ns);
    deferred_resolve(station, attempt.circuit, attempt.address_key);
    uint32_t call = CALL_NONE;
    enum admission admission = guard_admit(&station->guard, &attempt, now.circuit_ns, &call);
    if (UNLIKELY(admission_refuses(admission)))
        return refuse(fd, &attempt, policy, station, sends, ticket);
    if (UNLIKELY(call == CALL_NONE))
        return PASSAGE_FREE;
    if (UNLIKELY(!track(fd, &destination, call, now.real_ns, ticket))) {
        guard_forget(&station->guard, call, target, attempt.shard, now.circuit_ns);
        return PASSAGE_FREE;
    }
    if (UNLIKELY(station_serial(station) != destination.serial))
        return leave_untracked(fd, station, call, target, ticket);
    if (UNLIKELY(target->fault_count))
        return rehearsal_begin(judgement_of(ticket->entry), fd, &attempt, address, ticket);
    return PASSAGE_GUARDED;
}

/* All of it but `retry` and `elsewhere`. By its members: to clear it in one go takes longer than all of them. */
static inline void begin_ticket(struct attempt_ticket *ticket, int fd, const struct sockaddr *address, socklen_t length,
                                int sends)
{
    ticket->entry = 0;
    ticket->fd = fd;
    ticket->error = 0;
    ticket->again = ticket->after_failure = ticket->fails = ticket->unread = ticket->fallback = false;
    ticket->kind = 0;
    ticket->sends = sends;
    ticket->at = address;
    ticket->length = length;
    ticket->delay_ns = 0;
    ticket->outer = (struct swap_attempt){0};
    ticket->limit = (struct limit){0};
}

HOT enum passage connection_begin(int fd, const struct sockaddr *address, socklen_t length, int sends,
                                  struct attempt_ticket *ticket)
{
    enum passage passage;
    begin_ticket(ticket, fd, address, length, sends);
    descriptor entry = descriptor_get(fd);
    /* The kernel refuses such addresses unread, or because they can't be read. */
    bool is_odd = !address || length > sizeof(struct sockaddr_storage);
    if (!engine_ready() || fd < 0 || is_odd || entry == DESCRIPTOR_OTHER)
        return PASSAGE_FREE;
    if (descriptor_connection(entry))
        ticket->unread = asks_again(entry, ticket);
    if (LIKELY(!ticket->unread) && UNLIKELY(!memory_is_readable(address, length)))
        return PASSAGE_FREE;
    if (UNLIKELY(aside_stands(entry)))
        return aside_further_connect(fd, address, length, ticket);
    if (descriptor_connection(entry) && is_further_connect(fd, address, length, entry, ticket, &passage))
        return passage;
    if (UNLIKELY(ticket->unread) && !memory_is_readable(address, length)) /* its state has changed meanwhile */
        return PASSAGE_FREE;
    edited_policy_look();
    const struct policy *policy = policy_keeping_hold();
    passage = begin_attempt(policy, fd, address, length, sends, ticket);
    policy_keeping_drop(policy);
    return passage;
}

/*
 * connect says that all is well: with TCP Fast Open it says so before a packet has left, but for an attempt that it has
 * called pending before.
 */
static void connect_succeeded(struct connection *connection, int fd, bool again)
{
    if (connection_has(connection, CONNECTION_UNIX) || (again && !connection_has(connection, CONNECTION_FAST_OPEN))) {
        judgement_connected(connection, NULL);
        return;
    }
    /* One system call: with Fast Open it may still be pending, and it may have met itself (socket_state.h). */
    struct socket_state state = socket_state(fd, false);
    if (state.stage == SOCKET_PENDING)
        connection_mark(connection, CONNECTION_FAST_OPEN);
    else
        judgement_connected(connection, &state);
}

static uint64_t took_ns(const struct connection *connection)
{
    return clock_real_ns() - atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
}

/* Whether an error that connect returned is this host's own. */
static bool is_at_once(const struct attempt_ticket *ticket, const struct connection *connection)
{
    uint64_t ns = took_ns(connection);
    if (ticket->again || ns >= AT_ONCE_WITHOUT_A_PORT_NS)
        return false;
    return ns < AT_ONCE_NS || !socket_has_port(ticket->fd);
}

/* connect returned that error, which is the attempt's. */
static void note_error(struct attempt_ticket *ticket, struct connection *connection, int error)
{
    struct outcome outcome = judgement_settle(connection, SEEN_ERROR, error, is_at_once(ticket, connection));
    /* One whose wait was ended may have been charged before: then nothing was decided now. */
    const bool is_ended = error == ETIMEDOUT && ticket->limit.way != LIMIT_BARE;
    const bool is_charged = outcome.verdict == VERDICT_NONE && is_ended && connection->place.call != CALL_NONE;
    ticket->fails = outcome.verdict == VERDICT_FAILURE || is_charged;
    ticket->kind = (uint8_t)(is_charged ? FAILURE_CONNECT_TIMEOUT : outcome.kind);
}

/* What became of the connect, for the call. */
static void note_result(struct attempt_ticket *ticket, int result, int error)
{
    /* Another thread may have closed the descriptor while connect waited (Java does): then that close was the end. */
    if (UNLIKELY(descriptor_get(ticket->fd) != ticket->entry))
        return;
    struct connection *connection = judgement_of(ticket->entry);
    if (UNLIKELY(!connection))
        return;
    /* The kernel has read it by now, and dissolved the association; what its attempt had come to nobody knows. */
    if (UNLIKELY(ticket->unread) && result >= 0 && dissolves(ticket->at, ticket->length)) {
        judgement_part(ticket->entry, ticket->fd);
        return;
    }
    if (UNLIKELY(ticket->unread) && result < 0 && error == EFAULT) /* it is said of the address, and changes nothing */
        return;
    swap_follow(connection, ticket->fd);
    if (result >= 0 || error == EISCONN) {
        connect_succeeded(connection, ticket->fd, ticket->again);
        return;
    }
    switch (error) {
    case EALREADY:
    case EINTR: /* the kernel goes on connecting */
        return;
    case EINPROGRESS:
        /* On a blocking socket its SO_SNDTIMEO ran out; of a retry, whose share of that may be small, see outcome.c. */
        if (!ticket->again && !(ticket->sends & MSG_DONTWAIT) && took_ns(connection) >= SHORTEST_TIMEOUT_NS &&
            socket_blocks(ticket->fd))
            judgement_settle(connection, ticket->retry ? SEEN_GAVE_UP : SEEN_WAIT_ENDED, 0, false);
        return;
    case EAGAIN:
        /* Of a UNIX socket: a blocking one's SO_SNDTIMEO ran out; without blocking, the listener's queue is full. */
        if (connection_has(connection, CONNECTION_UNIX)) {
            bool blocks = socket_blocks(ticket->fd);
            judgement_settle(connection, blocks ? SEEN_WAIT_ENDED : SEEN_REFUSED, error, false);
            return;
        }
        break;
    case ECONNABORTED:
        /* The kernel's answer to a connect on a socket whose error was read: it tells nothing of the peer. */
        if (ticket->after_failure)
            error = EINVAL;
        break;
    default:
        break;
    }
    note_error(ticket, connection, error);
}

HOT void connection_returned(struct attempt_ticket *ticket, int result, int error)
{
    if (UNLIKELY(ticket->fallback)) {
        aside_returned(ticket, result, error);
        return;
    }
    note_result(ticket, result, error);
}
