/*
 * fault_drawing.c - drawing faults and beginning them. See fault_drawing.h; what is played later is in fault_playing.c.
 */
#define _GNU_SOURCE
#include "connection/fault_drawing.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/frame.h"
#include "base/hash.h"
#include "connection/diversion.h"
#include "connection/interruption.h"
#include "connection/judgement.h"
#include "connection/limit.h"
#include "connection/socket_state.h"
#include "connection/system.h"
#include "guard/fault_numbers.h"

#define OWN_NUMBERS 256u /* circuits that are numbered apart in a process without a run */

/* The numbers of calls where no run shares them; a root of this file alone. */
static _Atomic uint32_t own_numbers[OWN_NUMBERS];

/* --- the draw --- */

/* Where a call falls between 0 and 999: by the seed, the target's name and its number, and by nothing else. */
static uint32_t lot(const struct target *target, uint32_t number)
{
    uint64_t name = hash_bytes(HASH_BEGIN, target->name, strlen(target->name));
    uint64_t seed = hash_spread(target->inject_seed + HASH_STEP);
    return (uint32_t)(hash_spread(seed ^ hash_spread(name + number)) % PERMILLE);
}

static const struct injection *draw(struct connection *connection, const struct target *target, uint32_t circuit)
{
    uint32_t number = engine.run
                          ? rehearsal_number(&connection->station->segment, circuit, engine.run)
                          : atomic_fetch_add_explicit(&own_numbers[circuit % OWN_NUMBERS], 1, memory_order_relaxed);
    uint32_t drawn = lot(target, number), below = 0;
    for (uint32_t i = 0; i < target->fault_count && i < FAULTS_MAX; i++) {
        below += target->faults[i].permille;
        if (drawn < below)
            return &target->faults[i];
    }
    return NULL;
}

static void give(struct connection *connection, const struct injection *fault, uint32_t kind, uint32_t how)
{
    uint32_t value = kind == FAULT_SLOW ? (uint32_t)(fault->delay_ns / NS_PER_MS) : fault->status;
    atomic_store_explicit(&connection->fault, kind | how | (value & FAULT_VALUE_MASK) << FAULT_VALUE_SHIFT,
                          memory_order_relaxed);
    connection_mark(connection, CONNECTION_FAULTY);
}

/* On a connection that has met one of these, nothing else is met any more. */
static bool is_final(enum fault_kind kind)
{
    return kind != FAULT_NONE && kind != FAULT_REFUSE && kind != FAULT_DELAY && kind != FAULT_SLOW;
}

/* --- an attempt begins --- */

static bool make_ready(const struct injection *fault, struct connection *connection, int fd,
                       const struct sockaddr *address, struct attempt_ticket *ticket)
{
    switch (fault->kind) {
    case FAULT_REFUSE:
        return diversion_refusing(&ticket->elsewhere, fd, address);
    case FAULT_RESET:
    case FAULT_HANG:
    case FAULT_SILENCE:
    case FAULT_EARLY_CLOSE:
    case FAULT_HTTP:
        return !connection_has(connection, CONNECTION_UNIX) && diversion_self(&ticket->elsewhere, fd, address) &&
               diversion_deafen(fd, fault->kind == FAULT_HANG      ? DEAF_TO_ALL
                                    : fault->kind == FAULT_SILENCE ? DEAF_TO_PEER
                                                                   : DEAF_TO_DATA);
    case FAULT_DELAY:
        ticket->delay_ns = fault->delay_ns;
        return true;
    case FAULT_SLOW:
        return !connection_has(connection, CONNECTION_UNIX) && !ticket->sends;
    default:
        return false;
    }
}

OWN_FRAME enum passage rehearsal_begin(struct connection *connection, int fd, const struct attempt *attempt,
                                       const struct sockaddr *address, struct attempt_ticket *ticket)
{
    /* No connection: another thread has closed the descriptor meanwhile. */
    const struct injection *fault = connection ? draw(connection, attempt->target, attempt->circuit) : NULL;
    if (!fault || !make_ready(fault, connection, fd, address, ticket))
        return PASSAGE_GUARDED;
    give(connection, fault, fault->kind, fault->kind == FAULT_DELAY ? FAULT_DELAYED : 0);
    if (fault->kind == FAULT_SLOW) /* its request decides whether it can be */
        return PASSAGE_GUARDED;
    rehearsal_mark(&connection->station->segment, attempt->circuit, connection->place.call, attempt->shard);
    return PASSAGE_DIVERTED;
}

void rehearsal_over(struct connection *connection, int fd)
{
    if (connection_has(connection, CONNECTION_FAULTY) && is_final(rehearsal_kind(connection)))
        diversion_undeafen(fd);
}

void rehearsal_closing(struct connection *connection, int fd)
{
    if (rehearsal_kind(connection) == FAULT_SILENCE && !connection_fault_is(connection, FAULT_KEPT) &&
        judgement_is_same_socket(connection, fd))
        diversion_undeafen(fd);
}

/* --- delay --- */

bool rehearsal_wait(struct connection *connection, uint64_t delay_ns)
{
    bool over = interruption_sleep(clock_real_ns() + delay_ns, true);
    atomic_fetch_and_explicit(&connection->fault, ~FAULT_DELAYED, memory_order_relaxed);
    return over;
}

/* The wait ended before the delay did. As after any wait for a TCP connection, the kernel goes on with the attempt. */
static int end_early(struct connection *connection, int fd, const struct sockaddr *address, socklen_t length, int error)
{
    int result = -1;
    if (connection_has(connection, CONNECTION_UNIX))
        errno = error == EINPROGRESS ? EAGAIN : error;
    else if (error == ETIMEDOUT)
        errno = error;
    else if (!limit_begin_connect(fd, address, length, &result) || (result < 0 && errno == EINPROGRESS))
        errno = error;
    return result;
}

