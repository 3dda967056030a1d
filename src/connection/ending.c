/*
 * ending.c - the ends of a guarded connection: shutdown, close in all its forms, dup over it, exit.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "connection/deferred.h"
#include "connection/fault_drawing.h"
#include "connection/inherited.h"
#include "connection/judgement.h"
#include "connection/lineage.h"
#include "connection/sharers.h"
#include "connection/socket_state.h"
#include "connection/socket_swap.h"
#include "connection/stopping.h"
#include "connection/system.h"

#define PASSED_MAX 253u      /* SCM_MAX_FD: more the kernel does not take */
#define SOCKET_TYPE_MASK 0xf /* the rest are SOCK_NONBLOCK and SOCK_CLOEXEC */

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

static void hand_over(descriptor entry, int fd)
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
    hand_over(descriptor_get(fd), fd);
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

/* Another descriptor that stands for the connection: the one it was known by is going. */
static void move_to_alias(struct connection *connection, descriptor entry, int fd)
{
    uint32_t tag = atomic_load_explicit(&connection->sharers, memory_order_relaxed);
    sharers_unlist(tag, fd);
    if (atomic_load_explicit(&connection->fd, memory_order_relaxed) != fd)
        return;
    for (unsigned int i = 0; i < SHARERS_LISTED; i++) {
        int at = sharers_at(tag, i);
        if (at >= 0 && descriptor_get(at) == entry) {
            atomic_store_explicit(&connection->fd, at, memory_order_relaxed);
            return;
        }
    }
}

static void release(descriptor entry, int fd, enum judgement_end end)
{
    struct connection *connection = judgement_of_anybody(entry);
    if (!connection) {
        if (descriptor_hint(entry) & DESCRIPTOR_SHARED)
            sharers_leave(descriptor_serial(entry), fd);
        return;
    }
    if (atomic_fetch_sub_explicit(&connection->aliases, 1, memory_order_acq_rel) != 1) {
        move_to_alias(connection, entry, fd);
        return;
    }
    if (judgement_of(entry)) { /* in a fork's child the call is the parent's */
        judgement_judge_end(connection, fd, end);
        if (connection_has(connection, CONNECTION_FAULTY))
            rehearsal_closing(connection, fd);
    }
    judgement_forget(connection);
    judgement_unfollow(connection);
    sharers_leave(atomic_exchange_explicit(&connection->sharers, 0, memory_order_relaxed), -1);
    pool_give(descriptor_connection(entry) - 1);
}

void judgement_release(descriptor entry, int fd)
{
    release(entry, fd, LIFE_CLOSES);
}

/*
 * What socket() said is only a hint, which connect asks the kernel for if a vfork's child has taken it away. (So it may
 * have taken away that the socket has another number. But whether it is one would have to be asked at each close.)
 */
static bool is_hint(descriptor entry)
{
    return !descriptor_connection(entry) && !(entry & DESCRIPTOR_ELSEWHERE);
}

/* The number leaves the record for what is known of a fresh socket. */
static void part_number(descriptor entry, int fd, descriptor hint)
{
    uint32_t tag = hint & DESCRIPTOR_SHARED ? descriptor_serial(hint) : 0;
    bool joins = tag && sharers_join(tag, fd);
    if (descriptor_replace(fd, entry, hint))
        release(entry, fd, LIFE_LEAVES);
    else if (joins)
        sharers_leave(tag, fd);
}

void judgement_part(descriptor entry, int fd)
{
    struct connection *connection = judgement_of_anybody(entry);
    if (!connection || lineage_is_borrowed())
        return;
    descriptor hint = descriptor_of_hint(DESCRIPTOR_STREAM, connection->forks);
    uint32_t tag = 0;
    /* The group is its numbers' again; this function holds it as long as they come. */
    if (atomic_load_explicit(&connection->aliases, memory_order_relaxed) > 1)
        tag = sharers_take(atomic_exchange_explicit(&connection->sharers, 0, memory_order_relaxed));
    if (tag)
        hint = descriptor_of_hint(DESCRIPTOR_STREAM | DESCRIPTOR_SHARED, tag);
    part_number(entry, fd, hint);
    for (unsigned int i = 0; tag && i < SHARERS_LISTED; i++) {
        int at = sharers_at(tag, i);
        if (at >= 0 && at != fd && descriptor_get(at) == entry)
            part_number(entry, at, hint);
    }
    sharers_leave(tag, -1);
}

