/*
 * fleet_board.h - what an agent tells of the fleet: the link to its Redis, and of each circuit that is open somewhere which
 * hosts have it open. For who looks; no call goes by it.
 *
 * The agent writes it about each second, and each part bears when that was: what is older than FLEET_TOLD_NS was told by
 * an agent that is gone or sleeps, and is shown as old or not at all. Who reads gets each part whole, or not; its texts
 * come from other hosts and from who may write the segment: they end, and are to be escaped as all names are.
 * Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_FLEET_BOARD_H
#define SOCKFUSE_SEGMENT_FLEET_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/fleet_shown.h"

struct segment;

/* The agent alone: the whole, and a place of it for one circuit. */
void fleet_board_tell(const struct segment *segment, const struct fleet_head *head);
void fleet_board_show(const struct segment *segment, uint32_t place, const struct fleet_shown *shown);

/* False: nothing was told, or what stands there is none of it. It may be old: see told_ns, which is not after `now_ns`. */
bool fleet_board_head(const struct segment *segment, uint64_t now_ns, struct fleet_head *head);
/* What is told now of a circuit. False: nothing is, or what was is old. */
bool fleet_board_find(const struct segment *segment, uint64_t key, uint64_t now_ns, struct fleet_shown *shown);
/* Whether what was told at `told_ns` is of the present. */
bool fleet_board_is_now(uint64_t told_ns, uint64_t now_ns);

#endif
