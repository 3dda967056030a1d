/*
 * test_guard_learning.c - what a call's end teaches of its program's patience, and of refusals that were none.
 */
#include "support_guard.h"

#include <errno.h>
#include <string.h>

#include "guard/learning.h"
#include "segment/learnt.h"

static const struct learnt_view *seen(const struct guard_bench *bench)
{
    static struct learnt_view view;

    learnt_read(circuits_learnt(&bench->segment, bench->circuit), bench->now_ns, &view);
    return &view;
}

static const struct patience_view *patience(const struct guard_bench *bench, enum learnt_wait waits)
{
    assert_int_equal(seen(bench)->program_count, 1);
    assert_string_equal(seen(bench)->programs[0].name, bench->guard.program);
    return &seen(bench)->programs[0].waits[waits];
}

static uint32_t requested(struct guard_bench *bench)
{
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
    return call;
}

static void a_program_that_closes_while_it_waits_has_given_up(void **state)
{
    struct guard_bench *bench = *state;

    bench_settle(bench, requested(bench), SEEN_GAVE_UP, 0, 5 * NS_PER_S);
    bench_settle(bench, requested(bench), SEEN_WAIT_ENDED, 0, 7 * NS_PER_S);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_GIVEN_UP], 2);
    assert_true(patience(bench, LEARNT_ANSWER)->shortest_ns == 5 * NS_PER_S);
    assert_true(patience(bench, LEARNT_ANSWER)->longest_ns[LEARNT_GIVEN_UP] == 7 * NS_PER_S);
    assert_int_equal(patience(bench, LEARNT_CONNECT)->counts[LEARNT_GIVEN_UP], 0);
}

static void a_call_that_is_cancelled_sooner_than_abandon_after_was_given_up_too(void **state)
{
    struct guard_bench *bench = *state;

    assert_int_equal(bench_settle(bench, bench_call(bench), SEEN_GAVE_UP, 0, 200 * NS_PER_MS).reason,
                     NEUTRAL_CANCELLED);
    assert_true(patience(bench, LEARNT_CONNECT)->shortest_ns == 200 * NS_PER_MS);
    bench_settle(bench, bench_call(bench), SEEN_GAVE_UP, 0, 3 * NS_PER_MS);
    assert_int_equal(patience(bench, LEARNT_CONNECT)->counts[LEARNT_GIVEN_UP], 1);
}

static void the_kernels_giving_up_is_not_the_programs(void **state)
{
    struct guard_bench *bench = *state;

    bench_settle(bench, bench_call(bench), SEEN_ERROR, ETIMEDOUT, 127 * NS_PER_S);
    bench_settle(bench, requested(bench), SEEN_ERROR, ETIMEDOUT, 900 * NS_PER_S);
    assert_int_equal(patience(bench, LEARNT_CONNECT)->counts[LEARNT_GIVEN_UP], 0);
    assert_int_equal(patience(bench, LEARNT_CONNECT)->counts[LEARNT_BY_KERNEL], 1);
    assert_true(patience(bench, LEARNT_CONNECT)->longest_ns[LEARNT_BY_KERNEL] == 127 * NS_PER_S);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_BY_KERNEL], 1);
}

static void a_limit_that_is_enforced_is_not_the_programs_either(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.enforce_timeouts = true;
    bench->target.response_timeout_ns = 2 * NS_PER_S;
    bench_settle(bench, requested(bench), SEEN_ERROR, ETIMEDOUT, 2 * NS_PER_S + NS_PER_MS);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_BY_LIMIT], 1);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_GIVEN_UP], 0);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_BY_KERNEL], 0);
}

static void a_long_wait_that_was_worth_it_shows_that_the_program_waits_so_long(void **state)
{
    struct guard_bench *bench = *state;

    bench_settle(bench, requested(bench), SEEN_BYTES, 0, 30 * NS_PER_S);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_OUTLASTED], 1);
    assert_true(patience(bench, LEARNT_ANSWER)->longest_ns[LEARNT_OUTLASTED] == 30 * NS_PER_S);
}

static void a_slow_connection_shows_it_as_well(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    bench->now_ns += 3 * NS_PER_S;
    bench_connected(bench, call);
    assert_true(patience(bench, LEARNT_CONNECT)->longest_ns[LEARNT_OUTLASTED] == 3 * NS_PER_S);
    bench_settle(bench, call, SEEN_BYTES, 0, NS_PER_MS);
}

static void so_does_one_that_is_found_on_the_short_way(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);
    struct call_place place;

    bench->now_ns += 3 * NS_PER_S;
    assert_true(guard_call_place(&bench->guard, bench->circuit, call, &place));
    assert_true(guard_connected_short(&place, &bench->target, bench->now_ns));
    assert_true(patience(bench, LEARNT_CONNECT)->longest_ns[LEARNT_OUTLASTED] == 3 * NS_PER_S);
    bench_settle(bench, call, SEEN_BYTES, 0, NS_PER_MS);
}

