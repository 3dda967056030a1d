/*
 * fleet_alert.c - whether this host is the one to tell. See fleet_alert.h.
 */
#include "agent/fleet_alert.h"

#include "agent/fleet_watch.h"

void fleet_alert_claim(const struct watched *watched, const char *target, const char *destination, const char *event,
                       uint64_t lasts_ns, fleet_claim_answer *answer, void *context)
{
    struct fleet *const fleet = fleet_watch_member(watched, target);
    const bool is_wanted = fleet_watch_wants(watched, target);

    if (fleet == NULL) {
        const char *const why = is_wanted ? "the fleet's Redis can't be reached" : "";
        answer(context, &(struct fleet_claimed){.claim = CLAIM_ALONE, .word = why});
        return;
    }
    fleet_claim(fleet, target, destination, event, lasts_ns, answer, context);
    fleet_watch_turn(fleet);
}
