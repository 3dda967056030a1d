/*
 * fleet_claims.c - which host tells of what all see: a claim that one of them has, for as long as that is one matter.
 *
 * As with the lease, who has it is read from Redis, and not from what the command answered. A claim to an opening is for a
 * minute, so that a host whose cable is broken does not silence the others for as long as it is; while the circuit is open
 * in the fleet those that vote have it live on. A closing ends it, and the other way round, so that a second outage is
 * told of again.
 */
#include <string.h>

#include "agent/fleet_round.h"
#include "agent/fleet_wording.h"
#include "agent/fleet_words.h"

/* --- what is said --- */

static void claim_key(struct wording *command, const char *event, const char *circuit)
{
    wording_key_begins(command, "alert:");
    text_add(&command->text, event);
    text_add(&command->text, ":");
    text_add(&command->text, circuit);
    wording_ends(command);
}

static void ask_claim(struct fleet *fleet, uint32_t number)
{
    const struct fleet_claiming *const claim = &fleet->claims[number];
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "SET");
    claim_key(&command, claim->event, claim->circuit);
    text_add(&command.text, fleet->host);
    text_add(&command.text, " ");
    text_add(&command.text, fleet->host_name);
    wording_ends(&command);
    wording_word(&command, "NX");
    wording_word(&command, "PX");
    wording_number(&command, claim->lasts_ns / NS_PER_MS);
    wording_send(&command, COMMAND_WRITE, 0);
    wording_start(&command, fleet);
    wording_word(&command, "GET");
    claim_key(&command, claim->event, claim->circuit);
    wording_send(&command, COMMAND_CLAIM, number);
}

static void drop_claim(struct fleet *fleet, const char *event, const char *circuit)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "DEL");
    claim_key(&command, event, circuit);
    wording_send(&command, COMMAND_WRITE, 0);
}

static void renew_claim(struct fleet *fleet, const char *event, const char *circuit, uint64_t lasts_ns)
{
    struct wording command;

    wording_start(&command, fleet);
    wording_word(&command, "PEXPIRE");
    claim_key(&command, event, circuit);
    wording_number(&command, lasts_ns / NS_PER_MS);
    wording_send(&command, COMMAND_WRITE, 0);
}

/* --- who asks --- */

static void say(struct fleet_claiming *claim, enum fleet_claim what, const char *word)
{
    fleet_claim_answer *const answer = claim->answer;

    claim->answer = NULL;
    answer(claim->context, &(struct fleet_claimed){.claim = what, .word = word});
}

void fleet_claim(struct fleet *fleet, const char *target, const char *destination, const char *event, uint64_t lasts_ns,
                 fleet_claim_answer *answer, void *context)
{
    struct fleet_claiming *claim = NULL;
    struct text text;

    for (unsigned int i = 0; i < FLEET_CLAIMS && claim == NULL; i++)
        claim = fleet->claims[i].answer == NULL ? &fleet->claims[i] : NULL;
    if (!fleet->is_connected || claim == NULL) {
        const char *const why = claim == NULL            ? "more at a time than can be asked"
                                : fleet->trouble[0] != 0 ? fleet->trouble
                                                         : "the fleet's Redis can't be reached";
        answer(context, &(struct fleet_claimed){.claim = CLAIM_ALONE, .word = why});
        return;
    }
    *claim = (struct fleet_claiming){.answer = answer, .context = context};
    claim->lasts_ns = strcmp(event, "open") == 0 ? FLEET_CLAIM_NS : lasts_ns > NS_PER_MS ? lasts_ns : NS_PER_MS;
    text_start(&text, claim->event, sizeof claim->event);
    text_add(&text, event);
    text_start(&text, claim->circuit, sizeof claim->circuit);
    text_add(&text, target);
    text_add(&text, "\n");
    text_add(&text, destination);
    fleet->is_nudged = true;
}

static struct fleet_circuit *circuit_of(struct fleet *fleet, const struct fleet_claiming *claim)
{
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        if (strcmp(fleet->circuits[i].name, claim->circuit) == 0)
            return &fleet->circuits[i];
    }
    return NULL;
}

void fleet_claims_turn(struct fleet *fleet, uint64_t now_ns)
{
    for (uint32_t i = 0; i < FLEET_CLAIMS; i++) {
        struct fleet_claiming *claim = &fleet->claims[i];
        if (claim->answer == NULL || claim->is_asked)
            continue;
        struct fleet_circuit *circuit = circuit_of(fleet, claim);
        if (circuit != NULL && strcmp(claim->event, "open") == 0)
            circuit->claimed_ns = now_ns;
        claim->is_asked = true;
        ask_claim(fleet, i);
    }
    for (uint32_t i = 0; i < FLEET_CIRCUITS; i++) {
        struct fleet_circuit *circuit = &fleet->circuits[i];
        if (!circuit->tells || circuit->seen.state != CIRCUIT_CLOSED || fleet_is_open(circuit, now_ns))
            continue;
        circuit->tells = false;
        circuit->claimed_ns = 0;
        drop_claim(fleet, "open", circuit->name);
    }
}

void fleet_claim_keep(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns)
{
    if (circuit->claimed_ns == 0 || !fleet_is_open(circuit, now_ns) ||
        now_ns - circuit->claimed_ns < FLEET_CLAIM_RENEW_NS)
        return;
    circuit->claimed_ns = now_ns;
    renew_claim(fleet, "open", circuit->name, FLEET_CLAIM_NS);
}

/* The other half of an outage can be claimed anew. */
static void end_other_half(struct fleet *fleet, const struct fleet_claiming *claim)
{
    const bool is_open = strcmp(claim->event, "open") == 0;
    struct fleet_circuit *circuit = circuit_of(fleet, claim);

    if (!is_open && strcmp(claim->event, "close") != 0)
        return;
    drop_claim(fleet, is_open ? "close" : "open", claim->circuit);
    if (circuit != NULL) {
        circuit->tells = is_open;
        circuit->claimed_ns = is_open ? circuit->claimed_ns : 0;
    }
}

/* Who has it: its number, a blank, its name. What is none of ours is nobody's: then it is better told twice than never. */
void fleet_claim_take(struct fleet *fleet, uint32_t number, const struct fleet_reply *reply)
{
    const size_t digits = sizeof fleet->host - 1;
    struct fleet_claiming *claim = number < FLEET_CLAIMS ? &fleet->claims[number] : NULL;
    char name[FLEET_HOST_MAX];

    if (claim == NULL || claim->answer == NULL)
        return;
    if (reply->type != REPLY_TEXT || reply->length < digits + 1 || reply->text[digits] != ' ') {
        say(claim, CLAIM_ALONE, "the fleet's Redis has lost who tells of it");
    } else if (memcmp(reply->text, fleet->host, digits) == 0) {
        end_other_half(fleet, claim);
        say(claim, CLAIM_MINE, "");
    } else {
        fleet_host_read(reply->text + digits + 1, reply->length - digits - 1, name);
        say(claim, CLAIM_OTHERS, name);
    }
}

void fleet_claims_end(struct fleet *fleet, const char *why)
{
    for (uint32_t i = 0; i < FLEET_CLAIMS; i++) {
        if (fleet->claims[i].answer != NULL)
            say(&fleet->claims[i], CLAIM_ALONE, why);
    }
}
