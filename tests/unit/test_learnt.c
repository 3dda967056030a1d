/*
 * test_learnt.c - what a circuit keeps of programs' patience, of runs of failures, and of refusals that were none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "segment/learnt.h"

static struct learnt learnt;
static struct learnt_view view;

static int setup(void **state)
{
    (void)state;
    memset(&learnt, 0, sizeof learnt);
    return 0;
}

static void give_up(const char *program, uint64_t waited_ns, uint64_t wall_ns)
{
    learnt_note_wait(&learnt, program, LEARNT_ANSWER, LEARNT_GIVEN_UP, waited_ns, wall_ns);
}

static const struct patience_view *seen(const char *program)
{
    learnt_read(&learnt, 0, &view);
    for (unsigned int i = 0; i < view.program_count; i++)
        if (strcmp(view.programs[i].name, program) == 0)
            return &view.programs[i].waits[LEARNT_ANSWER];
    return NULL;
}

static void what_was_given_up_is_told_by_count_shortest_longest_and_median(void **state)
{
    (void)state;
    for (unsigned int s = 5; s > 0; s--)
        give_up("nginx", s * NS_PER_S, 100 - s);
    const struct patience_view *patience = seen("nginx");
    assert_int_equal(patience->counts[LEARNT_GIVEN_UP], 5);
    assert_true(patience->shortest_ns == NS_PER_S && patience->median_ns == 3 * NS_PER_S);
    assert_true(patience->longest_ns[LEARNT_GIVEN_UP] == 5 * NS_PER_S);
    assert_true(patience->since_ns == 95 && patience->last_ns == 99);
    assert_int_equal(view.programs[0].waits[LEARNT_CONNECT].counts[LEARNT_GIVEN_UP], 0);
}

static void the_median_is_of_the_latest(void **state)
{
    (void)state;
    for (unsigned int i = 0; i < 100; i++)
        give_up("nginx", i < 90 ? 60 * NS_PER_S : 5 * NS_PER_S, 1);
    assert_true(seen("nginx")->median_ns == 5 * NS_PER_S);
    assert_true(seen("nginx")->longest_ns[LEARNT_GIVEN_UP] == 60 * NS_PER_S);
}

#define HOUR_NS (3600 * NS_PER_S)

static void what_was_given_up_is_counted_by_the_hour_for_a_day(void **state)
{
    const uint64_t midnight = 20000 * 24 * HOUR_NS;
    (void)state;
    for (unsigned int hour = 0; hour < 48; hour++)
        for (unsigned int i = 0; i <= hour % 24; i++)
            give_up("nginx", NS_PER_S, midnight + hour * HOUR_NS + i);
    const uint64_t now = midnight + 48 * HOUR_NS - 1;
    uint64_t from = midnight + 24 * HOUR_NS;
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, now), 24 * 25 / 2);
    assert_true(from == midnight + 24 * HOUR_NS);
    /* Within an hour it is known from the next one on; and of one that is over a day ago nothing is. */
    from = midnight + 45 * HOUR_NS + 1;
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, now), 23 + 24);
    assert_true(from == midnight + 46 * HOUR_NS);
    from = midnight;
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, now), 24 + 24 * 25 / 2);
    assert_true(from == midnight + 23 * HOUR_NS);
    /* Days later the same places tell nothing. */
    from = now + 100 * HOUR_NS;
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, now + 110 * HOUR_NS), 0);
    learnt_reset(&learnt);
    give_up("nginx", NS_PER_S, now);
    from = now - HOUR_NS;
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, now), 1);
}

static void of_an_hour_no_more_is_told_than_was_counted(void **state)
{
    uint64_t from = 0;
    (void)state;
    for (unsigned int i = 0; i < 70000; i++)
        give_up("nginx", NS_PER_S, 1);
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, 2), 65535);
    assert_int_equal(seen("nginx")->counts[LEARNT_GIVEN_UP], 70000);
    learnt.programs[0].waits[LEARNT_ANSWER].counts[LEARNT_GIVEN_UP] = 3; /* damaged */
    assert_int_equal(learnt_given_up_since(seen("nginx"), &from, 2), 3);
}

static void a_change_of_mind_is_no_timeout_and_a_quick_answer_tells_nothing(void **state)
{
    (void)state;
    give_up("curl", LEARNT_SHORTEST_NS - 1, 1);
    learnt_note_wait(&learnt, "curl", LEARNT_ANSWER, LEARNT_OUTLASTED, LEARNT_LONG_NS - 1, 1);
    assert_null(seen("curl"));
    give_up("curl", LEARNT_SHORTEST_NS, 1);
    learnt_note_wait(&learnt, "curl", LEARNT_ANSWER, LEARNT_OUTLASTED, LEARNT_LONG_NS, 1);
    assert_int_equal(seen("curl")->counts[LEARNT_GIVEN_UP], 1);
    assert_int_equal(seen("curl")->counts[LEARNT_OUTLASTED], 1);
}

