/*
 * fleet_spoken.c - operators' words for all hosts of a fleet.
 *
 * A word is kept in Redis with its end; one without an end lives on while hosts renew it. Each host reads it there, the one
 * that has said it too, and obeys what it read: the reply to what was said decides nothing. What Redis has lost, those say
 * again that saw it there, but never over another one. What it is known to have no more is over.
 */
#include <string.h>

#include "agent/fleet_command.h"
#include "agent/fleet_round.h"
#include "agent/fleet_words.h"
#include "base/text.h"

/* Words that are read in one round. */
#define READ_AT_ONCE 16u
#define SERVER_MS_MAX (UINT64_C(1) << 48)

/* --- as a text --- */

static char kind_letter(enum forced word)
{
    return word == FORCED_OPEN ? 'o' : word == FORCED_CLOSED ? 'c' : 'a';
}

static void spoken_write(struct fleet_spoken *spoken)
{
    struct text text;

    text_start(&text, spoken->text, sizeof spoken->text);
    text_add_hex(&text, spoken->token, 16);
    text_add(&text, " ");
    text_add_unsigned(&text, spoken->said_ms);
    text_add(&text, " ");
    text_add_unsigned(&text, spoken->end_ms);
    text_add(&text, " ");
    text_add_byte(&text, kind_letter(spoken->word));
    text_add(&text, " ");
    text_add(&text, spoken->host[0] != '\0' ? spoken->host : "?");
    text_add(&text, " ");
    text_add(&text, spoken->user);
}

/* The next word of a text, and what is behind the blank after it. */
static bool next_word(const char **at, const char **word, size_t *length)
{
    const char *const blank = strchr(*at, ' ');

    if (blank == NULL || blank == *at)
        return false;
    *word = *at;
    *length = (size_t)(blank - *at);
    *at = blank + 1;
    return true;
}

/* Of plain bytes and blanks alone; what is none of them becomes `?`. */
static void plain_copy(char *to, size_t size, const char *from)
{
    size_t length = 0;

    for (; from[length] != '\0' && length + 1 < size; length++)
        to[length] = from[length] < ' ' || from[length] > '~' ? '?' : from[length];
    to[length] = '\0';
}

static bool spoken_read(struct fleet_spoken *spoken, const struct fleet_reply *reply)
{
    const char *at = spoken->text, *word;
    size_t length;

    if (reply->type != REPLY_TEXT || reply->length >= sizeof spoken->text ||
        memchr(reply->text, '\0', reply->length) != NULL)
        return false;
    memcpy(spoken->text, reply->text, reply->length);
    spoken->text[reply->length] = '\0';
    if (!next_word(&at, &word, &length) || (spoken->token = fleet_host_number(word, length)) == 0 ||
        !next_word(&at, &word, &length) || !fleet_number_read(word, length, SERVER_MS_MAX, &spoken->said_ms) ||
        !next_word(&at, &word, &length) || !fleet_number_read(word, length, SERVER_MS_MAX, &spoken->end_ms) ||
        !next_word(&at, &word, &length) || length != 1 || strchr("oca", *word) == NULL)
        return false;
    spoken->word = *word == 'o' ? FORCED_OPEN : *word == 'c' ? FORCED_CLOSED : FORCED_NONE;
    if (!next_word(&at, &word, &length) || strlen(at) >= sizeof spoken->user)
        return false;
    fleet_host_read(word, length, spoken->host);
    plain_copy(spoken->user, sizeof spoken->user, at);
    return true;
}

/* --- what is said here --- */

const char *fleet_say_word(struct fleet *fleet, const char *target, const char *destination,
                           const struct fleet_word *word, uint64_t for_ns)
{
    struct fleet_saying *saying = NULL;
    uint32_t circuit;

    for (unsigned int i = 0; i < FLEET_SAYINGS && saying == NULL; i++)
        saying = fleet->sayings[i].token == 0 ? &fleet->sayings[i] : NULL;
    if (!fleet->is_connected || !fleet->time_known)
        return fleet->trouble[0] != '\0' ? fleet->trouble : "the fleet's Redis can't be reached";
    if (saying == NULL)
        return "more at a time than can be said";
    circuit = fleet_place(fleet, target, destination, UINT32_MAX);
    if (circuit == FLEET_CIRCUIT_NONE)
        return "the agent has no place for one more circuit of this fleet";
    *saying = (struct fleet_saying){.token = word->token, .circuit = circuit};
    saying->spoken.token = word->token;
    saying->spoken.word = word->word;
    saying->spoken.end_ms = for_ns; /* until it is said */
    plain_copy(saying->spoken.user, sizeof saying->spoken.user, word->user);
    memcpy(saying->spoken.host, fleet->host_name, sizeof saying->spoken.host);
    fleet->circuits[circuit].spoken.is_wanted = true; /* it keeps its place */
    fleet->is_nudged = true;
    return NULL;
}