int rehearsal_connect_late(struct connection *connection, struct attempt_ticket *ticket, const struct sockaddr *address,
                           socklen_t length)
{
    struct limit *limit = &ticket->limit;
    int fd = ticket->fd;
    bool blocks = socket_blocks(fd);
    uint64_t now_ns = clock_real_ns(), begins_ns = now_ns + ticket->delay_ns, until_ns = UINT64_MAX;
    if (limit->way != LIMIT_BARE)
        until_ns = limit->until_ns;
    else if (blocks)
        until_ns = limit_own_until(fd, now_ns);
    uint64_t wakes_ns = begins_ns < until_ns ? begins_ns : until_ns;
    bool slept = rehearsal_wait(connection, wakes_ns > now_ns ? wakes_ns - now_ns : 0);
    if (blocks && !slept)
        return end_early(connection, fd, address, length, EINTR);
    if (until_ns <= begins_ns)
        return end_early(connection, fd, address, length,
                         limit->way == LIMIT_BARE || limit->is_kernels ? EINPROGRESS : ETIMEDOUT);
    if (until_ns == UINT64_MAX || connection_has(connection, CONNECTION_UNIX))
        return sys.connect(fd, address, length);
    if (limit->way == LIMIT_BARE)
        *limit = (struct limit){.until_ns = until_ns, .way = LIMIT_AT_ONCE, .is_own = true, .is_kernels = true};
    return connection_connect(ticket, address, length);
}

/* --- an attempt that goes elsewhere, or later --- */

bool connection_divert(struct attempt_ticket *ticket, const struct sockaddr *address, socklen_t length, int sends,
                       int *result)
{
    struct connection *connection = judgement_of(ticket->entry);
    if (!ticket->delay_ns || !connection) {
        const struct elsewhere *elsewhere = &ticket->elsewhere;
        *result = ticket->limit.way == LIMIT_BARE
                      ? sys.connect(ticket->fd, &elsewhere->address.any, elsewhere->length)
                      : connection_connect(ticket, &elsewhere->address.any, elsewhere->length);
        return true;
    }
    if (!sends) {
        *result = rehearsal_connect_late(connection, ticket, address, length);
        return true;
    }
    *result = -1;
    if (rehearsal_wait(connection, ticket->delay_ns))
        return false;
    errno = EINTR;
    return true;
}

/* --- a request begins on a kept connection --- */

/* As in a send that has no room: the program's own SO_SNDTIMEO ends it, and a signal that interrupts. */
static int send_late(int fd, uint64_t delay_ns)
{
    bool blocks = socket_blocks(fd);
    uint64_t now_ns = clock_real_ns(), begins_ns = now_ns + delay_ns;
    uint64_t until_ns = blocks ? limit_own_until(fd, now_ns) : UINT64_MAX;
    bool slept = interruption_sleep(begins_ns < until_ns ? begins_ns : until_ns, true);
    if (blocks && !slept)
        return EINTR;
    return until_ns < begins_ns ? EAGAIN : SENDING_BEGINS;
}

/* Whether the connection is as a fault needs it. One that its peer has left meets a real fault. */
static bool can_meet(const struct connection *connection, int fd, enum fault_kind kind)
{
    bool is_unix = connection_has(connection, CONNECTION_UNIX);
    if (!judgement_is_same_socket(connection, fd) || socket_state(fd, is_unix).stage != SOCKET_CONNECTED)
        return false;
    return (kind != FAULT_RESET && kind != FAULT_HTTP && kind != FAULT_SLOW) || (!is_unix && socket_is_tcp(fd));
}

OWN_FRAME int rehearsal_request(struct connection *connection, int fd)
{
    const struct target *target = connection_target(connection);
    struct segment *segment = &connection->station->segment;
    const struct call_place place = connection->place;
    if (connection_has(connection, CONNECTION_FAULTY)) {
        if (is_final(rehearsal_kind(connection)))
            return SENDING_FAULTY;
        connection_unmark(connection, CONNECTION_FAULTY);
        atomic_store_explicit(&connection->fault, 0, memory_order_relaxed);
    }
    const struct injection *fault = draw(connection, target, place.circuit);
    if (!fault || !can_meet(connection, fd, (enum fault_kind)fault->kind)) {
        rehearsal_unmark(segment, place.call);
        return SENDING_BEGINS;
    }
    if (fault->kind == FAULT_SLOW) {
        rehearsal_unmark(segment, place.call); /* its bytes decide whether it can be */
        give(connection, fault, fault->kind, FAULT_KEPT);
        return SENDING_FAULTY;
    }
    rehearsal_mark(segment, place.circuit, place.call, place.call);
    switch (fault->kind) {
    case FAULT_REFUSE:
        return ECONNRESET;
    case FAULT_DELAY:
        return send_late(fd, fault->delay_ns);
    case FAULT_HANG: /* what is sent on a connection is lost, as an attempt is */
    case FAULT_SILENCE:
    case FAULT_EARLY_CLOSE:
        diversion_deafen(fd, DEAF_TO_PEER); /* where it can't be, the peer's own end would be heard */
        give(connection, fault, fault->kind == FAULT_HANG ? FAULT_SILENCE : fault->kind, FAULT_KEPT);
        return SENDING_FAULTY;
    default:
        give(connection, fault, fault->kind, FAULT_KEPT);
        return SENDING_FAULTY;
    }
}
