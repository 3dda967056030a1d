/*
 * journal.c - writing and reading slots of events.
 */
#include "segment/journal.h"

#include <stdatomic.h>
#include <stddef.h>

#include "segment/held.h"
#include "segment/layout.h"

void event_slot_write(struct event_slot *slot, uint64_t number, const struct event *event)
{
    stamped_write(&slot->stamp, &slot->event, event, sizeof *event, number);
}

static unsigned int reasons_of(unsigned int type)
{
    switch (type) {
    case EVENT_REFUSED:
        return ADMISSIONS;
    case EVENT_OUTCOME:
        return NEUTRAL_REASONS;
    case EVENT_HELD:
        return HOLD_REASONS;
    case EVENT_ALERT:
        return ALERT_ENDS;
    default:
        return TRANSITION_REASONS;
    }
}

/* What the type makes of the last words. */
static void make_rest_sane(struct event *event)
{
    switch (event->type) {
    case EVENT_CLOSE:
        event->outage.is_known = event->outage.is_known != 0;
        if (event->outage.reason >= TRANSITION_REASONS)
            event->outage.reason = REASON_NONE;
        break;
    case EVENT_OPEN:
        for (unsigned int i = 0; event->from != CIRCUIT_CLOSED && i < EVENT_ATTEMPTS; i++) {
            if (event->attempts[i].kind >= FAILURE_KINDS)
                event->attempts[i].kind = FAILURE_NONE;
            if (event->attempts[i].http_status > ANSWER_STATUS_MAX)
                event->attempts[i].http_status = 0;
        }
        break;
    case EVENT_HELD:
        if (event->kind >= HOLDS)
            event->kind = HOLD_NONE;
        break;
    case EVENT_ALERT:
        if (event->kind >= ALERT_KINDS)
            event->kind = ALERT_OPEN;
        event->said[sizeof event->said - 1] = '\0';
        break;
    case EVENT_FAILURE:
    case EVENT_OUTCOME:
        event->passed = event->passed != 0;
        break;
    default:
        break;
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
    if (event->http_status > ANSWER_STATUS_MAX)
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
    make_rest_sane(event);
    return true;
}

bool event_slot_read(const struct event_slot *slot, struct event *event, uint64_t *number)
{
    uint32_t stamp;

    if (!stamped_read(&slot->stamp, event, &slot->event, sizeof *event, &stamp))
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

/* Relaxed: the word stands alone, and who takes what first does not matter. */
bool journal_take(struct segment *segment, uint64_t number)
{
    _Atomic uint64_t *word = &segment->map->events_alerted;
    uint64_t untaken = atomic_load_explicit(word, memory_order_relaxed);

    /* One beyond the journal's was never given: its owner has written there at will. */
    const bool is_wrong = untaken > journal_head(segment);

    return (number >= untaken || is_wrong) &&
           atomic_compare_exchange_strong_explicit(word, &untaken, number + 1, memory_order_relaxed,
                                                   memory_order_relaxed);
}

uint64_t journal_untaken(const struct segment *segment)
{
    return atomic_load_explicit(&segment->map->events_alerted, memory_order_relaxed);
}

bool journal_read(const struct segment *segment, uint64_t number, struct event *event)
{
    uint64_t head = journal_head(segment), found;
    if (number >= head || head - number > segment->capacity.events)
        return false;
    return event_slot_read(&segment->events[number % segment->capacity.events], event, &found) &&
           (uint32_t)found == (uint32_t)number;
}
