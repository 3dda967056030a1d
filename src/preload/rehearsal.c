/*
 * rehearsal.c - drawing faults and beginning them. See rehearsal.h; what is played later is in playing.c.
 */
#define _GNU_SOURCE
#include "preload/rehearsal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "breaker/hash.h"
#include "preload/elsewhere.h"
#include "preload/real.h"
#include "preload/socket_state.h"
#include "segment/clock.h"
#include "segment/rehearsal.h"

#define PERMILLE 1000u
#define KERNEL_SIGNALS 64
#define OWN_NUMBERS 256u /* circuits that are numbered apart in a process without a run */
#define US_PER_S INT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

/* The numbers of attempts where no run shares them; a root of this file alone. */
static _Atomic uint32_t own_numbers[OWN_NUMBERS];

/* --- the draw --- */

/* Where an attempt falls between 0 and 999: by the seed, the target's name and its number, and by nothing else. */
static uint32_t lot(const struct target *target, uint32_t number)
{
    uint64_t name = hash_bytes(HASH_BEGIN, target->name, strlen(target->name));
    uint64_t seed = hash_spread(target->inject_seed + HASH_STEP);
    return (uint32_t)(hash_spread(seed ^ hash_spread(name + number)) % PERMILLE);
}

static const struct injection *draw(struct connection *connection, const struct attempt *attempt)
{
    const struct target *target = attempt->target;
    uint32_t number =
        guest.run ? rehearsal_number(&connection->station->segment, attempt->circuit, guest.run)
                  : atomic_fetch_add_explicit(&own_numbers[attempt->circuit % OWN_NUMBERS], 1, memory_order_relaxed);
    uint32_t drawn = lot(target, number), below = 0;
    for (uint32_t i = 0; i < target->fault_count && i < FAULTS_MAX; i++) {
        below += target->faults[i].permille;
        if (drawn < below)
            return &target->faults[i];
    }
    return NULL;
}

/* --- the beginning --- */

static bool make_ready(const struct injection *fault, struct connection *connection, int fd,
                       const struct sockaddr *address, struct attempt_ticket *ticket)
{
    switch (fault->kind) {
    case FAULT_REFUSE:
        return elsewhere_refusing(&ticket->elsewhere, fd, address);
    case FAULT_RESET:
    case FAULT_HANG:
    case FAULT_HTTP:
        return !connection_has(connection, CONNECTION_UNIX) && elsewhere_self(&ticket->elsewhere, fd, address) &&
               elsewhere_deafen(fd, fault->kind == FAULT_HANG);
    case FAULT_DELAY:
        ticket->delay_ns = fault->delay_ns;
        connection_mark(connection, CONNECTION_DELAYED);
        return true;
    default:
        return false;
    }
}

enum passage rehearsal_begin(struct connection *connection, int fd, const struct attempt *attempt,
                             const struct sockaddr *address, struct attempt_ticket *ticket)
{
    /* No connection: another thread has closed the descriptor meanwhile. */
    const struct injection *fault = connection ? draw(connection, attempt) : NULL;
    if (!fault || !make_ready(fault, connection, fd, address, ticket))
        return PASSAGE_GUARDED;
    atomic_store_explicit(&connection->fault, fault->kind | fault->status << FAULT_STATUS_SHIFT, memory_order_relaxed);
    connection_mark(connection, CONNECTION_FAULTY);
    rehearsal_mark(&connection->station->segment, attempt->circuit, connection->place.call, attempt->shard);
    return PASSAGE_DIVERTED;
}

void rehearsal_over(struct connection *connection, int fd)
{
    if (connection_has(connection, CONNECTION_FAULTY))
        elsewhere_undeafen(fd);
}

/* --- delay --- */

/*
 * Whether a signal that was handled meanwhile makes connect answer EINTR. Which one it was can't be told; a program
 * that has a handler without SA_RESTART has it in order to be interrupted.
 * (Those of faults of its own do not come from outside.)
 */
static bool is_interruptible(void)
{
    /* As the kernel has it, asked by the system call: libc's sigaction is for those
     * who install handlers, which a guest never does. */
    struct {
        uintptr_t handler;
        unsigned long flags;
        uintptr_t restorer;
        unsigned long mask[KERNEL_SIGNALS / 8];
    } action;
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP)
            continue;
        if (real.syscall(SYS_rt_sigaction, number, 0, (long)&action, KERNEL_SIGNALS / 8, 0, 0) == 0 &&
            action.handler != (uintptr_t)SIG_DFL && action.handler != (uintptr_t)SIG_IGN &&
            !(action.flags & SA_RESTART))
            return true;
    }
    return false;
}

static bool wait_until(uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S), .tv_nsec = (long)(until_ns % NS_PER_S)};
    int error;
    /* A cancellation point, as connect is. */
    while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) != 0)
        if (error != EINTR || is_interruptible())
            return false;
    return true;
}

bool rehearsal_wait(struct connection *connection, uint64_t delay_ns)
{
    bool over = wait_until(clock_real_ns() + delay_ns);
    connection_unmark(connection, CONNECTION_DELAYED);
    return over;
}

/* A connect that waits no longer than this. */
static int connect_within(int fd, const struct sockaddr *address, socklen_t length, int64_t us,
                          const struct timeval *former)
{
    struct timeval within = {.tv_sec = (time_t)(us / US_PER_S), .tv_usec = (suseconds_t)(us % US_PER_S)};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &within, sizeof within);
    int result = real.connect(fd, address, length), error = errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, former, sizeof *former);
    errno = error;
    return result;
}

int rehearsal_connect_late(struct connection *connection, int fd, const struct sockaddr *address, socklen_t length,
                           uint64_t delay_ns)
{
    struct timeval patience = {0};
    socklen_t size = sizeof patience;
    bool blocks = socket_blocks(fd);
    if (blocks && real.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, &size) != 0)
        patience = (struct timeval){0};
    int64_t patience_us = (int64_t)patience.tv_sec * US_PER_S + patience.tv_usec;
    int64_t delay_us = (int64_t)(delay_ns / NS_PER_US);
    bool outlasts = patience_us == 0 || patience_us > delay_us;
    bool slept = rehearsal_wait(connection, outlasts ? delay_ns : (uint64_t)patience_us * NS_PER_US);
    if (!blocks || (slept && patience_us == 0))
        return real.connect(fd, address, length);
    /* The kernel goes on connecting after an EINTR or a timeout, so it has to begin. */
    int result = connect_within(fd, address, length, slept && outlasts ? patience_us - delay_us : 1, &patience);
    if (!slept && result < 0 && errno == EINPROGRESS)
        errno = EINTR;
    return result;
}
