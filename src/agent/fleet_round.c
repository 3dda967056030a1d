/*
 * fleet_round.c - a round of questions and what follows of the answers. See fleet_round.h.
 */
#include "agent/fleet_round.h"

#include "agent/fleet_command.h"
#include "base/hash.h"

bool fleet_would_vote(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    const struct fleet_seen *const seen = &circuit->seen;

    return circuit->here && circuit->is_seen && seen->votes && seen->state != CIRCUIT_CLOSED &&
           (seen->retry_in_ns > 0 || seen->probes > 0 ||
            (circuit->called_ns != 0 && now_ns - circuit->called_ns < FLEET_CALLED_NS));
}

bool fleet_is_open(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->open_until_ns > now_ns;
}

/* Those about which there is more to know than whether they are listed. */
static bool is_read(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->name[0] != '\0' && (circuit->voted_ns != 0 || circuit->phase != FLEET_FOLLOWS ||
                                        fleet_is_open(circuit, now_ns) || fleet_would_vote(circuit, now_ns));
}

static void begin_stage(struct fleet *fleet, enum fleet_stage stage, uint64_t now_ns)
{
    fleet->stage = stage;
    fleet->stage_ns = now_ns;
}

/* The first round on a connection learns the time alone, for the lists go by it. */
static void read_all(struct fleet *fleet, uint64_t now_ns)
{
    begin_stage(fleet, STAGE_READING, now_ns);
    fleet->look_ns = now_ns;
    fleet->reading_count = 0;
    fleet_ask_time(fleet);
    if (!fleet->time_known) {
        fleet->is_nudged = false;
        return;
    }
    fleet_ask_list(fleet, COMMAND_OPEN_LIST, now_ns);
    if (fleet_spoken_asks(fleet, now_ns))
        fleet_ask_words(fleet, now_ns);
    const bool asks_troubles = fleet->has_share || now_ns - fleet->troubles_ns >= FLEET_SHOW_NS;
    if (asks_troubles) {
        fleet->troubles_ns = now_ns;
        fleet_ask_list(fleet, COMMAND_TROUBLE_LIST, now_ns);
    }
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        fleet->circuits[i].listed = false;
        fleet->circuits[i].troubled = fleet->circuits[i].troubled && !asks_troubles;
        if (is_read(&fleet->circuits[i], now_ns))
            fleet->reading[fleet->reading_count++] = i;
    }
    fleet->is_nudged = false;
    for (uint32_t at = 0; at < fleet->reading_count; at += FLEET_READ_AT_ONCE) {
        const uint32_t left = fleet->reading_count - at;
        fleet_ask_circuits(fleet, at, left < FLEET_READ_AT_ONCE ? left : FLEET_READ_AT_ONCE);
    }
}

/*
 * A healing that is later than this host's opening closes its circuit: nobody has to try for himself. Both are durations
 * until now, one by this host's clock and one by the server's.
 */
static void obey_healing(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (circuit->healed.token == 0)
        return;
    circuit->close_wished = circuit->seen.state == CIRCUIT_OPEN && circuit->seen.since_ns < circuit->healed.at_ns;
    if (now_ns - circuit->healed.at_ns < FLEET_HEALED_FRESH_NS)
        circuit->open_until_ns = 0; /* what lists it still was said before */
    if (circuit->close_wished && circuit->voted_ns != 0) {
        fleet_take_vote_back(fleet, circuit);
        circuit->voted_ns = circuit->voting_ns = 0;
    }
}

static void vote(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (!fleet_would_vote(circuit, now_ns) || circuit->close_wished) {
        if (circuit->voted_ns != 0)
            fleet_take_vote_back(fleet, circuit);
        circuit->voted_ns = circuit->voting_ns = 0;
        return;
    }
    if (circuit->voting_ns == 0)
        circuit->voting_ns = now_ns;
    if (circuit->voted_ns != 0 && now_ns - circuit->voted_ns < FLEET_RENEW_NS)
        return;
    circuit->voted_ns = now_ns;
    fleet_say_vote(fleet, circuit, now_ns);
    fleet_count_votes(fleet, circuit, now_ns);
    if (circuit->seen.quorum == 0)
        fleet_count_callers(fleet, circuit, now_ns);
    circuit->counted = false;
}

/* A share is of those that call it: all of these say so, once somebody has it open. */
static void note(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (circuit->here && (circuit->troubled || circuit->voted_ns == now_ns) && circuit->seen.quorum == 0 &&
        circuit->called_ns != 0 && now_ns - circuit->called_ns < FLEET_CALLED_NS &&
        (circuit->noted_ns == 0 || now_ns - circuit->noted_ns >= FLEET_NOTE_NS))
        fleet_say_note(fleet, circuit, now_ns);
}

/*
 * Whether anything goes on. A fleet that is open, in which the pause is over and neither lease nor pause nor healing
 * changes, is not going to end it: nobody asks any more, or something in Redis is wrong. Then this host goes by its own
 * circuit.
 */
