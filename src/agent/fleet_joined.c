/*
 * fleet_joined.c - one circuit of a segment that is in a fleet. See fleet_joined.h.
 */
#include "agent/fleet_joined.h"

#include "base/text.h"
#include "guard/holding.h"
#include "policy/quorum.h"
#include "segment/circuits.h"

static uint64_t calls_of(const struct circuit *circuit)
{
    return counters_sum(&circuit->counters, COUNT_ADMITTED) + counters_sum(&circuit->counters, COUNT_REFUSED);
}

static struct fleet_seen seen_of(const struct segment *segment, uint32_t index, const struct target *target,
                                 uint64_t now_ns, uint64_t real_ns)
{
    const struct circuit *const circuit = circuits_at(segment, index);
    const bool is_share = (target->fleet_quorum & QUORUM_SHARE) != 0;
    const uint64_t longest = target->breaker.reset_timeout_max_ns +
                             target->breaker.reset_timeout_max_ns / PERMILLE * target->breaker.jitter_permille;
    struct circuit_view view;

    circuit_observe(circuit, &target->breaker, now_ns, &view);
    const uint64_t ago_ns = now_ns > view.since_ns ? now_ns - view.since_ns : 0;
    return (struct fleet_seen){
        .state = view.state,
        .votes = force_get(segment, index, now_ns) == FORCED_NONE,
        .probes = view.probes,
        .openings = counters_sum(&circuit->counters, COUNT_OPENED),
        .calls = calls_of(circuit),
        .since_ns = real_ns > ago_ns ? real_ns - ago_ns : 0,
        .retry_in_ns = view.retry_in_ns,
        .quorum = is_share ? 0 : target->fleet_quorum,
        .quorum_permille = is_share ? target->fleet_quorum & ~QUORUM_SHARE : 0,
        .backoff_permille = target->breaker.backoff_permille,
        .pause_max_ns = longest > target->breaker.retry_after_max_ns ? longest : target->breaker.retry_after_max_ns,
        .probe_timeout_ns = target->breaker.probe_timeout_ns,
    };
}

/* "a, b": as many of those that vote as there is room for. */
#define HOSTS_TEXT_MAX 64u
static const char *voters_text(const struct fleet_view *view, char hosts[HOSTS_TEXT_MAX])
{
    struct text text;

    text_start(&text, hosts, HOSTS_TEXT_MAX);
    for (unsigned int i = 0; i < view->voter_count; i++) {
        text_add(&text, i > 0 ? ", " : "");
        text_add(&text, view->voters[i]);
    }
    return hosts;
}

/* That another host begins to probe, once for each lease. */
static void note_probe(const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                       const struct fleet_view *view, enum target_mode mode, uint64_t now_ns)
{
    const struct hold_cause probe = {.reason = HOLD_FLEET_PROBE, .hosts = view->prober};

    if (!view->others_probe || view->lease == 0 || view->lease == joined->lease_noted)
        return;
    joined->lease_noted = view->lease;
    hold_note(guard, index, &probe, mode, now_ns);
}

static void apply(const struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                  const struct target *target, const struct fleet_view *view, uint64_t now_ns, uint64_t real_ns)
{
    const struct fleet_wish wish = fleet_wish(fleet, joined->number, real_ns);
    char hosts[HOSTS_TEXT_MAX];
    const struct hold_cause open = {.reason = HOLD_FLEET_OPEN, .hosts = voters_text(view, hosts)},
                            probe = {.reason = HOLD_FLEET_PROBE, .hosts = view->prober},
                            over = {.reason = HOLD_FLEET_CLOSED, .hosts = view->healer};

    if (wish.close)
        hold_close(guard, index, now_ns);
    if (wish.held_until_ns > real_ns) {
        joined->held = hold_set(guard, index, HOLD_FLEET, wish.held_until_ns - real_ns, &open, target->mode, now_ns);
        if (joined->held)
            note_probe(guard, joined, index, view, target->mode, now_ns);
        return;
    }
    if (wish.end_pause)
        hold_end_pause(guard, index, target, &probe, now_ns);
    if (joined->held)
        hold_end(guard, index, HOLD_FLEET, view->probes ? &probe : &over, target->mode, now_ns);
    joined->held = false;
}

struct fleet_view fleet_joined_look(struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined,
                                    uint32_t index, const struct target *target, uint64_t now_ns, uint64_t real_ns)
{
    const struct fleet_seen seen = seen_of(guard->segment, index, target, now_ns, real_ns);

    fleet_see(fleet, joined->number, &seen, real_ns);
    const struct fleet_view view = fleet_view(fleet, joined->number, real_ns);
    apply(fleet, guard, joined, index, target, &view, now_ns, real_ns);
    return view;
}

void fleet_joined_part(struct fleet *fleet, const struct guard *guard, struct fleet_joined *joined, uint32_t index,
                       uint64_t now_ns)
{
    const struct hold_cause given_up = {.reason = HOLD_GIVEN_UP};

    if (joined->key == 0)
        return;
    fleet_forget(fleet, joined->number);
    if (joined->held)
        hold_end(guard, index, HOLD_FLEET, &given_up, MODE_ENFORCE, now_ns);
    *joined = (struct fleet_joined){0};
}
