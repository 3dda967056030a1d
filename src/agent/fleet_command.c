/*
 * fleet_command.c - the commands that a member sends. See fleet_command.h.
 *
 * All keys of one fleet have one hash tag, so that a proxy before several servers keeps them together. Each key has a
 * life: nothing stays in Redis that nobody renews.
 */
#include "agent/fleet_command.h"

#include <string.h>

#include "agent/fleet_words.h"
#include "base/text.h"

/* A reply's tag: what it is to, and of which circuit. */
#define TAG_KIND 16u
_Static_assert(FLEET_CIRCUITS <= 1u << TAG_KIND, "a number fits");

/* Compares and deletes. Where scripts are forbidden the lease ends by itself. */
static const char give_back[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

/* A command under construction: its words lie in the fleet's scratch, one behind the other. */
struct command {
    struct fleet *fleet;
    struct text text;
    const char *words[FLEET_ARGUMENTS];
    size_t lengths[FLEET_ARGUMENTS];
    unsigned int count;
};

static void command_start(struct command *command, struct fleet *fleet)
{
    command->fleet = fleet;
    command->count = 0;
    text_start(&command->text, fleet->scratch, sizeof fleet->scratch);
}

/* What was added to the text since the last word is one. */
static void word_ends(struct command *command)
{
    const struct text *const text = &command->text;
    const char *const begin =
        command->count > 0 ? command->words[command->count - 1] + command->lengths[command->count - 1] : text->at;

    if (command->count == FLEET_ARGUMENTS) {
        command->text.cut = true;
        return;
    }
    command->words[command->count] = begin;
    command->lengths[command->count++] = (size_t)(text->at + text->length - begin);
}

static void word(struct command *command, const char *word)
{
    text_add(&command->text, word);
    word_ends(command);
}

static void number(struct command *command, uint64_t number)
{
    text_add_unsigned(&command->text, number);
    word_ends(command);
}

/* "sockfuse:1:{FLEET}:KIND", and ":CIRCUIT". */
static void key(struct command *command, const char *kind, const struct fleet_circuit *circuit)
{
    text_add(&command->text, "sockfuse:1:{");
    text_add(&command->text, command->fleet->name);
    text_add(&command->text, "}:");
    text_add(&command->text, kind);
    if (circuit != NULL) {
        text_add(&command->text, ":");
        text_add(&command->text, circuit->name);
    }
    word_ends(command);
}

/* Each word has its room by FLEET_ARGUMENTS and FLEET_KEY_MAX; nothing that was cut is ever sent. */
static void command_send(struct command *command, enum fleet_command_kind kind, uint32_t of)
{
    struct fleet *fleet = command->fleet;

    if (command->text.cut)
        return;
    fleet->awaited++;
    fleet->commands++;
    fleet->way.send(fleet->way.context, &(struct fleet_command){.tag = (uint32_t)kind << TAG_KIND | of,
                                                                .count = command->count,
                                                                .words = command->words,
                                                                .lengths = command->lengths});
}

static void write_of(struct command *command, const struct fleet_circuit *circuit)
{
    command_send(command, COMMAND_WRITE, fleet_number(command->fleet, circuit));
}

uint64_t fleet_server_ms(const struct fleet *fleet, uint64_t at_ns)
{
    return fleet->server_ms + (at_ns > fleet->server_at_ns ? (at_ns - fleet->server_at_ns) / NS_PER_MS : 0);
}

/* What stands in sets ends between now and the latest that anybody may have said; else it is over, or was never said. */
static void bounds(struct command *command, uint64_t lasts_ns, uint64_t now_ns)
{
    const uint64_t now_ms = fleet_server_ms(command->fleet, now_ns);

    number(command, now_ms + 1);
    number(command, now_ms + 2 * lasts_ns / NS_PER_MS);
}

void fleet_ask_time(struct fleet *fleet)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "TIME");
    command_send(&command, COMMAND_TIME, 0);
}

void fleet_ask_list(struct fleet *fleet, enum fleet_command_kind kind, uint64_t now_ns)
{
    const bool open = kind == COMMAND_OPEN_LIST;
    struct command command;

    command_start(&command, fleet);
    word(&command, "ZRANGEBYSCORE");
    key(&command, open ? "open" : "trouble", NULL);
    bounds(&command, open ? FLEET_OPEN_NS : FLEET_VOTE_NS, now_ns);
    word(&command, "WITHSCORES");
    word(&command, "LIMIT");
    number(&command, 0);
    number(&command, FLEET_LISTED_MAX);
    command_send(&command, kind, 0);
}

void fleet_ask_circuits(struct fleet *fleet, uint32_t from, uint32_t count)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "MGET");
    for (uint32_t i = from; i < from + count; i++) {
        const struct fleet_circuit *circuit = &fleet->circuits[fleet->reading[i]];
        key(&command, "pause", circuit);
        key(&command, "lease", circuit);
        key(&command, "healed", circuit);
    }
    command_send(&command, COMMAND_READ, from);
}

/* A member of a sorted set, which stands there for `lasts_ns`. */
static void say_in_set(struct fleet *fleet, const char *set, const struct fleet_circuit *of, const char *member,
                       uint64_t lasts_ns, uint64_t now_ns)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "ZADD");
    key(&command, set, of);
    number(&command, fleet_server_ms(fleet, now_ns) + lasts_ns / NS_PER_MS);
    word(&command, member);
    command_send(&command, COMMAND_WRITE, 0);
}

