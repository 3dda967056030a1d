/*
 * fleet_shown.h - what an agent tells of the fleet, as it lies in the segment (fleet_board.h).
 */
#ifndef SOCKFUSE_SEGMENT_FLEET_SHOWN_H
#define SOCKFUSE_SEGMENT_FLEET_SHOWN_H

#include <stdint.h>

#include "base/units.h"

#define FLEET_SHOWN 32u
#define FLEET_SHOWN_HOSTS 8u
#define FLEET_SHOWN_NAME 52u
/* An agent tells it again within this, or it is none of the present. */
#define FLEET_TOLD_NS (15 * NS_PER_S)

/* Values are stored: append only. */
enum fleet_link_state { FLEET_LINK_NONE, FLEET_LINK_UP, FLEET_LINK_DOWN, FLEET_LINK_STATES };

/* Of the whole. Times are the circuits' clock. */
struct fleet_head {
    uint64_t told_ns;  /* when it was written; 0: never */
    uint64_t heard_ns; /* when Redis last answered a whole round; 0: not yet */
    uint32_t link;     /* enum fleet_link_state */
    uint32_t hosts;    /* that have said lately that they are there; 0: not known */
    char host[FLEET_SHOWN_NAME];
    char trouble[196]; /* why the link is down; "": not known */
    uint32_t reserved[2];
};
_Static_assert(sizeof(struct fleet_head) == 280, "the same in 32 and 64 bit");

/* Of one circuit. */
struct fleet_shown {
    uint64_t told_ns;      /* as Redis had it then, but for the voters */
    uint64_t key;          /* circuits_key */
    uint64_t pause_end_ns; /* of the fleet; 0: none is known */
    uint64_t seen_ns;      /* when votes and voters were; 0: not yet, and there are none to tell of */
    uint32_t votes;        /* hosts that have it open */
    uint32_t callers;      /* that called it lately, where the quorum is a share */
    uint32_t quorum;       /* as the policy has it (policy/quorum.h) */
    uint8_t is_open, is_ours, reserved[2];
    uint32_t named; /* of the voters */
    uint32_t reserved2;
    char voters[FLEET_SHOWN_HOSTS][FLEET_SHOWN_NAME];
    char prober[FLEET_SHOWN_NAME]; /* who has the lease; "": nobody */
    uint32_t reserved3[9];
};
_Static_assert(sizeof(struct fleet_shown) == 560, "the same in 32 and 64 bit");

#endif
