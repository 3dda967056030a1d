/*
 * measured.c - see measured.h.
 */
#include "connection/measured.h"

#include <stdatomic.h>

#include "base/hot.h"
#include "guard/guard.h"

#define TICK_BITS 24
#define IN_A_TICK 32u

static _Atomic uint64_t present; /* roots of this file alone: a tick:56 | how many were measured in it:8, */
static _Atomic uint32_t drawn;   /* and what the last one drew */

HOT uint32_t measured_attempt(uint64_t real_ns)
{
    const uint64_t tick = real_ns >> TICK_BITS;
    uint64_t word = atomic_load_explicit(&present, memory_order_relaxed);
    if (word >> 8 != tick)
        word = tick << 8;
    if ((word & UINT8_MAX) < IN_A_TICK) {
        atomic_store_explicit(&present, word + 1, memory_order_relaxed);
        return 1;
    }
    const uint32_t draw = atomic_load_explicit(&drawn, memory_order_relaxed) * 1664525u + 1013904223u;
    atomic_store_explicit(&drawn, draw, memory_order_relaxed);
    return draw / (UINT32_MAX / MEASURED_OF_MANY + 1) == 0 ? MEASURED_OF_MANY : 0;
}