static void take_from_set(struct fleet *fleet, const char *set, const struct fleet_circuit *of, const char *member)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "ZREM");
    key(&command, set, of);
    word(&command, member);
    command_send(&command, COMMAND_WRITE, 0);
}

/* The set lives on; what is over in it, or was never said by one of us, goes. */
static void keep_set(struct fleet *fleet, const char *set, const struct fleet_circuit *of, uint64_t now_ns)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "PEXPIRE");
    key(&command, set, of);
    number(&command, FLEET_KEYS_NS / NS_PER_MS);
    command_send(&command, COMMAND_WRITE, 0);
    command_start(&command, fleet);
    word(&command, "ZREMRANGEBYSCORE");
    key(&command, set, of);
    word(&command, "-inf");
    number(&command, fleet_server_ms(fleet, now_ns));
    command_send(&command, COMMAND_WRITE, 0);
}

static void count_set(struct fleet *fleet, enum fleet_command_kind kind, const char *set,
                      const struct fleet_circuit *circuit, uint64_t lasts_ns, uint64_t now_ns)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "ZCOUNT");
    key(&command, set, circuit);
    bounds(&command, lasts_ns, now_ns);
    command_send(&command, kind, fleet_number(fleet, circuit));
}

static bool is_kept(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->kept_ns != 0 && now_ns - circuit->kept_ns < FLEET_KEYS_NS / 2;
}

void fleet_say_vote(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    const bool is_shared = circuit->seen.quorum == 0;

    say_in_set(fleet, "votes", circuit, fleet->host, FLEET_VOTE_NS, now_ns);
    if (is_shared)
        say_in_set(fleet, "trouble", NULL, circuit->name, FLEET_VOTE_NS, now_ns);
    if (is_kept(circuit, now_ns))
        return;
    keep_set(fleet, "votes", circuit, now_ns);
    if (is_shared)
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

void fleet_say_open(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    struct command command;

    say_in_set(fleet, "open", NULL, circuit->name, FLEET_OPEN_NS, now_ns);
    keep_set(fleet, "open", NULL, now_ns);
    command_start(&command, fleet);
    word(&command, "GET");
    key(&command, "healed", circuit);
    command_send(&command, COMMAND_HEALED, fleet_number(fleet, circuit));
}

void fleet_say_open_no_more(struct fleet *fleet, const struct fleet_circuit *circuit)
{
    take_from_set(fleet, "open", NULL, circuit->name);
}

void fleet_say_pause(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t length_ns, uint64_t end_ns,
                     bool only_new, uint64_t now_ns)
{
    const uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
    struct command command;
    char value[FLEET_VALUE_MAX];

    fleet_value_write(value, false, length_ns / NS_PER_MS, fleet_server_ms(fleet, now_ns) + left_ns / NS_PER_MS);
    command_start(&command, fleet);
    word(&command, "SET");
    key(&command, "pause", circuit);
    word(&command, value);
    word(&command, "PX");
    number(&command, (left_ns + FLEET_PAUSE_KEPT_NS) / NS_PER_MS);
    if (only_new)
        word(&command, "NX");
    write_of(&command, circuit);
}

void fleet_ask_lease(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t lasts_ns, uint64_t now_ns)
{
    struct command command;
    char value[FLEET_VALUE_MAX];

    fleet_value_write(value, true, circuit->token, fleet_server_ms(fleet, now_ns) + lasts_ns / NS_PER_MS);
    command_start(&command, fleet);
    word(&command, "SET");
    key(&command, "lease", circuit);
    word(&command, value);
    word(&command, "NX");
    word(&command, "PX");
    number(&command, lasts_ns / NS_PER_MS);
    write_of(&command, circuit);
    command_start(&command, fleet);
    word(&command, "GET");
    key(&command, "lease", circuit);
    command_send(&command, COMMAND_LEASE, fleet_number(fleet, circuit));
}

void fleet_give_lease_back(struct fleet *fleet, const struct fleet_circuit *circuit)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "EVAL");
    word(&command, give_back);
    number(&command, 1);
    key(&command, "lease", circuit);
    word(&command, circuit->lease_text);
    command_send(&command, COMMAND_OPTIONAL, fleet_number(fleet, circuit));
}

/* First what others go by, then what only speeds them up: whoever dies in between has healed it all the same. */
void fleet_say_healed(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t token, uint64_t ago_ns,
                      uint64_t now_ns)
{
    struct command command;
    char value[FLEET_VALUE_MAX];

    fleet_value_write(value, true, token, fleet_server_ms(fleet, now_ns) - ago_ns / NS_PER_MS);
    command_start(&command, fleet);
    word(&command, "SET");
    key(&command, "healed", circuit);
    word(&command, value);
    word(&command, "PX");
    number(&command, (FLEET_HEALED_NS - ago_ns) / NS_PER_MS);
    write_of(&command, circuit);
    command_start(&command, fleet);
    word(&command, "DEL");
    key(&command, "votes", circuit);
    key(&command, "pause", circuit);
    write_of(&command, circuit);
    fleet_say_open_no_more(fleet, circuit);
}

void fleet_tell_change(struct fleet *fleet)
{
    struct command command;

    command_start(&command, fleet);
    word(&command, "PUBLISH");
    key(&command, "changes", NULL);
    word(&command, "look");
    command_send(&command, COMMAND_OPTIONAL, 0);
}
