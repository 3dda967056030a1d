/*
 * fleet_answers.c - what a fleet's Redis answered, taken apart. See fleet.h.
 *
 * It may be anything: of another program, of an enemy, cut short, huge. What is no answer ends the connection; what is one
 * is bounded before it is kept: how many circuits are listed, how far ahead a lease or a pause ends.
 */
#include <string.h>

#include "agent/fleet_command.h"
#include "agent/fleet_round.h"
#include "agent/fleet_words.h"
#include "base/text.h"

#define ELSEWHERE_MAX (FLEET_CIRCUITS / 2)
_Static_assert(ELSEWHERE_MAX >= FLEET_LISTED_MAX, "all of a list has room");

/* For messages: what the server said of it, or what we say. */
static void fail(struct fleet *fleet, const struct fleet_reply *reply, const char *words)
{
    char said[sizeof fleet->trouble];
    struct text text;

    fleet->has_failed = true;
    text_start(&text, fleet->trouble, sizeof fleet->trouble);
    if (reply->type != REPLY_ERROR) {
        text_add(&text, words);
        return;
    }
    const size_t length = reply->length < sizeof said ? reply->length : sizeof said - 1;
    memcpy(said, reply->text, length);
    said[length] = '\0';
    text_add_printable(&text, said);
}

/* A time of the server's as one of ours. What is past is now. */
static uint64_t ours_ns(const struct fleet *fleet, uint64_t server_ms, uint64_t most_ns)
{
    const uint64_t ahead_ms = server_ms > fleet->server_ms ? server_ms - fleet->server_ms : 0;

    return fleet->server_at_ns + (ahead_ms < most_ns / NS_PER_MS ? ahead_ms * NS_PER_MS : most_ns);
}

static void take_time(struct fleet *fleet, const struct fleet_reply *reply, uint64_t now_ns)
{
    if (!fleet_time_read(reply, &fleet->server_ms)) {
        fail(fleet, reply, "it does not tell the time");
        return;
    }
    fleet->server_at_ns = now_ns;
    fleet->time_known = true;
}

/* A circuit that others have open, by its name; this host need not have it. Whatever they list, its own have room. */
static struct fleet_circuit *listed_circuit(struct fleet *fleet, const struct fleet_reply *name)
{
    char text[FLEET_CIRCUIT_MAX];
    char *const end =
        name->type == REPLY_TEXT && name->length < sizeof text ? memchr(name->text, '\n', name->length) : NULL;

    if (end == NULL || memchr(name->text, '\0', name->length) != NULL)
        return NULL;
    memcpy(text, name->text, name->length);
    text[name->length] = '\0';
    text[end - name->text] = '\0';
    return fleet_at(fleet, fleet_place(fleet, text, text + (end - name->text) + 1, ELSEWHERE_MAX));
}

static void take_list(struct fleet *fleet, enum fleet_command_kind kind, const struct fleet_reply *reply,
                      uint64_t now_ns)
{
    const uint64_t most = 2 * (size_t)(kind == COMMAND_WORD_LIST ? FLEET_WORDS : FLEET_LISTED_MAX);
    struct fleet_circuit *circuit;
    uint64_t until_ms;

    if (reply->type != REPLY_LIST || reply->count > most || reply->count % 2 != 0) {
        fail(fleet, reply, "it answers what is no list of circuits");
        return;
    }
    for (size_t i = 0; i < reply->count; i += 2) {
        const struct fleet_reply *const score = &reply->items[i + 1];
        if (score->type != REPLY_TEXT || !fleet_number_read(score->text, score->length, UINT64_C(1) << 52, &until_ms) ||
            (circuit = listed_circuit(fleet, &reply->items[i])) == NULL)
            continue;
        if (kind == COMMAND_TROUBLE_LIST) {
            circuit->troubled = true;
            continue;
        }
        if (kind == COMMAND_WORD_LIST) {
            fleet_spoken_take_item(circuit, until_ms, now_ns);
            continue;
        }
        circuit->listed = true;
        circuit->listed_until_ms = until_ms;
    }
}

