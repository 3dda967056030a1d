/*
 * test_segment_bytes.c - what stands in a mapped segment: shared by programs of other word size, or spoiled.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "segment/calls.h"
#include "segment/circuit_evidence.h"
#include "segment/circuits.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/processes.h"
#include "segment/folder.h"

/* --- 32 bit ------------------------------------------------------------------------------------------------------- */

/* Where the tables lie, for capacities of every kind. */
static void assert_the_other_measures_the_same(const char *program)
{
    static const struct capacity capacities[] = {
        {1, 1, 1, 1},    {CAPACITY_CIRCUITS_MAX, CAPACITY_CALLS_MAX, CAPACITY_PROCESSES_MAX, CAPACITY_EVENTS_MAX},
        {17, 65, 33, 3}, {255, 8191, 1023, 2047},
        {3, 63, 5, 7},
    };
    char command[1024];
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        const struct capacity *of = &capacities[i];
        const struct segment_places at = layout_measure(of);
        snprintf(command, sizeof command, "%s %u %u %u %u %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu", program,
                 of->circuits, of->calls, of->processes, of->events, at.processes, at.call_owner, at.call_group,
                 at.calls, at.events, at.circuits, at.latency, at.learnt, at.fleet, at.size);
        assert_int_equal(system(command), 0);
    }
}

/* One program has one word size: other_word_size.c is the other. */
static void programs_of_32_and_64_bit_share_a_segment(void **state)
{
    struct state *place = *state;
    char program[128], command[1024];
    struct event event = {.type = EVENT_OPEN, .mono_ns = UINT64_C(543210987654321), .program = "first"};
    snprintf(program, sizeof program, "%s/other", place->parent);
    snprintf(command, sizeof command, "echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o %s 2>/dev/null",
             program);
    if (sizeof(void *) != 8 || access("tests/unit/other_word_size.c", R_OK) != 0 || system(command) != 0) {
        print_message("    no compiler for 32 bit here, or no sources\n");
        skip();
    }
    snprintf(command, sizeof command,
             "cd src && gcc -m32 -std=gnu11 -Wno-psabi -I. ../tests/unit/other_word_size.c base/bare.c base/clock.c "
             "base/errno_name.c base/span.c base/text.c base/undisturbed.c base/utf8.c policy/capacity.c "
             "policy/distance.c policy/identity.c segment/segment.c "
             "segment/segment_attach.c segment/segment_visit.c segment/layout.c segment/file.c segment/folder.c "
             "segment/places.c segment/removal.c segment/peek.c segment/processes.c segment/process_alive.c "
             "segment/process_join.c "
             "segment/proof.c segment/journal.c -o %s",
             program);
    assert_int_equal(system(command), 0);
    assert_the_other_measures_the_same(program);
    journal_append(&place->segment, &event);
    uint32_t holder = process_join(&place->segment, "first", UINT64_C(0x123456789abcdef));
    snprintf(command, sizeof command, "%s %s %s", program, place->folder, STATE_IDENTITY);
    assert_int_equal(system(command), 0);
    assert_true(journal_read(&place->segment, 1, &event));
    assert_int_equal(event.type, EVENT_FAILURE);
    assert_int_equal(event.mono_ns, UINT64_C(123456789012345));
    assert_int_equal(event.pid, 42);
    assert_true(process_alive(&place->segment, holder));
    assert_false(process_alive(&place->segment, 2 << 20 | 1));
}

/* --- any bytes ---------------------------------------------------------------------------------------------------- */

static bool look_and_go_on(const char *path, void *context)
{
    (void)path;
    (void)context;
    return true;
}

static void look_at_evidence(const struct segment *segment, uint32_t circuit)
{
    static struct evidence_view view;
    char text[DESTINATION_MAX];
    assert_true(evidence_read(segment, circuit, &view));
    assert_true(view.count + view.unreadable <= EVIDENCE_SLOTS);
    for (unsigned int i = 0; i < view.count; i++) {
        const struct evidence *at = &view.at[i].evidence;
        assert_true(at->kind < FAILURE_KINDS && at->phase <= PHASE_ANSWERED && at->overran <= OVERRAN_CAME);
        assert_true(strlen(at->program) < sizeof at->program);
        evidence_address(segment, circuit, at->address, text);
    }
    if (view.has_opening)
        assert_true(view.opening.reason < TRANSITION_REASONS &&
                    strlen(view.opening.program) < sizeof view.opening.program);
    evidence_note(segment, circuit, EVIDENCE_PROBES, &(struct evidence){.pid = 1});
    evidence_note_opening(segment, circuit, &(struct opening){.pid = 1});
}

