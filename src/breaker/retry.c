/*
 * retry.c - the budget of retries, and the waits between them. See retry.h.
 */
#include "breaker/retry.h"

#include "base/hash.h"
#include "breaker/settings.h"

/* A CAS loses only to somebody else who takes a retry. */
#define TRIES_MAX 65536u
/* The longest while; another period is the present one. */
#define PERIODS_MAX 6u

_Static_assert(PERIODS_MAX + 1 < LATENCY_SLOTS, "a slot is out of sight before it comes round");

static uint32_t upper(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t lower(uint64_t word)
{
    return (uint32_t)word;
}

static uint32_t periods_of(uint64_t window)
{
    if ((window & WINDOW_CALLS) != 0 || window >= PERIODS_MAX * LATENCY_SLOT_NS)
        return PERIODS_MAX + 1;
    return (uint32_t)((window + LATENCY_SLOT_NS - 1) / LATENCY_SLOT_NS) + 1;
}

/* Those of the periods before the present one. */
static uint64_t taken_before(const struct retry_budget *budget, uint32_t present, uint32_t periods)
{
    uint64_t sum = 0;

    for (unsigned int slot = 0; slot < LATENCY_SLOTS; slot++) {
        uint64_t taken = atomic_load_explicit(&budget->taken[slot], memory_order_relaxed);
        uint32_t ago = present - upper(taken);

        if (ago != 0 && ago < periods)
            sum += lower(taken);
    }
    return sum;
}

/* Whether there may be one more beside so many. Each has been, or will be, counted as a call as well. */
static bool is_within(uint64_t taken, uint64_t calls, uint32_t permille)
{
    const uint64_t ordinary = calls > taken ? calls - taken : 0;

    return taken < RETRIES_MINIMUM || taken < ordinary * permille / PERMILLE;
}

bool retry_budget_take(struct retry_budget *budget, const struct latency *latency, uint64_t window, uint32_t permille,
                       uint64_t now_ns)
{
    const uint32_t present = latency_period_at(now_ns), periods = periods_of(window);
    const uint64_t calls = latency_calls(latency, periods, now_ns);
    _Atomic uint64_t *word = &budget->taken[present % LATENCY_SLOTS];

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
        uint32_t now = upper(seen) == present ? lower(seen) : 0;

        if (now == UINT32_MAX || !is_within(taken_before(budget, present, periods) + now, calls, permille))
            return false;
        /* Relaxed: nothing else is read by it. */
        if (atomic_compare_exchange_strong_explicit(word, &seen, (uint64_t)present << 32 | (now + 1),
                                                    memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

void retry_budget_clear(struct retry_budget *budget)
{
    for (unsigned int slot = 0; slot < LATENCY_SLOTS; slot++)
        atomic_store_explicit(&budget->taken[slot], 0, memory_order_relaxed);
}

uint64_t retry_wait_ns(uint64_t first_ns, uint32_t made, uint64_t chance)
{
    const uint64_t times = made < 4 ? UINT64_C(1) << made : RETRY_BACKOFF_TIMES_MAX;
    const uint64_t most_ns = first_ns < UINT64_MAX / RETRY_BACKOFF_TIMES_MAX ? first_ns * times : first_ns;
    const uint64_t half_ns = most_ns / 2;

    return half_ns + hash_spread(chance + HASH_STEP) % (most_ns - half_ns + 1);
}