/* A pause is known until FLEET_PAUSE_KEPT after its end. */
static bool is_missed(const struct fleet_circuit *circuit, uint64_t now_ns)
{
    return circuit->pause_end_ns != 0 && now_ns < circuit->pause_end_ns + FLEET_PAUSE_KEPT_NS / 2;
}

static void take_pause(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *reply)
{
    const uint64_t most_ns = circuit->seen.pause_max_ns;
    uint64_t length_ms, end_ms;

    if (fleet_value_read(reply, false, &length_ms, &end_ms)) {
        circuit->pause_length_ns = length_ms < most_ns / NS_PER_MS ? length_ms * NS_PER_MS : most_ns;
        circuit->pause_end_ns = ours_ns(fleet, end_ms, most_ns);
    } else {
        circuit->pause_end_ns = circuit->pause_length_ns = 0;
    }
}

static void take_lease(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *reply)
{
    uint64_t token, end_ms;

    circuit->lease = reply->type == REPLY_NIL ? LEASE_FREE : LEASE_OTHERS;
    circuit->lease_text[0] = '\0';
    circuit->lease_token = 0;
    if (!fleet_value_read(reply, true, &token, &end_ms))
        return; /* what is no lease of ours keeps it: it ends, or nothing goes on */
    circuit->lease_token = token;
    circuit->prober = fleet_value_host(reply);
    circuit->lease_end_ns = ours_ns(fleet, end_ms, FLEET_LEASE_MAX_NS);
    if (token != circuit->token)
        return;
    circuit->lease = LEASE_MINE;
    memcpy(circuit->lease_text, reply->text, reply->length);
    circuit->lease_text[reply->length] = '\0';
}

/* Whether it is another one than was known. */
static bool take_healed(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *reply)
{
    uint64_t token, at_ms;

    if (!fleet_value_read(reply, true, &token, &at_ms) || token == circuit->healed.token)
        return false;
    circuit->healer = fleet_value_host(reply);
    const uint64_t ago_ms = fleet->server_ms > at_ms ? fleet->server_ms - at_ms : 0;
    const uint64_t ago_ns = ago_ms < FLEET_HEALED_NS / NS_PER_MS ? ago_ms * NS_PER_MS : FLEET_HEALED_NS;
    circuit->healed = (struct fleet_heal){
        .token = token,
        .at_ns = fleet->server_at_ns > ago_ns ? fleet->server_at_ns - ago_ns : 0,
    };
    return true;
}

/*
 * Three words of a circuit. Where its pause is gone before its time, and no healing has taken it away, Redis has forgotten
 * it (emptied, restarted, short of memory), and the lease with it: then what was known holds on, and the pause is said
 * again.
 */
static void take_circuit(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *said,
                         uint64_t now_ns)
{
    const bool is_healed = take_healed(fleet, circuit, &said[2]);
    const bool is_forgotten = !is_healed && said[0].type == REPLY_NIL && is_missed(circuit, now_ns);
    const bool was_others = circuit->lease == LEASE_OTHERS && circuit->lease_end_ns > now_ns;

    if (is_healed) {
        circuit->listed = false; /* that was read before */
        circuit->open_until_ns = 0;
    }
    take_lease(fleet, circuit, &said[1]);
    if (!is_forgotten) {
        take_pause(fleet, circuit, &said[0]);
        return;
    }
    if (circuit->lease == LEASE_FREE && was_others)
        circuit->lease = LEASE_OTHERS;
    fleet_say_pause(fleet, circuit, circuit->pause_length_ns, circuit->pause_end_ns, true, now_ns);
}

static void take_circuits(struct fleet *fleet, uint32_t from, const struct fleet_reply *reply, uint64_t now_ns)
{
    const uint32_t left = from < fleet->reading_count ? fleet->reading_count - from : 0;
    const uint32_t count = left < FLEET_READ_AT_ONCE ? left : FLEET_READ_AT_ONCE;

    if (reply->type != REPLY_LIST || reply->count != 3 * (size_t)count) {
        fail(fleet, reply, "it answers what it was not asked");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct fleet_circuit *circuit = fleet_at(fleet, fleet->reading[from + i]);
        if (circuit != NULL)
            take_circuit(fleet, circuit, &reply->items[3 * (size_t)i], now_ns);
    }
}

