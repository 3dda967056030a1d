/*
 * row_fleet.c - what is known of a circuit in its fleet, and of the fleet. See row_fleet.h.
 */
#include "view/row_fleet.h"

#include "policy/quorum.h"
#include "policy/value.h"
#include "segment/circuits.h"
#include "segment/segment.h"

/* A link that stands, and has not answered for so long, is told of. */
#define FLEET_SILENT_NS (10 * NS_PER_S)

void row_fleet_read(struct row_fleet *fleet, const struct segment *segment, const char *target, const char *destination,
                    uint64_t now_ns)
{
    fleet->is_known = fleet_board_find(segment, circuits_key(target, destination), now_ns, &fleet->shown);
}

void row_fleet_read_forced(struct row_fleet *fleet, const struct segment *segment, const char *target,
                           const char *destination, struct force force)
{
    fleet->is_forced = force.word != FORCED_NONE &&
                       fleet_obeyed_find(segment, circuits_key(target, destination), &fleet->obeyed) &&
                       fleet->obeyed.forced == forced_pack(force);
}

void row_fleet_json(struct json *json, const struct row_fleet *fleet, const struct target *target, uint64_t now_ns)
{
    const struct fleet_shown *const shown = &fleet->shown;
    char quorum[VALUE_TEXT_MAX];
    if (target == NULL || target->scope != SCOPE_FLEET) {
        json_null(json, "fleet");
        return;
    }
    json_open(json, "fleet", '{');
    quorum_format(target->fleet_quorum, quorum, sizeof quorum);
    json_string(json, "quorum", quorum);
    json_bool(json, "known", fleet->is_known);
    if (fleet->is_forced) {
        json_open(json, "forced_by", '{');
        json_string(json, "user", fleet->obeyed.user);
        json_string(json, "host", fleet->obeyed.host);
        json_close(json, '}');
    } else {
        json_null(json, "forced_by");
    }
    if (fleet->is_known) {
        json_unsigned(json, "told_ms_ago", (now_ns - shown->told_ns) / NS_PER_MS);
        json_bool(json, "open", shown->is_open != 0);
        if (shown->seen_ns != 0)
            json_unsigned(json, "votes", shown->votes);
        else
            json_null(json, "votes");
        json_open(json, "hosts", '[');
        for (uint32_t i = 0; i < shown->named; i++)
            json_string(json, NULL, shown->voters[i]);
        json_close(json, ']');
        if (shown->seen_ns != 0)
            json_unsigned(json, "seen_ms_ago", (now_ns - shown->seen_ns) / NS_PER_MS);
        else
            json_null(json, "seen_ms_ago");
        if ((shown->quorum & QUORUM_SHARE) != 0 && shown->callers > 0)
            json_unsigned(json, "callers", shown->callers);
        else
            json_null(json, "callers");
        json_string(json, "probing", shown->prober[0] != '\0' ? shown->prober : NULL);
        json_unsigned(json, "pause_ms", shown->pause_end_ns > now_ns ? (shown->pause_end_ns - now_ns) / NS_PER_MS : 0);
    }
    json_close(json, '}');
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

bool fleet_link_read(const struct segment *segment, uint64_t now_ns, struct fleet_head *head)
{
    return segment->map != NULL && fleet_board_head(segment, now_ns, head);
}

bool fleet_link_is_well(const struct segment *segment, uint64_t now_ns)
{
    struct fleet_head head;
    return fleet_link_read(segment, now_ns, &head) && fleet_board_is_now(head.told_ns, now_ns) &&
           head.link == FLEET_LINK_UP && head.heard_ns != 0 && now_ns - head.heard_ns < FLEET_SILENT_NS;
}

void fleet_link_json(struct json *json, const struct segment *segment, bool is_wanted, uint64_t now_ns)
{
    static const char *const names[FLEET_LINK_STATES] = {
        [FLEET_LINK_NONE] = "none", [FLEET_LINK_UP] = "up", [FLEET_LINK_DOWN] = "down"};
    struct fleet_head head;
    if (!is_wanted) {
        json_null(json, "fleet_link");
        return;
    }
    const bool is_told = fleet_link_read(segment, now_ns, &head),
               is_now = is_told && fleet_board_is_now(head.told_ns, now_ns);
    json_open(json, "fleet_link", '{');
    json_string(json, "redis", is_now ? names[head.link] : "unknown");
    json_bool(json, "well", fleet_link_is_well(segment, now_ns));
    json_string(json, "host", is_now && head.host[0] != '\0' ? head.host : NULL);
    if (is_now && head.link == FLEET_LINK_UP && head.hosts > 0)
        json_unsigned(json, "hosts", head.hosts);
    else
        json_null(json, "hosts");
    if (is_told)
        json_unsigned(json, "told_ms_ago", (now_ns - head.told_ns) / NS_PER_MS);
    else
        json_null(json, "told_ms_ago");
    if (is_told && head.heard_ns != 0)
        json_unsigned(json, "heard_ms_ago", (now_ns - head.heard_ns) / NS_PER_MS);
    else
        json_null(json, "heard_ms_ago");
    json_string(json, "trouble", is_now && head.trouble[0] != '\0' ? head.trouble : NULL);
    json_close(json, '}');
}
