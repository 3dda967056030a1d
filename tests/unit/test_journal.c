/*
 * test_journal.c - the ring of events: numbers, lapping, torn and corrupt slots.
 */
#include "support_segment.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "segment/journal.h"
#include "segment/layout.h"

static int setup(void **state)
{
    static struct segment segment;
    *state = &segment;
    return segment_private(&segment, STATE_IDENTITY, NULL) ? 0 : -1;
}

static int teardown(void **state)
{
    segment_detach(*state);
    return 0;
}

/* An event that tells its number in all fields that are kept as they are. */
static struct event event_of(uint64_t number)
{
    struct event event = {.type = EVENT_FAILURE,
                          .kind = FAILURE_RESET,
                          .time_ns = number,
                          .mono_ns = ~number,
                          .pid = (uint32_t)number,
                          .error = (int32_t)number};
    snprintf(event.program, sizeof event.program, "program %u", (unsigned int)number);
    snprintf(event.destination, sizeof event.destination, "destination %u", (unsigned int)number);
    return event;
}

static void append(struct segment *segment, uint64_t number)
{
    struct event event = event_of(number);
    journal_append(segment, &event);
}

static struct event_slot *slot_at(struct segment *segment, uint64_t number)
{
    return &segment->events[number % CAPACITY_EVENTS];
}

static void an_empty_journal_has_nothing_to_read(void **state)
{
    struct event event;
    assert_int_equal(journal_head(*state), 0);
    assert_int_equal(journal_oldest(*state), 0);
    assert_false(journal_read(*state, 0, &event));
    assert_false(journal_read(*state, UINT64_MAX, &event));
}

static void what_is_appended_is_read_by_its_number(void **state)
{
    struct event event, expected;
    append(*state, 0);
    append(*state, 1);
    assert_int_equal(journal_head(*state), 2);
    assert_int_equal(journal_oldest(*state), 0);
    for (uint64_t number = 0; number < 2; number++) {
        expected = event_of(number);
        assert_true(journal_read(*state, number, &event));
        assert_memory_equal(&event, &expected, sizeof event);
    }
    assert_false(journal_read(*state, 2, &event));
}

static void the_ring_keeps_the_last_events_and_skips_the_lapped(void **state)
{
    struct event event;
    uint64_t count = CAPACITY_EVENTS * 2 + 5;
    for (uint64_t number = 0; number < count; number++)
        append(*state, number);
    assert_int_equal(journal_oldest(*state), count - CAPACITY_EVENTS);
    assert_false(journal_read(*state, count - CAPACITY_EVENTS - 1, &event));
    assert_false(journal_read(*state, 0, &event));
    assert_false(journal_read(*state, count, &event));
    for (uint64_t number = count - CAPACITY_EVENTS; number < count; number++) {
        assert_true(journal_read(*state, number, &event));
        assert_int_equal(event.time_ns, number);
    }
}

static void a_writer_killed_before_its_first_word_leaves_a_gap(void **state)
{
    struct segment *segment = *state;
    struct event event;
    for (uint64_t number = 0; number < CAPACITY_EVENTS; number++)
        append(segment, number);
    /* It drew number CAPACITY_EVENTS, and the slot still holds number 0. */
    atomic_fetch_add(&segment->map->events_head, 1);
    append(segment, CAPACITY_EVENTS + 1);
    assert_false(journal_read(segment, CAPACITY_EVENTS, &event));
    assert_true(journal_read(segment, CAPACITY_EVENTS + 1, &event));
    assert_int_equal(event.time_ns, CAPACITY_EVENTS + 1);
}

static void a_writer_killed_before_its_stamp_leaves_a_gap(void **state)
{
    struct segment *segment = *state;
    struct event event;
    append(segment, 0);
    atomic_store(&slot_at(segment, 0)->stamp.stamp, 0);
    assert_false(journal_read(segment, 0, &event));
}

static void any_byte_of_a_torn_event_shows(void **state)
{
    struct segment *segment = *state;
    struct event event;
    append(segment, 0);
    unsigned char *bytes = (unsigned char *)slot_at(segment, 0);
    for (size_t at = 0; at < sizeof(struct event_slot); at++) {
        bytes[at] ^= 0x10;
        assert_false(journal_read(segment, 0, &event));
        bytes[at] ^= 0x10;
    }
    assert_true(journal_read(segment, 0, &event));
}

