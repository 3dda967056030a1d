/*
 * owners.h - whether the owners of records live: asked seldom, and remembered for all processes.
 *
 * To ask costs system calls. So each owner is asked about once a second at the most, whoever asks (a probe's holder,
 * for whose sake all others are refused, a hundred times a second); in between it lives, as it did then. Who finds one
 * dead takes its slot away, so that nobody asks again, and lets its records be looked for (dead_owners.h). Private to
 * src/guard. Async-signal-safe.
 */
#ifndef SOCKFUSE_GUARD_OWNERS_H
#define SOCKFUSE_GUARD_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment_model.h"

/* How many owners one wrapper may ask about. */
#define OWNERS_ASKED 4u

/* What the asker may still ask. */
struct asking {
    uint32_t left;
    bool about_lease; /* a probe's holder is asked about more often: its lease is free at once when it is dead */
    uint64_t real_ns;
};

enum owner_life { OWNER_LIVES, OWNER_IS_DEAD, OWNER_UNASKED };

/* OWNER_UNASKED: it would have to be asked, and nothing is left. System calls only when it is asked. */
enum owner_life owner_ask(struct segment *segment, uint32_t holder, struct asking *asking);

/* Asks about the processes whose turn it is, but `self`: as many as may be asked; a few places at the most. */
void owners_ask_some(struct segment *segment, uint32_t self, struct asking *asking);

#endif
