/*
 * fleet_order.h - an operator's word for all hosts of a fleet: how a command gives it to this host's agent, what the agent
 * answers, and which of the fleet's words this host has obeyed.
 *
 * A command writes an order into one of a few places, in turn, and waits for the answer behind it; the agent that looks
 * after the segment takes those that are fresh. So whoever may force a circuit here may do so in the fleet of its user, and
 * needs no way to Redis of his own. What was obeyed is kept by the circuit's key, so that a word is obeyed once: what an
 * operator says on this host afterwards stands. Texts are anybody's who may write the segment: they end, and are to be
 * escaped. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_FLEET_ORDER_H
#define SOCKFUSE_SEGMENT_FLEET_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/fleet_order_model.h"

struct segment;

/* A command gives an order; returns its place. */
uint32_t fleet_order_give(const struct segment *segment, const struct fleet_order *order);
/* For the agent: the order in a place, if one is there that was given lately. */
bool fleet_order_read(const struct segment *segment, uint32_t place, uint64_t now_ns, struct fleet_order *order);
/* The agent answers; and what was answered last in that place. */
void fleet_order_answer(const struct segment *segment, uint32_t place, const struct fleet_answer *answer);
bool fleet_order_answered(const struct segment *segment, uint32_t place, struct fleet_answer *answer);

/* The last word of the fleet that was obeyed for a circuit; false: none is known. The agent alone writes it. */
bool fleet_obeyed_find(const struct segment *segment, uint64_t key, struct fleet_obeyed *obeyed);
void fleet_obeyed_put(const struct segment *segment, const struct fleet_obeyed *obeyed);

#endif
