/*
 * socket_state.c - asking the kernel. See socket_state.h.
 */
#define _GNU_SOURCE
#include "connection/socket_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* the kernel's struct tcp_info, longer than libc's: tcpi_bytes_sent, tcpi_data_segs_in */
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/system.h"

/* The kernel's own numbers; netinet/tcp.h, which names them, can't stand beside linux/tcp.h. */
enum tcp_state {
    STATE_SYN_SENT = 2,
    STATE_SYN_RECV = 3,
    STATE_TIME_WAIT = 6,
    STATE_CLOSE = 7,
    STATE_CLOSE_WAIT = 8,
    STATE_LAST_ACK = 9,
    STATE_CLOSING = 11,
};

static struct socket_state tcp_state(int fd)
{
    struct socket_state state = {.stage = SOCKET_UNKNOWN, .bytes_in = UINT64_MAX};
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    if (sys.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return state;
    switch (info.tcpi_state) {
    case STATE_SYN_SENT:
    case STATE_SYN_RECV:
        state.stage = SOCKET_PENDING;
        break;
    case STATE_CLOSE:
        state.stage = SOCKET_DEAD;
        break;
    case STATE_CLOSE_WAIT:
    case STATE_LAST_ACK:
    case STATE_CLOSING:
    case STATE_TIME_WAIT:
        state.stage = SOCKET_PEER_DONE;
        break;
    default:
        state.stage = SOCKET_CONNECTED;
        break;
    }
    state.quiet_ns = (uint64_t)info.tcpi_last_ack_recv * NS_PER_MS;
    state.sent_ns = (uint64_t)info.tcpi_last_data_sent * NS_PER_MS;
    state.data_ns = (uint64_t)info.tcpi_last_data_recv * NS_PER_MS;
    /* Segments with data, not bytes: tcpi_bytes_received counts the peer's FIN as one. Where they are not told (QEMU's
     * user mode has the first word alone, Linux before 4.6 the first half), what nobody has read is seen all the same. */
    if (length >= offsetof(struct tcp_info, tcpi_data_segs_in) + sizeof info.tcpi_data_segs_in) {
        state.data_in = info.tcpi_data_segs_in > 0;
        state.data_out = info.tcpi_data_segs_out > 0;
        state.bytes_in = info.tcpi_bytes_received;
        state.met_a_peer = info.tcpi_segs_in == info.tcpi_data_segs_in + 1;
    } else {
        state.data_in = socket_has_unread(fd);
    }
    return state;
}

/*
 * What poll says of it within that time, POLLHUP and POLLERR always; negative: it failed. Not libc's function: that is
 * a cancellation point, also where the program's own call is none (tests/preload/test_threads.c), and some programs
 * bring their own.
 */
static int poll_for(int fd, short events, int ms)
{
    struct pollfd look = {.fd = fd, .events = events};
#ifdef SYS_poll
    long count = sys.syscall(SYS_poll, (long)&look, 1, ms, 0, 0, 0);
#else
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * (long)NS_PER_MS};
    long count = sys.syscall(SYS_ppoll, (long)&look, 1, (long)&wait, 0, 0, 0);
#endif
    return count < 0 ? -1 : look.revents;
}

static int poll_at_once(int fd)
{
    return poll_for(fd, POLLRDHUP, 0);
}

/*
 * A UNIX stream is connected as soon as connect returns. A peek would tell the rest at once, but takes a waiting error
 * from the program: so its unread bytes are counted, and poll tells of an end or an error.
 */
static struct socket_state unix_state(int fd)
{
    struct socket_state state = {.stage = SOCKET_CONNECTED, .bytes_in = UINT64_MAX};
    struct sockaddr_un peer;
    socklen_t length = sizeof peer;
    int events = poll_at_once(fd);
    state.data_in = socket_has_unread(fd);
    if (sys.getpeername(fd, (struct sockaddr *)&peer, &length) != 0)
        state.stage = SOCKET_PENDING; /* connect still waits for room in the listener's queue */
    else if (events < 0)
        state.stage = SOCKET_UNKNOWN;
    else if (events & POLLERR)
        state.stage = SOCKET_DEAD;
    else if (events & (POLLHUP | POLLRDHUP))
        state.stage = SOCKET_PEER_DONE;
    return state;
}

struct socket_state socket_state(int fd, bool is_unix)
{
    return is_unix ? unix_state(fd) : tcp_state(fd);
}

int socket_take_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    return sys.getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : 0;
}

bool socket_has_error(int fd)
{
    int events = poll_at_once(fd);
    return events > 0 && (events & POLLERR);
}

bool socket_has_port(int fd)
{
    struct sockaddr_in6 own = {0};
    socklen_t length = sizeof own;
    return sys.getsockname(fd, (struct sockaddr *)&own, &length) != 0 ||
           own.sin6_port != 0; /* where sin_port is, too */
}

HOT uint64_t socket_cookie(int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    return sys.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

bool socket_family_is_guarded(int family)
{
    return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

bool socket_is_guardable(int fd)
{
    int type = 0, family = 0;
    socklen_t length = sizeof type;
    if (sys.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM)
        return false;
    length = sizeof family;
    return sys.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && socket_family_is_guarded(family);
}

uint64_t socket_unread(int fd)
{
    int count = 0;
    return sys.ioctl(fd, FIONREAD, &count) == 0 && count > 0 ? (uint64_t)count : 0;
}

bool socket_has_unread(int fd)
{
    return socket_unread(fd) > 0;
}

bool socket_has_unsent(int fd)
{
    int count = 0;
    return sys.ioctl(fd, SIOCOUTQ, &count) != 0 || count > 0;
}

uint64_t socket_unsent(int fd)
{
    int count = 0;
    return sys.ioctl(fd, SIOCOUTQ, &count) == 0 && count > 0 ? (uint64_t)count : 0;
}

bool socket_becomes_writable(int fd, int ms)
{
    int events = poll_for(fd, POLLOUT, ms);
    return events > 0 && (events & POLLOUT) && !(events & (POLLERR | POLLHUP));
}

bool socket_is_tcp(int fd)
{
    int protocol = 0;
    socklen_t length = sizeof protocol;
    return sys.getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP;
}

bool socket_blocks(int fd)
{
    int flags = sys.fcntl(fd, F_GETFL, 0);
    return flags >= 0 && !(flags & O_NONBLOCK);
}

int socket_low_water(int fd)
{
    int bytes = 1;
    socklen_t length = sizeof bytes;
    return sys.getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, &length) == 0 ? bytes : 1;
}
