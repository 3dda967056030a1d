/*
 * capacity.h - how many circuits, calls, processes and events a segment has room for: `capacity` and `journal`.
 *
 * Both are keys of [defaults] alone: one policy has one segment. Whoever makes its file decides; who finds one goes by
 * what the file says, so the bounds are also what a file is held against. The checks are pure and async-signal-safe.
 */
#ifndef SOCKFUSE_POLICY_CAPACITY_H
#define SOCKFUSE_POLICY_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As it stands in a segment's header: fixed widths. */
struct capacity {
    uint32_t circuits;
    uint32_t calls; /* `connections`: each has one call at a time */
    uint32_t processes;
    uint32_t events;
};

#define CAPACITY_CIRCUITS 256u
#define CAPACITY_CALLS 8192u
#define CAPACITY_PROCESSES 1024u
#define CAPACITY_EVENTS 2048u
#define CAPACITY_BUILT_IN ((struct capacity){CAPACITY_CIRCUITS, CAPACITY_CALLS, CAPACITY_PROCESSES, CAPACITY_EVENTS})

/*
 * Of each at least one. The largest segment has some 815 MB, which a 32-bit program can map too; a process's identity
 * has 12 bits for its place.
 */
#define CAPACITY_CIRCUITS_MAX 16384u
#define CAPACITY_CALLS_MAX 262144u
#define CAPACITY_PROCESSES_MAX 4000u
#define CAPACITY_EVENTS_MAX 262144u

/* Whether all four are within the bounds. */
bool capacity_is_sane(const struct capacity *capacity);

/*
 * Reads `256 circuits 8192 connections 1024 processes`, any of them, in any order; what is not named is built in.
 * `events` stays. False: `why` says what is expected.
 */
bool capacity_parse(struct capacity *capacity, const char *text, char *why, size_t why_size);
void capacity_format(const struct capacity *capacity, char *text, size_t size);

#endif
