/*
 * fleet_spoken_command.c - the commands by which operators' words go from host to host. See fleet_command.h.
 *
 *     words           circuits for which there is one; a member's score is when it ends, or is forgotten unless renewed
 *     word:CIRCUIT    TOKEN SAID END WORD HOST USER
 *     obeys:TOKEN     hosts that obey it
 */
#include "agent/fleet_command.h"
#include "agent/fleet_wording.h"

/* When it ends, or is forgotten. */
static uint64_t life_ms(const struct fleet *fleet, const struct fleet_spoken *spoken, uint64_t now_ns)
{
    const uint64_t now_ms = fleet_server_ms(fleet, now_ns);

    if (spoken->end_ms == 0)
        return FLEET_WORD_KEPT_NS / NS_PER_MS;
    return spoken->end_ms > now_ms ? spoken->end_ms - now_ms : 1;
}

void fleet_ask_words(struct fleet *fleet, uint64_t now_ns)
{
    const uint64_t now_ms = fleet_server_ms(fleet, now_ns);
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZRANGEBYSCORE");
    wording_key(&command, "words", NULL);
    wording_number(&command, now_ms + 1);
    wording_number(&command, now_ms + FLEET_WORD_MAX_NS / NS_PER_MS);
    wording_word(&command, "WITHSCORES");
    wording_word(&command, "LIMIT");
    wording_number(&command, 0);
    wording_number(&command, FLEET_WORDS);
    wording_send(&command, COMMAND_WORD_LIST, 0);
}

void fleet_ask_word(struct fleet *fleet, const struct fleet_circuit *circuit)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "GET");
    wording_key(&command, "word", circuit);
    wording_send(&command, COMMAND_WORD, fleet_number(fleet, circuit));
}

/* The list lives as long as what is in it; what is over in it goes. */
static void list_word(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t lasts_ms, uint64_t now_ns)
{
    const uint64_t kept_ms = FLEET_WORD_KEPT_NS / NS_PER_MS;
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZADD");
    wording_key(&command, "words", NULL);
    wording_number(&command, fleet_server_ms(fleet, now_ns) + lasts_ms);
    wording_word(&command, circuit->name);
    wording_send(&command, COMMAND_WRITE, 0);
    wording_start(&command, fleet);
    wording_word(&command, "PEXPIRE");
    wording_key(&command, "words", NULL);
    wording_number(&command, lasts_ms > kept_ms ? lasts_ms : kept_ms);
    wording_send(&command, COMMAND_WRITE, 0);
    wording_start(&command, fleet);
    wording_word(&command, "ZREMRANGEBYSCORE");
    wording_key(&command, "words", NULL);
    wording_word(&command, "-inf");
    wording_number(&command, fleet_server_ms(fleet, now_ns));
    wording_send(&command, COMMAND_WRITE, 0);
}

void fleet_say_spoken(struct fleet *fleet, const struct fleet_circuit *circuit, const struct fleet_spoken *spoken,
                      bool only_new, uint64_t now_ns)
{
    const uint64_t lasts_ms = life_ms(fleet, spoken, now_ns);
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "SET");
    wording_key(&command, "word", circuit);
    wording_word(&command, spoken->text);
    wording_word(&command, "PX");
    wording_number(&command, lasts_ms);
    if (only_new)
        wording_word(&command, "NX");
    wording_send(&command, COMMAND_WRITE, 0);
    list_word(fleet, circuit, lasts_ms, now_ns);
}

void fleet_keep_spoken(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns)
{
    const uint64_t lasts_ms = life_ms(fleet, &circuit->spoken, now_ns);
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "PEXPIRE");
    wording_key(&command, "word", circuit);
    wording_number(&command, lasts_ms);
    wording_send(&command, COMMAND_WRITE, 0);
    list_word(fleet, circuit, lasts_ms, now_ns);
}

static void obeying_key(struct wording *command, uint64_t token)
{
    wording_key_begins(command, "obeys:");
    text_add_hex(&command->text, token, 16);
    wording_ends(command);
}

void fleet_say_obeyed(struct fleet *fleet, uint64_t token, uint64_t now_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZADD");
    obeying_key(&command, token);
    wording_number(&command, fleet_server_ms(fleet, now_ns) + FLEET_OBEYING_NS / NS_PER_MS);
    wording_word(&command, fleet->host);
    wording_send(&command, COMMAND_WRITE, 0);
    wording_start(&command, fleet);
    wording_word(&command, "PEXPIRE");
    obeying_key(&command, token);
    wording_number(&command, FLEET_OBEYING_NS / NS_PER_MS);
    wording_send(&command, COMMAND_WRITE, 0);
}

void fleet_count_obeying(struct fleet *fleet, uint32_t saying, uint64_t now_ns)
{
    const uint64_t now_ms = fleet_server_ms(fleet, now_ns);
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "ZCOUNT");
    obeying_key(&command, fleet->sayings[saying].token);
    wording_number(&command, now_ms);
    wording_number(&command, now_ms + 2 * FLEET_OBEYING_NS / NS_PER_MS);
    wording_send(&command, COMMAND_OBEYING, saying);
}
