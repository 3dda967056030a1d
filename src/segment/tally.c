/*
 * tally.c - what a segment's header counts of all its processes: what could not be guarded in it, and not be logged.
 */
#include <stdatomic.h>

#include "segment/layout.h"
#include "segment/segment.h"

void segment_note_apart(struct segment *segment, uint64_t calls)
{
    atomic_fetch_add_explicit(&segment->map->apart, calls, memory_order_relaxed);
}

uint64_t segment_apart(const struct segment *segment)
{
    return segment->map ? atomic_load_explicit(&segment->map->apart, memory_order_relaxed) : 0;
}

void segment_note_no_room(struct segment *segment, enum no_room kind)
{
    if (segment->map)
        atomic_fetch_add_explicit(&segment->map->no_room[kind], 1, memory_order_relaxed);
}

uint64_t segment_no_room(const struct segment *segment, enum no_room kind)
{
    return segment->map ? atomic_load_explicit(&segment->map->no_room[kind], memory_order_relaxed) : 0;
}

uint64_t segment_unguarded(const struct segment *segment)
{
    uint64_t sum = 0;
    for (unsigned int kind = 0; kind < NO_ROOM_KINDS; kind++)
        sum += segment_no_room(segment, (enum no_room)kind);
    return sum;
}

void segment_note_log_lost(struct segment *segment)
{
    if (segment->map)
        atomic_fetch_add_explicit(&segment->map->log_lost, 1, memory_order_relaxed);
}

uint64_t segment_log_lost(const struct segment *segment)
{
    return segment->map ? atomic_load_explicit(&segment->map->log_lost, memory_order_relaxed) : 0;
}
