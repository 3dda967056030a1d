/*
 * fleet_member.c - one member of a fleet. See fleet.h.
 */
#include "agent/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "agent/fleet_command.h"
#include "agent/fleet_model.h"
#include "agent/fleet_round.h"
#include "base/hash.h"
#include "base/text.h"

struct fleet *fleet_create(const char *name, uint64_t host, uint64_t seed, const struct fleet_way *way)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    struct text text;

    if (fleet == NULL)
        return NULL;
    fleet_name_from(name, fleet->name);
    text_start(&text, fleet->host, sizeof fleet->host);
    text_add_hex(&text, host, 16);
    fleet->number = host;
    fleet->random = seed;
    fleet->way = *way;
    return fleet;
}

void fleet_set_host(struct fleet *fleet, const char *name)
{
    size_t length = 0;

    for (; name[length] != '\0' && length + 1 < sizeof fleet->host_name; length++)
        fleet->host_name[length] = name[length];
    for (size_t i = 0; i < length; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            fleet->host_name[i] = '?';
    }
    fleet->host_name[length] = '\0';
}

void fleet_free(struct fleet *fleet)
{
    fleet_claims_end(fleet, "it is watched no more");
    free(fleet);
}

uint32_t fleet_place(struct fleet *fleet, const char *target, const char *destination, uint32_t elsewhere_max)
{
    const size_t target_length = strlen(target), length = strlen(destination);
    uint32_t found = FLEET_CIRCUIT_NONE, elsewhere = 0;
    char name[FLEET_CIRCUIT_MAX];

    if (target_length == 0 || target_length >= TARGET_NAME_MAX || length == 0 || length >= DESTINATION_MAX)
        return FLEET_CIRCUIT_NONE;
    memcpy(name, target, target_length);
    name[target_length] = '\n';
    memcpy(name + target_length + 1, destination, length + 1);
    const uint64_t hash = hash_bytes(HASH_BEGIN, name, target_length + 1 + length);
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        const struct fleet_circuit *const circuit = &fleet->circuits[i];
        if (circuit->name[0] == '\0')
            found = found != FLEET_CIRCUIT_NONE ? found : i;
        else if (circuit->hash == hash && strcmp(circuit->name, name) == 0)
            return i;
        elsewhere += circuit->name[0] != '\0' && !circuit->here;
    }
    if (elsewhere >= elsewhere_max)
        return FLEET_CIRCUIT_NONE;
    if (found != FLEET_CIRCUIT_NONE) {
        memset(&fleet->circuits[found], 0, sizeof fleet->circuits[found]);
        memcpy(fleet->circuits[found].name, name, target_length + 1 + length + 1);
        fleet->circuits[found].hash = hash;
    }
    return found;
}

uint32_t fleet_circuit(struct fleet *fleet, const char *target, const char *destination)
{
    const uint32_t number = fleet_place(fleet, target, destination, UINT32_MAX);

    if (number != FLEET_CIRCUIT_NONE && !fleet->circuits[number].here) {
        fleet->circuits[number].here = true;
        fleet->circuits[number].is_seen = false;
    }
    return number;
}

void fleet_see(struct fleet *fleet, uint32_t number, const struct fleet_seen *seen, uint64_t now_ns)
{
    struct fleet_circuit *circuit = fleet_at(fleet, number);

    if (circuit == NULL || !circuit->here)
        return;
    if (circuit->is_seen && seen->calls != circuit->seen.calls)
        circuit->called_ns = now_ns;
    else if (!circuit->is_seen && seen->state != CIRCUIT_CLOSED && circuit->called_ns == 0)
        circuit->called_ns = seen->since_ns; /* by a call it came to this */
    /* What others are to know at once: it opened, it closed, its probe failed. */
    if ((circuit->is_seen || seen->state != CIRCUIT_CLOSED) &&
        (seen->state != circuit->seen.state || seen->openings != circuit->seen.openings))
        fleet->is_nudged = true;
    circuit->is_seen = true;
    circuit->seen = *seen;
    fleet->has_share = fleet->has_share || seen->quorum == 0;
}

void fleet_forget(struct fleet *fleet, uint32_t number)
{
    struct fleet_circuit *circuit = fleet_at(fleet, number);

    if (circuit != NULL)
        circuit->here = false;
}

const char *fleet_elsewhere(struct fleet *fleet, uint32_t *cursor, uint64_t now_ns)
{
    while (*cursor < FLEET_CIRCUITS) {
        const struct fleet_circuit *const circuit = &fleet->circuits[(*cursor)++];
        if (circuit->name[0] != '\0' && !circuit->here &&
            (fleet_is_open(circuit, now_ns) || (circuit->spoken.token != 0 && circuit->spoken.word != FORCED_NONE)))
            return circuit->name;
    }
    return NULL;
}

struct fleet_wish fleet_wish(const struct fleet *fleet, uint32_t number, uint64_t now_ns)
{
    const struct fleet_circuit *const circuit = fleet_at((struct fleet *)(uintptr_t)fleet, number);
    struct fleet_wish wish = {0};