static void a_slot_with_another_ones_stamp_is_not_taken_for_it(void **state)
{
    struct segment *segment = *state;
    struct event event = event_of(7);
    for (uint64_t number = 0; number < 8; number++)
        append(segment, number);
    /* Number 7 in the place of number 5: whole, but not what was asked for. */
    event_slot_write(slot_at(segment, 5), 7, &event);
    assert_false(journal_read(segment, 5, &event));
    assert_true(journal_read(segment, 7, &event));
}

static void an_overtaken_writer_leaves_the_newer_event(void **state)
{
    struct segment *segment = *state;
    struct event event = event_of(3 + CAPACITY_EVENTS), older = event_of(3);
    struct event_slot *slot = slot_at(segment, 3);
    uint64_t number;
    event_slot_write(slot, 3 + CAPACITY_EVENTS, &event);
    event_slot_write(slot, 3, &older);
    assert_true(event_slot_read(slot, &event, &number));
    assert_int_equal(number, 3 + CAPACITY_EVENTS);
    assert_int_equal(event.time_ns, 3 + CAPACITY_EVENTS);
}

static void a_slot_with_a_rubbish_stamp_can_be_written_again(void **state)
{
    struct segment *segment = *state;
    struct event event = event_of(3);
    struct event_slot *slot = slot_at(segment, 3);
    atomic_store(&slot->stamp.stamp, UINT32_C(0x7ffffff0));
    event_slot_write(slot, 3, &event);
    assert_true(event_slot_read(slot, &event, NULL));
}

static void numbers_go_on_behind_32_bits(void **state)
{
    struct segment *segment = *state;
    struct event event;
    uint64_t first = UINT32_MAX - UINT64_C(3);
    atomic_store(&segment->map->events_head, first);
    for (uint64_t number = first; number < first + 8; number++)
        append(segment, number);
    for (uint64_t number = first; number < first + 8; number++) {
        /* The one whose stamp is zero can't be told from one that is being written. */
        assert_int_equal(journal_read(segment, number, &event), number != UINT32_MAX);
        if (number != UINT32_MAX)
            assert_int_equal(event.time_ns, number);
    }
    /* Numbers whose lower half is that of one that stands. */
    assert_false(journal_read(segment, 2, &event));
    assert_false(journal_read(segment, (UINT64_C(2) << 32) + 2, &event));
    assert_true(journal_read(segment, (UINT64_C(1) << 32) + 2, &event));
}

/* Writes an event with whole stamp and checksum, and reads it. */
static bool pass_through(struct segment *segment, struct event *event)
{
    uint64_t number = journal_head(segment);
    journal_append(segment, event);
    return journal_read(segment, number, event);
}

static void an_unknown_type_is_no_event(void **state)
{
    struct event event = event_of(0);
    event.type = EVENT_NONE;
    assert_false(pass_through(*state, &event));
    event.type = EVENT_TYPES;
    assert_false(pass_through(*state, &event));
    event.type = EVENT_TYPES - 1;
    assert_true(pass_through(*state, &event));
}

static void every_field_that_leaves_is_in_its_range(void **state)
{
    struct event event;
    memset(&event, 0xff, sizeof event);
    event.type = EVENT_OPEN;
    assert_true(pass_through(*state, &event));
    assert_int_equal(event.kind, FAILURE_NONE);
    assert_int_equal(event.http_status, 0);
    assert_int_equal(event.from, CIRCUIT_CLOSED);
    assert_int_equal(event.to, CIRCUIT_CLOSED);
    assert_int_equal(event.reason, REASON_NONE);
    assert_int_equal(event.overran, OVERRAN_HANGS);
    assert_int_equal(event.verdict, VERDICT_NONE);
    assert_int_equal(event.slow, 1);
    assert_int_equal(strlen(event.program), sizeof event.program - 1);
    assert_int_equal(strlen(event.target), sizeof event.target - 1);
    assert_int_equal(strlen(event.destination), sizeof event.destination - 1);
}

