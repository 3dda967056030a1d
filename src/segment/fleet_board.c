/*
 * fleet_board.c - what an agent tells of the fleet. See fleet_board.h.
 */
#include "segment/fleet_board.h"

#include <stdatomic.h>
#include <stddef.h>

#include "segment/layout.h"

/* Relaxed: the number only has to differ from the one before; the stamp orders the rest. */
static uint64_t next_number(struct fleet_board *board)
{
    return atomic_fetch_add_explicit(&board->written, 1, memory_order_relaxed);
}

void fleet_board_tell(const struct segment *segment, const struct fleet_head *head)
{
    struct fleet_head_slot *slot = &segment->fleet->head;

    stamped_write(&slot->stamp, &slot->head, head, sizeof *head, next_number(segment->fleet));
}

void fleet_board_show(const struct segment *segment, uint32_t place, const struct fleet_shown *shown)
{
    struct fleet_board_slot *slot = &segment->fleet->circuits[place % FLEET_SHOWN];

    stamped_write(&slot->stamp, &slot->shown, shown, sizeof *shown, next_number(segment->fleet));
}

/*
 * Who looks has asked the time first, and an agent may have written since: what is a little ahead is of this moment. Of a
 * time that is farther ahead nothing is believed.
 */
static uint64_t not_ahead(uint64_t at_ns, uint64_t now_ns)
{
    return at_ns > now_ns && at_ns - now_ns < FLEET_TOLD_NS ? now_ns : at_ns;
}

bool fleet_board_head(const struct segment *segment, uint64_t now_ns, struct fleet_head *head)
{
    const struct fleet_head_slot *slot = &segment->fleet->head;
    uint32_t stamp;

    if (!stamped_read(&slot->stamp, head, &slot->head, sizeof *head, &stamp) || head->told_ns == 0 ||
        head->link >= FLEET_LINK_STATES)
        return false;
    head->told_ns = not_ahead(head->told_ns, now_ns);
    head->heard_ns = not_ahead(head->heard_ns, now_ns);
    if (head->told_ns > now_ns || head->heard_ns > head->told_ns)
        return false;
    head->host[sizeof head->host - 1] = head->trouble[sizeof head->trouble - 1] = '\0';
    return true;
}

bool fleet_board_is_now(uint64_t told_ns, uint64_t now_ns)
{
    return told_ns != 0 && told_ns <= now_ns && now_ns - told_ns < FLEET_TOLD_NS;
}

bool fleet_board_find(const struct segment *segment, uint64_t key, uint64_t now_ns, struct fleet_shown *shown)
{
    for (uint32_t i = 0; i < FLEET_SHOWN; i++) {
        const struct fleet_board_slot *slot = &segment->fleet->circuits[i];
        uint32_t stamp;
        if (!stamped_read(&slot->stamp, shown, &slot->shown, sizeof *shown, &stamp) || shown->key != key)
            continue;
        shown->told_ns = not_ahead(shown->told_ns, now_ns);
        shown->seen_ns = not_ahead(shown->seen_ns, now_ns);
        if (!fleet_board_is_now(shown->told_ns, now_ns))
            continue;
        for (uint32_t host = 0; host < FLEET_SHOWN_HOSTS; host++)
            shown->voters[host][FLEET_SHOWN_NAME - 1] = '\0';
        shown->prober[FLEET_SHOWN_NAME - 1] = '\0';
        if (shown->seen_ns == 0 || shown->seen_ns > now_ns)
            shown->seen_ns = shown->votes = shown->callers = shown->named = 0;
        shown->named = shown->named < FLEET_SHOWN_HOSTS ? shown->named : FLEET_SHOWN_HOSTS;
        return true;
    }
    return false;
}
