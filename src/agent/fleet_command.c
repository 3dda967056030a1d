/*
 * fleet_command.c - the commands that a member sends. See fleet_command.h.
 *
 * All keys of one fleet have one hash tag, so that a proxy before several servers keeps them together. Each key has a
 * life: nothing stays in Redis that nobody renews.
 */
#include "agent/fleet_command.h"

#include <string.h>

#include "agent/fleet_wording.h"
#include "agent/fleet_words.h"

/* Compares and deletes. Where scripts are forbidden the lease ends by itself. */
static const char give_back[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

static void write_of(struct wording *command, const struct fleet_circuit *circuit)
{
    wording_send(command, COMMAND_WRITE, fleet_number(command->fleet, circuit));
}

uint64_t fleet_server_ms(const struct fleet *fleet, uint64_t at_ns)
{
    return fleet->server_ms + (at_ns > fleet->server_at_ns ? (at_ns - fleet->server_at_ns) / NS_PER_MS : 0);
}

/* What stands in sets ends between now and the latest that anybody may have said; else it is over, or was never said. */
static void bounds(struct wording *command, uint64_t lasts_ns, uint64_t now_ns)
{
    const uint64_t now_ms = fleet_server_ms(command->fleet, now_ns);

    wording_number(command, now_ms + 1);
    wording_number(command, now_ms + 2 * lasts_ns / NS_PER_MS);
}

void fleet_ask_time(struct fleet *fleet)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "TIME");
    wording_send(&command, COMMAND_TIME, 0);
}

void fleet_ask_list(struct fleet *fleet, enum fleet_command_kind kind, uint64_t now_ns)
{
    const bool open = kind == COMMAND_OPEN_LIST;
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZRANGEBYSCORE");
    wording_key(&command, open ? "open" : "trouble", NULL);
    bounds(&command, open ? FLEET_OPEN_NS : FLEET_VOTE_NS, now_ns);
    wording_word(&command, "WITHSCORES");
    wording_word(&command, "LIMIT");
    wording_number(&command, 0);
    wording_number(&command, FLEET_LISTED_MAX);
    wording_send(&command, kind, 0);
}

void fleet_ask_circuits(struct fleet *fleet, uint32_t from, uint32_t count)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "MGET");
    for (uint32_t i = from; i < from + count; i++) {
        const struct fleet_circuit *circuit = &fleet->circuits[fleet->reading[i]];
        wording_key(&command, "pause", circuit);
        wording_key(&command, "lease", circuit);
        wording_key(&command, "healed", circuit);
    }
    wording_send(&command, COMMAND_READ, from);
}

/* A member of a sorted set, which stands there for `lasts_ns`. */
static void say_in_set(struct fleet *fleet, const char *set, const struct fleet_circuit *of, const char *member,
                       uint64_t lasts_ns, uint64_t now_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZADD");
    wording_key(&command, set, of);
    wording_number(&command, fleet_server_ms(fleet, now_ns) + lasts_ns / NS_PER_MS);
    wording_word(&command, member);
    wording_send(&command, COMMAND_WRITE, 0);
}

static void take_from_set(struct fleet *fleet, const char *set, const struct fleet_circuit *of, const char *member)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZREM");
    wording_key(&command, set, of);
    wording_word(&command, member);
    wording_send(&command, COMMAND_WRITE, 0);
}

/* The set lives on; what is over in it, or was never said by one of us, goes. */
static void keep_set(struct fleet *fleet, const char *set, const struct fleet_circuit *of, uint64_t now_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "PEXPIRE");
    wording_key(&command, set, of);
    wording_number(&command, FLEET_KEYS_NS / NS_PER_MS);
    wording_send(&command, COMMAND_WRITE, 0);
    wording_start(&command, fleet);
    wording_word(&command, "ZREMRANGEBYSCORE");
    wording_key(&command, set, of);
    wording_word(&command, "-inf");
    wording_number(&command, fleet_server_ms(fleet, now_ns));
    wording_send(&command, COMMAND_WRITE, 0);
}