void judgement_gather(struct connection *connection, descriptor entry, int fd, uint32_t tag)
{
    uint32_t mine = sharers_take(tag);
    if (!mine)
        return;
    atomic_store_explicit(&connection->sharers, mine, memory_order_relaxed);
    for (unsigned int i = 0; i < SHARERS_LISTED && connection->cookie; i++) {
        int at = sharers_at(mine, i);
        descriptor seen = at >= 0 ? descriptor_get(at) : 0;
        if (at < 0 || at == fd)
            continue;
        if (!(descriptor_hint(seen) & DESCRIPTOR_SHARED) || descriptor_serial(seen) != tag ||
            socket_cookie(at) != connection->cookie || !pool_add_alias(connection))
            sharers_unlist(mine, at);
        else if (!descriptor_replace(at, seen, entry))
            release(entry, at, LIFE_LEAVES); /* it has been closed meanwhile */
    }
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

static void close_number(int fd, enum judgement_end end)
{
    descriptor entry = descriptor_get(fd);
    if (!entry || (!is_hint(entry) && is_borrowed_close(entry)))
        return;
    release(descriptor_take(fd), fd, end);
}

void connection_closing(int fd)
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

/*
 * What a socket without a connection stands for now that it is to have another number: its entry names their group,
 * which is one entry larger. Without room for a group, its numbers are not known to belong together.
 */
static descriptor share_hint(int fd, descriptor entry, int to)
{
    if (descriptor_hint(entry) & DESCRIPTOR_SHARED) {
        sharers_join(descriptor_serial(entry), to);
        return entry;
    }
    uint32_t tag = sharers_new(fd, descriptor_serial(entry));
    descriptor shared = descriptor_of_hint((entry & 0xffu) | DESCRIPTOR_SHARED, tag);
    if (tag && sharers_join(tag, to) && descriptor_replace(fd, entry, shared))
        return shared;
    sharers_leave(tag, fd); /* another thread connects it at this moment, or has closed it */
    sharers_leave(tag, to);
    return entry;
}

/* The same for a connection, which has one more alias already. */
static void share_connection(struct connection *connection, int fd, int to)
{
    uint32_t present = atomic_load_explicit(&connection->sharers, memory_order_relaxed);
    if (!present) {
        uint32_t fresh = sharers_new(fd, connection->forks);
        if (atomic_compare_exchange_strong_explicit(&connection->sharers, &present, fresh, memory_order_acq_rel,
                                                    memory_order_acquire))
            present = fresh;
        else
            sharers_leave(fresh, fd);
    }
    sharers_list(present, to);
}

void connection_duplicated(int fd, int to)
{
    descriptor entry = descriptor_get(fd), former = descriptor_get(to);
    if ((!entry && !former) || swap_carries(former))
        return;
    if ((descriptor_connection(entry) || descriptor_connection(former)) && lineage_is_borrowed()) {
        hand_over(entry, fd); /* a vfork's child makes it its standard input, say, before its exec */
        return;
    }
    if (descriptor_hint(entry) & DESCRIPTOR_STREAM)
        entry = share_hint(fd, entry, to);
    struct connection *connection = judgement_of_anybody(entry);
    if (connection && connection->epoch != lineage_epoch()) {
        lineage_take_over(entry);
        connection_mark(connection, CONNECTION_PASSED); /* in this memory, for its exec */
    }
    if (connection && pool_add_alias(connection))
        share_connection(connection, fd, to);
    else if (descriptor_connection(entry))
        entry = 0; /* another thread has closed it, and its record moves on */
    descriptor_set(to, entry, &former);
    judgement_release(former, to); /* a close was missed: the cookie keeps this from charging anything */
}

void connection_created(int fd, int domain, int type, int protocol)
{
    bool is_stream = (type & SOCKET_TYPE_MASK) == SOCK_STREAM && socket_family_is_guarded(domain) &&
                     (protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);
    if (!engine_ready())
        return; /* without a policy nothing is written down; before the start, connect asks the kernel */
    descriptor former = descriptor_get(fd);
    descriptor entry = is_stream ? descriptor_of_hint(DESCRIPTOR_STREAM, lineage_forks()) : DESCRIPTOR_OTHER;
    if (former == entry || (descriptor_connection(former) && lineage_is_borrowed()))
        return;
    descriptor_set(fd, entry, &former);
    judgement_release(former, fd);
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
