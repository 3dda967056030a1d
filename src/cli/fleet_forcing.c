/*
 * fleet_forcing.c - an operator's word for all hosts of a fleet. See fleet_forcing.h.
 */
#include "cli/fleet_forcing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "segment/segment.h"
#include "view/output.h"
#include "view/row_fleet.h"

/* So long the agent may take to say it, and then so long is waited for hosts that do not obey yet. */
#define SAYING_NS (5 * NS_PER_S)
#define OBEYING_NS (6 * NS_PER_S)
#define LOOK_EVERY_NS (20 * NS_PER_MS)

static const char remedy[] = "nothing was changed; without --fleet this host alone obeys";

/* Why no word can be said to the fleet from here, as far as that is known beforehand; NULL: it can. To be freed. */
static char *why_not(const struct audience *audience, const char *target_name, uint64_t now_ns)
{
    const struct policy *const policy = audience->running->shown;
    const struct target *const target = policy != NULL ? policy_target_named(policy, target_name) : NULL;
    struct fleet_head head;
    if (target == NULL || target->scope != SCOPE_FLEET || target->mode != MODE_ENFORCE)
        return copy_text("its target is in no fleet (that needs scope = fleet, and mode = enforce)");
    if (!fleet_link_read(audience->segment, now_ns, &head) || !fleet_board_is_now(head.told_ns, now_ns))
        return copy_text("no agent looks after it on this host (start one: sockfuse agent)");
    if (head.link == FLEET_LINK_NONE)
        return copy_text("the agent was not told where the fleet's Redis is (`fleet` in [agent])");
    if (head.link != FLEET_LINK_UP)
        return format_text("the agent can't speak to the fleet's Redis%s%s", head.trouble[0] != '\0' ? ": " : "",
                           head.trouble);
    return NULL;
}

static uint64_t draw(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = hash_spread(clock_real_ns() ^ (uint64_t)(uintptr_t)&number);
    return number != 0 ? number : 1;
}

/* The answer as it is when all obey, or when there is no more time. False: there is none. */
static bool wait_for_answer(const struct segment *segment, uint32_t place, uint64_t token, struct fleet_answer *answer)
{
    const struct timespec moment = {0, LOOK_EVERY_NS};
    const uint64_t begin_ns = clock_real_ns();
    uint64_t said_ns = 0;
    for (;;) {
        const uint64_t now_ns = clock_real_ns();
        const bool is_answered = fleet_order_answered(segment, place, answer) && answer->token == token;
        if (is_answered &&
            (answer->state == FLEET_ORDER_FAILED || (answer->hosts > 0 && answer->obeying >= answer->hosts)))
            return true;
        if (is_answered && said_ns == 0)
            said_ns = now_ns;
        if (said_ns != 0 ? now_ns - said_ns >= OBEYING_NS : now_ns - begin_ns >= SAYING_NS)
            return is_answered;
        nanosleep(&moment, NULL);
    }
}

void fleet_forcing_tell(const struct fleet_answer *answer)
{
    if (answer->hosts > 0 && answer->obeying >= answer->hosts)
        printf("; %" PRIu32 " of %" PRIu32 " hosts obey\n", answer->obeying, answer->hosts);
    else if (answer->hosts > 0)
        printf("; %" PRIu32 " of %" PRIu32 " hosts obey by now, the others when their agents hear of it\n",
               answer->obeying, answer->hosts);
    else
        printf("; %" PRIu32 " host%s by now\n", answer->obeying, answer->obeying == 1 ? " obeys" : "s obey");
}

bool fleet_forcing_ask(const struct audience *audience, struct fleet_order *order, struct fleet_answer *answer)
{
    order->token = draw();
    order->asked_ns = clock_circuit_ns();
    char *why = why_not(audience, order->target, order->asked_ns);
    if (why != NULL) {
        warnx("%s%s: not said to the fleet: %s; %s", order->destination, audience->which, why, remedy);
        free(why);
        return false;
    }
    const uint32_t place = fleet_order_give(audience->segment, order);
    const bool is_answered = wait_for_answer(audience->segment, place, order->token, answer);
    if (is_answered && answer->state == FLEET_ORDER_SAID)
        return true;
    flush_output();
    if (is_answered)
        warnx("%s%s: not said to the fleet: %s; %s", order->destination, audience->which, answer->trouble, remedy);
    else
        warnx("%s%s: the agent has not said it to the fleet within %u s; it may still do so, if it goes on within ten",
              order->destination, audience->which, (unsigned int)(SAYING_NS / NS_PER_S));
    return false;
}
