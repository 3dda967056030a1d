/*
 * support_kernel_table.c - the scripted kernel's functions as the table `sys` has them, and its clocks. See
 * support_kernel.h.
 */
#define _GNU_SOURCE
#include "support_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "connection/system.h"

#define WALL_AHEAD_NS (UINT64_C(1700000000) * NS_PER_S)
#define NS_PER_US UINT64_C(1000)
#define LOWEST_PAGE 4096
enum { TCP_STATE_ESTABLISHED = 1, TCP_STATE_SYN_SENT = 2, TCP_STATE_CLOSE = 7, TCP_STATE_CLOSE_WAIT = 8 };

struct system sys;

static int give(void *value, socklen_t *length, const void *from, size_t size)
{
    if (*length > size)
        *length = (socklen_t)size;
    memcpy(value, from, *length);
    return 0;
}

static int give_number(void *value, socklen_t *length, int number)
{
    return give(value, length, &number, sizeof number);
}

static uint32_t ms_since(uint64_t at_ns)
{
    return (uint32_t)((kernel.now_ns - at_ns) / NS_PER_MS);
}

/* Both SYNs have met: two segments came, where a peer's acknowledgement is one. */
static bool is_own_peer(const struct kernel_socket *at)
{
    return memcmp(&at->own, &at->peer, sizeof at->own) == 0;
}

static struct tcp_info info_of(const struct kernel_socket *at)
{
    static const uint8_t states[] = {
        [KERNEL_FRESH] = TCP_STATE_CLOSE,      [KERNEL_PENDING] = TCP_STATE_SYN_SENT,
        [KERNEL_OPEN] = TCP_STATE_ESTABLISHED, [KERNEL_PEER_DONE] = TCP_STATE_CLOSE_WAIT,
        [KERNEL_DEAD] = TCP_STATE_CLOSE,
    };
    return (struct tcp_info){
        .tcpi_state = states[at->stage],
        .tcpi_last_ack_recv = ms_since(at->ack_ns),
        .tcpi_last_data_sent = ms_since(at->sent_ns),
        .tcpi_last_data_recv = ms_since(at->data_ns),
        .tcpi_segs_in = 1u + at->data_in + is_own_peer(at),
        .tcpi_data_segs_in = at->data_in,
        .tcpi_data_segs_out = at->data_out,
    };
}

static int option_of_socket(struct kernel_socket *at, int option, void *value, socklen_t *length)
{
    struct timeval wait = {.tv_sec = (time_t)(at->wait_ns / NS_PER_S),
                           .tv_usec = (suseconds_t)(at->wait_ns % NS_PER_S / NS_PER_US)};
    switch (option) {
    case SO_COOKIE:
        return give(value, length, &at->cookie, sizeof at->cookie);
    case SO_ERROR:
        return give_number(value, length, kernel_takes(at));
    case SO_TYPE:
        return give_number(value, length, SOCK_STREAM);
    case SO_DOMAIN:
        return give_number(value, length, at->family);
    case SO_PROTOCOL:
        return give_number(value, length, at->protocol);
    case SO_RCVLOWAT:
        return give_number(value, length, 1);
    case SO_RCVTIMEO:
    case SO_SNDTIMEO:
        return give(value, length, &wait, sizeof wait);
    case SO_GET_FILTER:
        *length = at->has_filter;
        return 0;
    default:
        return kernel_says(ENOPROTOOPT);
    }
}

static int scripted_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    struct kernel_socket *at = kernel_find(fd);
    if (!at)
        return kernel_says(EBADF);
    if (level == SOL_SOCKET)
        return option_of_socket(at, option, value, length);
    if (level != IPPROTO_TCP || option != TCP_INFO || at->family == AF_UNIX)
        return kernel_says(ENOPROTOOPT);
    struct tcp_info info = info_of(at);
    return give(value, length, &info, kernel.info_bytes ? kernel.info_bytes : (socklen_t)sizeof info);
}

static int scripted_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    struct kernel_socket *at = kernel_find(fd);
    (void)value, (void)length;
    if (!at)
        return kernel_says(EBADF);
    if (level == SOL_SOCKET && (option == SO_ATTACH_FILTER || option == SO_DETACH_FILTER))
        at->has_filter = option == SO_ATTACH_FILTER;
    return 0;
}

static ssize_t scripted_send(int fd, const void *bytes, size_t count, int flags)
{
    struct iovec vector = {(void *)(uintptr_t)bytes, count};
    return kernel_send(fd, &vector, 1, flags);
}

static ssize_t scripted_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return kernel_send(fd, message->msg_iov, message->msg_iovlen, flags);
}

static short events_of(const struct kernel_socket *at, short wanted)
{
    short events = 0;
    if (at->error || at->stage == KERNEL_DEAD)
        events |= POLLERR | POLLHUP;
    if (at->stage == KERNEL_PEER_DONE || at->shut_read)
        events |= POLLRDHUP & wanted;
    if (at->unread_bytes > 0 || at->stage == KERNEL_PEER_DONE)
        events |= POLLIN & wanted;
    if (at->stage >= KERNEL_OPEN && !at->is_full)
        events |= POLLOUT & wanted;
    return events;
}

/* Nothing happens while it waits, but that time passes, and that a peer answers who was to do so. */
/* What others do while somebody waits. */
static void pass_meanwhile(void)
{
    void (*meanwhile)(void) = kernel.meanwhile;
    kernel.meanwhile = NULL;
    if (meanwhile)
        meanwhile();
}