static void programs_beyond_the_room_are_counted(void **state)
{
    char name[16];
    (void)state;
    for (unsigned int i = 0; i < LEARNT_PROGRAMS + 3; i++) {
        snprintf(name, sizeof name, "worker-%u", i);
        give_up(name, NS_PER_S, 1);
        give_up(name, NS_PER_S, 1);
    }
    learnt_read(&learnt, 0, &view);
    assert_int_equal(view.program_count, LEARNT_PROGRAMS);
    assert_true(view.without_room == 6);
}

static void a_name_that_is_half_written_is_not_shown_and_is_mended_by_the_next(void **state)
{
    (void)state;
    give_up("a-program-with-a-name-that-is-longer-than-its-room", NS_PER_S, 1);
    assert_non_null(seen("a-program-with-a-name-that-is-l"));
    learnt.programs[0].name[3] = 'X';
    learnt_read(&learnt, 0, &view);
    assert_int_equal(view.program_count, 0);
    give_up("a-program-with-a-name-that-is-longer-than-its-room", NS_PER_S, 1);
    assert_int_equal(seen("a-program-with-a-name-that-is-l")->counts[LEARNT_GIVEN_UP], 2);
}

static void a_run_of_failures_heals_with_the_next_success(void **state)
{
    (void)state;
    learnt_note_outcome(&learnt, VERDICT_SUCCESS, 1 * NS_PER_S);
    for (unsigned int i = 0; i < 3; i++)
        learnt_note_outcome(&learnt, VERDICT_FAILURE, (2 + i) * NS_PER_S);
    learnt_note_outcome(&learnt, VERDICT_NEUTRAL, 5 * NS_PER_S);
    learnt_note_outcome(&learnt, VERDICT_BUSINESS, 5 * NS_PER_S);
    learnt_read(&learnt, 6 * NS_PER_S, &view);
    assert_true(view.healed == 0 && view.present.failures == 3 && view.present.lasted_ns == 4 * NS_PER_S);
    learnt_note_outcome(&learnt, VERDICT_SUCCESS, 7 * NS_PER_S);
    learnt_note_outcome(&learnt, VERDICT_SUCCESS, 8 * NS_PER_S);
    learnt_read(&learnt, 9 * NS_PER_S, &view);
    assert_true(view.healed == 1 && view.present.failures == 0 && view.latest_count == 1);
    assert_true(view.latest[0].failures == 3 && view.latest[0].lasted_ns == 5 * NS_PER_S);
    assert_true(view.most_failures == 3 && view.longest_ns == 5 * NS_PER_S);
}

static void shadows_are_told_by_their_outcome(void **state)
{
    (void)state;
    learnt_note_shadow(&learnt, VERDICT_FAILURE, 1, 2 * NS_PER_S);
    learnt_note_shadow(&learnt, VERDICT_FAILURE, 0, NS_PER_S);
    learnt_note_shadow(&learnt, VERDICT_SUCCESS, 1, NS_PER_MS);
    learnt_read(&learnt, 0, &view);
    assert_true(view.shadow_calls[VERDICT_FAILURE] == 1 && view.shadow_waited_ns[VERDICT_FAILURE] == 3 * NS_PER_S);
    assert_true(view.shadow_calls[VERDICT_SUCCESS] == 1 && view.shadow_waited_ns[VERDICT_SUCCESS] == NS_PER_MS);
}

static void nothing_is_left_of_it_when_its_place_is_anothers(void **state)
{
    (void)state;
    give_up("nginx", NS_PER_S, 1);
    learnt_note_outcome(&learnt, VERDICT_FAILURE, NS_PER_S);
    learnt_note_outcome(&learnt, VERDICT_SUCCESS, 2 * NS_PER_S);
    learnt_note_outcome(&learnt, VERDICT_FAILURE, 3 * NS_PER_S);
    learnt_note_shadow(&learnt, VERDICT_FAILURE, 1, NS_PER_S);
    learnt_reset(&learnt);
    const struct learnt_view empty = {.program_count = 0};
    learnt_read(&learnt, 4 * NS_PER_S, &view);
    assert_memory_equal(&view, &empty, sizeof view);
    give_up("nginx", 2 * NS_PER_S, 1);
    assert_true(seen("nginx")->shortest_ns == 2 * NS_PER_S && seen("nginx")->counts[LEARNT_GIVEN_UP] == 1);
}

#define FRESH(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(what_was_given_up_is_told_by_count_shortest_longest_and_median),
        FRESH(the_median_is_of_the_latest),
        FRESH(what_was_given_up_is_counted_by_the_hour_for_a_day),
        FRESH(of_an_hour_no_more_is_told_than_was_counted),
        FRESH(a_change_of_mind_is_no_timeout_and_a_quick_answer_tells_nothing),
        FRESH(programs_beyond_the_room_are_counted),
        FRESH(a_name_that_is_half_written_is_not_shown_and_is_mended_by_the_next),
        FRESH(a_run_of_failures_heals_with_the_next_success),
        FRESH(shadows_are_told_by_their_outcome),
        FRESH(nothing_is_left_of_it_when_its_place_is_anothers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