    if (circuit == NULL || !circuit->here)
        return wish;
    const struct fleet_seen *const seen = &circuit->seen;
    const bool probes = circuit->phase == FLEET_PROBES && seen->openings == circuit->openings_before &&
                        now_ns < circuit->lease_end_ns; /* an agent may have been stopped meanwhile */
    if (fleet_is_open(circuit, now_ns) && !probes && !circuit->distrusted)
        wish.held_until_ns = circuit->open_until_ns;
    wish.end_pause = probes && seen->state == CIRCUIT_OPEN && seen->retry_in_ns > 0;
    wish.close = circuit->close_wished && seen->state == CIRCUIT_OPEN && seen->since_ns < circuit->healed.at_ns;
    return wish;
}

bool fleet_has_news(struct fleet *fleet, uint64_t now_ns)
{
    bool has_news = false;

    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[i];
        if (circuit->name[0] == '\0')
            continue;
        const struct fleet_wish wish = fleet_wish(fleet, i, now_ns), told = circuit->told;
        has_news = has_news || (wish.held_until_ns > 0) != (told.held_until_ns > 0) ||
                   wish.end_pause != told.end_pause || wish.close != told.close ||
                   (!circuit->here && fleet_is_open(circuit, now_ns)) || circuit->spoken.news != circuit->spoken.token;
        circuit->spoken.news = circuit->spoken.token;
        circuit->told = wish;
    }
    return has_news;
}

struct fleet_view fleet_view(const struct fleet *fleet, uint32_t number, uint64_t now_ns)
{
    const struct fleet_circuit *const circuit = fleet_at((struct fleet *)(uintptr_t)fleet, number);

    if (circuit == NULL)
        return (struct fleet_view){.prober = "", .healer = ""};
    struct fleet_view view = {
        .is_open = fleet_is_open(circuit, now_ns),
        .probes = circuit->phase == FLEET_PROBES,
        .others_probe = circuit->lease == LEASE_OTHERS && fleet_is_open(circuit, now_ns),
        .votes = circuit->voted_ns != 0,
        .seen_ns = circuit->voters_seen_ns,
        .hosts = circuit->voters_all,
        .callers = circuit->seen.quorum == 0 ? circuit->callers : 0,
        .pause_ns = circuit->pause_end_ns > now_ns ? circuit->pause_end_ns - now_ns : 0,
        .prober = fleet_hosts_name(fleet, circuit->lease != LEASE_FREE ? circuit->prober : 0),
        .healer = fleet_hosts_name(fleet, circuit->healer),
        .lease = circuit->lease != LEASE_FREE ? circuit->lease_token : 0,
        .voter_count = circuit->voter_count,
    };
    for (unsigned int i = 0; i < circuit->voter_count; i++)
        view.voters[i] = fleet_hosts_name(fleet, circuit->voters[i]);
    return view;
}

struct fleet_standing fleet_standing(const struct fleet *fleet)
{
    return (struct fleet_standing){
        .is_connected = fleet->is_connected,
        .heard_ns = fleet->heard_ns,
        .hosts = fleet->hosts,
        .host = fleet->host_name,
    };
}

/* What was said on the former connection may be lost, with all that Redis had: it is said again. */
void fleet_connected(struct fleet *fleet, uint64_t now_ns)
{
    fleet_broken(fleet);
    fleet->is_connected = true;
    fleet->stage_ns = now_ns;
}

void fleet_broken(struct fleet *fleet)
{
    fleet->is_connected = fleet->has_failed = fleet->time_known = fleet->is_nudged = false;
    fleet->stage = STAGE_IDLE;
    fleet->awaited = 0;
    fleet->look_ns = fleet->here_ns = fleet->named_ns = fleet->troubles_ns = fleet->hosts_ns = 0;
    fleet_claims_end(fleet, "the connection to the fleet's Redis broke");
    fleet_spoken_end(fleet);
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[i];
        circuit->voted_ns = circuit->voting_ns = circuit->noted_ns = circuit->kept_ns = 0;
    }
}

void fleet_nudge(struct fleet *fleet)
{
    fleet->is_nudged = true;
}

bool fleet_has_failed(struct fleet *fleet, uint64_t now_ns)
{
    struct text text;

    if (!fleet->is_connected || fleet->has_failed || fleet->stage == STAGE_IDLE ||
        now_ns - fleet->stage_ns < FLEET_ANSWER_NS)
        return fleet->is_connected && fleet->has_failed;
    fleet->has_failed = true;
    text_start(&text, fleet->trouble, sizeof fleet->trouble);
    text_add(&text, "it does not answer within ");
    text_add_unsigned(&text, FLEET_ANSWER_NS / NS_PER_S);
    text_add(&text, " s");
    return true;
}

const char *fleet_trouble(const struct fleet *fleet)
{
    return fleet->trouble;
}

void fleet_leave(struct fleet *fleet)
{
    if (!fleet->is_connected || !fleet->time_known)
        return;
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[i];
        if (circuit->name[0] != '\0' && circuit->voted_ns != 0)
            fleet_take_vote_back(fleet, circuit);
        if (circuit->name[0] != '\0' && circuit->lease == LEASE_MINE && circuit->seen.probes == 0)
            fleet_give_lease_back(fleet, circuit);
        circuit->voted_ns = 0;
    }
}
