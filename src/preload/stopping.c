/*
 * stopping.c - telling who is stopped from who has waited long enough. See stopping.h.
 */
#define _GNU_SOURCE
#include "preload/stopping.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "preload/interruption.h"
#include "preload/real.h"
#include "segment/clock.h"

/* From a signal's handler to the close that it leads to. */
#define LEADS_TO_NS NS_PER_S
/* From the end of a wait that ran out to the close of what was waited for. */
#define GIVES_UP_WITHIN_NS (100 * NS_PER_MS)
#define WAKES_WITHIN_NS (50 * NS_PER_MS)
#define EARLY_NS (10 * NS_PER_MS) /* an alarm seems to ring sooner, by another clock */
#define STATUS_OF_SIGNAL 128      /* shells' custom, which runtimes follow */

/* Roots of this file alone. Real clock; 0: never. The lowest bit of interrupted_ns: by whichever signal. */
static _Atomic uint64_t interrupted_ns, woken_ns, alarm_ns;
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

/* One alarm explains one interruption. */
static bool is_alarm(uint64_t now_ns)
{
    uint64_t due_ns = atomic_load_explicit(&alarm_ns, memory_order_relaxed);
    if (due_ns == 0 || now_ns + EARLY_NS < due_ns)
        return false;
    if (!atomic_load_explicit(&alarm_repeats, memory_order_relaxed))
        atomic_store_explicit(&alarm_ns, 0, memory_order_relaxed);
    return true;
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

/*
 * Whether the program has handlers of signals that do not mean to stop it: of a profiler's, or of gunicorn's, which ends
 * a worker that hangs by SIGABRT. (Where that is handled as faults are, it is for crashes.)
 */
static bool interrupts_itself(void)
{
    uintptr_t on_abort = interruption_handler(SIGABRT);
    return interruption_handler(SIGPROF) || (on_abort && on_abort != interruption_handler(SIGSEGV));
}

static void note(uint64_t now_ns)
{
    uint64_t mark = interrupts_itself() ? now_ns | PERHAPS_BIT : now_ns & ~PERHAPS_BIT;
    atomic_store_explicit(&interrupted_ns, mark, memory_order_relaxed);
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
        note(clock_real_ns());
}

enum stopping stopping_now(void)
{
    uint64_t now_ns = clock_real_ns();
    uint64_t signal_ns = atomic_load_explicit(&interrupted_ns, memory_order_relaxed);
    if (signal_ns > ran_out_ns && now_ns - signal_ns < LEADS_TO_NS)
        return signal_ns & PERHAPS_BIT ? STOPPING_PERHAPS : STOPPING_LIKELY;
    if (ran_out_ns && now_ns - ran_out_ns < GIVES_UP_WITHIN_NS)
        return STOPPING_NOT;
    if (is_in_handler())
        return interrupts_itself() ? STOPPING_PERHAPS : STOPPING_LIKELY;
    return STOPPING_NOT;
}

bool stopping_explains(enum stopping stopping, int status)
{
    return stopping == STOPPING_LIKELY || is_stop(status - STATUS_OF_SIGNAL) ||
           (stopping == STOPPING_PERHAPS && status == 0);
}
