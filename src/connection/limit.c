/*
 * limit.c - waiting beside the call. See limit.h.
 */
#define _GNU_SOURCE
#include "connection/limit.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/undisturbed.h"
#include "connection/interruption.h"
#include "connection/socket_state.h"
#include "connection/system.h"

#define US_PER_S (NS_PER_S / NS_PER_US)
#define DAY_MS (NS_PER_DAY / NS_PER_MS)

/*
 * A socket may be ready for poll and not for the call: another thread was faster, SO_PEEK_OFF looks beyond what is
 * there, or messages wait in its error queue, of which poll always tells. After a few times the thread sleeps before it
 * tries again.
 */
#define MISSES_AT_ONCE 4
#define AFTER_A_MISS_MS 10

bool limit_is_earlier(struct limit *limit, int fd)
{
    struct timeval own = {0};
    socklen_t length = sizeof own;
    if (sys.getsockopt(fd, SOL_SOCKET, limit->option, &own, &length) != 0)
        return false;
    uint64_t own_us = (uint64_t)own.tv_sec * US_PER_S + (uint64_t)own.tv_usec, now_ns = clock_real_ns();
    limit->is_own = own_us != 0;
    return own_us == 0 || (limit->until_ns > now_ns ? limit->until_ns - now_ns : 0) / NS_PER_US < own_us;
}

uint64_t limit_own_until(int fd, uint64_t since_ns)
{
    struct timeval own = {0};
    socklen_t size = sizeof own;
    if (sys.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &own, &size) != 0 || (own.tv_sec == 0 && own.tv_usec == 0))
        return UINT64_MAX;
    return since_ns + (uint64_t)own.tv_sec * NS_PER_S + (uint64_t)own.tv_usec * NS_PER_US;
}

/* Milliseconds, rounded up: poll must not come back before the time. */
static int left_ms(uint64_t until_ns)
{
    uint64_t now_ns = clock_real_ns();
    uint64_t left = until_ns > now_ns ? (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    return (int)(left < DAY_MS ? left : DAY_MS);
}

enum limit_end limit_wait(struct limit *limit, int fd, short event)
{
    struct pollfd look = {.fd = fd, .events = event};
    struct interruption before;
    bool sleeps = limit->misses >= MISSES_AT_ONCE;
    for (;;) {
        interruption_watch(&before);
        int left = left_ms(limit->until_ns);
        int count =
            sleeps ? sys.poll(NULL, 0, left < AFTER_A_MISS_MS ? left : AFTER_A_MISS_MS) : sys.poll(&look, 1, left);
        if (count > 0 || (sleeps && count == 0 && left > 0)) {
            limit->misses = (uint8_t)(limit->misses + !sleeps);
            return LIMIT_READY;
        }
        if (count == 0 && left_ms(limit->until_ns) == 0)
            return LIMIT_OVER;
        if (count < 0 && errno != EINTR)
            return LIMIT_READY; /* the call will say what is wrong */
        if (count < 0 && (limit->is_own || interruption_ends_waits(&before)))
            return LIMIT_INTERRUPTED;
        if (count < 0 && !limit->is_kernels && !limit_is_earlier(limit, fd)) {
            limit->way = LIMIT_BARE;
            return LIMIT_READY;
        }
    }
}

static bool set_waiting(int fd, bool waits)
{
    int without = !waits;
    return sys.ioctl(fd, FIONBIO, &without) == 0; /* this flag alone: others may be set meanwhile */
}

bool limit_begin_connect(int fd, const struct sockaddr *address, socklen_t length, int *result)
{
    struct undisturbed before;
    undisturbed_begin(&before);
    bool begins = set_waiting(fd, false);
    if (begins) {
        *result = sys.connect(fd, address, length);
        int error = errno;
        set_waiting(fd, true);
        errno = error;
    }
    undisturbed_end(&before);
    return begins;
}

void limit_end_connect(int fd)
{
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    sys.connect(fd, &nobody, sizeof nobody); /* dissolves it: tcp_disconnect */
    socket_take_error(fd);                   /* of which ECONNRESET is left */
}