struct fleet_obedience fleet_word_obedience(const struct fleet *fleet, uint64_t token)
{
    for (unsigned int i = 0; i < FLEET_SAYINGS; i++) {
        const struct fleet_saying *const saying = &fleet->sayings[i];
        if (saying->token == token && token != 0)
            return (struct fleet_obedience){
                .is_said = true,
                .hosts = fleet->hosts != 0 && fleet->hosts < saying->obeying ? saying->obeying : fleet->hosts,
                .obeying = saying->obeying};
    }
    return (struct fleet_obedience){.is_said = false};
}

static void say(struct fleet *fleet, struct fleet_saying *saying, uint64_t now_ns)
{
    struct fleet_circuit *const circuit = fleet_at(fleet, saying->circuit);
    struct fleet_spoken *const spoken = &saying->spoken;
    const uint64_t for_ms = spoken->end_ms / NS_PER_MS;

    if (circuit == NULL) {
        saying->token = 0;
        return;
    }
    spoken->said_ms = fleet_server_ms(fleet, now_ns);
    spoken->end_ms = for_ms > 0 ? spoken->said_ms + for_ms : 0;
    if (spoken->word == FORCED_NONE)
        spoken->end_ms = spoken->said_ms + FLEET_WORD_KEPT_NS / NS_PER_MS; /* for who was away */
    spoken_write(spoken);
    fleet_say_spoken(fleet, circuit, spoken, false, now_ns);
    fleet_tell_change(fleet);
    saying->is_said = true;
    saying->said_ns = now_ns;
    fleet->hosts_ns = 0;
    circuit->spoken.is_wanted = true;
}

static void sayings_turn(struct fleet *fleet, uint64_t now_ns)
{
    for (uint32_t i = 0; i < FLEET_SAYINGS; i++) {
        struct fleet_saying *const saying = &fleet->sayings[i];
        if (saying->token == 0)
            continue;
        if (!saying->is_said) {
            say(fleet, saying, now_ns);
        } else if (now_ns - saying->said_ns >= FLEET_OBEYING_NS / 2) {
            saying->token = 0;
            continue;
        }
        if (saying->token != 0)
            fleet_count_obeying(fleet, i, now_ns);
    }
}

void fleet_spoken_end(struct fleet *fleet)
{
    memset(fleet->sayings, 0, sizeof fleet->sayings);
    fleet->words_ns = fleet->words_since_ns = 0;
    fleet->words_listed = false;
}

/* --- what Redis has --- */

static bool has_sayings(const struct fleet *fleet)
{
    for (unsigned int i = 0; i < FLEET_SAYINGS; i++) {
        if (fleet->sayings[i].token != 0)
            return true;
    }
    return false;
}

bool fleet_spoken_asks(struct fleet *fleet, uint64_t now_ns)
{
    fleet->words_listed =
        fleet->words_ns == 0 || fleet->is_nudged || now_ns - fleet->words_ns >= FLEET_WORDS_NS || has_sayings(fleet);
    if (!fleet->words_listed)
        return false;
    fleet->words_ns = now_ns;
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++)
        fleet->circuits[i].spoken.is_listed = false;
    return true;
}

void fleet_spoken_take_item(struct fleet_circuit *circuit, uint64_t score, uint64_t now_ns)
{
    struct fleet_spoken *const spoken = &circuit->spoken;

    spoken->is_listed = true;
    if (spoken->score != score)
        spoken->is_wanted = true;
    else
        spoken->seen_ns = now_ns;
    spoken->score = score;
}

void fleet_spoken_take(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *reply,
                       uint64_t now_ns)
{
    struct fleet_spoken *const spoken = &circuit->spoken;
    struct fleet_spoken now = {0};

    if (reply->type == REPLY_NIL) {
        spoken->is_listed = false; /* and is said again if it was known */
        spoken->score = 0;
        return;
    }
    const uint64_t server_ms = fleet_server_ms(fleet, now_ns);
    if (!spoken_read(&now, reply) || (now.end_ms != 0 && now.end_ms <= server_ms)) {
        spoken->token = 0;
        return;
    }
    const uint64_t left_ms = now.end_ms != 0 ? now.end_ms - server_ms : 0, most_ms = FLEET_WORD_MAX_NS / NS_PER_MS;
    now.end_ns = now.end_ms != 0 ? now_ns + (left_ms < most_ms ? left_ms : most_ms) * NS_PER_MS : 0;
    now.score = spoken->score;
    now.seen_ns = now_ns;
    now.is_listed = spoken->is_listed;
    now.obeyed = spoken->obeyed;
    now.told = spoken->told;
    now.news = spoken->news;
    *spoken = now;
}

