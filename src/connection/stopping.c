/*
 * stopping.c - telling who is stopped from who has waited long enough. See stopping.h.
 */
#define _GNU_SOURCE
#include "connection/stopping.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "base/clock.h"
#include "connection/interruption.h"
#include "connection/system.h"

/* From a signal's handler to the close that it leads to, where it may have been any signal. */
#define LEADS_TO_NS (250 * NS_PER_MS)
/* What a program that is stopped is given to come to an end, by itself or by who stops it. */
#define GRACE_NS (30 * NS_PER_S)
/* From the end of a wait that ran out to the close of what was waited for. */
#define GIVES_UP_WITHIN_NS (100 * NS_PER_MS)
#define WAKES_WITHIN_NS (100 * NS_PER_MS)
#define EARLY_NS (10 * NS_PER_MS) /* an alarm seems to ring sooner, by another clock */
#define RINGS_WITHIN_NS NS_PER_S  /* longer ago it has rung, and interrupted nothing */
#define STATUS_OF_SIGNAL 128      /* shells' custom, which runtimes follow */

/*
 * Roots of this file alone. Real clock; 0: never. stopped_ns: it was a signal that stops, for sure. The lowest bit of
 * interrupted_ns: by whichever signal.
 */
static _Atomic uint64_t stopped_ns, interrupted_ns, woken_ns, alarm_ns, timer_ns;
static _Atomic bool alarm_repeats;
static __thread uint64_t ran_out_ns;
#define PERHAPS_BIT UINT64_C(1)

static const int stops[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
#define STOPS (sizeof stops / sizeof *stops)

static bool is_stop(int number)
{
    for (size_t i = 0; i < STOPS; i++)
        if (stops[i] == number)
            return true;
    return false;
}

void stopping_note_alarm(uint64_t after_ns, bool repeats)
{
    atomic_store_explicit(&alarm_repeats, repeats && after_ns, memory_order_relaxed);
    atomic_store_explicit(&alarm_ns, after_ns ? clock_real_ns() + after_ns : 0, memory_order_relaxed);
}

void stopping_note_timer(uint64_t after_ns)
{
    atomic_store_explicit(&timer_ns, after_ns ? clock_real_ns() + after_ns : 0, memory_order_relaxed);
}

/* One that rings once explains one interruption. */
static bool has_rung(_Atomic uint64_t *at, bool repeats, uint64_t now_ns)
{
    uint64_t due_ns = atomic_load_explicit(at, memory_order_relaxed);
    if (due_ns == 0 || now_ns + EARLY_NS < due_ns || (!repeats && now_ns >= due_ns + RINGS_WITHIN_NS))
        return false;
    if (!repeats)
        atomic_store_explicit(at, 0, memory_order_relaxed);
    return true;
}

static bool is_alarm(uint64_t now_ns)
{
    return has_rung(&alarm_ns, atomic_load_explicit(&alarm_repeats, memory_order_relaxed), now_ns) ||
           has_rung(&timer_ns, false, now_ns);
}

void stopping_note_ran_out(void)
{
    ran_out_ns = clock_real_ns();
}

/*
 * Whether a handler runs in this thread: then its signal is blocked. (Where several are, the thread leaves them all to
 * another one. Java's do so with SIGQUIT.)
 */
static bool is_in_handler(void)
{
    size_t blocked = 0, handled = 0;
    for (size_t i = 0; i < STOPS && stops[i] != SIGQUIT; i++) {
        bool blocks = interruption_blocks(stops[i]);
        blocked += blocks;
        handled += blocks && interruption_handler(stops[i]);
    }
    return blocked == 1 && handled == 1;
}

static bool handles_stops(void)
{
    for (size_t i = 0; i < STOPS; i++)
        if (interruption_handler(stops[i]))
            return true;
    return false;
}

/* PHP has a handler for the timer of a profiler, or of its own limit, which mostly does not run. */
static bool profiles_itself(void)
{
    struct itimerval timer = {{0}, {0}};
    return interruption_handler(SIGPROF) && (sys.syscall(SYS_getitimer, ITIMER_PROF, (long)&timer, 0, 0, 0, 0) != 0 ||
                                             timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0);
}

/*
 * Whether the program interrupts itself by signals that do not mean to stop it: a profiler's, or gunicorn's, which ends
 * a worker that hangs by SIGABRT. (Where that is handled as faults are, it is for crashes.)
 */
static bool interrupts_itself(void)
{
    uintptr_t on_abort = interruption_handler(SIGABRT);
    return profiles_itself() || (on_abort && on_abort != interruption_handler(SIGSEGV));
}

static void note(uint64_t now_ns)
{
    if (interrupts_itself())
        atomic_store_explicit(&interrupted_ns, now_ns | PERHAPS_BIT, memory_order_relaxed);
    else if (interruption_comes_otherwise())
        atomic_store_explicit(&interrupted_ns, now_ns & ~PERHAPS_BIT, memory_order_relaxed);
    else
        atomic_store_explicit(&stopped_ns, now_ns, memory_order_relaxed);
}

/* Which handlers there are is asked at once: a runtime takes its own back on its way out. */
void stopping_note_interrupted(void)
{
    uint64_t now_ns = clock_real_ns();
    if (now_ns - atomic_load_explicit(&woken_ns, memory_order_relaxed) < WAKES_WITHIN_NS)
        return; /* Ruby's threads interrupt each other so, for a timeout among other reasons */
    if (is_alarm(now_ns))
        ran_out_ns = now_ns;
    else if (handles_stops())
        note(now_ns);
}

void stopping_note_woken(void)
{
    atomic_store_explicit(&woken_ns, clock_real_ns(), memory_order_relaxed);
}

void stopping_note_signal(int number)
{
    if (is_stop(number))
        atomic_store_explicit(&stopped_ns, clock_real_ns(), memory_order_relaxed);
}

static bool is_within(uint64_t since_ns, uint64_t limit_ns, uint64_t now_ns)
{
    return since_ns && now_ns - since_ns < limit_ns;
}

enum stopping stopping_now(void)
{
    uint64_t now_ns = clock_real_ns();
    uint64_t signal_ns = atomic_load_explicit(&interrupted_ns, memory_order_relaxed);
    /* Then waits run out as well: a worker is given time for its last job, and tidies up after that. */
    if (is_within(atomic_load_explicit(&stopped_ns, memory_order_relaxed), GRACE_NS, now_ns))
        return STOPPING_LIKELY;
    if (signal_ns > ran_out_ns && is_within(signal_ns, LEADS_TO_NS, now_ns))
        return signal_ns & PERHAPS_BIT ? STOPPING_PERHAPS : STOPPING_LIKELY;
    if (is_within(ran_out_ns, GIVES_UP_WITHIN_NS, now_ns))
        return STOPPING_NOT;
    if (is_in_handler())
        return interrupts_itself() ? STOPPING_PERHAPS : STOPPING_LIKELY;
    return is_within(signal_ns, GRACE_NS, now_ns) ? STOPPING_PERHAPS : STOPPING_NOT;
}

bool stopping_explains(enum stopping stopping, int status)
{
    return stopping == STOPPING_LIKELY || is_stop(status - STATUS_OF_SIGNAL) ||
           (stopping == STOPPING_PERHAPS && status == 0);
}
