/*
 * support_kernel.c - sockets in memory. See support_kernel.h.
 */
#define _GNU_SOURCE
#include "support_kernel.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct kernel kernel;

int kernel_says(int error)
{
    errno = error;
    return -1;
}

struct kernel_socket *kernel_find(int fd)
{
    kernel.asked++;
    return fd >= 0 && fd < KERNEL_NUMBERS && kernel.numbers[fd] ? &kernel.sockets[kernel.numbers[fd] - 1] : NULL;
}

struct kernel_socket *kernel_socket(int fd)
{
    struct kernel_socket *found = kernel_find(fd);
    kernel.asked--;
    assert_non_null(found);
    return found;
}

void kernel_pass_ns(uint64_t ns)
{
    kernel.now_ns += ns;
}

/* --- what a program does --- */

static int lowest_number(void)
{
    for (int fd = 3; fd < KERNEL_NUMBERS; fd++)
        if (!kernel.numbers[fd])
            return fd;
    return kernel_says(EMFILE);
}

static int next_socket(int family, int protocol, bool blocks)
{
    assert_true(kernel.made < KERNEL_SOCKETS);
    kernel.sockets[kernel.made] = (struct kernel_socket){.own = {.ss_family = (sa_family_t)family},
                                                         .family = family,
                                                         .protocol = protocol,
                                                         .blocks = blocks,
                                                         .was_made_to_block = blocks,
                                                         .cookie = kernel.made + 1};
    return (int)++kernel.made;
}

int kernel_make(int family, int type, int protocol)
{
    int fd = lowest_number();
    if (fd >= 0)
        kernel.numbers[fd] = next_socket(family, protocol, !(type & SOCK_NONBLOCK));
    return fd;
}

static int dissolve(struct kernel_socket *at)
{
    bool aborts = at->stage == KERNEL_PENDING || at->stage == KERNEL_OPEN || at->stage == KERNEL_PEER_DONE;
    at->stage = KERNEL_FRESH;
    at->error = aborts ? ECONNRESET : at->error;
    at->told = false;
    return 0;
}

static int connect_again(struct kernel_socket *at)
{
    switch (at->stage) {
    case KERNEL_PENDING:
        return kernel_says(EALREADY);
    case KERNEL_DEAD: {
        int error = at->error ? at->error : ECONNABORTED;
        at->error = 0;
        at->stage = KERNEL_FRESH;
        return kernel_says(error);
    }
    default:
        if (at->told)
            return kernel_says(EISCONN);
        at->told = true;
        return 0;
    }
}

void kernel_takes_port(struct kernel_socket *at)
{
    ((struct sockaddr_in *)&at->own)->sin_port = htons(KERNEL_PORT);
}

/* Nobody can listen there. */
static bool has_port_0(const struct sockaddr *address)
{
    return address->sa_family == AF_INET && ((const struct sockaddr_in *)address)->sin_port == 0;
}

/* It hears what it says. */
static bool is_its_own_peer(const struct kernel_socket *at)
{
    return at->family == AF_INET && ((const struct sockaddr_in *)&at->peer)->sin_port == htons(KERNEL_PORT) &&
           ((const struct sockaddr_in *)&at->peer)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

int kernel_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct kernel_socket *at = kernel_find(fd);
    if (!at)
        return kernel_says(EBADF);
    if (address->sa_family == AF_UNSPEC)
        return dissolve(at);
    if (at->stage != KERNEL_FRESH)
        return connect_again(at);
    int ends = kernel.connect_ends;
    if (kernel.connect_ends_again > 0)
        kernel.connect_ends_again--;
    else
        kernel.connect_ends = KERNEL_AS_USUAL;
    kernel.connects++;
    kernel_pass_ns(kernel.connect_takes_ns);
    memcpy(&at->peer, address, length);
    kernel_takes_port(at);
    if (ends > 0 && ends != EINPROGRESS)
        return kernel_says(ends);
    if (has_port_0(address))
        return kernel_says(ECONNREFUSED);
    at->stage = KERNEL_PENDING;
    at->ack_ns = kernel.now_ns;
    if (ends == KERNEL_FAST_OPEN)
        return 0;
    at->answers = ends == KERNEL_AS_USUAL && at->was_made_to_block;
    if (ends == EINPROGRESS && at->blocks)
        kernel_pass_ns(NS_PER_MS); /* no time-out is shorter than a tick */
    if (ends == EINPROGRESS || !at->blocks)
        return kernel_says(EINPROGRESS);
    at->stage = KERNEL_OPEN;
    at->told = true;
    return 0;
}