/* What is read of it is in its range. */
static void use_learnt(struct learnt *learnt)
{
    struct learnt_view view;
    learnt_note_wait(learnt, "one", LEARNT_ANSWER, LEARNT_GIVEN_UP, 5 * LEARNT_LONG_NS, 1);
    learnt_note_outcome(learnt, VERDICT_FAILURE, 5 * LEARNT_LONG_NS);
    learnt_note_outcome(learnt, VERDICT_SUCCESS, 6 * LEARNT_LONG_NS);
    learnt_note_shadow(learnt, VERDICT_SUCCESS, 1, 7);
    learnt_read(learnt, 7 * LEARNT_LONG_NS, &view);
    assert_true(view.program_count <= LEARNT_PROGRAMS && view.latest_count <= LEARNT_RUNS);
    for (unsigned int i = 0; i < view.program_count; i++) {
        const struct patience_view *patience = &view.programs[i].waits[LEARNT_ANSWER];
        assert_true(strlen(view.programs[i].name) < PROGRAM_NAME_MAX);
        assert_true(patience->shortest_ns <= patience->median_ns &&
                    patience->median_ns <= patience->longest_ns[LEARNT_GIVEN_UP]);
    }
}

/* Calls all that may be called on a segment. */
static void use_all(struct state *place)
{
    static char line[EVENT_JSON_MAX];
    struct segment *segment = &place->segment;
    struct event event = {.type = EVENT_FAILURE, .program = "one"};
    struct process_view view;
    struct circuit_texts texts;
    assert_true(strlen(segment_identity(segment)) < SEGMENT_IDENTITY_MAX);
    segment_is_current(segment);
    segment_list(place->folder, look_and_go_on, NULL);
    journal_append(segment, &event);
    uint64_t oldest = journal_oldest(segment), head = journal_head(segment);
    assert_true(head - oldest <= CAPACITY_EVENTS);
    for (uint64_t number = oldest; number != head; number++) {
        if (journal_read(segment, number, &event)) {
            assert_true(event_json(&event, line, sizeof line) > 0);
            assert_true(event_what(&event, line, sizeof line) > 0);
        }
    }
    for (uint32_t cursor = 0; process_next(segment, &cursor, &view);)
        assert_true(strlen(view.program) < sizeof view.program);
    uint32_t holder = process_join(segment, "one", 1);
    process_describe(segment, holder, &view);
    process_alive(segment, holder);
    process_leave(segment, holder);
    for (uint32_t cursor = 0, index; (index = circuits_next(segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE;) {
        assert_true(strlen(texts.target) < sizeof texts.target);
        assert_true(strlen(texts.destination) < sizeof texts.destination);
        assert_non_null(circuits_at(segment, index));
        if (circuits_last_failure(segment, index, &event))
            assert_true(event_what(&event, line, sizeof line) > 0);
        look_at_evidence(segment, index);
        if (circuits_last_transition(segment, index, &event))
            assert_true(event_what(&event, line, sizeof line) > 0);
        use_learnt(circuits_learnt(segment, index));
    }
    assert_null(circuits_at(segment, CAPACITY_CIRCUITS));
    uint32_t index = circuits_find(segment, "target", "127.0.0.1:1", 5);
    if (index != CIRCUIT_INDEX_NONE)
        calls_in_flight(segment, index);
}

static void any_bytes_in_a_mapped_segment_are_harmless(void **state)
{
    struct state *place = *state;
    const size_t size = place->segment.size;
    unsigned char *copy = malloc(size);
    unsigned char *bytes = (unsigned char *)place->segment.map;
    /* A segment in use, so that there is something to spoil. */
    use_all(place);
    use_all(place);
    process_join(&place->segment, "stays", 1);
    assert_non_null(copy);
    memcpy(copy, place->segment.map, size);
    srandom(11);
    for (unsigned int round = 0; round < 60; round++) {
        memcpy(place->segment.map, copy, size);
        /* From a few wrong bytes to nothing but wrong bytes; and the extreme values. */
        if (round < 40) {
            for (unsigned long spoiled = 0; spoiled < 8ul << (round / 2); spoiled++)
                bytes[(size_t)random() % size] = (unsigned char)random();
        } else {
            memset(bytes + (round % 2 ? 192 : 0), round < 50 ? 0xff : 0x7f + (int)round % 3, size - 192);
        }
        use_all(place);
    }
    free(copy);
}

#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED(programs_of_32_and_64_bit_share_a_segment),
        ATTACHED(any_bytes_in_a_mapped_segment_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