static void count_set(struct fleet *fleet, enum fleet_command_kind kind, const char *set,
                      const struct fleet_circuit *circuit, uint64_t lasts_ns, uint64_t now_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZCOUNT");
    wording_key(&command, set, circuit);
    bounds(&command, lasts_ns, now_ns);
    wording_send(&command, kind, fleet_number(fleet, circuit));
}

static bool is_kept(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->kept_ns != 0 && now_ns - circuit->kept_ns < FLEET_KEYS_NS / 2;
}

void fleet_say_vote(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    say_in_set(fleet, "votes", circuit, fleet->host, FLEET_VOTE_NS, now_ns);
    say_in_set(fleet, "trouble", NULL, circuit->name, FLEET_VOTE_NS, now_ns);
    if (is_kept(circuit, now_ns))
        return;
    keep_set(fleet, "votes", circuit, now_ns);
    keep_set(fleet, "trouble", NULL, now_ns);
    circuit->kept_ns = now_ns;
}

void fleet_say_note(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    say_in_set(fleet, "callers", circuit, fleet->host, FLEET_CALLED_NS, now_ns);
    keep_set(fleet, "callers", circuit, now_ns);
    circuit->noted_ns = now_ns;
}

void fleet_take_vote_back(struct fleet *fleet, struct fleet_circuit *circuit)
{
    take_from_set(fleet, "votes", circuit, fleet->host);
}

void fleet_count_votes(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    count_set(fleet, COMMAND_COUNT_VOTES, "votes", circuit, FLEET_VOTE_NS, now_ns);
}

void fleet_count_callers(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    count_set(fleet, COMMAND_COUNT_CALLERS, "callers", circuit, FLEET_CALLED_NS, now_ns);
}

void fleet_ask_voters(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZRANGEBYSCORE");
    wording_key(&command, "votes", circuit);
    bounds(&command, FLEET_VOTE_NS, now_ns);
    wording_word(&command, "WITHSCORES");
    wording_word(&command, "LIMIT");
    wording_number(&command, 0);
    wording_number(&command, FLEET_VOTERS_SHOWN);
    wording_send(&command, COMMAND_VOTERS, fleet_number(fleet, circuit));
    count_set(fleet, COMMAND_COUNT_VOTERS, "votes", circuit, FLEET_VOTE_NS, now_ns);
}

static void name_key(struct wording *command, const char *host)
{
    wording_key_begins(command, "name:");
    text_add(&command->text, host);
    wording_ends(command);
}

void fleet_say_here(struct fleet *fleet, bool with_name, uint64_t now_ns)
{
    struct wording command;

    say_in_set(fleet, "hosts", NULL, fleet->host, FLEET_HERE_LASTS_NS, now_ns);
    if (!with_name)
        return;
    keep_set(fleet, "hosts", NULL, now_ns);
    wording_start(&command, fleet);
    wording_word(&command, "SET");
    name_key(&command, fleet->host);
    wording_word(&command, fleet->host_name);
    wording_word(&command, "PX");
    wording_number(&command, FLEET_KEYS_NS / NS_PER_MS);
    wording_send(&command, COMMAND_WRITE, 0);
}

void fleet_count_hosts(struct fleet *fleet, uint64_t now_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZCOUNT");
    wording_key(&command, "hosts", NULL);
    bounds(&command, FLEET_HERE_LASTS_NS, now_ns);
    wording_send(&command, COMMAND_COUNT_HOSTS, 0);
}

void fleet_ask_names(struct fleet *fleet)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "MGET");
    for (uint32_t i = 0; i < fleet->asked_count; i++) {
        char host[17];
        struct text text;
        text_start(&text, host, sizeof host);
        text_add_hex(&text, fleet->names[fleet->asked[i]].host, 16);
        name_key(&command, host);
    }
    wording_send(&command, COMMAND_NAMES, 0);
}

