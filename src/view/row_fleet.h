/*
 * row_fleet.h - what is known of a circuit in its fleet, and of the fleet as a whole: as this host's agent has left it in
 * the segment.
 *
 * It is of the present only while the agent says it again and its link to Redis stands; else it is shown as old.
 */
#ifndef SOCKFUSE_VIEW_ROW_FLEET_H
#define SOCKFUSE_VIEW_ROW_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy_model.h"
#include "segment/fleet_board.h"
#include "segment/fleet_order.h"
#include "segment/forced.h"
#include "view/json.h"

struct row_fleet {
    bool is_known; /* something is told of it now */
    struct fleet_shown shown;
    bool is_forced; /* the operator's word that holds here is one for the fleet */
    struct fleet_obeyed obeyed;
};

/* Of a circuit that is forced, as its entry has it: whether that is by a word for the fleet. */
void row_fleet_read_forced(struct row_fleet *fleet, const struct segment *segment, const char *target,
                           const char *destination, struct force force);
void row_fleet_read(struct row_fleet *fleet, const struct segment *segment, const char *target, const char *destination,
                    uint64_t now_ns);
/* The member `fleet`: an object, or null where the target is in no fleet. */
void row_fleet_json(struct json *json, const struct row_fleet *fleet, const struct target *target, uint64_t now_ns);

/* Of the whole. False: no agent ever told anything, or what stands there can't be. */
bool fleet_link_read(const struct segment *segment, uint64_t now_ns, struct fleet_head *head);
/* Whether all is well with it. */
bool fleet_link_is_well(const struct segment *segment, uint64_t now_ns);
/* The member `fleet_link`: an object, or null where no target of the policy is in a fleet. */
void fleet_link_json(struct json *json, const struct segment *segment, bool is_wanted, uint64_t now_ns);

#endif
