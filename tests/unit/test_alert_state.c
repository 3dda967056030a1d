/* When a circuit's alert is sent, and whether it flaps; on a clock of its own. links: agent */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/alert_state.h"
#include "agent/flapping.h"
#include "base/units.h"

#define EVERY (5 * NS_PER_MINUTE)

static uint64_t now_ns = NS_PER_HOUR;

static void happens(struct alert_state *state, enum alert_kind kind)
{
    const struct event event = {.mono_ns = now_ns};
    alert_happened(state, kind, &event);
}

static void expect_begin(struct alert_state *state, enum alert_kind kind, uint64_t left_out, uint32_t left_out_on)
{
    assert_true(alert_is_due(state, EVERY, now_ns));
    assert_int_equal(state->kind, kind);
    assert_int_equal(state->left_out, left_out);
    assert_int_equal(state->left_out_on, left_out_on);
    alert_began(state, now_ns);
}

static void the_first_is_sent_at_once_and_the_next_at_the_end_of_the_time(void **state)
{
    struct alert_state alert = {0};
    (void)state;
    assert_false(alert_is_due(&alert, EVERY, now_ns));
    happens(&alert, ALERT_OPEN);
    expect_begin(&alert, ALERT_OPEN, 0, 0);
    alert_ended(&alert);
    happens(&alert, ALERT_CLOSE);
    now_ns += EVERY - 1;
    assert_false(alert_is_due(&alert, EVERY, now_ns));
    now_ns++;
    expect_begin(&alert, ALERT_CLOSE, 0, 0);
    alert_ended(&alert);
    assert_false(alert_is_over(&alert, EVERY, now_ns));
    now_ns += EVERY;
    assert_true(alert_is_over(&alert, EVERY, now_ns));
    assert_false(alert_is_due(&alert, EVERY, now_ns));
}

static void none_begins_while_one_runs(void **state)
{
    struct alert_state alert = {0};
    (void)state;
    happens(&alert, ALERT_OPEN);
    expect_begin(&alert, ALERT_OPEN, 0, 0);
    happens(&alert, ALERT_CLOSE);
    now_ns += 10 * EVERY;
    assert_false(alert_is_due(&alert, EVERY, now_ns));
    assert_false(alert_is_over(&alert, EVERY, now_ns));
    alert_ended(&alert);
    expect_begin(&alert, ALERT_CLOSE, 0, 0);
}

static void of_those_that_wait_the_last_one_is_sent_with_how_many_there_were(void **state)
{
    struct alert_state alert = {0};
    (void)state;
    happens(&alert, ALERT_OPEN);
    happens(&alert, ALERT_CLOSE);
    happens(&alert, ALERT_FORCED);
    now_ns++;
    happens(&alert, ALERT_OPEN);
    assert_int_equal(alert.event.mono_ns, now_ns);
    expect_begin(&alert, ALERT_OPEN, 3, 1u << ALERT_OPEN | 1u << ALERT_CLOSE | 1u << ALERT_FORCED);
    assert_int_equal(alert.left_out, 0);
}

static void what_tells_more_stays(void **state)
{
    struct alert_state alert = {0};
    (void)state;
    happens(&alert, ALERT_OVERDUE);
    happens(&alert, ALERT_OPEN);
    happens(&alert, ALERT_OVERDUE);
    happens(&alert, ALERT_PROBE_FAILED);
    expect_begin(&alert, ALERT_OPEN, 3, 1u << ALERT_OVERDUE | 1u << ALERT_PROBE_FAILED);
    happens(&alert, ALERT_FLAPPING);
    happens(&alert, ALERT_CLOSE);
    alert_ended(&alert);
    now_ns += EVERY;
    expect_begin(&alert, ALERT_FLAPPING, 1, 1u << ALERT_CLOSE);
}

