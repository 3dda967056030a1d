/*
 * forced.c - an operator's word in a circuit's entry. See forced.h.
 */
#include "segment/forced.h"

#include <stddef.h>

/* The entry's word: the end above, enum forced in the two bits below. Any bit pattern can be taken apart. */
#define WORD_BITS 2u
_Static_assert(FORCED_WORDS <= 1u << WORD_BITS, "a word fits");

uint64_t forced_pack(struct force force)
{
    uint64_t end_ns = force.end_ns <= FORCE_END_MAX ? force.end_ns : 0;

    return force.word != FORCED_NONE ? end_ns << WORD_BITS | (uint64_t)force.word : 0;
}

struct force forced_unpack(uint64_t word, uint64_t now_ns)
{
    const struct force none = {FORCED_NONE, 0};
    uint64_t forced = word & ((1u << WORD_BITS) - 1), end_ns = word >> WORD_BITS;

    if (forced == FORCED_NONE || forced >= FORCED_WORDS || (end_ns != 0 && now_ns >= end_ns))
        return none;
    return (struct force){(enum forced)forced, end_ns};
}

bool force_holds(uint64_t word, uint64_t now_ns)
{
    return forced_unpack(word, now_ns).word != FORCED_NONE;
}

const char *forced_name(unsigned int forced)
{
    return forced == FORCED_OPEN ? "open" : forced == FORCED_CLOSED ? "closed" : NULL;
}
