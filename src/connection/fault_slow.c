/*
 * fault_slow.c - a request whose answer is to come later. See fault_slow.h.
 *
 * The kernel paces what a socket sends (SO_MAX_PACING_RATE): behind a segment of so many bytes, at so many bytes a
 * second, it waits for that time, by a timer of its own. So a few of the request's bytes go out at a rate that makes
 * the rest wait for as long as the fault says; then the rate is as before. What the kernel needs for it:
 *
 *   The first nine segments of a connection are never paced: bytes are sent one by one until there were so many.
 *   An idle time before a segment is taken off its own: so one byte goes right before.
 *   What it reckons with until the next acknowledgement is the lower of all rates that were set: 0 is none at all.
 */
#define _GNU_SOURCE
#include "connection/fault_slow.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* the kernel's struct tcp_info, longer than libc's */
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "connection/socket_state.h"
#include "connection/system.h"

#define MS_PER_S 1000u
#define UNPACED_SEGMENTS 9u
#define SLOW_BYTES_MAX 256u /* that are paced; a fault of more seconds finds no request that is long enough */
#define PARTS_MAX 16u       /* of what goes out behind them, at once */
#define LOOKS 200           /* at whether a segment has left the host's queue; it takes microseconds */

/* Bytes are paced one segment at `rate` bytes a second: together they take as long as the fault, or a little longer. */
struct pace {
    size_t bytes;
    unsigned long rate;
};

/* The best of all segments of up to `most` bytes; 0 bytes: none is long enough. */
static struct pace pace_for(uint32_t delay_ms, size_t most)
{
    struct pace best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (size_t bytes = 1; delay_ms > 0 && bytes <= most && least > delay_ms; bytes++) {
        unsigned long rate = bytes * MS_PER_S / delay_ms;
        if (rate == 0 || bytes * MS_PER_S / rate >= least)
            continue;
        least = bytes * MS_PER_S / rate;
        best = (struct pace){bytes, rate};
    }
    return best;
}

/* How many single bytes go before the paced ones. */
static size_t single_bytes(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    if (sys.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return UNPACED_SEGMENTS;
    return info.tcpi_data_segs_out < UNPACED_SEGMENTS - 1 ? UNPACED_SEGMENTS - info.tcpi_data_segs_out : 1;
}

/* Also if that is not known. */
static bool is_set(int fd, int level, int option)
{
    int value = 1;
    socklen_t length = sizeof value;
    return sys.getsockopt(fd, level, option, &value, &length) != 0 || value;
}

static void set_nodelay(int fd, int value)
{
    sys.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value);
}

static bool set_rate(int fd, unsigned long rate)
{
    return sys.setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) == 0;
}

/* The network's driver may still have earlier segments; one that waits for it would leave at another rate. */
static void await_departure(int fd)
{
    int unsent = 0;
    for (int i = 0; i < LOOKS && sys.ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && unsent > 0; i++)
        sys.syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* One segment, which must not wait. */
static bool send_segment(int fd, const char *bytes, size_t count)
{
    bool sent = sys.send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count;
    if (sent)
        await_departure(fd);
    return sent;
}

/* As many of the first bytes as there are room for. */
static size_t gather(char *bytes, size_t room, const struct iovec *vector, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count && length < room; i++) {
        size_t part = vector[i].iov_len < room - length ? vector[i].iov_len : room - length;
        if (part > 0)
            memcpy(bytes + length, vector[i].iov_base, part);
        length += part;
    }
    return length;
}

/* Sends the bytes one by one, and the paced ones; returns how many went out. */
static size_t send_paced(int fd, const char *bytes, size_t singles, const struct pace *pace, unsigned long former)
{
    size_t sent = 0;
    while (sent < singles && send_segment(fd, bytes + sent, 1))
        sent++;
    if (sent < singles || !set_rate(fd, pace->rate))
        return sent;
    if (send_segment(fd, bytes + sent, pace->bytes))
        sent += pace->bytes;
    set_rate(fd, 0);
    set_rate(fd, former);
    return sent;
}

/*
 * What stands behind the first `sent` bytes, which the kernel keeps until their time. Returns how many bytes it took.
 */
static size_t send_rest(int fd, const struct iovec *vector, size_t count, size_t sent)
{
    struct iovec parts[PARTS_MAX];
    struct msghdr message = {.msg_iov = parts};
    for (size_t i = 0; i < count && (size_t)message.msg_iovlen < PARTS_MAX; i++) {
        size_t skipped = vector[i].iov_len < sent ? vector[i].iov_len : sent;
        sent -= skipped;
        if (vector[i].iov_len > skipped)
            parts[message.msg_iovlen++] =
                (struct iovec){(char *)vector[i].iov_base + skipped, vector[i].iov_len - skipped};
    }
    ssize_t rest = message.msg_iovlen > 0 ? sys.sendmsg(fd, &message, MSG_NOSIGNAL) : 0;
    return rest > 0 ? (size_t)rest : 0;
}

size_t slow_send(int fd, const struct iovec *vector, size_t count, uint32_t delay_ms)
{
    char bytes[UNPACED_SEGMENTS + SLOW_BYTES_MAX + 1];
    unsigned long former = 0;
    socklen_t length = sizeof former;
    size_t known = gather(bytes, sizeof bytes, vector, count), singles = single_bytes(fd);
    if (known < singles + 2 || !socket_is_tcp(fd) || is_set(fd, IPPROTO_TCP, TCP_CORK) ||
        is_set(fd, SOL_SOCKET, SO_ZEROCOPY) || socket_has_unsent(fd) ||
        sys.getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &former, &length) != 0)
        return 0;
    struct pace pace = pace_for(delay_ms, known - singles - 1);
    if (pace.bytes == 0)
        return 0;
    bool nodelay = is_set(fd, IPPROTO_TCP, TCP_NODELAY);
    if (!nodelay)
        set_nodelay(fd, 1);
    size_t sent = send_paced(fd, bytes, singles, &pace, length == sizeof(uint32_t) ? (uint32_t)former : former);
    if (!nodelay)
        set_nodelay(fd, 0);
    return sent > 0 ? sent + send_rest(fd, vector, count, sent) : 0;
}
