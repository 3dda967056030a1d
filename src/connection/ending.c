/*
 * ending.c - the ends of a guarded connection: shutdown, close in all its forms, other programs, exit.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/deferred.h"
#include "connection/inherited.h"
#include "connection/judgement.h"
#include "connection/lineage.h"
#include "connection/socket_state.h"
#include "connection/stopping.h"
#include "connection/system.h"

#define PASSED_MAX 253u /* SCM_MAX_FD: more the kernel does not take */

void connection_shutting(int fd, int how)
{
    struct connection *connection = judgement_of(descriptor_get(fd));
    if (!connection || how < SHUT_RD || how > SHUT_RDWR || lineage_is_borrowed())
        return;
    if (how == SHUT_WR) {
        judgement_ending_own_side(connection);
        connection_mark(connection, CONNECTION_SHUT_WRITE);
        atomic_store_explicit(&connection->shut_write_ns, clock_real_ns(), memory_order_relaxed);
        /* While the attempt is pending there is nothing to half-close: the program gives up. */
        if (judgement_phase(connection) == PHASE_CONNECTING)
            judgement_judge_end(connection, fd, LIFE_SHUTS);
        return;
    }
    judgement_judge_end(connection, fd, LIFE_SHUTS);
    connection_mark(connection, CONNECTION_SHUT_READ);
    if (how == SHUT_RDWR)
        connection_mark(connection, CONNECTION_SHUT_WRITE);
}

/* An attempt that is still pending is judged when the number is closed. */
static void hand_on(struct connection *connection, int fd)
{
    enum phase phase = judgement_phase(connection);
    if (phase == PHASE_ANSWERED || !judgement_is_same_socket(connection, fd))
        return;
    struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
    if (state.stage != SOCKET_CONNECTED)
        return;
    if (phase == PHASE_CONNECTING)
        judgement_found_connected(connection, &state);
    judgement_handed(connection);
}

void judgement_hand_over(descriptor entry, int fd)
{
    struct connection *connection = judgement_of(entry);
    if (!connection) {
        if ((connection = inherited_of(entry, fd)))
            inherited_handed(connection, fd);
        return;
    }
    connection_mark(connection, CONNECTION_PASSED);
    connection_mark(connection, CONNECTION_SHARED);
    hand_on(connection, fd);
}

void connection_handed(int fd)
{
    judgement_hand_over(descriptor_get(fd), fd);
}

static bool stays_open(int fd)
{
    int flags = sys.fcntl(fd, F_GETFD, 0);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

/*
 * Of this process's own connections only a probe is judged now: should the exec fail, nothing has changed for the
 * others. A child's program may have got a number that it knows nothing of, so there it must be a connection on which
 * nothing was asked.
 */
static bool goes_on(const struct connection *connection, bool is_childs)
{
    if (connection->epoch != lineage_epoch())
        return inherited_goes_on(connection);
    return guard_probes(&connection->station->guard, connection->place.call) &&
           (!is_childs || judgement_phase(connection) != PHASE_REQUESTED);
}

void connection_executing(bool by_child)
{
    if (!engine_ready())
        return;
    bool is_childs = by_child || lineage_is_borrowed();
    for (int fd = descriptor_next(0, INT_MAX); fd >= 0; fd = descriptor_next(fd + 1, INT_MAX)) {
        descriptor entry = descriptor_get(fd);
        struct connection *connection = judgement_of_anybody(entry);
        if (!connection || !goes_on(connection, is_childs) || !stays_open(fd))
            continue;
        if (connection->epoch == lineage_epoch())
            hand_on(connection, fd);
        else
            inherited_handed(connection, fd);
    }
}

void connection_passed(const struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR((struct msghdr *)message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && i < PASSED_MAX; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            connection_handed(fd);
        }
    }
}

/*
 * What socket() said is only a hint, which connect asks the kernel for if a vfork's child has taken it away. (So it may
 * have taken away that the socket has another number. But whether it is one would have to be asked at each close.)
 */
static bool is_hint(descriptor entry)
{
    return !descriptor_connection(entry) && !(entry & DESCRIPTOR_ELSEWHERE);
}

/*
 * Whether the close is a vfork's child's, in its parent's memory. A call in flight would be judged by it, so there it is
 * asked in any case (lineage.h).
 */
static bool is_borrowed_close(descriptor entry)
{
    const struct connection *connection = judgement_of(entry);
    bool judges =
        connection && !state_is_aside(connection_state(connection)) && judgement_phase(connection) != PHASE_ANSWERED;
    return judges ? lineage_is_borrowed() : lineage_is_lent();
}

HOT static void close_number(int fd, enum judgement_end end)
{
    descriptor entry = descriptor_get(fd);
    if (!entry || (!is_hint(entry) && is_borrowed_close(entry)))
        return;
    judgement_release_as(descriptor_take(fd), fd, end);
}

HOT void connection_closing(int fd)
{
    close_number(fd, LIFE_CLOSES);
}

void connection_leaving(int fd)
{
    close_number(fd, LIFE_LEAVES);
}

/* Whose the table is, is asked once, and only if there is more than hints in the range. */
void connection_closing_range(unsigned int first, unsigned int last)
{
    bool is_own = false;
    if (first > INT_MAX)
        return;
    int end = last > INT_MAX ? INT_MAX : (int)last;
    for (int fd = descriptor_next((int)first, end); fd >= 0; fd = fd == INT_MAX ? -1 : descriptor_next(fd + 1, end)) {
        if (!is_own && !is_hint(descriptor_get(fd))) {
            if (lineage_is_borrowed())
                return;
            is_own = true;
        }
        judgement_release(descriptor_take(fd), fd);
    }
}

/* `flushes`: stdio has yet to write what it holds. */
static void leave(int status, bool flushes)
{
    if (!engine_ready() || lineage_is_borrowed())
        return;
    atomic_store_explicit(&engine.ready, false, memory_order_relaxed);
    bool is_stopped = status != 0 && stopping_explains(stopping_now(), status);
    for (int fd = descriptor_next(0, INT_MAX); fd >= 0; fd = descriptor_next(fd + 1, INT_MAX)) {
        descriptor entry = descriptor_take(fd);
        struct connection *connection = judgement_of(entry);
        if (!connection)
            continue;
        /*
         * A worker that is stopped while it waits for an answer (a blocking pop of a queue) says nothing of its peer.
         */
        bool connects = judgement_phase(connection) == PHASE_CONNECTING;
        bool gave_up = (status != 0 && !is_stopped) || connects;
        judgement_judge_end(connection, fd, !gave_up ? LIFE_EXITS : flushes && !connects ? LIFE_LEAVES : LIFE_CLOSES);
        judgement_forget(connection);
    }
    deferred_resolve_all(status);
    engine_leave();
}

void connection_exit(int status)
{
    leave(status, false);
}

void connection_exit_handler(int status, void *unused)
{
    (void)unused;
    leave(status, true);
}
