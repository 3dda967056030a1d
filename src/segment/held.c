/*
 * held.c - an agent's hold in a circuit's entry. See held.h.
 */
#include "segment/held.h"

#include <stddef.h>

/* The entry's word: the end above, enum hold in the two bits below. Any bit pattern can be taken apart. */
#define WORD_BITS 2u
#define END_MAX ((UINT64_C(1) << (64 - WORD_BITS)) - 1)
_Static_assert(HOLDS <= 1u << WORD_BITS, "a hold fits");

uint64_t held_pack(struct held held)
{
    return held.hold != HOLD_NONE && held.end_ns <= END_MAX ? held.end_ns << WORD_BITS | (uint64_t)held.hold : 0;
}

struct held held_unpack(uint64_t word, uint64_t now_ns)
{
    const struct held none = {HOLD_NONE, 0};
    const uint64_t hold = word & ((1u << WORD_BITS) - 1), end_ns = word >> WORD_BITS;

    if (hold == HOLD_NONE || hold >= HOLDS || now_ns >= end_ns || end_ns - now_ns > HOLD_AHEAD_MAX_NS)
        return none;
    return (struct held){(enum hold)hold, end_ns};
}

enum hold held_ended(uint64_t word, uint64_t now_ns, uint64_t *ago_ns)
{
    const uint64_t hold = word & ((1u << WORD_BITS) - 1), end_ns = word >> WORD_BITS;

    if (hold == HOLD_NONE || hold >= HOLDS || now_ns < end_ns)
        return HOLD_NONE;
    *ago_ns = now_ns - end_ns;
    return (enum hold)hold;
}

const char *held_name(unsigned int hold)
{
    return hold == HOLD_FLEET ? "fleet" : hold == HOLD_UNPROBED ? "unprobed" : NULL;
}

const char *hold_reason_name(unsigned int reason)
{
    static const char *const names[HOLD_REASONS] = {
        [HOLD_REASON_NONE] = "none",          [HOLD_CHECK_FAILED] = "check-failed",
        [HOLD_CHECK_PASSED] = "check-passed", [HOLD_PATIENCE_OVER] = "patience-over",
        [HOLD_FLEET_OPEN] = "fleet-open",     [HOLD_FLEET_PROBE] = "fleet-probe",
        [HOLD_FLEET_CLOSED] = "fleet-closed", [HOLD_GIVEN_UP] = "given-up",
        [HOLD_RAN_OUT] = "ran-out",
    };

    return reason < HOLD_REASONS ? names[reason] : "unknown";
}

const char *hold_reason_words(unsigned int reason)
{
    static const char *const words[HOLD_REASONS] = {
        [HOLD_REASON_NONE] = "the agent said so",
        [HOLD_CHECK_FAILED] = "its health check fails",
        [HOLD_CHECK_PASSED] = "its health check passes",
        [HOLD_PATIENCE_OVER] = "its health check fails, but the patience with that is over",
        [HOLD_FLEET_OPEN] = "open in the fleet",
        [HOLD_FLEET_PROBE] = "one host probes for the fleet",
        [HOLD_FLEET_CLOSED] = "not open in the fleet any more",
        [HOLD_GIVEN_UP] = "the agent has no more to say",
        [HOLD_RAN_OUT] = "the agent did not say it again",
    };

    return words[reason < HOLD_REASONS ? reason : HOLD_REASON_NONE];
}
