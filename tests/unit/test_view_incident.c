/*
 * test_view_incident.c - what is reckoned of an outage from its events, and what is not.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "base/clock.h"
#include "view/output.c"
#include "view/incident.c"
#include "view/state_spans.c"
#include "view/story.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

#define START (UINT64_C(1770000000) * NS_PER_S)

static struct story story;

static int begin_story(void **state)
{
    (void)state;
    story_start(&story);
    return 0;
}

static int end_story(void **state)
{
    (void)state;
    story_free(&story);
    return 0;
}

/* An event `at_ms` after the start, as the only source tells it. */
static struct event event_at(enum event_type type, uint64_t at_ms)
{
    return (struct event){.type = (uint8_t)type,
                          .time_ns = START + at_ms * NS_PER_MS,
                          .mono_ns = NS_PER_S + at_ms * NS_PER_MS,
                          .pid = 1,
                          .program = "worker",
                          .target = "t",
                          .destination = "a:1"};
}

static void tell(struct event event)
{
    assert_true(story_tell(&story, &event, "p", "u", 0));
}

static void fails(uint64_t at_ms, uint32_t elapsed_ms, uint32_t pid, bool late)
{
    struct event event = event_at(EVENT_FAILURE, at_ms);
    event.kind = FAILURE_RESPONSE_TIMEOUT;
    event.elapsed_ms = elapsed_ms;
    event.pid = pid;
    event.late = late;
    tell(event);
}

static void opens(uint64_t at_ms, enum circuit_state from, uint32_t failures, uint64_t refused)
{
    struct event event = event_at(EVENT_OPEN, at_ms);
    event.from = (uint8_t)from;
    event.to = CIRCUIT_OPEN;
    event.reason = from == CIRCUIT_CLOSED ? REASON_FAILURE_THRESHOLD : REASON_PROBE_FAILED;
    event.failures = failures;
    event.refused = refused;
    tell(event);
}

static void half_opens(uint64_t at_ms, uint64_t refused)
{
    struct event event = event_at(EVENT_HALF_OPEN, at_ms);
    event.from = CIRCUIT_OPEN;
    event.to = CIRCUIT_HALF_OPEN;
    event.reason = REASON_PAUSE_OVER;
    event.refused = refused;
    tell(event);
    tell(event_at(EVENT_PROBE, at_ms));
}

static void closes(uint64_t at_ms, uint64_t refused)
{
    struct event event = event_at(EVENT_CLOSE, at_ms);
    event.from = CIRCUIT_HALF_OPEN;
    event.to = CIRCUIT_CLOSED;
    event.reason = REASON_PROBE_SUCCEEDED;
    event.refused = refused;
    tell(event);
}

static const struct incident *incidents(size_t count)
{
    story_end(&story, 0, 0);
    story_find_incidents(&story);
    assert_int_equal(story.circuit_count, 1);
    assert_int_equal(story.circuits[0].incident_count, count);
    return story.circuits[0].incidents;
}

static const struct incident *only_incident(void)
{
    return incidents(1);
}

static void assert_figure(struct figure figure, uint64_t value)
{
    assert_true(figure.is_known);
    assert_int_equal(figure.value, value);
}

static void an_incident_is_told_from_the_first_call_that_failed_to_the_closing(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    fails(1100, 1000, 2, false); /* began first, at 100 */
    fails(1900, 800, 1, false);
    opens(1900, CIRCUIT_CLOSED, 3, 5);
    fails(2000, 800, 2, true); /* leaked */
    half_opens(4000, 25);
    fails(4500, 500, 1, false); /* the probe's */
    opens(4500, CIRCUIT_HALF_OPEN, 0, 30);
    half_opens(8500, 45);
    closes(8510, 45);
    const struct incident *incident = only_incident();
    assert_figure(incident->detect_ms, 1800);
    assert_figure(incident->lasted_ms, 6610);
    assert_figure(incident->refused, 40);
    assert_figure(incident->typical_ms, 800);
    assert_int_equal(incident->counted, 3);
    assert_int_equal(incident->leaked, 1);
    assert_int_equal(incident->leaked_ms, 800);
    assert_int_equal(incident->probes, 2);
    assert_int_equal(incident->probes_failed, 1);
    assert_int_equal(incident->waited_ms, 800 + 1000 + 800 + 800 + 500);
    assert_int_equal(incident->kind_count, 1);
    assert_int_equal(incident->kinds[0].calls, 5);
    assert_int_equal(incident->process_count, 2);
}

/* Two processes, each with one call at a time, from 100 to 8510 ms: they can't have waited for more than that. */
static void nobody_would_have_waited_for_longer_than_the_outage(void **state)
{
    an_incident_is_told_from_the_first_call_that_failed_to_the_closing(state);
    const struct incident *incident = &story.circuits[0].incidents[0];
    assert_figure(incident->at_most_ms, 3900 + 40 * 800);
    assert_figure(incident->without_ms, 2 * 8410);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(incident->processes[i].at_once, 1);
        assert_figure(incident->processes[i].without_ms, 8410);
    }
}

