/*
 * wrap_wait.c - waits that are none on a guarded connection: whether they ran out, or a signal's handler interrupted
 * them, tells why a program leaves (stopping.h). What they come to is not touched.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/stopping.h"
#include "preload/real.h"
#include "preload/wrapper.h"

static COLD void tell_interrupted(void)
{
    int error = errno;
    if (engine_ready())
        stopping_note_interrupted();
    errno = error;
}

static COLD void tell_ran_out(void)
{
    int error = errno;
    if (engine_ready())
        stopping_note_ran_out();
    errno = error;
}

static inline int waited(int result)
{
    if (UNLIKELY(result < 0) && errno == EINTR)
        tell_interrupted();
    return result;
}

/* Of a wait for descriptors; `looks`: it only looks, and does not wait. */
static inline int looked(int result, bool looks)
{
    if (result == 0 && !looks)
        tell_ran_out();
    return waited(result);
}

/* The kernel has read the time; it was written to by none of these but select. */
static inline bool is_none(const struct timespec *timeout)
{
    return timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
}

int wrap_poll(struct pollfd *look, nfds_t count, int timeout_ms)
{
    return looked(real.poll(look, count, timeout_ms), timeout_ms == 0);
}

int wrap___poll_chk(struct pollfd *look, nfds_t count, int timeout_ms, size_t size)
{
    return looked(real.__poll_chk(look, count, timeout_ms, size), timeout_ms == 0);
}

int wrap_ppoll(struct pollfd *look, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    int result = real.ppoll(look, count, timeout, mask);
    return looked(result, result == 0 && is_none(timeout));
}

int wrap___ppoll_chk(struct pollfd *look, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
                     size_t size)
{
    int result = real.__ppoll_chk(look, count, timeout, mask, size);
    return looked(result, result == 0 && is_none(timeout));
}

int wrap_select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout)
{
    int result = real.select(count, in, out, other, timeout);
    return looked(result, false);
}

int wrap_pselect(int count, fd_set *in, fd_set *out, fd_set *other, const struct timespec *timeout,
                 const sigset_t *mask)
{
    int result = real.pselect(count, in, out, other, timeout, mask);
    return looked(result, result == 0 && is_none(timeout));
}

HOT int wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
    return looked(real.epoll_wait(fd, events, count, timeout_ms), timeout_ms == 0);
}

int wrap_epoll_pwait(int fd, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask)
{
    return looked(real.epoll_pwait(fd, events, count, timeout_ms, mask), timeout_ms == 0);
}

int wrap_epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *timeout,
                      const sigset_t *mask)
{
    int result = real.epoll_pwait2(fd, events, count, timeout, mask);
    return looked(result, result == 0 && is_none(timeout));
}

/* Of a semaphore: that is how Python's main thread waits for another, or for an event. */
static inline int lingered(int result)
{
    if (result < 0 && errno == ETIMEDOUT)
        tell_ran_out();
    return waited(result);
}

int wrap_sem_wait(sem_t *semaphore)
{
    return waited(real.sem_wait(semaphore));
}

int wrap_sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    return lingered(real.sem_timedwait(semaphore, until));
}

int wrap_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    return lingered(real.sem_clockwait(semaphore, clock, until));
}

int wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    return waited(real.nanosleep(time, left));
}

int wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    int error = real.clock_nanosleep(clock, flags, time, left);
    if (UNLIKELY(error == EINTR))
        tell_interrupted();
    return error;
}

int wrap_pause(void)
{
    return waited(real.pause());
}

int wrap_sigsuspend(const sigset_t *mask)
{
    return waited(real.sigsuspend(mask));
}

static int awaited(int number)
{
    int error = errno;
    if (engine_ready())
        stopping_note_signal(number);
    errno = error;
    return number;
}

int wrap_sigwait(const sigset_t *set, int *number)
{
    int error = real.sigwait(set, number);
    if (error == 0)
        awaited(*number);
    return error;
}

int wrap_sigwaitinfo(const sigset_t *set, siginfo_t *information)
{
    return awaited(waited(real.sigwaitinfo(set, information)));
}

int wrap_sigtimedwait(const sigset_t *set, siginfo_t *information, const struct timespec *timeout)
{
    return awaited(waited(real.sigtimedwait(set, information, timeout)));
}

/* --- what interrupts them from within --- */

int wrap_pthread_kill(pthread_t thread, int number)
{
    if (number && engine_ready() && !pthread_equal(thread, pthread_self())) {
        int error = errno;
        stopping_note_woken();
        errno = error;
    }
    return real.pthread_kill(thread, number);
}

/* Java handles a signal in a thread of its own, which bears its name. */
int wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    static const char *const handlers[] = {"SIGTERM handler", "SIGINT handler", "SIGHUP handler"};
    int result = real.pthread_setname_np(thread, name);
    if (result != 0 || !engine_ready())
        return result;
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (!strcmp(name, handlers[i]))
            awaited(SIGTERM);
    return result;
}

unsigned int wrap_alarm(unsigned int seconds)
{
    unsigned int left = real.alarm(seconds);
    int error = errno;
    stopping_note_alarm(seconds * NS_PER_S, false);
    errno = error;
    return left;
}

int wrap_setitimer(int which, const struct itimerval *value, struct itimerval *former)
{
    int result = real.setitimer(which, value, former);
    if (result == 0 && which == ITIMER_REAL && value) {
        int error = errno;
        stopping_note_alarm((uint64_t)value->it_value.tv_sec * NS_PER_S + (uint64_t)value->it_value.tv_usec * 1000u,
                            value->it_interval.tv_sec || value->it_interval.tv_usec);
        errno = error;
    }
    return result;
}

/* Timers that ring again and again are profilers', which interrupt whatever there is. */
int wrap_timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *former)
{
    int result = real.timer_settime(timer, flags, value, former);
    if (result == 0 && value && !(flags & TIMER_ABSTIME) && !value->it_interval.tv_sec && !value->it_interval.tv_nsec) {
        int error = errno;
        stopping_note_timer((uint64_t)value->it_value.tv_sec * NS_PER_S + (uint64_t)value->it_value.tv_nsec);
        errno = error;
    }
    return result;
}
