/*
 * circuit_reset.c - a circuit's place goes to another destination.
 *
 * Places are few and memory is fixed, so a circuit that is well and unused may become another one. Who still holds a
 * ticket of the former finds another generation. No clock, no lock; the caller has seen to it that no call is in
 * flight.
 */
#include <stdatomic.h>

#include "breaker/circuit.h"
#include "breaker/word.h"

void circuit_reset(struct circuit *circuit)
{
    struct word fresh = {.state = CIRCUIT_CLOSED, .generation = serial_draw(circuit, WORD_CLOSED_GENERATION_BITS)};

    /* Relaxed stores: the caller publishes the circuit anew. The serial goes on: it is what makes old tickets late. */
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++)
        atomic_store_explicit(&circuit->leases[slot].token, 0, memory_order_relaxed);
    for (unsigned int place = CIRCUIT_ADDRESSES; place-- > 0;) { /* backwards: behind a free place there is nothing */
        atomic_store_explicit(&circuit->addresses[place].key, 0, memory_order_relaxed);
        atomic_store_explicit(&circuit->addresses[place].failed_sequence, 0, memory_order_relaxed);
        atomic_store_explicit(&circuit->addresses[place].answered_sequence, 0, memory_order_relaxed);
    }
    for (unsigned int shard = 0; shard < COUNTER_SHARDS; shard++) {
        for (unsigned int counter = 0; counter < COUNTERS; counter++)
            atomic_store_explicit(&circuit->counters.shard[shard][counter], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&circuit->state_since_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&circuit->pause_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&circuit->not_before_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&circuit->overrun_generation, 0, memory_order_relaxed);
    atomic_store_explicit(&circuit->recent_kinds, 0, memory_order_relaxed);
    atomic_store_explicit(&circuit->word, word_pack(fresh), memory_order_release);
}
