/*
 * socket_swap.c - the attempt of another preload's making. See socket_swap.h.
 */
#define _GNU_SOURCE
#include "connection/socket_swap.h"

#include <sys/socket.h>

#include "base/hot.h"
#include "connection/pool.h"
#include "connection/socket_state.h"
#include "connection/system.h"

bool swap_is_possible;

/*
 * A handler of a signal may jump out of the real connect, and what was said of it here stays: it is believed only in
 * frames that lie below the wrapper's, and of an entry that still stands.
 */
static __thread struct swap_attempt present;

void swap_enter(descriptor entry, uintptr_t frame, struct swap_attempt *outer)
{
    *outer = present;
    present = (struct swap_attempt){entry, frame};
}

void swap_leave(const struct swap_attempt *outer)
{
    present = *outer;
}

bool swap_carries(descriptor entry)
{
    return swap_is_possible && entry && present.entry == entry && (uintptr_t)__builtin_frame_address(0) < present.frame;
}

HOT void swap_follow(struct connection *connection, int fd)
{
    if (__builtin_expect(!swap_is_possible, 1))
        return;
    uint64_t cookie = socket_cookie(fd);
    if (!cookie || cookie == connection->cookie)
        return;
    int family = AF_UNSPEC;
    socklen_t length = sizeof family;
    atomic_store_explicit(&connection->cookie, cookie, memory_order_relaxed);
    if (sys.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0)
        return;
    if (family == AF_UNIX) {
        connection_mark(connection, CONNECTION_UNIX);
    } else {
        connection_unmark(connection, CONNECTION_UNIX);
        connection_mark(connection, CONNECTION_SWAPPED);
    }
}