void fleet_say_open(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    struct wording command;

    say_in_set(fleet, "open", NULL, circuit->name, FLEET_OPEN_NS, now_ns);
    keep_set(fleet, "open", NULL, now_ns);
    wording_start(&command, fleet);
    wording_word(&command, "GET");
    wording_key(&command, "healed", circuit);
    wording_send(&command, COMMAND_HEALED, fleet_number(fleet, circuit));
}

void fleet_say_open_no_more(struct fleet *fleet, const struct fleet_circuit *circuit)
{
    take_from_set(fleet, "open", NULL, circuit->name);
}

void fleet_say_pause(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t length_ns, uint64_t end_ns,
                     bool only_new, uint64_t now_ns)
{
    const uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
    struct wording command;
    char value[FLEET_VALUE_MAX];

    fleet_value_write(value, false, length_ns / NS_PER_MS, fleet_server_ms(fleet, now_ns) + left_ns / NS_PER_MS);
    wording_start(&command, fleet);
    wording_word(&command, "SET");
    wording_key(&command, "pause", circuit);
    wording_word(&command, value);
    wording_word(&command, "PX");
    wording_number(&command, (left_ns + FLEET_PAUSE_KEPT_NS) / NS_PER_MS);
    if (only_new)
        wording_word(&command, "NX");
    write_of(&command, circuit);
}

/* A token and a time, and whose they are. */
static void value_by_host(const struct fleet *fleet, char value[FLEET_VALUE_MAX], uint64_t token, uint64_t at_ms)
{
    size_t length;

    fleet_value_write(value, true, token, at_ms);
    length = strlen(value);
    value[length] = ' ';
    memcpy(value + length + 1, fleet->host, sizeof fleet->host);
}

void fleet_ask_lease(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t lasts_ns, uint64_t now_ns)
{
    struct wording command;
    char value[FLEET_VALUE_MAX];

    value_by_host(fleet, value, circuit->token, fleet_server_ms(fleet, now_ns) + lasts_ns / NS_PER_MS);
    wording_start(&command, fleet);
    wording_word(&command, "SET");
    wording_key(&command, "lease", circuit);
    wording_word(&command, value);
    wording_word(&command, "NX");
    wording_word(&command, "PX");
    wording_number(&command, lasts_ns / NS_PER_MS);
    write_of(&command, circuit);
    wording_start(&command, fleet);
    wording_word(&command, "GET");
    wording_key(&command, "lease", circuit);
    wording_send(&command, COMMAND_LEASE, fleet_number(fleet, circuit));
}

void fleet_give_lease_back(struct fleet *fleet, const struct fleet_circuit *circuit)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "EVAL");
    wording_word(&command, give_back);
    wording_number(&command, 1);
    wording_key(&command, "lease", circuit);
    wording_word(&command, circuit->lease_text);
    wording_send(&command, COMMAND_OPTIONAL, fleet_number(fleet, circuit));
}

/* First what others go by, then what only speeds them up: whoever dies in between has healed it all the same. */
void fleet_say_healed(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t token, uint64_t ago_ns,
                      uint64_t now_ns)
{
    struct wording command;
    char value[FLEET_VALUE_MAX];

    value_by_host(fleet, value, token, fleet_server_ms(fleet, now_ns) - ago_ns / NS_PER_MS);
    wording_start(&command, fleet);
    wording_word(&command, "SET");
    wording_key(&command, "healed", circuit);
    wording_word(&command, value);
    wording_word(&command, "PX");
    wording_number(&command, (FLEET_HEALED_NS - ago_ns) / NS_PER_MS);
    write_of(&command, circuit);
    wording_start(&command, fleet);
    wording_word(&command, "DEL");
    wording_key(&command, "votes", circuit);
    wording_key(&command, "pause", circuit);
    write_of(&command, circuit);
    fleet_say_open_no_more(fleet, circuit);
}

void fleet_tell_change(struct fleet *fleet)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "PUBLISH");
    wording_key(&command, "changes", NULL);
    wording_word(&command, "look");
    wording_send(&command, COMMAND_OPTIONAL, 0);
}
