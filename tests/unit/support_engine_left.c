/*
 * support_engine_left.c - what is left of calls. See support_engine_left.h.
 */
#include "support_engine_left.h"

#include <stdio.h>
#include <string.h>

#include "segment/journal.h"
#include "segment/layout.h"
#include "support_engine.h"

uint64_t left_mix(uint64_t left, uint64_t word)
{
    left = (left ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return left ^ left >> 32;
}

static uint64_t mix_bytes(uint64_t left, const void *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + at, size - at < sizeof word ? size - at : sizeof word);
        left = word ? left_mix(left, word + at) : left;
    }
    return left;
}

static uint64_t connections_left(void)
{
    uint64_t left = 0;
    for (int fd = 0; fd < KERNEL_NUMBERS; fd++) {
        struct connection *connection = kernel.numbers[fd] ? bench_connection(fd) : NULL;
        if (!connection)
            continue;
        left = left_mix(left, (uint64_t)fd << 32 | atomic_load(&connection->properties));
        left = left_mix(left, connection_state(connection));
        left = left_mix(left, atomic_load(&connection->place.call));
    }
    return left;
}

static uint64_t records_left(void)
{
    struct segment *segment = &bench_station.segment;
    uint32_t high = atomic_load(&segment->map->calls_high);
    uint64_t left = left_mix(high, atomic_load(&segment->map->calls_due));
    left = mix_bytes(left, segment->calls, high * sizeof *segment->calls);
    left = mix_bytes(left, segment->call_owner, high * sizeof *segment->call_owner);
    return mix_bytes(left, segment->call_group, (high / CALL_GROUP + 1) * sizeof *segment->call_group);
}

/* Of a bucket in all shards: its latest tick, and how many that has. tick:32 | count:32 */
static uint64_t bucket_left(const struct window *window, unsigned int class, unsigned int bucket)
{
    uint64_t sum = 0;
    for (unsigned int shard = 0; shard < COUNTER_SHARDS; shard++) {
        uint64_t word = atomic_load(&window->buckets[shard][class][bucket]);
        int32_t later = (int32_t)((uint32_t)(word >> 32) - (uint32_t)(sum >> 32));
        if ((uint32_t)sum == 0 || later > 0)
            sum = (uint32_t)word ? word : sum;
        else if (later == 0)
            sum += (uint32_t)word;
    }
    return sum;
}

/* Which shard counts is the processor's number: only the sums are the calls' own. */
static uint64_t sums_left(const struct circuit *circuit)
{
    uint64_t left = 0;
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        left = left_mix(left, counters_sum(&circuit->counters, counter));
    for (unsigned int class = 0; class < WINDOW_CLASSES; class ++)
        for (unsigned int bucket = 0; bucket < WINDOW_BUCKETS; bucket++)
            left = left_mix(left, bucket_left(&circuit->window, class, bucket));
    return left;
}

static uint64_t circuit_left(const struct circuit_entry *entry)
{
    const size_t counters = offsetof(struct circuit_entry, circuit.counters);
    const size_t window = offsetof(struct circuit_entry, circuit.window);
    const size_t buckets = offsetof(struct circuit_entry, circuit.window.buckets);
    const size_t rest = offsetof(struct circuit_entry, evidence);
    const char *bytes = (const char *)entry;
    uint64_t left = mix_bytes(sums_left(&entry->circuit), bytes, counters);
    left = mix_bytes(left, bytes + window, buckets - window);
    return mix_bytes(left, bytes + rest, sizeof *entry - rest);
}

static uint64_t circuits_left(void)
{
    struct segment *segment = &bench_station.segment;
    uint64_t left = mix_bytes(0, segment->map->no_room, sizeof segment->map->no_room);
    for (uint32_t i = 0; i < segment->capacity.circuits; i++)
        if (circuit_entry_hash(&segment->circuits[i]) != 0)
            left = left_mix(left, circuit_left(&segment->circuits[i]) + i);
    return left;
}

static uint64_t journal_left(uint64_t left, uint64_t *from)
{
    struct event event;
    for (; *from < journal_head(&bench_station.segment); (*from)++)
        left = journal_read(&bench_station.segment, *from, &event) ? mix_bytes(left, &event, sizeof event) : ~left;
    return left;
}

void left_note(uint64_t parts[LEFT_PARTS], uint64_t *from, uint64_t *journal)
{
    parts[LEFT_CONNECTIONS] = connections_left();
    parts[LEFT_RECORDS] = records_left();
    parts[LEFT_CIRCUITS] = circuits_left();
    parts[LEFT_JOURNAL] = *journal = journal_left(*journal, from);
}

void left_tell(void)
{
    for (int fd = 0; fd < KERNEL_NUMBERS; fd++) {
        struct connection *connection = kernel.numbers[fd] ? bench_connection(fd) : NULL;
        if (connection)
            fprintf(stderr, " [%d: properties %#x, state %u, record %u]", fd, atomic_load(&connection->properties),
                    connection_state(connection), atomic_load(&connection->place.call));
    }
    fputc('\n', stderr);
}
