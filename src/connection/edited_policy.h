/*
 * edited_policy.h - an edited policy is taken into a running process.
 *
 * Asked before each connect and, once in a tick of the clock, before a request on a kept connection (and after each
 * look-up of a name), at the price of two loads. When an operator has handed over another policy, one thread reads it,
 * without malloc and stdio, and publishes it with one pointer; the others go on with the old one meanwhile, and so do
 * calls that were begun under it: it is given back (policy_keeping.h) when none is left. Anything wrong with the new
 * one, and the old one stays. Async-signal-safe; system calls only for a new policy.
 */
#ifndef SOCKFUSE_CONNECTION_EDITED_POLICY_H
#define SOCKFUSE_CONNECTION_EDITED_POLICY_H

#include "connection/engine.h"

void edited_policy_take(uint32_t number);

static inline void edited_policy_look(void)
{
    struct station *station = atomic_load_explicit(&engine.host, memory_order_acquire);
    if (!station || !station->reloads)
        return;
    uint32_t number = atomic_load_explicit(station->reloads, memory_order_relaxed);
    if (__builtin_expect(number != atomic_load_explicit(&station->reloads_seen, memory_order_relaxed), 0))
        edited_policy_take(number);
}

#endif
