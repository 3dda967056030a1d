/*
 * deferred.h - failures whose judgement waits for what the program does next.
 *
 * A name has two addresses, the first is dead, nothing is known of the second: a program that goes on to the second one
 * has met a dead address, a program that does not has met a dead destination. So the failure is held until the program
 * tries another address, or tries the same one again after a while, or ends. Meanwhile the call stays in flight, and
 * other processes find it overdue after connect_timeout.
 *
 * Or a program that may have been stopped (stopping.h) gives up a wait for an answer: if it ends within moments, it
 * was, and nothing is said of the peer. If it lives on, or ends otherwise, that was its patience. Meanwhile the call
 * stays in flight, and is overdue after PARTING_NS for everybody, wherever the process is.
 *
 * Fixed size; when it is full nothing is held. Async-signal-safe.
 */
#ifndef SOCKFUSE_CONNECTION_DEFERRED_H
#define SOCKFUSE_CONNECTION_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "connection/pool.h"
#include "connection/stopping.h"

/* Takes the connection's call, if its judgement should wait; the connection has no call then. */
bool deferred_take(struct connection *connection, const struct observation *observation);
/* The same of a call that was given up while so much speaks for the program's being stopped. */
#define PARTING_NS (100 * NS_PER_MS)
bool deferred_take_parting(struct connection *connection, const struct observation *observation,
                           enum stopping stopping);
/* An attempt to the circuit begins: what was held for it is judged. */
void deferred_resolve(const struct station *station, uint32_t circuit, uint64_t address_key);
/* A held call's record is known by this number and its place's (guard_name); whether one still holds the call. */
#define HELD_NUMBER (UINT32_C(1) << 30)
bool deferred_keeps(uint32_t call, uint32_t number);
/* Finds places that a jump left in the middle of a change: so in a former round (any number above 2), and so still. */
void deferred_look(uint32_t round);
/* What waits in that station, which is retired, is judged; true: something is just about to be judged by others. */
bool deferred_follows(const struct station *station);
/* The program ends, with that status. */
void deferred_resolve_all(int status);

#endif
