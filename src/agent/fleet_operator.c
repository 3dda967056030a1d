/*
 * fleet_operator.c - operators' words for all hosts of a fleet. See fleet_operator.h.
 */
#include "agent/fleet_operator.h"

#include <string.h>

#include "base/text.h"
#include "guard/operator.h"
#include "segment/circuits.h"
#include "segment/fleet_order.h"

/* --- what is said on this host --- */

static void copy(char *to, size_t size, const char *from)
{
    struct text text;

    text_start(&text, to, size);
    text_add(&text, from);
}

/* Says it; "": it was said. */
static const char *say(const struct fleet_orders *orders, const struct fleet_order *order)
{
    const struct fleet_word word = {.token = order->token, .word = (enum forced)order->word, .user = order->user};

    if (!orders->is_member(orders->context, order->target))
        return "its target is in no fleet here (scope = fleet, and mode = enforce)";
    if (orders->fleet == NULL || orders->trouble[0] != '\0')
        return orders->trouble[0] != '\0' ? orders->trouble : "the fleet's Redis can't be reached";
    const char *const why = fleet_say_word(orders->fleet, order->target, order->destination, &word, order->for_ns);
    return why != NULL ? why : "";
}

/* True: it was said just now. */
static bool take_order(const struct fleet_orders *orders, uint32_t place, const struct fleet_order *order)
{
    struct fleet_answer answer, former;

    if (!fleet_order_answered(orders->segment, place, &former) || former.token != order->token) {
        const char *const why = say(orders, order);
        answer = (struct fleet_answer){.token = order->token,
                                       .state = why[0] == '\0' ? FLEET_ORDER_SAID : FLEET_ORDER_FAILED};
        copy(answer.trouble, sizeof answer.trouble, why);
        fleet_order_answer(orders->segment, place, &answer);
        return why[0] == '\0';
    }
    if (former.state != FLEET_ORDER_SAID || orders->fleet == NULL)
        return false;
    const struct fleet_obedience now = fleet_word_obedience(orders->fleet, order->token);
    if (!now.is_said || (now.hosts == former.hosts && now.obeying == former.obeying))
        return false;
    answer = former;
    answer.hosts = (uint32_t)now.hosts;
    answer.obeying = (uint32_t)now.obeying;
    fleet_order_answer(orders->segment, place, &answer);
    return false;
}

bool fleet_operator_orders(const struct fleet_orders *orders, uint64_t now_ns)
{
    struct fleet_order order;
    bool is_said = false;

    for (uint32_t place = 0; place < FLEET_ORDERS; place++) {
        if (fleet_order_read(orders->segment, place, now_ns, &order))
            is_said = take_order(orders, place, &order) || is_said;
    }
    return is_said;
}

/* --- what this host obeys --- */

static void put(const struct guard *guard, const struct fleet_joined *joined, const struct fleet_word *word,
                uint64_t forced, uint64_t now_ns)
{
    struct fleet_obeyed obeyed = {.key = joined->key, .token = word->token, .at_ns = now_ns, .forced = forced};

    copy(obeyed.user, sizeof obeyed.user, word->user);
    copy(obeyed.host, sizeof obeyed.host, word->host[0] != '\0' ? word->host : "another host");
    fleet_obeyed_put(guard->segment, &obeyed);
}

/* It is over in the fleet without a word that ends it: who was away for long missed that one. */
static void let_go(const struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                   enum target_mode mode, uint64_t now_ns, uint64_t real_ns)
{
    const struct force force = force_read(guard->segment, index, now_ns), none = {FORCED_NONE, 0};
    struct fleet_obeyed obeyed;

    if (force.word == FORCED_NONE || force.end_ns != 0 || !fleet_has_no_word(fleet, joined->number, real_ns) ||
        !fleet_obeyed_find(guard->segment, joined->key, &obeyed) || obeyed.forced != forced_pack(force))
        return;
    force_set_by(guard, "nobody any more", "no host", index, none, mode, now_ns);
    obeyed.forced = 0;
    fleet_obeyed_put(guard->segment, &obeyed);
}

void fleet_operator_obey(struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                         enum target_mode mode, uint64_t now_ns, uint64_t real_ns)
{
    const struct fleet_word word = fleet_word(fleet, joined->number, real_ns);
    const struct force present = force_read(guard->segment, index, now_ns);
    struct fleet_obeyed obeyed;

    if (word.token == 0) {
        let_go(fleet, guard, joined, index, mode, now_ns, real_ns);
        return;
    }
    if (word.token == joined->word)
        return;
    joined->word = word.token;
    if (fleet_obeyed_find(guard->segment, joined->key, &obeyed) && obeyed.token == word.token) {
        /* By the agent before this one; since then somebody here may have said otherwise. */
        if (obeyed.forced == forced_pack(present) || (word.word == FORCED_NONE && present.word == FORCED_NONE))
            fleet_word_obeyed(fleet, joined->number, word.token);
        return;
    }
    const struct force force = {word.word, word.end_ns != 0 && word.word != FORCED_NONE
                                               ? now_ns + (word.end_ns > real_ns ? word.end_ns - real_ns : 1)
                                               : 0};
    put(guard, joined, &word, forced_pack(force), now_ns);
    if (word.word != FORCED_NONE || present.word != FORCED_NONE)
        force_set_by(guard, word.user, word.host[0] != '\0' ? word.host : "another host", index, force, mode, now_ns);
    fleet_word_obeyed(fleet, joined->number, word.token);
}
