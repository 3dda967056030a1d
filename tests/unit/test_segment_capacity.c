/*
 * test_segment_capacity.c - segments of other sizes: everything fits in, nothing more does, and no table reaches into
 * another.
 */
#include "support_segment.h"

#include <string.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "base/clock.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/processes.h"

static bool attach_with(struct state *place, const struct capacity *capacity)
{
    segment_detach(&place->segment);
    return segment_attach(&place->segment, place->folder, STATE_IDENTITY, capacity, &place->error);
}

static uint32_t fill_circuits(struct segment *segment)
{
    char destination[32];
    uint32_t count = 0;
    for (unsigned int i = 0; i < 3 * segment->capacity.circuits; i++) {
        snprintf(destination, sizeof destination, "10.0.0.1:%u", i);
        count += circuits_find(segment, "t", destination, NS_PER_S) != CIRCUIT_INDEX_NONE;
    }
    return count;
}

static uint32_t fill_calls(struct segment *segment, uint32_t holder)
{
    uint32_t count = 0;
    while (calls_claim(segment, holder) != CALL_NONE)
        count++;
    return count;
}

static uint32_t fill_processes(struct segment *segment, uint32_t *holder)
{
    uint32_t count = 0;
    for (uint32_t next; count <= segment->capacity.processes && (next = process_join(segment, "one", 1)) != 0; count++)
        *holder = next;
    return count;
}

static uint64_t fill_journal(struct segment *segment)
{
    struct event event = {.type = EVENT_OPEN};
    uint64_t readable = 0;
    for (uint64_t i = 0; i < 2 * (uint64_t)segment->capacity.events + 3; i++) {
        event.mono_ns = journal_head(segment);
        journal_append(segment, &event);
    }
    for (uint64_t number = journal_oldest(segment); number < journal_head(segment); number++)
        readable += journal_read(segment, number, &event) && event.mono_ns == number;
    return readable;
}

/* All of it in use, and each part whole. */
static void use_up(struct segment *segment)
{
    uint32_t holder = 0;
    const struct capacity *capacity = &segment->capacity;
    assert_int_equal(fill_processes(segment, &holder), capacity->processes);
    assert_int_equal(fill_calls(segment, holder), capacity->calls);
    assert_int_equal(fill_journal(segment), capacity->events);
    const uint32_t circuits = fill_circuits(segment);
    assert_in_range(circuits, capacity->circuits / 2 + 1, capacity->circuits);
    assert_true(process_alive(segment, holder));
    assert_true(segment_is_current(segment));
    assert_string_equal(segment_identity(segment), STATE_IDENTITY);
}

static void a_segment_of_any_capacity_holds_so_many_and_no_more(void **state)
{
    static const struct capacity capacities[] = {
        {1, 1, 1, 1}, {2, 63, 3, 5}, {31, 64, 7, 1}, {33, 65, 64, 127}, {97, 1001, 65, 99}, {255, 129, 5, 2049},
    };
    struct state *place = *state;
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        const struct capacity *capacity = &capacities[i];
        unlink(place->path);
        assert_true(attach_with(place, capacity));
        assert_string_equal(place->error.text, "");
        assert_memory_equal(&place->segment.capacity, capacity, sizeof *capacity);
        assert_int_equal(status_of(place->path).st_size, layout_measure(capacity).size);
        assert_true((size_t)status_of(place->path).st_blocks * 512 >= place->segment.size);
        use_up(&place->segment);
    }
}

static void whoever_made_the_file_decides(void **state)
{
    struct state *place = *state;
    const struct capacity small = {3, 5, 7, 9};
    assert_true(attach_with(place, &small));
    const uint64_t inode = place->segment.inode;
    assert_true(attach_with(place, NULL));
    assert_string_equal(place->error.text, "");
    assert_int_equal(place->segment.inode, inode);
    assert_memory_equal(&place->segment.capacity, &small, sizeof small);
    segment_detach(&place->segment);
    assert_true(segment_open(&place->segment, place->path, false, &place->error));
    assert_memory_equal(&place->segment.capacity, &small, sizeof small);
}

/* What an edited policy leaves there. */
static void a_file_that_goes_on_behind_its_tables_is_good(void **state)
{
    struct state *place = *state;
    assert_true(state_attach(place));
    const uint64_t inode = place->segment.inode;
    assert_int_equal(truncate(place->path, (off_t)place->segment.size + 12345), 0);
    assert_true(segment_is_current(&place->segment));
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_int_equal(place->segment.inode, inode);
    segment_detach(&place->segment);
    assert_true(segment_open(&place->segment, place->path, true, &place->error));
    assert_int_equal(truncate(place->path, (off_t)place->segment.size - 1), 0);
    assert_false(segment_is_current(&place->segment));
}

/* A header that is written over while it is mapped moves no table. */
static void capacities_that_change_under_a_process_change_nothing_for_it(void **state)
{
    struct state *place = *state;
    const struct capacity small = {17, 33, 9, 11};
    assert_true(attach_with(place, &small));
    memset(&place->segment.map->stamp, 0xff, sizeof place->segment.map->stamp);
    use_up(&place->segment);
    memset(&place->segment.map->stamp, 0, sizeof place->segment.map->stamp);
    assert_int_equal(fill_journal(&place->segment), small.events);
    assert_replaced(place, "no segment");
    assert_memory_equal(&place->segment.capacity, &CAPACITY_BUILT_IN, sizeof small);
}

static void a_private_segment_has_the_policys_capacity_too(void **state)
{
    struct state *place = *state;
    const struct capacity small = {5, 66, 3, 17};
    assert_true(segment_private(&place->segment, STATE_IDENTITY, &small));
    use_up(&place->segment);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, state_setup, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_segment_of_any_capacity_holds_so_many_and_no_more),
        FRESH(whoever_made_the_file_decides),
        FRESH(a_file_that_goes_on_behind_its_tables_is_good),
        FRESH(capacities_that_change_under_a_process_change_nothing_for_it),
        FRESH(a_private_segment_has_the_policys_capacity_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
