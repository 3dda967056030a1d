/*
 * fleet_order.c - an operator's word for all hosts of a fleet. See fleet_order.h.
 */
#include "segment/fleet_order.h"

#include <stdatomic.h>

#include "segment/forced.h"
#include "segment/layout.h"

/* Relaxed: the number only tells writers apart; the stamp orders the rest. */
static uint32_t next_number(_Atomic uint32_t *number)
{
    return atomic_fetch_add_explicit(number, 1, memory_order_relaxed);
}

uint32_t fleet_order_give(const struct segment *segment, const struct fleet_order *order)
{
    const uint32_t number = next_number(&segment->fleet->ordered), place = number % FLEET_ORDERS;
    struct fleet_order_slot *slot = &segment->fleet->orders[place];

    stamped_write(&slot->stamp, &slot->order, order, sizeof *order, number);
    return place;
}

bool fleet_order_read(const struct segment *segment, uint32_t place, uint64_t now_ns, struct fleet_order *order)
{
    const struct fleet_order_slot *slot = &segment->fleet->orders[place % FLEET_ORDERS];
    uint32_t stamp;

    if (!stamped_read(&slot->stamp, order, &slot->order, sizeof *order, &stamp) || order->token == 0 ||
        order->word >= FORCED_WORDS || order->asked_ns + FLEET_ORDER_FRESH_NS < now_ns ||
        order->asked_ns > now_ns + FLEET_ORDER_FRESH_NS)
        return false;
    order->user[sizeof order->user - 1] = '\0';
    order->target[sizeof order->target - 1] = order->destination[sizeof order->destination - 1] = '\0';
    return true;
}

void fleet_order_answer(const struct segment *segment, uint32_t place, const struct fleet_answer *answer)
{
    struct fleet_answer_slot *slot = &segment->fleet->answers[place % FLEET_ORDERS];

    stamped_write(&slot->stamp, &slot->answer, answer, sizeof *answer, next_number(&segment->fleet->written));
}

bool fleet_order_answered(const struct segment *segment, uint32_t place, struct fleet_answer *answer)
{
    const struct fleet_answer_slot *slot = &segment->fleet->answers[place % FLEET_ORDERS];
    uint32_t stamp;

    if (!stamped_read(&slot->stamp, answer, &slot->answer, sizeof *answer, &stamp) ||
        answer->state >= FLEET_ORDER_STATES)
        return false;
    answer->trouble[sizeof answer->trouble - 1] = '\0';
    return true;
}

static bool obeyed_read(const struct segment *segment, uint32_t place, struct fleet_obeyed *obeyed)
{
    const struct fleet_obeyed_slot *slot = &segment->fleet->obeyed[place];
    uint32_t stamp;

    if (!stamped_read(&slot->stamp, obeyed, &slot->obeyed, sizeof *obeyed, &stamp) || obeyed->key == 0)
        return false;
    obeyed->user[sizeof obeyed->user - 1] = obeyed->host[sizeof obeyed->host - 1] = '\0';
    return true;
}

bool fleet_obeyed_find(const struct segment *segment, uint64_t key, struct fleet_obeyed *obeyed)
{
    for (uint32_t place = 0; place < FLEET_OBEYED; place++) {
        if (obeyed_read(segment, place, obeyed) && obeyed->key == key)
            return true;
    }
    return false;
}

/* Its circuit's place, a free one, or that of the oldest. */
void fleet_obeyed_put(const struct segment *segment, const struct fleet_obeyed *obeyed)
{
    uint64_t oldest_ns = UINT64_MAX;
    uint32_t chosen = 0;
    struct fleet_obeyed there;

    for (uint32_t place = 0; place < FLEET_OBEYED; place++) {
        const bool is_taken = obeyed_read(segment, place, &there);
        if (is_taken && there.key == obeyed->key) {
            chosen = place;
            break;
        }
        if ((is_taken ? there.at_ns : 0) < oldest_ns) {
            oldest_ns = is_taken ? there.at_ns : 0;
            chosen = place;
        }
    }
    struct fleet_obeyed_slot *slot = &segment->fleet->obeyed[chosen];
    stamped_write(&slot->stamp, &slot->obeyed, obeyed, sizeof *obeyed, next_number(&segment->fleet->written));
}