static void take_count(struct fleet *fleet, uint64_t *count, const struct fleet_reply *reply)
{
    if (reply->type != REPLY_NUMBER || reply->number < 0) {
        fail(fleet, reply, "it does not count");
        return;
    }
    *count = reply->number < UINT32_MAX ? (uint64_t)reply->number : UINT32_MAX;
}

/* Fewer than before: some have gone, or Redis has forgotten; this host says again that it is there. */
static void take_hosts(struct fleet *fleet, const struct fleet_reply *reply)
{
    const uint64_t before = fleet->hosts;

    take_count(fleet, &fleet->hosts, reply);
    if (fleet->hosts < before || fleet->hosts == 0)
        fleet->here_ns = fleet->named_ns = 0;
}

/* A healing that came between the count and the announcement: what was counted is of before. */
static void take_late_healing(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *reply)
{
    if (reply->type == REPLY_ERROR) {
        fail(fleet, reply, "");
    } else if (take_healed(fleet, circuit, reply)) {
        circuit->open_until_ns = 0;
        fleet_say_open_no_more(fleet, circuit);
    }
}

static void take(struct fleet *fleet, enum fleet_command_kind kind, uint32_t of, const struct fleet_reply *reply,
                 uint64_t now_ns)
{
    struct fleet_circuit *circuit = fleet_at(fleet, of);

    switch (kind) {
    case COMMAND_OPTIONAL:
        return;
    case COMMAND_WRITE:
        if (reply->type == REPLY_ERROR)
            fail(fleet, reply, "");
        return;
    case COMMAND_TIME:
        take_time(fleet, reply, now_ns);
        return;
    case COMMAND_OPEN_LIST:
    case COMMAND_TROUBLE_LIST:
    case COMMAND_WORD_LIST:
        take_list(fleet, kind, reply, now_ns);
        return;
    case COMMAND_NAMES:
        if (!fleet_hosts_take_names(fleet, reply))
            fail(fleet, reply, "it answers what it was not asked");
        return;
    case COMMAND_OBEYING:
        if (of < FLEET_SAYINGS)
            take_count(fleet, &fleet->sayings[of].obeying, reply);
        return;
    case COMMAND_COUNT_HOSTS:
        take_hosts(fleet, reply);
        return;
    case COMMAND_READ:
        take_circuits(fleet, of, reply, now_ns);
        return;
    default:
        break;
    }
    if (kind == COMMAND_CLAIM)
        fleet_claim_take(fleet, of, reply);
    if (circuit == NULL || kind == COMMAND_CLAIM)
        return;
    if (kind == COMMAND_COUNT_VOTES)
        take_count(fleet, &circuit->votes, reply);
    else if (kind == COMMAND_COUNT_VOTERS) {
        take_count(fleet, &circuit->voters_all, reply);
        circuit->voters_seen_ns = now_ns;
    } else if (kind == COMMAND_COUNT_CALLERS)
        take_count(fleet, &circuit->callers, reply);
    else if (kind == COMMAND_VOTERS) {
        if (!fleet_hosts_take_voters(circuit, reply))
            fail(fleet, reply, "it answers what is no list of hosts");
    } else if (kind == COMMAND_WORD && reply->type != REPLY_ERROR) {
        fleet_spoken_take(fleet, circuit, reply, now_ns);
    } else if (kind == COMMAND_HEALED)
        take_late_healing(fleet, circuit, reply);
    else if (reply->type == REPLY_ERROR)
        fail(fleet, reply, "");
    else {
        take_lease(fleet, circuit, reply);
        fleet_probe_begins(fleet, circuit, now_ns);
    }
}

void fleet_answer(struct fleet *fleet, uint32_t tag, const struct fleet_reply *reply, uint64_t now_ns)
{
    if (!fleet->is_connected || fleet->has_failed || fleet->awaited == 0)
        return;
    fleet->awaited--;
    take(fleet, (enum fleet_command_kind)(tag >> COMMAND_KIND_AT), tag & ((1u << COMMAND_KIND_AT) - 1), reply, now_ns);
    if (!fleet->has_failed && fleet->awaited == 0)
        fleet_stage_ends(fleet, now_ns);
}