/* Redis has lost it, and it was there not long ago. */
static bool is_lost(const struct fleet_spoken *spoken, uint64_t now_ns)
{
    return !spoken->is_listed && spoken->token != 0 && now_ns - spoken->seen_ns < FLEET_WORD_KEPT_NS / 2;
}

static void look_at_word(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    struct fleet_spoken *const spoken = &circuit->spoken;
    const uint64_t server_ms = fleet_server_ms(fleet, now_ns);

    if (spoken->token != 0 && spoken->end_ms != 0 && spoken->end_ms <= server_ms)
        spoken->token = 0;
    if (fleet->words_listed && !spoken->is_wanted && is_lost(spoken, now_ns)) {
        fleet_say_spoken(fleet, circuit, spoken, true, now_ns);
        spoken->is_wanted = spoken->is_listed = true;
    } else if (fleet->words_listed && !spoken->is_listed && !spoken->is_wanted) {
        spoken->token = 0;
    } else if (spoken->is_listed && spoken->token != 0 && spoken->end_ms == 0 &&
               spoken->score < server_ms + FLEET_WORD_KEPT_NS / NS_PER_MS / 2) {
        fleet_keep_spoken(fleet, circuit, now_ns);
        spoken->score = server_ms + FLEET_WORD_KEPT_NS / NS_PER_MS;
    }
    if (!circuit->here && spoken->token != 0 && spoken->word == FORCED_NONE)
        spoken->obeyed = spoken->token; /* what is not here goes by no word */
    /* Who asks how many obey has no use of what comes later. */
    if (spoken->token != 0 && spoken->obeyed == spoken->token && spoken->told != spoken->token) {
        spoken->told = spoken->token;
        if (server_ms < spoken->said_ms + FLEET_OBEYING_NS / NS_PER_MS)
            fleet_say_obeyed(fleet, spoken->token, now_ns);
    }
}

void fleet_spoken_turn(struct fleet *fleet, uint64_t now_ns)
{
    unsigned int asked = 0, listed = 0;

    sayings_turn(fleet, now_ns);
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *const circuit = &fleet->circuits[i];
        if (circuit->name[0] == '\0')
            continue;
        look_at_word(fleet, circuit, now_ns);
        listed += circuit->spoken.is_listed;
        if (!circuit->spoken.is_wanted || asked == READ_AT_ONCE)
            continue;
        asked++;
        circuit->spoken.is_wanted = false;
        fleet_ask_word(fleet, circuit);
    }
    if (!fleet->words_listed)
        return;
    if (listed >= FLEET_WORDS)
        fleet->words_since_ns = 0; /* there may be others */
    else if (fleet->words_since_ns == 0)
        fleet->words_since_ns = now_ns;
}

struct fleet_word fleet_word(const struct fleet *fleet, uint32_t number, uint64_t now_ns)
{
    const struct fleet_circuit *const circuit = fleet_at((struct fleet *)(uintptr_t)fleet, number);

    if (circuit == NULL || circuit->spoken.token == 0 ||
        (circuit->spoken.end_ns != 0 && circuit->spoken.end_ns <= now_ns))
        return (struct fleet_word){.token = 0};
    return (struct fleet_word){
        .token = circuit->spoken.token,
        .word = circuit->spoken.word,
        .end_ns = circuit->spoken.end_ns,
        .user = circuit->spoken.user,
        .host = circuit->spoken.host,
    };
}

bool fleet_has_no_word(const struct fleet *fleet, uint32_t number, uint64_t now_ns)
{
    const struct fleet_circuit *const circuit = fleet_at((struct fleet *)(uintptr_t)fleet, number);

    return circuit != NULL && circuit->spoken.token == 0 && !circuit->spoken.is_listed && !circuit->spoken.is_wanted &&
           fleet->is_connected && fleet->words_since_ns != 0 && now_ns - fleet->words_since_ns >= FLEET_WORD_GRACE_NS;
}

void fleet_word_obeyed(struct fleet *fleet, uint32_t number, uint64_t token)
{
    struct fleet_circuit *const circuit = fleet_at(fleet, number);

    if (circuit == NULL || circuit->spoken.obeyed == token)
        return;
    circuit->spoken.obeyed = token;
    fleet->is_nudged = true;
}
