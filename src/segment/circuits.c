/*
 * circuits.c - reading the table of circuits. How a place is found, taken and given away is in circuit_places.c.
 */
#include "segment/circuits.h"

#include <stdatomic.h>
#include <string.h>

#include "base/shared.h"
#include "segment/journal.h"
#include "segment/layout.h"

struct circuit_entry *circuits_entry(const struct segment *segment, uint32_t index)
{
    if (segment->map == NULL || index >= segment->capacity.circuits)
        return NULL;
    return &segment->circuits[index];
}

struct circuit *circuits_at(const struct segment *segment, uint32_t index)
{
    struct circuit_entry *entry = circuits_entry(segment, index);

    return entry != NULL ? &entry->circuit : NULL;
}

struct latency *circuits_latency(const struct segment *segment, uint32_t index)
{
    return circuits_entry(segment, index) != NULL ? &segment->latency[index] : NULL;
}

struct learnt *circuits_learnt(const struct segment *segment, uint32_t index)
{
    return circuits_entry(segment, index) != NULL ? &segment->learnt[index] : NULL;
}

bool circuits_copy_texts(const struct segment *segment, uint32_t index, char target[TARGET_NAME_MAX],
                         char destination[DESTINATION_MAX])
{
    const struct circuit_entry *entry = circuits_entry(segment, index);
    uint64_t hash;

    target[0] = destination[0] = '\0';
    if (entry == NULL)
        return false;
    hash = circuit_entry_hash(entry);
    if ((hash & CIRCUIT_KEY_BIT) == 0 || atomic_load_explicit(&entry->ready, memory_order_acquire) == 0)
        return false;
    /* Another process may be writing the same bytes, or (rarely) handing the place over. */
    shared_load_text(target, entry->target, TARGET_NAME_MAX);
    shared_load_text(destination, entry->destination, DESTINATION_MAX);
    /* The texts were acquired, so the hash is not looked at again before them. */
    return atomic_load_explicit(&entry->hash, memory_order_relaxed) == hash;
}

bool circuits_texts(const struct segment *segment, uint32_t index, struct circuit_texts *texts)
{
    return circuits_copy_texts(segment, index, texts->target, texts->destination);
}

uint32_t circuits_next(const struct segment *segment, uint32_t *cursor, struct circuit_texts *texts)
{
    while (*cursor < segment->capacity.circuits) {
        uint32_t index = (*cursor)++;

        if (circuits_texts(segment, index, texts))
            return index;
    }
    return CIRCUIT_INDEX_NONE;
}

/* The later one of two slots that are written in turn. */
static bool read_later(const struct event_slot slots[2], struct event *event)
{
    struct event second;
    uint64_t number[2];
    const bool stands = event_slot_read(&slots[0], event, &number[0]);

    if (!event_slot_read(&slots[1], &second, &number[1]))
        return stands;
    /* The numbers are 31 bits that wrap: whichever is less than half the way ahead is the later one. */
    if (!stands || (int32_t)((uint32_t)(number[1] - number[0]) << 1) > 0)
        *event = second;
    return true;
}

bool circuits_last_transition(const struct segment *segment, uint32_t index, struct event *event)
{
    const struct circuit_entry *entry = circuits_entry(segment, index);

    return entry != NULL && read_later(entry->transitions, event);
}