static void few_refusals_save_no_more_than_they_would_have_waited(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    half_opens(9000, 2);
    closes(9000, 2);
    const struct incident *incident = only_incident();
    assert_figure(incident->at_most_ms, 800 + 2 * 800);
    assert_figure(incident->without_ms, 800 + 2 * 800);
}

/* Nothing is known of how long others of it would have waited. */
static void of_a_process_that_only_probed_it_is_unknown_what_it_would_have_waited(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    half_opens(2000, 2);
    fails(2800, 800, 2, false);
    opens(2800, CIRCUIT_HALF_OPEN, 0, 2);
    const struct incident *incident = only_incident();
    assert_true(incident->without_ms.is_known);
    assert_int_equal(incident->process_count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(incident->processes[i].without_ms.is_known, incident->processes[i].pid == 1);
}

static void calls_at_once_of_a_process_are_those_that_overlap(void **state)
{
    (void)state;
    fails(1000, 900, 1, false);
    fails(1050, 900, 1, false);
    fails(1100, 900, 1, false);
    fails(1900, 800, 1, false); /* when the first one is over */
    opens(1900, CIRCUIT_CLOSED, 4, 0);
    closes(2900, 1000);
    assert_int_equal(only_incident()->processes[0].at_once, 3);
}

static void what_is_not_in_the_events_is_unknown(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 5, 0); /* four of the five are gone from the journal */
    fails(1500, 800, 1, true);
    const struct incident *incident = only_incident();
    assert_false(incident->detect_ms.is_known);
    assert_null(incident->ended);
    assert_false(incident->refused.is_known);
    assert_false(incident->without_ms.is_known);
    assert_figure(incident->lasted_ms, 500);
}

static void events_that_begin_in_the_middle_tell_the_rest(void **state)
{
    (void)state;
    half_opens(4000, 25);
    closes(4500, 30);
    const struct incident *incident = only_incident();
    assert_null(incident->opened);
    assert_non_null(incident->ended);
    assert_false(incident->refused.is_known);
    assert_false(incident->lasted_ms.is_known);
    assert_int_equal(incident->probes, 1);
}

static void a_count_that_goes_back_is_another_segments(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 5);
    closes(2000, 2);
    assert_false(only_incident()->refused.is_known);
}

static void an_incident_that_goes_on_has_refused_what_its_circuit_has_by_now(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 5);
    story_end(&story, 0, START + 3000 * NS_PER_MS);
    story.circuits[0].is_known_now = true;
    story.circuits[0].refused_now = 47;
    story_find_incidents(&story);
    assert_figure(story.circuits[0].incidents[0].refused, 42);
    assert_figure(story.circuits[0].incidents[0].lasted_ms, 2000);
}

/* The circuits' clock begins anew with each boot. */
static void what_lies_on_both_sides_of_a_boot_is_told_by_the_walls_clock(void **state)
{
    struct event closed = event_at(EVENT_CLOSE, 60000);
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    closed.from = CIRCUIT_HALF_OPEN;
    closed.to = CIRCUIT_CLOSED;
    closed.mono_ns = NS_PER_MS;
    tell(closed);
    assert_figure(only_incident()->lasted_ms, 59000);
}

static void an_incident_whose_closing_is_not_told_ends_with_the_next_opening(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    fails(5000, 100, 1, false);
    opens(5000, CIRCUIT_CLOSED, 1, 0);
    closes(7000, 0);
    const struct incident *both = incidents(2);
    assert_null(both[0].ended);
    assert_int_equal(both[0].to_ns, START + 5000 * NS_PER_MS);
    assert_figure(both[1].lasted_ms, 2000);
}