int kernel_takes(struct kernel_socket *at)
{
    int error = at->error;
    at->error = 0;
    return error;
}

int kernel_take_error(int fd)
{
    return kernel_takes(kernel_socket(fd));
}

ssize_t kernel_send(int fd, const struct iovec *vector, size_t count, int flags)
{
    struct kernel_socket *at = kernel_find(fd);
    size_t bytes = 0;
    if (!at)
        return kernel_says(EBADF);
    if (at->error)
        return kernel_says(kernel_takes(at));
    if (at->shut_write || at->stage == KERNEL_DEAD)
        return kernel_says(EPIPE);
    if (at->stage == KERNEL_FRESH)
        return kernel_says(ENOTCONN);
    if (at->is_full || (at->stage == KERNEL_PENDING && (!at->blocks || flags & MSG_DONTWAIT) && !at->told))
        return kernel_says(EAGAIN);
    for (size_t i = 0; i < count; i++)
        bytes += vector[i].iov_len;
    at->data_out = at->data_out || at->stage != KERNEL_PENDING;
    at->sent_ns = kernel.now_ns;
    for (size_t i = 0; i < count && is_its_own_peer(at) && !at->has_filter; i++)
        kernel_brings(fd, vector[i].iov_base, vector[i].iov_len);
    return (ssize_t)bytes;
}

ssize_t kernel_receive(int fd, void *bytes, size_t count, int flags)
{
    struct kernel_socket *at = kernel_find(fd);
    if (!at)
        return kernel_says(EBADF);
    if (at->unread_bytes > 0) {
        size_t taken = at->unread_bytes < count ? at->unread_bytes : count;
        if (!(flags & MSG_TRUNC)) /* which TCP throws away */
            memcpy(bytes, at->unread, taken);
        if (!(flags & MSG_PEEK)) {
            at->unread_bytes -= taken;
            memmove(at->unread, at->unread + taken, at->unread_bytes);
        }
        return (ssize_t)taken;
    }
    if (at->error)
        return kernel_says(kernel_takes(at));
    if (at->stage == KERNEL_PEER_DONE || at->stage == KERNEL_DEAD || at->shut_read)
        return 0;
    return kernel_says(EAGAIN);
}

int kernel_shutdown(int fd, int how)
{
    struct kernel_socket *at = kernel_find(fd);
    if (!at)
        return kernel_says(EBADF);
    if (at->stage == KERNEL_FRESH || at->stage == KERNEL_DEAD)
        return kernel_says(ENOTCONN);
    at->shut_read = at->shut_read || how != SHUT_WR;
    at->shut_write = at->shut_write || how != SHUT_RD;
    if (at->shut_write && at->stage == KERNEL_PENDING)
        at->stage = KERNEL_DEAD;
    if (at->shut_write && is_its_own_peer(at))
        at->stage = KERNEL_PEER_DONE;
    return 0;
}

int kernel_close(int fd)
{
    if (!kernel_find(fd))
        return kernel_says(EBADF);
    kernel.numbers[fd] = 0;
    return 0;
}

int kernel_duplicate(int fd, int to)
{
    if (!kernel_find(fd))
        return kernel_says(EBADF);
    if (to < 0)
        to = lowest_number();
    kernel.numbers[to] = kernel.numbers[fd];
    return to;
}

/* --- what the network does --- */

void kernel_establishes(int fd)
{
    struct kernel_socket *at = kernel_socket(fd);
    at->stage = KERNEL_OPEN;
    at->ack_ns = kernel.now_ns;
}

void kernel_fails(int fd, int error)
{
    struct kernel_socket *at = kernel_socket(fd);
    at->stage = KERNEL_DEAD;
    at->error = error;
}

void kernel_brings(int fd, const char *bytes, size_t count)
{
    struct kernel_socket *at = kernel_socket(fd);
    assert_true(at->unread_bytes + count <= sizeof at->unread);
    memcpy(at->unread + at->unread_bytes, bytes, count);
    at->unread_bytes += count;
    at->data_in = true;
    at->data_ns = at->ack_ns = kernel.now_ns;
}

void kernel_acknowledges(int fd)
{
    struct kernel_socket *at = kernel_socket(fd);
    at->ack_ns = kernel.now_ns;
    at->unsent = 0;
}

void kernel_peer_ends(int fd)
{
    struct kernel_socket *at = kernel_socket(fd);
    at->stage = KERNEL_PEER_DONE;
    at->ack_ns = kernel.now_ns;
}

void kernel_replaces(int fd)
{
    const struct kernel_socket *at = kernel_socket(fd);
    kernel.numbers[fd] = next_socket(at->family, at->protocol, at->blocks);
}