static void watch_movement(struct fleet_circuit *circuit, uint64_t now_ns)
{
    const uint64_t said[] = {circuit->lease_token, (uint64_t)circuit->lease, circuit->healed.token,
                             circuit->seen.openings};
    const uint64_t movement = hash_bytes(HASH_BEGIN, said, sizeof said);

    if (circuit->movement != movement)
        circuit->distrusted = false;
    if (circuit->movement != movement || now_ns < circuit->pause_end_ns || !fleet_is_open(circuit, now_ns))
        circuit->moved_ns = now_ns;
    circuit->movement = movement;
    if (now_ns - circuit->moved_ns > circuit->seen.probe_timeout_ns + FLEET_PATIENCE_NS)
        circuit->distrusted = true;
}

static void act(struct fleet *fleet, uint64_t now_ns)
{
    begin_stage(fleet, STAGE_ACTING, now_ns);
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[i];
        if (circuit->name[0] == '\0')
            continue;
        /* What is listed no more may just be forgotten: only a healing, or the end, releases before. */
        if (circuit->listed)
            circuit->open_until_ns = fleet->look_ns + FLEET_HOLD_NS;
        if (!is_read(circuit, now_ns)) {
            circuit->distrusted = false;
        } else {
            obey_healing(fleet, circuit, now_ns);
            fleet_probe_turn(fleet, circuit, now_ns);
            vote(fleet, circuit, now_ns);
            watch_movement(circuit, now_ns);
        }
        note(fleet, circuit, now_ns);
        if (circuit->voted_ns == now_ns)
            fleet_claim_keep(fleet, circuit, now_ns);
        if (!circuit->here && !circuit->troubled && !fleet_is_open(circuit, now_ns) && circuit->spoken.token == 0 &&
            !circuit->spoken.is_wanted && !circuit->spoken.is_listed)
            circuit->name[0] = '\0'; /* nothing is known of it any more */
    }
    fleet_spoken_turn(fleet, now_ns);
    fleet_hosts_turn(fleet, now_ns);
    fleet_claims_turn(fleet, now_ns);
}

static bool has_quorum(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    const struct fleet_seen *const seen = &circuit->seen;

    if (seen->quorum > 0)
        return circuit->votes >= seen->quorum;
    /* A share of two at the least: else one host could be all of those that have said so far that they call it. */
    return circuit->votes >= 2 && now_ns - circuit->voting_ns >= FLEET_SETTLE_NS &&
           circuit->votes * PERMILLE >= circuit->callers * seen->quorum_permille;
}

/* Of many that see it one says it again, before it is over. */
static bool is_said(const struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->listed && circuit->listed_until_ms > fleet_server_ms(fleet, now_ns) + FLEET_OPEN_NS / NS_PER_MS / 2;
}

static void announce(struct fleet *fleet, uint64_t now_ns)
{
    bool is_news = false;

    begin_stage(fleet, STAGE_ANNOUNCING, now_ns);
    fleet_hosts_ask_names(fleet, now_ns);
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[i];
        if (circuit->name[0] == '\0' || circuit->voted_ns == 0 || circuit->counted || circuit->distrusted ||
            !has_quorum(circuit, now_ns))
            continue;
        circuit->counted = true;
        if (is_said(fleet, circuit, now_ns))
            continue;
        is_news = is_news || !fleet_is_open(circuit, now_ns);
        circuit->open_until_ns = fleet->look_ns + FLEET_HOLD_NS;
        fleet_say_open(fleet, circuit, now_ns);
    }
    if (is_news)
        fleet_tell_change(fleet);
}

void fleet_stage_ends(struct fleet *fleet, uint64_t now_ns)
{
    if (fleet->stage == STAGE_READING) {
        if (fleet->reading_is_first) {
            fleet->reading_is_first = false;
            read_all(fleet, now_ns);
            return;
        }
        act(fleet, now_ns);
        if (fleet->awaited > 0)
            return;
    }
    if (fleet->stage == STAGE_ACTING) {
        announce(fleet, now_ns);
        if (fleet->awaited > 0)
            return;
    }
    fleet->stage = STAGE_IDLE;
    fleet->heard_ns = now_ns;
    fleet->trouble[0] = '\0';
}

uint64_t fleet_due_ns(const struct fleet *fleet)
{
    if (!fleet->is_connected || fleet->stage != STAGE_IDLE)
        return UINT64_MAX;
    if (fleet->look_ns == 0)
        return 0;
    return fleet->look_ns + (fleet->is_nudged ? FLEET_LOOK_MIN_NS : FLEET_LOOK_NS);
}

void fleet_turn(struct fleet *fleet, uint64_t now_ns)
{
    if (now_ns < fleet_due_ns(fleet))
        return;
    fleet->reading_is_first = !fleet->time_known;
    read_all(fleet, now_ns);
}