/* As when another's success came between the failure and what is learnt of it. */
static void a_failure_of_which_the_circuit_knows_nothing_begins_no_run(void **state)
{
    struct guard_bench *bench = *state;
    const struct call_view call = {.circuit = bench->circuit};
    struct ending ending = {.outcome = {.verdict = VERDICT_FAILURE, .kind = FAILURE_REFUSED}, .at_ns = bench->now_ns};

    learning_note_outcome(&bench->segment, &call, &ending, false);
    ending.outcome = (struct outcome){.verdict = VERDICT_SUCCESS};
    ending.at_ns += 6 * 3600 * NS_PER_S;
    learning_note_outcome(&bench->segment, &call, &ending, false);
    assert_int_equal(seen(bench)->healed, 0);
}

static void who_gives_up_a_call_that_was_charged_before_has_given_up(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call, other;

    bench->target.response_timeout_ns = 2 * NS_PER_S;
    call = requested(bench);
    bench->now_ns += 4 * NS_PER_S;
    other = bench_call(bench); /* finds it overdue */
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_int_equal(seen(bench)->program_count, 0);
    bench_settle(bench, call, SEEN_GAVE_UP, 0, 9 * NS_PER_S);
    assert_true(patience(bench, LEARNT_ANSWER)->shortest_ns == 9 * NS_PER_S);
    bench_settle(bench, other, SEEN_BYTES, 0, NS_PER_MS);
}

static void settle_end(struct guard_bench *bench, uint32_t call, enum seen seen, bool gave_up)
{
    struct observation observation = {
        .seen = seen, .error = seen == SEEN_ERROR ? ECONNRESET : 0, .waited_ns = 5 * NS_PER_S, .gave_up = gave_up};

    guard_settle(&bench->guard, call, &bench->target, 5, &observation, bench->now_ns);
}

static void an_end_of_which_the_program_was_the_cause_is_its_giving_up_and_another_is_not(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_threshold = 10;
    settle_end(bench, requested(bench), SEEN_END, true);
    settle_end(bench, requested(bench), SEEN_ERROR, true);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_GIVEN_UP], 2);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_OUTLASTED], 0);
    settle_end(bench, requested(bench), SEEN_END, false);
    settle_end(bench, bench_call(bench), SEEN_ERROR, false);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_GIVEN_UP], 2);
    assert_int_equal(patience(bench, LEARNT_ANSWER)->counts[LEARNT_OUTLASTED], 1);
    assert_int_equal(patience(bench, LEARNT_CONNECT)->counts[LEARNT_OUTLASTED], 1);
}

static void the_end_of_a_connection_on_which_nothing_was_asked_was_nobodys_wait(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    struct observation observation = {.seen = SEEN_END, .phase = PHASE_CONNECTED, .waited_ns = 5 * NS_PER_S};
    guard_settle(&bench->guard, call, &bench->target, 5, &observation, bench->now_ns);
    assert_int_equal(seen(bench)->program_count, 0);
}

static void what_success_is_a_connection_for_waits_for_no_answer(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.rules.success = SUCCESS_CONNECT;
    bench_settle(bench, requested(bench), SEEN_GAVE_UP, 0, 9 * NS_PER_S);
    assert_int_equal(seen(bench)->program_count, 0);
}

static void in_mode_observe_what_would_be_refused_is_told_by_what_came_of_it(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.mode = MODE_OBSERVE;
    bench_open(bench);
    assert_true(seen(bench)->shadow_calls[VERDICT_FAILURE] == 0);
    bench_settle(bench, requested(bench), SEEN_GAVE_UP, 0, 4 * NS_PER_S);
    bench_settle(bench, requested(bench), SEEN_BYTES, 0, NS_PER_MS);
    assert_true(seen(bench)->shadow_calls[VERDICT_FAILURE] == 1);
    assert_true(seen(bench)->shadow_waited_ns[VERDICT_FAILURE] == 4 * NS_PER_S);
    assert_true(seen(bench)->shadow_calls[VERDICT_SUCCESS] == 1);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 2);
    /* They count for the run of failures, which is of what happened and not of what the circuit made of it. */
    assert_true(seen(bench)->healed == 1 && seen(bench)->most_failures == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_program_that_closes_while_it_waits_has_given_up),
        GUARD_TEST(a_call_that_is_cancelled_sooner_than_abandon_after_was_given_up_too),
        GUARD_TEST(the_kernels_giving_up_is_not_the_programs),
        GUARD_TEST(a_limit_that_is_enforced_is_not_the_programs_either),
        GUARD_TEST(a_long_wait_that_was_worth_it_shows_that_the_program_waits_so_long),
        GUARD_TEST(a_slow_connection_shows_it_as_well),
        GUARD_TEST(so_does_one_that_is_found_on_the_short_way),
        GUARD_TEST(a_failure_of_which_the_circuit_knows_nothing_begins_no_run),
        GUARD_TEST(who_gives_up_a_call_that_was_charged_before_has_given_up),
        GUARD_TEST(an_end_of_which_the_program_was_the_cause_is_its_giving_up_and_another_is_not),
        GUARD_TEST(the_end_of_a_connection_on_which_nothing_was_asked_was_nobodys_wait),
        GUARD_TEST(what_success_is_a_connection_for_waits_for_no_answer),
        GUARD_TEST(in_mode_observe_what_would_be_refused_is_told_by_what_came_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
