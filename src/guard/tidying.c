/*
 * tidying.c - what each attempt does for all: a little, whoever left it to do. See tidying.h.
 */
#include "guard/tidying.h"

#include "base/clock.h"
#include "base/frame.h"
#include "base/hot.h"
#include "guard/dead_owners.h"
#include "guard/lost_calls.h"
#include "guard/overdue.h"
#include "guard/owners.h"
#include "segment/due.h"
#include "segment/layout.h"

/* What costs system calls is done once in this time by one process. */
#define TURN_NS NS_PER_S

/* A time that lies farther ahead than any turn can is corrupt, or another clock's. */
static bool is_after(uint64_t after_ns, uint64_t real_ns)
{
    return real_ns >= after_ns || after_ns - real_ns > TURN_NS;
}

bool tidying_takes_turn(_Atomic uint64_t *after, uint64_t real_ns)
{
    uint64_t after_ns = atomic_load_explicit(after, memory_order_relaxed);

    return is_after(after_ns, real_ns) &&
           atomic_compare_exchange_strong_explicit(after, &after_ns, real_ns + TURN_NS, memory_order_relaxed,
                                                   memory_order_relaxed);
}

HOT bool tidying_is_due(const struct guard *guard, uint64_t now_ns)
{
    const uint64_t real_ns = clock_coarse_ns();

    return is_after(atomic_load_explicit(&guard->ask_after_ns, memory_order_relaxed), real_ns) ||
           lost_calls_is_due(guard, real_ns) || bury_is_due(guard->segment) ||
           due_has_come(&guard->segment->map->calls_due, now_ns);
}

OWN_FRAME void tidying_do_some(struct guard *guard, const struct attempt *attempt, const struct circuit *circuit,
                               uint64_t now_ns)
{
    const bool refusing = circuit == NULL || circuit_is_blocked(circuit, now_ns);
    const uint64_t real_ns = clock_coarse_ns();
    struct asking for_all = {.left = OWNERS_ASKED, .real_ns = real_ns}, asking = {.real_ns = real_ns};

    if (guard->segment->map == NULL)
        return;
    const bool turn = tidying_takes_turn(&guard->ask_after_ns, real_ns);
    if (turn)
        owners_ask_some(guard->segment, guard->holder, &for_all);
    lost_calls_look(guard, attempt->shard, now_ns, real_ns);
    bury_some(guard, attempt->shard, now_ns);
    if (turn || !refusing)
        asking.left = OWNERS_ASKED;
    overdue_charge(guard, attempt, refusing, now_ns, &asking);
}
