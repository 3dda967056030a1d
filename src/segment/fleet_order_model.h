/*
 * fleet_order_model.h - orders for a fleet, and words of it that were obeyed, as they lie in the segment (fleet_order.h).
 */
#ifndef SOCKFUSE_SEGMENT_FLEET_ORDER_MODEL_H
#define SOCKFUSE_SEGMENT_FLEET_ORDER_MODEL_H

#include <stdint.h>

#include "base/units.h"
#include "policy/policy_model.h"
#include "segment/event.h"
#include "segment/fleet_shown.h"

#define FLEET_ORDERS 8u
#define FLEET_OBEYED 128u
/* An order that no agent has taken for so long is not taken any more. */
#define FLEET_ORDER_FRESH_NS (10 * NS_PER_S)

struct fleet_order {
    uint64_t token;    /* drawn by chance; never 0 */
    uint64_t asked_ns; /* circuits' clock */
    uint64_t for_ns;   /* 0: without an end */
    uint32_t word;     /* enum forced; FORCED_NONE: by its own rules again */
    uint32_t reserved;
    char user[PROGRAM_NAME_MAX];
    char target[TARGET_NAME_MAX];
    char destination[DESTINATION_MAX];
};
_Static_assert(sizeof(struct fleet_order) % 8 == 0, "the same in 32 and 64 bit");

/* Values are stored: append only. */
enum fleet_order_state { FLEET_ORDER_NONE, FLEET_ORDER_SAID, FLEET_ORDER_FAILED, FLEET_ORDER_STATES };

struct fleet_answer {
    uint64_t token;
    uint32_t state;   /* enum fleet_order_state */
    uint32_t hosts;   /* whose agents are there; 0: not known */
    uint32_t obeying; /* on so many it holds by now */
    uint32_t reserved;
    char trouble[200]; /* FAILED: why */
};
_Static_assert(sizeof(struct fleet_answer) == 224, "the same in 32 and 64 bit");

struct fleet_obeyed {
    uint64_t key;    /* circuits_key; 0: a free place */
    uint64_t token;  /* of the word */
    uint64_t at_ns;  /* circuits' clock */
    uint64_t forced; /* as it stood in the circuit's entry then (segment/forced.h) */
    char user[PROGRAM_NAME_MAX];
    char host[FLEET_SHOWN_NAME];
    uint32_t reserved;
};
_Static_assert(sizeof(struct fleet_obeyed) == 120, "the same in 32 and 64 bit");

#endif
