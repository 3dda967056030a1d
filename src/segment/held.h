/*
 * held.h - what the agent says of a circuit, as it lies in the segment: a hold and when it ends.
 *
 * A hold ends by itself, soon: who says it says it again while it is so. So an agent that was killed, or sleeps, keeps
 * nothing as it was. Setting and obeying it is the guard's (guard/holding.h). Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_HELD_H
#define SOCKFUSE_SEGMENT_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* Values are stored in shared memory: append only. */
enum hold {
    HOLD_NONE = 0,
    HOLD_FLEET,    /* every call is refused: other hosts have it open */
    HOLD_UNPROBED, /* an open circuit whose pause is over is not probed: its health check fails */
    HOLDS
};

/* No end lies further ahead: one that does is corrupt, or another clock's, and is no hold. */
#define HOLD_AHEAD_MAX_NS (60 * NS_PER_S)

struct held {
    enum hold hold;
    uint64_t end_ns; /* circuits' clock: AT it the hold holds no more */
};

/* What stands in a circuit's entry for it, and what of that holds now. Any bit pattern can be taken apart. */
uint64_t held_pack(struct held held);
struct held held_unpack(uint64_t word, uint64_t now_ns);
/* What was over at `now_ns`, and so long ago; HOLD_NONE: it holds, or it was none that can be believed. */
enum hold held_ended(uint64_t word, uint64_t now_ns, uint64_t *ago_ns);

/* "fleet", "unprobed"; NULL: not held. */
const char *held_name(unsigned int hold);

/* Why a hold begins or ends, or a pause does. Values are stored in shared memory: append only. */
enum hold_reason {
    HOLD_REASON_NONE = 0,
    HOLD_CHECK_FAILED,  /* unprobed: the health check fails */
    HOLD_CHECK_PASSED,  /* it passes: the pause is over with the hold */
    HOLD_PATIENCE_OVER, /* it fails for so long that programs' calls are to find out */
    HOLD_FLEET_OPEN,    /* enough other hosts have it open */
    HOLD_FLEET_PROBE,   /* this host is to probe for all */
    HOLD_FLEET_CLOSED,  /* it is open in the fleet no more */
    HOLD_GIVEN_UP,      /* who held it has nothing to say any more: it ended, or the policy changed */
    HOLD_RAN_OUT,       /* nobody said it again in time */
    HOLD_REASONS
};

/* "check-failed", "fleet-open", … */
const char *hold_reason_name(unsigned int reason);
/* The same for people. */
const char *hold_reason_words(unsigned int reason);

#endif
