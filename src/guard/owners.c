/*
 * owners.c - see owners.h.
 *
 * The time of the last question stands in the slot, by the real clock; of several who would ask at once, the one who
 * wins the CAS of that time does. A time that lies ahead (of another time name space, or corrupt) is long ago as well.
 */
#include "guard/owners.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/frame.h"
#include "segment/layout.h"
#include "segment/processes.h"

#define ASK_AGAIN_NS NS_PER_S
#define ASK_LEASE_AGAIN_NS (10 * NS_PER_MS)
/* So many places of the table of processes are looked at in one go, for those that need to be asked. */
#define PLACES_LOOKED_AT 16u

enum owner_life owner_ask(struct segment *segment, uint32_t holder, struct asking *asking)
{
    _Atomic uint64_t *asked = process_asked(segment, holder);

    if (asked == NULL)
        return OWNER_IS_DEAD;
    uint64_t last_ns = atomic_load_explicit(asked, memory_order_relaxed);
    if (asking->real_ns - last_ns < (asking->about_lease ? ASK_LEASE_AGAIN_NS : ASK_AGAIN_NS))
        return OWNER_LIVES;
    if (asking->left == 0)
        return OWNER_UNASKED;
    asking->left--;
    if (!atomic_compare_exchange_strong_explicit(asked, &last_ns, asking->real_ns, memory_order_relaxed,
                                                 memory_order_relaxed))
        return OWNER_LIVES;
    if (process_alive(segment, holder))
        return OWNER_LIVES;
    process_died(segment, holder);
    return OWNER_IS_DEAD;
}

OWN_FRAME void owners_ask_some(struct segment *segment, uint32_t self, struct asking *asking)
{
    uint32_t high = atomic_load_explicit(&segment->map->processes_high, memory_order_relaxed);

    if (high > segment->capacity.processes)
        high = segment->capacity.processes;
    for (uint32_t i = 0; i < high && i < PLACES_LOOKED_AT && asking->left > 0; i++) {
        uint32_t place = atomic_fetch_add_explicit(&segment->map->owners_cursor, 1, memory_order_relaxed) % high;
        uint32_t holder = process_holder(segment, place);

        if (holder != 0 && holder != self)
            owner_ask(segment, holder, asking);
    }
}