static void what_is_dropped_is_not_counted_either(void **state)
{
    struct alert_state alert = {0};
    (void)state;
    happens(&alert, ALERT_OPEN);
    happens(&alert, ALERT_CLOSE);
    alert_drop(&alert);
    assert_true(alert_is_over(&alert, EVERY, now_ns));
    happens(&alert, ALERT_OPEN);
    expect_begin(&alert, ALERT_OPEN, 0, 0);
}

static void one_that_could_not_be_begun_waits_again_unless_a_later_one_does(void **state)
{
    struct alert_state alert = {0};
    const struct event event = {.pid = 7};
    (void)state;
    happens(&alert, ALERT_OPEN);
    expect_begin(&alert, ALERT_OPEN, 0, 0);
    alert_undone(&alert, ALERT_OPEN, &event);
    assert_int_equal(alert.event.pid, 7);
    expect_begin(&alert, ALERT_OPEN, 0, 0);
    happens(&alert, ALERT_CLOSE);
    alert_undone(&alert, ALERT_OPEN, &event);
    expect_begin(&alert, ALERT_CLOSE, 0, 0);
}

static void a_circuit_flaps_that_opens_so_often_within_the_span_and_is_counted_anew(void **state)
{
    const struct flapping_rule rule = {.span_ns = NS_PER_MINUTE, .openings = 3};
    struct flapping flapping = {.count = 0};
    (void)state;
    assert_true(flapping_is_over(&flapping, &rule, now_ns));
    assert_false(flapping_opened(&flapping, &rule, now_ns));
    assert_false(flapping_opened(&flapping, &rule, now_ns + 1));
    assert_true(flapping_opened(&flapping, &rule, now_ns + NS_PER_MINUTE - 1));
    assert_true(flapping_is_over(&flapping, &rule, now_ns + NS_PER_MINUTE));
    for (unsigned int round = 0; round < 3; round++) {
        assert_false(flapping_opened(&flapping, &rule, now_ns));
        assert_false(flapping_opened(&flapping, &rule, now_ns));
        assert_true(flapping_opened(&flapping, &rule, now_ns));
    }
    assert_false(flapping_opened(&flapping, &rule, now_ns));
    assert_false(flapping_opened(&flapping, &rule, now_ns + 1));
    assert_false(flapping_is_over(&flapping, &rule, now_ns + NS_PER_MINUTE));
    assert_true(flapping_is_over(&flapping, &rule, now_ns + NS_PER_MINUTE + 1));
    assert_false(flapping_opened(&flapping, &rule, now_ns + NS_PER_MINUTE)); /* the first one lies no more within it */
}

static void a_rule_that_changes_or_a_clock_of_no_sense_overruns_nothing(void **state)
{
    const struct flapping_rule most = {.span_ns = NS_PER_DAY, .openings = FLAPPING_OPENINGS_MAX},
                               beyond = {.span_ns = NS_PER_DAY, .openings = FLAPPING_OPENINGS_MAX + 1};
    struct flapping flapping = {.count = 0};
    (void)state;
    for (unsigned int i = 1; i < FLAPPING_OPENINGS_MAX; i++)
        assert_false(flapping_opened(&flapping, &most, UINT64_MAX - i));
    assert_true(flapping_opened(&flapping, &most, 0));
    for (unsigned int i = 0; i < 3 * FLAPPING_OPENINGS_MAX; i++)
        assert_false(flapping_opened(&flapping, &beyond, now_ns));
    assert_int_equal(flapping.count, FLAPPING_OPENINGS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_sent_at_once_and_the_next_at_the_end_of_the_time),
        cmocka_unit_test(none_begins_while_one_runs),
        cmocka_unit_test(of_those_that_wait_the_last_one_is_sent_with_how_many_there_were),
        cmocka_unit_test(what_tells_more_stays),
        cmocka_unit_test(what_is_dropped_is_not_counted_either),
        cmocka_unit_test(one_that_could_not_be_begun_waits_again_unless_a_later_one_does),
        cmocka_unit_test(a_circuit_flaps_that_opens_so_often_within_the_span_and_is_counted_anew),
        cmocka_unit_test(a_rule_that_changes_or_a_clock_of_no_sense_overruns_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
