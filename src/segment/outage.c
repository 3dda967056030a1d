/*
 * outage.c - writing and reading what a circuit keeps of an outage. See outage.h.
 *
 * Who opens writes the start after the word says open, under the generation that was left; who closes reads it and takes
 * its stamp away. So a start that was written late, by one that slept, is not taken for that of a later outage: its
 * generation is older than the one that stands there, or there is none. One that was not written at all is missing at
 * the end of its outage.
 */
#include "segment/outage.h"

#include <stdatomic.h>

#include "breaker/circuit.h"
#include "segment/layout.h"

/* Generations are compared modulo this: they are drawn from a serial number of 34 bits or more. */
#define NUMBER_BITS 31

static uint64_t number_of(uint64_t generation)
{
    /* A stamp is the number and 1, and must not be 0. */
    return generation & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

void outage_begins(struct circuit_entry *entry, uint64_t generation, const struct outage_start *start)
{
    struct outage_slot *slot = &entry->outage.slot;

    stamped_write(&slot->stamp, &slot->start, start, sizeof *start, number_of(generation));
}

static bool read_start(const struct outage_slot *slot, struct outage_start *start, uint32_t *stamp)
{
    if (!stamped_read(&slot->stamp, start, &slot->start, sizeof *start, stamp))
        return false;
    if (start->reason >= TRANSITION_REASONS)
        start->reason = REASON_NONE;
    return true;
}

bool outage_ends(struct circuit_entry *entry, uint64_t generation, struct outage_start *start)
{
    struct outage_slot *slot = &entry->outage.slot;
    uint32_t stamp;

    if (!read_start(slot, start, &stamp))
        return false;
    /* One of a generation that this closing has begun, or a later one: who closed was overtaken by the next opening. */
    const uint32_t ahead = (stamp - stamp_of(number_of(generation))) << 1;
    if ((int32_t)ahead >= 0)
        return false;
    /* Relaxed: it fails if a later outage has begun, whose start stays. */
    atomic_compare_exchange_strong_explicit(&slot->stamp.stamp, &stamp, 0, memory_order_relaxed, memory_order_relaxed);
    return true;
}

bool outage_lasts(const struct circuit_entry *entry, struct outage_start *start)
{
    uint32_t stamp;

    return !circuit_is_closed(&entry->circuit) && read_start(&entry->outage.slot, start, &stamp);
}

/* --- a probe's attempts ------------------------------------------------------------------------------------------- */

#define SERIAL_SHIFT 32
#define STATUS_SHIFT 16
#define KIND_SHIFT 8
#define ERROR_MASK 0xffu

static uint64_t serial_of(uint64_t token)
{
    return token << SERIAL_SHIFT;
}

void outage_note_attempt(struct circuit_entry *entry, uint64_t token, const struct event_attempt *attempt)
{
    const uint32_t begun = atomic_fetch_add_explicit(&entry->outage.attempts_begun, 1, memory_order_relaxed);
    struct probe_attempt *at = &entry->outage.attempts[begun % EVENT_ATTEMPTS];

    /* Relaxed: who decides the probe sees them by its lease's `attempts`, which come after (lease.c). */
    atomic_store_explicit(&at->took, serial_of(token) | attempt->elapsed_ms, memory_order_relaxed);
    atomic_store_explicit(&at->how,
                          serial_of(token) | (uint64_t)attempt->http_status << STATUS_SHIFT |
                              (uint64_t)attempt->kind << KIND_SHIFT | attempt->error,
                          memory_order_relaxed);
}

static bool read_attempt(const struct probe_attempt *at, uint64_t token, struct event_attempt *attempt)
{
    const uint64_t how = atomic_load_explicit(&at->how, memory_order_relaxed);
    const uint64_t took = atomic_load_explicit(&at->took, memory_order_relaxed);

    *attempt = (struct event_attempt){.elapsed_ms = (uint32_t)took,
                                      .http_status = (uint16_t)(how >> STATUS_SHIFT),
                                      .kind = (uint8_t)(how >> KIND_SHIFT),
                                      .error = (uint8_t)(how & ERROR_MASK)};
    return how >> SERIAL_SHIFT == (token & UINT32_MAX) && took >> SERIAL_SHIFT == (token & UINT32_MAX);
}

unsigned int outage_attempts(const struct circuit_entry *entry, uint64_t token,
                             struct event_attempt attempts[EVENT_ATTEMPTS])
{
    /* The next place has the oldest. */
    const uint32_t next = atomic_load_explicit(&entry->outage.attempts_begun, memory_order_relaxed);
    unsigned int count = 0;

    if ((token & UINT32_MAX) == 0) /* no token: what was never written has that serial, too */
        return 0;
    for (uint32_t i = 0; i < EVENT_ATTEMPTS; i++) {
        struct event_attempt attempt; /* another probe's is left out whole */
        if (read_attempt(&entry->outage.attempts[(next + i) % EVENT_ATTEMPTS], token, &attempt))
            attempts[count++] = attempt;
    }
    return count;
}

void outage_clear(struct circuit_entry *entry)
{
    atomic_store_explicit(&entry->outage.slot.stamp.stamp, 0, memory_order_relaxed);
    for (unsigned int i = 0; i < EVENT_ATTEMPTS; i++)
        atomic_store_explicit(&entry->outage.attempts[i].how, 0, memory_order_relaxed);
}
