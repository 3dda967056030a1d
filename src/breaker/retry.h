/*
 * retry.h - how many failed attempts of a circuit may be tried again, and after how long.
 *
 * Retries that go with the failures are what keeps an overloaded server down. So they are held to a share of the calls
 * (a retry budget): so many permille of those that ended in the last while, by all processes together, but at least
 * RETRIES_MINIMUM, for a destination that is seldom called would never be tried again otherwise.
 *
 * The last while is the window of the rates in whole periods of ten seconds with the present one, a minute and the
 * present one at the most, and for a window of `N calls`: in these the calls are counted (latency.h). Who takes a retry
 * counts it in his period's word, by one CAS that nobody else's counting can have gone before; so a death loses
 * nothing, and what was taken and not used is over with the while. One that looked at its clock just before a period
 * ended may come beside those of the next one.
 *
 * Pure: time and chance are arguments. Lock-free, async-signal-safe, no system call.
 */
#ifndef SOCKFUSE_BREAKER_RETRY_H
#define SOCKFUSE_BREAKER_RETRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "breaker/latency.h"

/* So many there may be in any while. */
#define RETRIES_MINIMUM 3u
/* No wait is longer than this many times the first one. */
#define RETRY_BACKOFF_TIMES_MAX 10u

/* Of one circuit; all zero to begin with. Lies in memory that processes share. */
struct retry_budget {
    _Atomic uint64_t taken[LATENCY_SLOTS]; /* period:32 | retries:32 */
};
_Static_assert(sizeof(struct retry_budget) == 64, "one line");

/* Takes one retry of the budget. False: there is none left. `window`: as in struct settings. */
bool retry_budget_take(struct retry_budget *budget, const struct latency *latency, uint64_t window, uint32_t permille,
                       uint64_t now_ns);
/* The circuit begins anew. */
void retry_budget_clear(struct retry_budget *budget);

/*
 * How long to wait before a retry, of which so many were made already: by chance between half and all of `first_ns`,
 * doubled for each that was made.
 */
uint64_t retry_wait_ns(uint64_t first_ns, uint32_t made, uint64_t chance);

#endif
