/*
 * layout.c - where a segment's tables lie. See layout.h.
 */
#include "segment/layout.h"

#define LINE 64u

static size_t round_up(size_t size, size_t grain)
{
    return (size + grain - 1) / grain * grain;
}

/* A table of `count` elements at `*end`, which moves behind it. */
static size_t place(size_t *end, size_t count, size_t element)
{
    size_t at = *end;
    *end = round_up(at + count * element, LINE);
    return at;
}

struct segment_places layout_measure(const struct capacity *capacity)
{
    const size_t groups = (capacity->calls + CALL_GROUP - 1) / CALL_GROUP;
    struct segment_places places;
    size_t end = sizeof(struct segment_header);
    places.processes = place(&end, capacity->processes, sizeof(struct process_slot));
    places.call_owner = place(&end, capacity->calls, sizeof(uint32_t));
    places.call_circuit = place(&end, capacity->calls, sizeof(uint32_t));
    places.call_group = place(&end, groups, sizeof(struct call_group));
    places.call_full = place(&end, (groups + 63) / 64, sizeof(uint64_t));
    places.calls = place(&end, capacity->calls, sizeof(struct call));
    places.events = place(&end, capacity->events, sizeof(struct event_slot));
    places.circuits = place(&end, capacity->circuits, sizeof(struct circuit_entry));
    places.latency = place(&end, capacity->circuits, sizeof(struct latency));
    places.learnt = place(&end, capacity->circuits, sizeof(struct learnt));
    places.fleet = place(&end, 1, sizeof(struct fleet_board));
    places.size = round_up(end, SEGMENT_BASE_GRAIN);
    return places;
}

void layout_point(struct segment *segment, void *base, const struct capacity *capacity)
{
    const struct segment_places places = layout_measure(capacity);
    char *bytes = base;
    segment->capacity = *capacity;
    segment->size = places.size;
    segment->processes = (struct process_slot *)(void *)(bytes + places.processes);
    segment->call_owner = (_Atomic uint32_t *)(void *)(bytes + places.call_owner);
    segment->call_circuit = (_Atomic uint32_t *)(void *)(bytes + places.call_circuit);
    segment->call_group = (struct call_group *)(void *)(bytes + places.call_group);
    segment->call_full = (_Atomic uint64_t *)(void *)(bytes + places.call_full);
    segment->calls = (struct call *)(void *)(bytes + places.calls);
    segment->events = (struct event_slot *)(void *)(bytes + places.events);
    segment->circuits = (struct circuit_entry *)(void *)(bytes + places.circuits);
    segment->latency = (struct latency *)(void *)(bytes + places.latency);
    segment->learnt = (struct learnt *)(void *)(bytes + places.learnt);
    segment->fleet = (struct fleet_board *)(void *)(bytes + places.fleet);
    segment->map = base;
}