static void values_at_their_ends_are_kept(void **state)
{
    struct event event = event_of(0);
    event.type = EVENT_OPEN;
    event.kind = FAILURE_KINDS - 1;
    event.http_status = HTTP_STATUS_MAX;
    event.from = event.to = CIRCUIT_HALF_OPEN;
    event.reason = TRANSITION_REASONS - 1;
    struct event expected = event;
    assert_true(pass_through(*state, &event));
    assert_memory_equal(&event, &expected, sizeof event);
    /* A refusal keeps the admission in its reason. */
    event.type = EVENT_REFUSED;
    event.reason = ADMISSIONS - 1;
    assert_true(pass_through(*state, &event));
    assert_int_equal(event.reason, ADMISSIONS - 1);
    event.reason = ADMISSIONS;
    assert_true(pass_through(*state, &event));
    assert_int_equal(event.reason, 0);
    /* An outcome keeps there why it is neutral. */
    event.type = EVENT_OUTCOME;
    event.verdict = VERDICTS - 1;
    event.reason = NEUTRAL_REASONS - 1;
    assert_true(pass_through(*state, &event));
    assert_int_equal(event.reason, NEUTRAL_REASONS - 1);
    assert_int_equal(event.verdict, VERDICTS - 1);
    event.reason = NEUTRAL_REASONS;
    assert_true(pass_through(*state, &event));
    assert_int_equal(event.reason, 0);
}

static void a_corrupt_head_is_harmless(void **state)
{
    struct segment *segment = *state;
    const uint64_t heads[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, UINT32_MAX};
    for (size_t at = 0; at < sizeof heads / sizeof heads[0]; at++) {
        struct event event;
        atomic_store(&segment->map->events_head, heads[at]);
        assert_true(journal_head(segment) - journal_oldest(segment) <= CAPACITY_EVENTS);
        for (uint64_t number = journal_oldest(segment); number != journal_head(segment); number++)
            journal_read(segment, number, &event);
        append(segment, 1);
        append(segment, 2);
    }
}

static _Atomic bool scribbling;

static void *scribble_on_the_head(void *context)
{
    struct segment *segment = context;
    while (atomic_load_explicit(&scribbling, memory_order_relaxed)) {
        atomic_store_explicit(&segment->map->events_head, UINT64_C(1) << 63, memory_order_relaxed);
        atomic_store_explicit(&segment->map->events_head, 1, memory_order_relaxed);
    }
    return NULL;
}

static void a_head_that_jumps_about_leaves_no_more_events_than_there_is_room_for(void **state)
{
    struct segment *segment = *state;
    pthread_t thread;
    atomic_store(&scribbling, true);
    assert_int_equal(pthread_create(&thread, NULL, scribble_on_the_head, segment), 0);
    for (unsigned int look = 0; look < 1000000; look++) {
        uint64_t oldest, head;
        journal_span(segment, &oldest, &head);
        if (head - oldest > CAPACITY_EVENTS)
            fail_msg("%llu events", (unsigned long long)(head - oldest));
    }
    atomic_store(&scribbling, false);
    pthread_join(thread, NULL);
}

static void reading_writes_nothing(void **state)
{
    struct segment *segment = *state;
    struct event event;
    append(segment, 0);
    append(segment, 1);
    assert_int_equal(mprotect(segment->map, segment->size, PROT_READ), 0);
    assert_true(journal_read(segment, journal_oldest(segment) + 1, &event));
    assert_true(event_slot_read(slot_at(segment, 0), &event, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_journal_has_nothing_to_read),
        TEST(what_is_appended_is_read_by_its_number),
        TEST(the_ring_keeps_the_last_events_and_skips_the_lapped),
        TEST(a_writer_killed_before_its_first_word_leaves_a_gap),
        TEST(a_writer_killed_before_its_stamp_leaves_a_gap),
        TEST(any_byte_of_a_torn_event_shows),
        TEST(a_slot_with_another_ones_stamp_is_not_taken_for_it),
        TEST(an_overtaken_writer_leaves_the_newer_event),
        TEST(a_slot_with_a_rubbish_stamp_can_be_written_again),
        TEST(numbers_go_on_behind_32_bits),
        TEST(an_unknown_type_is_no_event),
        TEST(every_field_that_leaves_is_in_its_range),
        TEST(values_at_their_ends_are_kept),
        TEST(a_corrupt_head_is_harmless),
        TEST(a_head_that_jumps_about_leaves_no_more_events_than_there_is_room_for),
        TEST(reading_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
