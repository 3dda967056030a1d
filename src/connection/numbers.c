/*
 * numbers.c - which descriptors stand for a connection: the first one, duplicates, those that its socket had before, and
 * the last one. Of judgement.h and connection.h.
 */
#define _GNU_SOURCE
#include "base/hot.h"
#include "connection/judgement.h"

#include <netinet/in.h>

#include "connection/fault_drawing.h"
#include "connection/lineage.h"
#include "connection/sharers.h"
#include "connection/socket_state.h"
#include "connection/socket_swap.h"

#define SOCKET_TYPE_MASK 0xf /* the rest are SOCK_NONBLOCK and SOCK_CLOEXEC */

/* --- a record for a socket --- */

HOT struct connection *judgement_enrol(struct station *station, const struct policy *policy,
                                       const struct target *target, int fd)
{
    struct connection *connection = pool_at(pool_take());
    if (!connection)
        return NULL;
    connection->epoch = lineage_epoch();
    connection->forks = lineage_forks();
    connection->station = station;
    /* seq_cst: against the look at what follows the station, in attaching.c. */
    atomic_store_explicit(&connection->is_stationed, true, memory_order_seq_cst);
    judgement_follow(connection, policy, target);
    connection->cookie = 0;
    connection->sibling_count = 0;
    atomic_store_explicit(&connection->fd, fd, memory_order_relaxed);
    return connection;
}

void judgement_dismiss(struct connection *connection)
{
    atomic_store_explicit(&connection->aliases, 0, memory_order_relaxed);
    judgement_unfollow(connection);
    pool_give(descriptor_connection(atomic_load_explicit(&connection->entry, memory_order_relaxed)) - 1);
}

/* --- more numbers, and fewer --- */

/* Another descriptor that stands for the connection: the one it was known by is going. */
SELDOM static void move_to_alias(struct connection *connection, descriptor entry, int fd)
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

HOT void judgement_release_as(descriptor entry, int fd, enum judgement_end end)
{
    struct connection *connection = judgement_of_anybody(entry);
    if (UNLIKELY(!connection)) {
        if (descriptor_hint(entry) & DESCRIPTOR_SHARED)
            sharers_leave(descriptor_serial(entry), fd);
        return;
    }
    if (UNLIKELY(atomic_fetch_sub_explicit(&connection->aliases, 1, memory_order_acq_rel) != 1)) {
        move_to_alias(connection, entry, fd);
        return;
    }
    if (LIKELY(judgement_of(entry) != NULL)) { /* in a fork's child the call is the parent's */
        judgement_judge_end(connection, fd, end);
        if (UNLIKELY(connection_has(connection, CONNECTION_FAULTY)))
            rehearsal_closing(connection, fd);
    }
    judgement_forget(connection);
    judgement_unfollow(connection);
    if (UNLIKELY(atomic_load_explicit(&connection->sharers, memory_order_relaxed) != 0))
        sharers_leave(atomic_exchange_explicit(&connection->sharers, 0, memory_order_relaxed), -1);
    pool_give(descriptor_connection(entry) - 1);
}

void judgement_release(descriptor entry, int fd)
{
    judgement_release_as(entry, fd, LIFE_CLOSES);
}

/* The number leaves the record for what is known of a fresh socket. */
static void part_number(descriptor entry, int fd, descriptor hint)
{
    uint32_t tag = hint & DESCRIPTOR_SHARED ? descriptor_serial(hint) : 0;
    bool joins = tag && sharers_join(tag, fd);
    if (descriptor_replace(fd, entry, hint))
        judgement_release_as(entry, fd, LIFE_LEAVES);
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

/* The other numbers of a socket that had several before it was connected, in the group of that tag: they stand for the
 * record too. */
SELDOM static void gather(struct connection *connection, descriptor entry, int fd, uint32_t tag)
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
            judgement_release_as(entry, at, LIFE_LEAVES); /* it has been closed meanwhile */
    }
}

HOT void judgement_take_number(struct connection *connection, int fd, descriptor former)
{
    descriptor entry = atomic_load_explicit(&connection->entry, memory_order_relaxed);
    /* One system call. A close that we miss leaves the number to another socket, and nothing else that can be had for
     * less would tell, when the call is judged, that it is another. */
    connection->cookie = socket_cookie(fd);
    if (UNLIKELY(descriptor_hint(former) & DESCRIPTOR_SHARED)) {
        connection->forks = sharers_forks(descriptor_serial(former));
        gather(connection, entry, fd, descriptor_serial(former));
    } else if (LIKELY(descriptor_hint(former) & DESCRIPTOR_STREAM)) {
        connection->forks = descriptor_serial(former);
        return; /* mostly: no connection, whose end would have been missed */
    }
    judgement_release(former, fd);
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
        judgement_hand_over(entry, fd); /* a vfork's child makes it its standard input, say, before its exec */
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

HOT void connection_created(int fd, int domain, int type, int protocol)
{
    bool is_stream = (type & SOCKET_TYPE_MASK) == SOCK_STREAM && socket_family_is_guarded(domain) &&
                     (protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP);
    if (!engine_ready())
        return; /* without a policy nothing is written down; before the start, connect asks the kernel */
    descriptor former = descriptor_get(fd);
    descriptor entry = is_stream ? descriptor_of_hint(DESCRIPTOR_STREAM, lineage_forks()) : DESCRIPTOR_OTHER;
    if (former == entry || (UNLIKELY(descriptor_connection(former)) && lineage_is_borrowed()))
        return;
    descriptor_set(fd, entry, &former);
    if (UNLIKELY(former != 0)) /* a close was missed */
        judgement_release(former, fd);
}
