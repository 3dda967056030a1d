/*
 * clock.h - the clocks.
 *
 * The circuits' clock is CLOCK_MONOTONIC, or the 8 bytes of the file that SOCKFUSE_CLOCK names (nanoseconds, host byte
 * order, mapped), so that tests need no sleep. What one process waits (abandon_after, latencies) stays on the real
 * monotonic clock; the wall clock is only for what people read. A process in a time name space of its own reads the
 * host's monotonic clock, as all others do that it shares circuits with. All reads come from the vDSO: no system call.
 * Async-signal-safe. The clock's file is to be written in place: cut short while it is mapped, it kills by SIGBUS.
 */
#ifndef SOCKFUSE_BASE_CLOCK_H
#define SOCKFUSE_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/units.h"

/*
 * For who shares memory with others of this host: how far the wall clock, which no time name space moves, is ahead of
 * the host's others. Who finds it as far ahead is in no such name space, or in one that moves nothing. Void as soon as
 * somebody sets the wall clock, and by a suspend; 0: nothing is noted. In shared memory: its layout is pinned there.
 */
struct clock_note {
    _Atomic uint64_t of_monotonic_ns, of_boot_ns;
};

/*
 * Maps the clock file; NULL or "": the real clock. False (and the real clock) if it can't be mapped. Start-up only.
 */
bool clock_replace(const char *file);
/*
 * Learns how far this time name space is ahead; until then the kernel's clock is taken for the host's. Without a note
 * that holds, /proc is asked, which costs a start some 30 microseconds, and the answer is noted. NULL: there is no
 * place for one. Start-up only.
 */
void clock_learn_offsets(struct clock_note *note);
/* Both. */
bool clock_start(const char *file);
/* Reads time through this function from now on (the real libc's, beneath other preloads). Start-up only. */
void clock_use(int (*gettime)(clockid_t, struct timespec *));

/* Set at start-up, and never again. In one cache line, for they are read together. */
struct clocks {
    _Alignas(64) const _Atomic uint64_t *replaced; /* NULL: the circuits' clock is the real one */
    int (*read)(clockid_t, struct timespec *);
    uint64_t ahead_ns;      /* how far this time name space's monotonic clock is ahead of the host's, modulo 2^64 */
    uint64_t boot_ahead_ns; /* the same of its clock since boot, by which /proc tells when a process started */
};
extern struct clocks clocks;

/* Whether SOCKFUSE_CLOCK replaced the circuits' clock: if not, clock_real_ns() serves for both. */
static inline bool clock_is_replaced(void)
{
    return clocks.replaced != NULL;
}

uint64_t clock_circuit_ns(void);
uint64_t clock_real_ns(void);
/* As clock_real_ns, but up to a tick of the kernel (1 to 10 ms) behind it, for a quarter of the price. */
uint64_t clock_coarse_ns(void);
uint64_t clock_wall_ns(void);
uint64_t clock_wall_seldom_ns(void); /* the same, by a system call: see bare_gettime */
/* A time of the real clock as the kernel takes it from this process. */
static inline uint64_t clock_to_kernel_ns(uint64_t real_ns)
{
    return real_ns + clocks.ahead_ns;
}
/*
 * The circuits' time, for a caller that has just read the real one: mostly they are the same, and a second reading is
 * saved.
 */
static inline uint64_t clock_circuit_at(uint64_t real_ns)
{
    return __builtin_expect(clock_is_replaced(), 0) ? clock_circuit_ns() : real_ns;
}

#endif
