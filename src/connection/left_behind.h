/*
 * left_behind.h - what wrappers left behind that a signal's handler jumped out of, or in which their thread was
 * cancelled.
 *
 * The process's own next attempts find it: records of connections (pool.h) that stand for no descriptor, or that were
 * taken and never filled, and held judgements that nobody will make. Their calls are found by the segment's half
 * (guard/lost_calls.h), which asks left_behind_keeps. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_CONNECTION_LEFT_BEHIND_H
#define SOCKFUSE_CONNECTION_LEFT_BEHIND_H

#include <stdbool.h>
#include <stdint.h>

/* Looks at a part of the records, in one round a second. */
void left_behind_look(uint64_t real_ns);

/*
 * For struct guard, whose context is the station: whether the record's call has its connection, by the number that
 * attempt.c or deferred.c gave it.
 */
bool left_behind_keeps(uint32_t call, uint32_t number, void *context);

#endif
