/*
 * fleet_probe.c - the one probe of all hosts: the fleet's pause, and the lease that is had by one host at a time.
 *
 * The first host that opens offers its pause to the fleet; others find it and leave it. When it is over, and the fleet has
 * the circuit open, those that were called lately ask for the lease. Who has it lets one call of its own through. What
 * becomes of it is seen in its own circuit alone: closed is a healing; opened again is a failure, and the fleet's pause is
 * as long as this host's next one, or as the last one of the fleet by the back-off; whichever is longer.
 *
 * What a command did is never taken from its reply: who has the lease is what lies there, read with or after it. So it
 * makes no difference which of command and reply was lost.
 */
#include "agent/fleet_command.h"
#include "agent/fleet_round.h"
#include "base/hash.h"

static void enter(struct fleet_circuit *circuit, enum fleet_phase phase, uint64_t now_ns)
{
    circuit->phase = phase;
    circuit->phase_ns = now_ns;
}

static uint64_t draw(struct fleet *fleet)
{
    const uint64_t token = hash_spread(fleet->random += HASH_STEP);

    return token != 0 ? token : 1;
}

static void give_back(struct fleet *fleet, struct fleet_circuit *circuit)
{
    if (circuit->lease_text[0] != '\0')
        fleet_give_lease_back(fleet, circuit);
    circuit->lease_text[0] = '\0';
    circuit->lease = LEASE_FREE;
    circuit->token = 0; /* what is not given back, for scripts may be forbidden there, is no more ours than others' */
}

/* Lengths of pauses are the policy's to bound, whatever the fleet says. */
static uint64_t lengthened(const struct fleet_circuit *circuit)
{
    const struct fleet_seen *const seen = &circuit->seen;
    const uint64_t factor = seen->backoff_permille > PERMILLE ? seen->backoff_permille : PERMILLE;
    uint64_t length = circuit->pause_length_ns < seen->pause_max_ns ? circuit->pause_length_ns : seen->pause_max_ns;

    length = length / PERMILLE < seen->pause_max_ns / factor ? length / PERMILLE * factor : seen->pause_max_ns;
    return length > seen->retry_in_ns ? length : seen->retry_in_ns;
}

static void set_pause(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t length_ns, bool only_new,
                      uint64_t now_ns)
{
    circuit->pause_length_ns = length_ns;
    circuit->pause_end_ns = now_ns + length_ns;
    fleet_say_pause(fleet, circuit, length_ns, circuit->pause_end_ns, only_new, now_ns);
}

/* The pause of an opening of this host's own counts for the fleet where none is under way. */
static void offer_pause(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    const struct fleet_seen *const seen = &circuit->seen;

    if (seen->state != CIRCUIT_OPEN || circuit->told_opening == seen->openings || !seen->votes)
        return;
    circuit->told_opening = seen->openings;
    if (seen->retry_in_ns > 0 && circuit->pause_end_ns <= now_ns &&
        (circuit->pause_end_ns == 0 || !fleet_is_open(circuit, now_ns)))
        set_pause(fleet, circuit, seen->retry_in_ns, circuit->pause_end_ns == 0, now_ns);
}

static void follow(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    const struct fleet_seen *const seen = &circuit->seen;

    offer_pause(fleet, circuit, now_ns);
    if (!fleet_is_open(circuit, now_ns) || circuit->distrusted || circuit->close_wished || !seen->votes ||
        seen->state != CIRCUIT_OPEN || now_ns < circuit->pause_end_ns || circuit->lease != LEASE_FREE ||
        now_ns < circuit->stand_back_until_ns || circuit->called_ns == 0 ||
        now_ns - circuit->called_ns >= FLEET_CALLER_NS)
        return;
    circuit->token = draw(fleet);
    fleet_ask_lease(fleet, circuit, seen->probe_timeout_ns + FLEET_PROBE_WAIT_NS + FLEET_LEASE_SLACK_NS, now_ns);
}

static void succeeded(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    const uint64_t ago_ns = now_ns > circuit->seen.since_ns ? now_ns - circuit->seen.since_ns : 0;

    if (ago_ns < FLEET_HEALED_NS) {
        circuit->healed = (struct fleet_heal){.token = draw(fleet), .at_ns = now_ns - ago_ns};
        fleet_say_healed(fleet, circuit, circuit->healed.token, ago_ns, now_ns);
        circuit->open_until_ns = circuit->pause_end_ns = circuit->pause_length_ns = 0;
        circuit->voted_ns = circuit->voting_ns = 0;
    }
    give_back(fleet, circuit);
    fleet_tell_change(fleet);
    enter(circuit, FLEET_FOLLOWS, now_ns);
}

static void failed(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    circuit->told_opening = circuit->seen.openings;
    set_pause(fleet, circuit, lengthened(circuit), false, now_ns);
    give_back(fleet, circuit);
    circuit->stand_back_until_ns = circuit->pause_end_ns + FLEET_STAND_BACK_NS;
    enter(circuit, FLEET_FOLLOWS, now_ns);
}

/* Whether the lease is gone without our doing: another's, or nobody's. */
static bool has_lost(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (circuit->lease == LEASE_MINE)
        return false;
    /* Emptied, or it ended: while a probe is in flight nobody else is to begin one. */
    if (circuit->lease == LEASE_FREE && circuit->seen.probes > 0)
        fleet_ask_lease(fleet, circuit, circuit->seen.probe_timeout_ns + FLEET_LEASE_SLACK_NS, now_ns);
    return circuit->seen.probes == 0;
}

static void probe(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    const struct fleet_seen *const seen = &circuit->seen;

    if (!circuit->here || !seen->votes || circuit->close_wished) {
        give_back(fleet, circuit);
        enter(circuit, FLEET_FOLLOWS, now_ns);
    } else if (seen->state == CIRCUIT_CLOSED) {
        succeeded(fleet, circuit, now_ns);
    } else if (seen->openings != circuit->openings_before) {
        failed(fleet, circuit, now_ns);
    } else if (has_lost(fleet, circuit, now_ns)) {
        give_back(fleet, circuit);
        enter(circuit, FLEET_FOLLOWS, now_ns);
    } else if (seen->probes > 0) {
        enter(circuit, FLEET_PROBES, circuit->phase_ns);
    } else if (circuit->phase == FLEET_RECALLS) {
        give_back(fleet, circuit);
        circuit->stand_back_until_ns = now_ns + FLEET_STAND_BACK_NS;
        enter(circuit, FLEET_FOLLOWS, now_ns);
    } else if (now_ns - circuit->phase_ns >= FLEET_PROBE_WAIT_NS) {
        enter(circuit, FLEET_RECALLS, now_ns);
    }
}

void fleet_probe_begins(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (circuit->lease != LEASE_MINE || circuit->phase != FLEET_FOLLOWS)
        return;
    if (!fleet_is_open(circuit, now_ns) || circuit->seen.state != CIRCUIT_OPEN) {
        give_back(fleet, circuit);
        return;
    }
    circuit->openings_before = circuit->seen.openings;
    enter(circuit, FLEET_PROBES, now_ns);
}

void fleet_probe_turn(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    fleet_probe_begins(fleet, circuit, now_ns);
    if (circuit->phase == FLEET_FOLLOWS)
        follow(fleet, circuit, now_ns);
    else
        probe(fleet, circuit, now_ns);
}