static int scripted_poll(struct pollfd *look, nfds_t count, int timeout_ms)
{
    struct kernel_socket *at = count > 0 ? kernel_find(look->fd) : NULL;
    if (at && timeout_ms != 0 && at->answers && at->stage == KERNEL_PENDING)
        at->stage = KERNEL_OPEN;
    if (at && (look->revents = events_of(at, look->events)) != 0)
        return 1;
    if (kernel.interrupts && timeout_ms != 0) {
        kernel.interrupts = false;
        return kernel_says(EINTR);
    }
    if (timeout_ms > 0)
        pass_meanwhile();
    kernel.now_ns += timeout_ms > 0 ? (uint64_t)timeout_ms * NS_PER_MS : 0;
    return 0;
}

static int scripted_fcntl(int fd, int command, long argument)
{
    const struct kernel_socket *at = kernel_find(fd);
    (void)argument;
    if (!at)
        return kernel_says(EBADF);
    if (command == F_GETFD)
        return kernel.close_on_exec[fd] ? FD_CLOEXEC : 0;
    return command == F_GETFL ? O_RDWR | (at->blocks ? 0 : O_NONBLOCK) : kernel_says(EINVAL);
}

static int scripted_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    (void)clock, (void)flags, (void)left;
    kernel.asked++;
    if (kernel.interrupts) {
        kernel.interrupts = false;
        return EINTR;
    }
    uint64_t until_ns = (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
    kernel.slept_ns[kernel.sleeps++ % 16] = until_ns > kernel.now_ns ? until_ns - kernel.now_ns : 0;
    pass_meanwhile();
    kernel.now_ns = until_ns > kernel.now_ns ? until_ns : kernel.now_ns;
    return 0;
}

/* As the kernel has it. */
struct kernel_action {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t blocked;
};

static long scripted_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    (void)d, (void)e, (void)f;
#ifdef SYS_poll             /* not every processor's kernel has it */
    if (number == SYS_poll) /* which counts itself */
        return scripted_poll((struct pollfd *)a, (nfds_t)b, (int)c);
#else
    if (number == SYS_ppoll) {
        const struct timespec *time = (const void *)c;
        return scripted_poll((struct pollfd *)a, (nfds_t)b, (int)(time->tv_sec * 1000 + time->tv_nsec / 1000000));
    }
#endif
    kernel.asked++;
    switch (number) {
    case SYS_rt_sigprocmask: /* also how memory is looked at */
        if (a != SIG_BLOCK)
            return kernel_says((uintptr_t)b < LOWEST_PAGE ? EFAULT : EINVAL);
        memcpy((void *)c, &kernel.blocked, sizeof kernel.blocked);
        return 0;
    case SYS_rt_sigaction:
        *(struct kernel_action *)c = (struct kernel_action){.handler = kernel.handlers[a]};
        return 0;
    case SYS_getitimer:
        memset((void *)b, 0, sizeof(struct itimerval));
        return 0;
    default:
        return kernel_says(ENOSYS);
    }
}

static int name_of(const struct sockaddr_storage *from, struct sockaddr *address, socklen_t *length)
{
    return give(address, length, from, from->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof *from);
}

static int scripted_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    const struct kernel_socket *at = kernel_find(fd);
    return at ? name_of(&at->own, address, length) : kernel_says(EBADF);
}

static int scripted_getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    const struct kernel_socket *at = kernel_find(fd);
    if (!at)
        return kernel_says(EBADF);
    return at->stage == KERNEL_OPEN || at->stage == KERNEL_PEER_DONE ? name_of(&at->peer, address, length)
                                                                     : kernel_says(ENOTCONN);
}

static int scripted_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct kernel_socket *at = kernel_find(fd);
    (void)address, (void)length;
    if (!at)
        return kernel_says(EBADF);
    kernel_takes_port(at);
    return 0;
}

static int scripted_ioctl(int fd, unsigned long request, void *argument)
{
    struct kernel_socket *at = kernel_find(fd);
    if (!at)
        return kernel_says(EBADF);
    switch (request) {
    case FIONREAD:
        *(int *)argument = (int)at->unread_bytes;
        return 0;
    case SIOCOUTQ:
        *(int *)argument = (int)at->unsent;
        return 0;
    case FIONBIO:
        at->blocks = *(int *)argument == 0;
        return 0;
    default:
        return kernel_says(ENOTTY);
    }
}

static pid_t scripted_getpid(void)
{
    kernel.asked++;
    return kernel.pid ? kernel.pid : getpid();
}

static int scripted_gettime(clockid_t clock, struct timespec *time)
{
    uint64_t now_ns = kernel.now_ns + (clock == CLOCK_REALTIME ? WALL_AHEAD_NS : 0);
    *time = (struct timespec){.tv_sec = (time_t)(now_ns / NS_PER_S), .tv_nsec = (long)(now_ns % NS_PER_S)};
    return 0;
}

void kernel_start(void)
{
    uint64_t now_ns = kernel.now_ns; /* time goes on: tables of the room remember moments */
    memset(&kernel, 0, sizeof kernel);
    kernel.now_ns = now_ns ? now_ns + 3600 * NS_PER_S : KERNEL_START_NS;
    clock_use(scripted_gettime);
    sys = (struct system){
        .getsockopt = scripted_getsockopt,
        .connect = kernel_connect,
        .send = scripted_send,
        .sendmsg = scripted_sendmsg,
        .shutdown = kernel_shutdown,
        .poll = scripted_poll,
        .fcntl = scripted_fcntl,
        .clock_nanosleep = scripted_nanosleep,
        .syscall = scripted_syscall,
        .setsockopt = scripted_setsockopt,
        .getsockname = scripted_getsockname,
        .getpeername = scripted_getpeername,
        .bind = scripted_bind,
        .ioctl = scripted_ioctl,
        .getpid = scripted_getpid,
    };
}