static void what_failed_before_a_closing_or_behind_it_is_none_of_the_next_incidents(void **state)
{
    (void)state;
    fails(1000, 800, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    closes(2000, 0);
    fails(3000, 100, 1, false);
    opens(3000, CIRCUIT_CLOSED, 2, 0); /* the other one of the two is not in the events */
    closes(4000, 0);
    fails(5000, 100, 1, false);
    const struct incident *both = incidents(2);
    assert_int_equal(both[0].waited_ms, 800);
    assert_int_equal(both[1].counted, 1);
    assert_int_equal(both[1].waited_ms, 100);
    assert_false(both[1].detect_ms.is_known);
}

static void an_operators_word_on_a_closed_circuit_is_no_outage(void **state)
{
    struct event forced = event_at(EVENT_FORCED, 2500), closed = event_at(EVENT_CLOSE, 2500);
    (void)state;
    forced.kind = FORCED_CLOSED;
    forced.from = forced.to = closed.from = closed.to = CIRCUIT_CLOSED;
    forced.reason = closed.reason = REASON_FORCED;
    tell(forced);
    tell(closed);
    incidents(0);
}

static void who_has_waited_longest_comes_first_and_so_does_what_was_most_often(void **state)
{
    struct event silence = event_at(EVENT_FAILURE, 900), hangs = event_at(EVENT_FAILURE, 1100);
    (void)state;
    silence.kind = FAILURE_CONNECT_TIMEOUT;
    hangs.kind = FAILURE_RESPONSE_TIMEOUT;
    hangs.elapsed_ms = 500;
    hangs.pid = 2;
    hangs.overran = OVERRAN_HANGS;
    tell(silence);
    fails(1000, 100, 1, false);
    tell(hangs);
    opens(1200, CIRCUIT_CLOSED, 3, 0);
    closes(2000, 0);
    const struct incident *incident = only_incident();
    assert_int_equal(incident->hanging, 1);
    assert_int_equal(incident->process_count, 2);
    assert_int_equal(incident->processes[0].pid, 2);
    assert_int_equal(incident->processes[0].longest_ms, 500);
    assert_int_equal(incident->kind_count, 2);
    assert_int_equal(incident->kinds[0].kind, FAILURE_RESPONSE_TIMEOUT);
    assert_int_equal(incident->kinds[0].calls, 2);
}

static void a_success_ends_a_row_of_failures(void **state)
{
    struct event success = event_at(EVENT_OUTCOME, 500);
    (void)state;
    success.verdict = VERDICT_SUCCESS;
    fails(400, 100, 1, false);
    tell(success);
    fails(1000, 100, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    closes(2000, 0);
    const struct incident *incident = only_incident();
    assert_int_equal(incident->counted, 1);
    assert_figure(incident->detect_ms, 100);
}

static void a_failure_that_is_recorded_as_an_outcome_too_is_one_call(void **state)
{
    struct event outcome = event_at(EVENT_OUTCOME, 1000);
    (void)state;
    outcome.verdict = VERDICT_FAILURE;
    outcome.kind = FAILURE_RESPONSE_TIMEOUT;
    assert_false(event_is_call(&outcome));
    tell(outcome);
    fails(1000, 100, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    assert_int_equal(only_incident()->waited_ms, 100);
}

static void an_event_that_two_files_have_is_told_once(void **state)
{
    struct event event = event_at(EVENT_FAILURE, 1000);
    (void)state;
    /* Two calls that were found to hang at the same moment are two. */
    assert_true(story_tell(&story, &event, "p", "u", 0));
    assert_true(story_tell(&story, &event, "p", "u", 0));
    assert_true(story_tell(&story, &event, "p", "u", 1));
    assert_true(story_tell(&story, &event, "p", "u", 1));
    event.pid = 2;
    assert_true(story_tell(&story, &event, "p", "u", 1));
    assert_true(story_tell(&story, &event, "other", "u", 0));
    story_end(&story, 0, 0);
    assert_int_equal(story.told_count, 4);
}

static void states_follow_each_other_without_a_gap(void **state)
{
    struct state_span *spans;
    struct event forced = event_at(EVENT_FORCED, 2500);
    (void)state;
    forced.kind = FORCED_OPEN;
    forced.from = CIRCUIT_CLOSED;
    forced.to = CIRCUIT_OPEN;
    forced.reason = REASON_FORCED;
    fails(1000, 1000, 1, false);
    opens(1000, CIRCUIT_CLOSED, 1, 0);
    half_opens(2000, 0);
    closes(2100, 0);
    tell(forced);
    opens(3000, CIRCUIT_CLOSED, 1, 0); /* underneath the operator's word */
    story_end(&story, 0, START + 4000 * NS_PER_MS);
    const size_t count = state_spans(&story, &story.circuits[0], &spans);
    static const enum circuit_state states[] = {CIRCUIT_CLOSED, CIRCUIT_OPEN, CIRCUIT_HALF_OPEN, CIRCUIT_CLOSED,
                                                CIRCUIT_OPEN};
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(spans[i].state, states[i]);
        assert_int_equal(spans[i].from_ns, i == 0 ? story.from_ns : spans[i - 1].to_ns);
    }
    assert_int_equal(spans[4].forced, FORCED_OPEN);
    assert_int_equal(spans[4].to_ns, story.to_ns);
    free(spans);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_story, end_story)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_incident_is_told_from_the_first_call_that_failed_to_the_closing),
        TEST(nobody_would_have_waited_for_longer_than_the_outage),
        TEST(few_refusals_save_no_more_than_they_would_have_waited),
        TEST(of_a_process_that_only_probed_it_is_unknown_what_it_would_have_waited),
        TEST(calls_at_once_of_a_process_are_those_that_overlap),
        TEST(what_is_not_in_the_events_is_unknown),
        TEST(events_that_begin_in_the_middle_tell_the_rest),
        TEST(a_count_that_goes_back_is_another_segments),
        TEST(an_incident_that_goes_on_has_refused_what_its_circuit_has_by_now),
        TEST(what_lies_on_both_sides_of_a_boot_is_told_by_the_walls_clock),
        TEST(an_incident_whose_closing_is_not_told_ends_with_the_next_opening),
        TEST(what_failed_before_a_closing_or_behind_it_is_none_of_the_next_incidents),
        TEST(an_operators_word_on_a_closed_circuit_is_no_outage),
        TEST(who_has_waited_longest_comes_first_and_so_does_what_was_most_often),
        TEST(a_success_ends_a_row_of_failures),
        TEST(a_failure_that_is_recorded_as_an_outcome_too_is_one_call),
        TEST(an_event_that_two_files_have_is_told_once),
        TEST(states_follow_each_other_without_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
