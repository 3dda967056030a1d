/*
 * fleet_hosts.c - the hosts of a fleet, for who looks: how many there are, what they are called, and which of them have a
 * circuit open. Nothing is decided by it.
 *
 * A host is a number in Redis, so that it counts once whatever it is called; its name stands beside, and is asked for when
 * it is to be shown. Names are others' word: plain bytes, or none.
 */
#include <string.h>

#include "agent/fleet_command.h"
#include "agent/fleet_round.h"
#include "agent/fleet_words.h"
#include "base/text.h"

/* A name is asked for again after so long. */
#define NAME_EVERY_NS NS_PER_MINUTE
/* A host says its name again after so long. */
#define NAMED_EVERY_NS (FLEET_KEYS_NS / 2)

static bool is_due(uint64_t last_ns, uint64_t every_ns, uint64_t now_ns)
{
    return last_ns == 0 || now_ns - last_ns >= every_ns;
}

/* Of circuits that this host has not, or not yet: one a second, and once, so that the hold that may come knows by whom. */
#define ELSEWHERE_A_SECOND 1u

/* Whose voters are to be shown. */
static bool is_shown(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->name[0] != '\0' && (circuit->troubled || circuit->voted_ns != 0 || fleet_is_open(circuit, now_ns));
}

static void forget_voters(struct fleet_circuit *circuit)
{
    circuit->voters_asked_ns = circuit->voters_seen_ns = circuit->voters_all = 0;
    circuit->voter_count = 0;
    circuit->shown_open = false;
}

static bool is_asked_now(const struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (!is_shown(circuit, now_ns))
        return false;
    if (!circuit->here)
        return circuit->voters_asked_ns == 0 && fleet_is_open(circuit, now_ns) &&
               fleet->elsewhere_count < ELSEWHERE_A_SECOND;
    return fleet_is_open(circuit, now_ns) != circuit->shown_open ||
           is_due(circuit->voters_asked_ns, FLEET_SHOW_NS, now_ns);
}

/* Asks for the voters of a few, and goes on with the next ones another time. */
static void ask_some_voters(struct fleet *fleet, uint64_t now_ns)
{
    if (is_due(fleet->shown_ns, NS_PER_S, now_ns)) {
        fleet->shown_ns = now_ns;
        fleet->shown_count = fleet->elsewhere_count = 0;
    }
    for (uint32_t i = 0; i < FLEET_CIRCUITS && fleet->shown_count < FLEET_SHOWN_A_SECOND; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[fleet->next_shown];
        fleet->next_shown = (fleet->next_shown + 1) % FLEET_CIRCUITS;
        if (!is_asked_now(fleet, circuit, now_ns))
            continue;
        circuit->shown_open = fleet_is_open(circuit, now_ns);
        circuit->voters_asked_ns = now_ns;
        fleet->shown_count++;
        fleet->elsewhere_count += !circuit->here;
        fleet_ask_voters(fleet, circuit, now_ns);
    }
}

void fleet_hosts_turn(struct fleet *fleet, uint64_t now_ns)
{
    if (is_due(fleet->here_ns, FLEET_HERE_NS, now_ns)) {
        const bool with_name = is_due(fleet->named_ns, NAMED_EVERY_NS, now_ns);
        fleet->here_ns = now_ns;
        fleet->named_ns = with_name ? now_ns : fleet->named_ns;
        fleet_say_here(fleet, with_name, now_ns);
    }
    if (is_due(fleet->hosts_ns, FLEET_SHOW_NS, now_ns)) {
        fleet->hosts_ns = now_ns;
        fleet_count_hosts(fleet, now_ns);
    }
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        if (!is_shown(&fleet->circuits[i], now_ns))
            forget_voters(&fleet->circuits[i]);
    }
    ask_some_voters(fleet, now_ns);
}

bool fleet_hosts_take_voters(struct fleet_circuit *circuit, const struct fleet_reply *reply)
{
    if (reply->type != REPLY_LIST || reply->count > 2 * (size_t)FLEET_VOTERS_SHOWN || reply->count % 2 != 0)
        return false;
    circuit->voter_count = 0;
    for (size_t i = 0; i < reply->count; i += 2) {
        const struct fleet_reply *const host = &reply->items[i];
        const uint64_t number = host->type == REPLY_TEXT ? fleet_host_number(host->text, host->length) : 0;
        if (number != 0)
            circuit->voters[circuit->voter_count++] = number;
    }
    return true;
}

static uint32_t place_of(const struct fleet *fleet, uint64_t host)
{
    uint32_t at = 0;

    while (at < FLEET_NAMES && fleet->names[at].host != host)
        at++;
    return at;
}

/* Has its name asked for, if that is due. */
static void want(struct fleet *fleet, uint64_t host, uint64_t now_ns)
{
    uint32_t at = place_of(fleet, host);

    if (host == 0 || host == fleet->number || fleet->asked_count == FLEET_NAMES_AT_ONCE ||
        (at < FLEET_NAMES && !is_due(fleet->names[at].asked_ns, NAME_EVERY_NS, now_ns)))
        return;
    if (at == FLEET_NAMES) {
        at = fleet->next_name++ % FLEET_NAMES;
        fleet->names[at] = (struct fleet_host_name){.host = host};
    }
    fleet->names[at].asked_ns = now_ns;
    fleet->asked[fleet->asked_count++] = at;
}

void fleet_hosts_ask_names(struct fleet *fleet, uint64_t now_ns)
{
    fleet->asked_count = 0;
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        const struct fleet_circuit *const circuit = &fleet->circuits[i];
        if (!is_shown(circuit, now_ns))
            continue;
        for (unsigned int voter = 0; voter < circuit->voter_count; voter++)
            want(fleet, circuit->voters[voter], now_ns);
        if (circuit->lease != LEASE_FREE)
            want(fleet, circuit->prober, now_ns);
    }
    if (fleet->asked_count > 0)
        fleet_ask_names(fleet);
}

bool fleet_hosts_take_names(struct fleet *fleet, const struct fleet_reply *reply)
{
    if (reply->type != REPLY_LIST || reply->count != fleet->asked_count)
        return false;
    for (uint32_t i = 0; i < fleet->asked_count; i++) {
        const struct fleet_reply *const name = &reply->items[i];
        if (name->type == REPLY_TEXT)
            fleet_host_read(name->text, name->length, fleet->names[fleet->asked[i]].name);
    }
    return true;
}

const char *fleet_hosts_name(const struct fleet *fleet, uint64_t host)
{
    static char unknown[16][17];
    static unsigned int next;
    const uint32_t at = place_of(fleet, host);
    struct text text;

    if (host == 0)
        return "";
    if (host == fleet->number && fleet->host_name[0] != '\0')
        return fleet->host_name;
    if (at < FLEET_NAMES && fleet->names[at].name[0] != '\0')
        return fleet->names[at].name;
    next = (next + 1) % 16;
    text_start(&text, unknown[next], sizeof unknown[next]);
    text_add_hex(&text, host, 16);
    return unknown[next];
}
