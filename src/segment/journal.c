/*
 * journal.c - writing and reading slots of events.
 */
#include "segment/journal.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/shared.h"
#include "segment/layout.h"

/* By how many events a writer can have been overtaken; a stamp from further ahead is rubbish, and is written over. */
#define OVERTAKEN_MAX (UINT32_C(1) << 20)

/*
 * A slot is written in this order: stamp 0, checksum, the event's words, stamp. Each store releases, so whoever reads
 * the new stamp reads the words behind it. Two writers meet in one slot only when one of them slept while the ring
 * went round; then words may be mixed, and the checksum over stamp and words tells.
 */
static uint32_t event_checksum(const struct event *event, uint32_t stamp)
{
    uint32_t sum = stamp ^ UINT32_C(0x5bd1e995);
    for (size_t at = 0; at < sizeof *event; at += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)event + at, sizeof word);
        sum = (sum ^ word) * UINT32_C(0x9e3779b1);
        sum ^= sum >> 15;
    }
    return sum;
}

static uint32_t stamp_of(uint64_t number)
{
    return (uint32_t)(number + 1);
}

void event_slot_write(struct event_slot *slot, uint64_t number, const struct event *event)
{
    uint32_t stamp = stamp_of(number);
    uint32_t present = atomic_load_explicit(&slot->stamp, memory_order_relaxed);
    /* A writer that was overtaken leaves the newer event alone. (The difference is right over the wrap of 32 bits.) */
    if (present != 0 && present != stamp && present - stamp < OVERTAKEN_MAX)
        return;
    atomic_store_explicit(&slot->stamp, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->checksum, event_checksum(event, stamp), memory_order_release);
    shared_store(&slot->event, event, sizeof *event);
    atomic_store_explicit(&slot->stamp, stamp, memory_order_release);
}

static unsigned int reasons_of(unsigned int type)
{
    switch (type) {
    case EVENT_REFUSED:
        return ADMISSIONS;
    case EVENT_OUTCOME:
        return NEUTRAL_REASONS;
    default:
        return TRANSITION_REASONS;
    }
}

/* The file may hold anything: what leaves here has ended texts and known values. */
static bool make_sane(struct event *event)
{
    if (event->type == EVENT_NONE || event->type >= EVENT_TYPES)
        return false;
    event->program[sizeof event->program - 1] = '\0';
    event->target[sizeof event->target - 1] = '\0';
    event->destination[sizeof event->destination - 1] = '\0';
    if (event->kind >= FAILURE_KINDS)
        event->kind = FAILURE_NONE;
    if (event->http_status > HTTP_STATUS_MAX)
        event->http_status = 0;
    if (event->from > CIRCUIT_HALF_OPEN)
        event->from = CIRCUIT_CLOSED;
    if (event->to > CIRCUIT_HALF_OPEN)
        event->to = CIRCUIT_CLOSED;
    if (event->verdict >= VERDICTS)
        event->verdict = VERDICT_NONE;
    if (event->reason >= reasons_of(event->type))
        event->reason = 0;
    if (event->overran > OVERRAN_CAME)
        event->overran = OVERRAN_HANGS;
    event->slow = event->slow != 0;
    return true;
}

bool event_slot_read(const struct event_slot *slot, struct event *event, uint64_t *number)
{
    uint32_t stamp = atomic_load_explicit(&slot->stamp, memory_order_acquire);
    if (stamp == 0)
        return false;
    uint32_t checksum = atomic_load_explicit(&slot->checksum, memory_order_acquire);
    shared_load(event, &slot->event, sizeof *event);
    /* The words were acquired, so this load is not done before them. */
    if (atomic_load_explicit(&slot->stamp, memory_order_relaxed) != stamp || event_checksum(event, stamp) != checksum)
        return false;
    if (number)
        *number = stamp - 1u;
    return make_sane(event);
}

void journal_append(struct segment *segment, const struct event *event)
{
    /* Relaxed: the number only has to be ours alone; the slot's own stamp publishes what stands in it. */
    uint64_t number = atomic_fetch_add_explicit(&segment->map->events_head, 1, memory_order_relaxed);
    event_slot_write(&segment->events[number % segment->capacity.events], number, event);
}

uint64_t journal_head(const struct segment *segment)
{
    return atomic_load_explicit(&segment->map->events_head, memory_order_acquire);
}

void journal_span(const struct segment *segment, uint64_t *oldest, uint64_t *head)
{
    *head = journal_head(segment);
    *oldest = *head > segment->capacity.events ? *head - segment->capacity.events : 0;
}

uint64_t journal_oldest(const struct segment *segment)
{
    uint64_t oldest, head;
    journal_span(segment, &oldest, &head);
    return oldest;
}

bool journal_read(const struct segment *segment, uint64_t number, struct event *event)
{
    uint64_t head = journal_head(segment), found;
    if (number >= head || head - number > segment->capacity.events)
        return false;
    return event_slot_read(&segment->events[number % segment->capacity.events], event, &found) &&
           (uint32_t)found == (uint32_t)number;
}
