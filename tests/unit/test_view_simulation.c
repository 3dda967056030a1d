/*
 * test_view_simulation.c - hand-made calls through the circuit's own code, with answers that are known. links: command
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "view/simulation.h"

#define CALLS_MAX 96u
#define START_S 1000u

/* A target with a threshold of 3, a pause of 10 s without back-off, and no other rule. */
struct bench {
    struct target target;
    struct sim_rule rules[2];
    struct sim_call calls[CALLS_MAX];
    size_t count;
    struct simulation simulation;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    *bench = (struct bench){.target = {.mode = MODE_ENFORCE, .rules = {.failure_mask = UINT32_MAX}}};
    bench->target.breaker = (struct settings){.window = 30 * NS_PER_S,
                                              .failure_threshold = 3,
                                              .success_threshold = 1,
                                              .half_open_max_calls = 1,
                                              .reset_timeout_ns = 10 * NS_PER_S,
                                              .reset_timeout_max_ns = 10 * NS_PER_S,
                                              .backoff_permille = PERMILLE,
                                              .jitter_permille = 100,
                                              .probe_timeout_ns = 10 * NS_PER_S};
    for (size_t i = 0; i < 2; i++)
        bench->rules[i] = (struct sim_rule){&bench->target, i};
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    simulation_free(&bench->simulation);
    free(bench);
    return 0;
}

/* Milliseconds since the start. */
static struct sim_call *call(struct bench *bench, uint64_t began_ms, uint64_t ended_ms, enum verdict verdict)
{
    struct sim_call *at = &bench->calls[bench->count++];
    assert_true(bench->count <= CALLS_MAX);
    *at = (struct sim_call){.began_ns = START_S * NS_PER_S + began_ms * NS_PER_MS,
                            .ended_ns = START_S * NS_PER_S + ended_ms * NS_PER_MS,
                            .pid = 1,
                            .verdict = (uint8_t)verdict,
                            .kind = verdict == VERDICT_FAILURE ? FAILURE_RESET : FAILURE_NONE};
    return at;
}

static const struct sim_result *run(struct bench *bench)
{
    qsort(bench->calls, bench->count, sizeof *bench->calls, sim_call_compare);
    simulation_run(&bench->simulation, bench->calls, bench->count, bench->rules, 2);
    return bench->simulation.results;
}

static uint64_t ms_of(uint64_t at_ns)
{
    return (at_ns - START_S * NS_PER_S) / NS_PER_MS;
}

static void three_failures_open_and_a_probe_closes(void **state)
{
    struct bench *bench = *state;

    call(bench, 0, 100, VERDICT_SUCCESS);
    call(bench, 1000, 1100, VERDICT_FAILURE);
    call(bench, 2000, 2100, VERDICT_FAILURE);
    call(bench, 3000, 3100, VERDICT_FAILURE); /* opens: until 13100 */
    call(bench, 4000, 4100, VERDICT_FAILURE);
    call(bench, 13099, 13150, VERDICT_FAILURE);
    call(bench, 13100, 13200, VERDICT_SUCCESS); /* AT the boundary: the probe */
    call(bench, 13150, 13250, VERDICT_SUCCESS); /* beside it */
    call(bench, 14000, 14100, VERDICT_SUCCESS);
    const struct sim_result *result = run(bench);
    assert_int_equal(result->calls, 9);
    assert_int_equal(result->failed, 5);
    assert_int_equal(result->openings, 1);
    assert_int_equal(result->reopenings, 0);
    assert_int_equal(result->detect_ns, 2100 * NS_PER_MS); /* since the first failed call began */
    assert_int_equal(result->leaked, 2);
    assert_int_equal(result->probes, 1);
    assert_int_equal(result->refused, 3);
    assert_int_equal(result->refused_wrongly, 1);
    assert_int_equal(result->false_openings, 0);
    assert_int_equal(result->untold_openings, 0);
    assert_int_equal(bench->simulation.transition_count, 3);
    assert_int_equal(ms_of(bench->simulation.transitions[0].at_ns), 3100);
    assert_int_equal(bench->simulation.transitions[0].what.failures, 3);
    assert_int_equal(ms_of(bench->simulation.transitions[1].at_ns), 13100);
    assert_int_equal(ms_of(bench->simulation.transitions[2].at_ns), 13200);
    assert_int_equal(bench->simulation.transitions[2].what.to, CIRCUIT_CLOSED);
}

static void all_circuits_together_are_their_sum_and_the_slowest_of_them(void **state)
{
    struct sim_result sum = {.calls = 1}, one = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};

    (void)state;
    one.longest_detect_ns = 30;
    sim_result_add(&sum, &one);
    one.longest_detect_ns = 20;
    sim_result_add(&sum, &one);
    assert_int_equal(sum.calls, 2 * one.calls + 1);
    assert_int_equal(sum.failed, 2 * one.failed);
    assert_int_equal(sum.openings, 2 * one.openings);
    assert_int_equal(sum.reopenings, 2 * one.reopenings);
    assert_int_equal(sum.false_openings, 2 * one.false_openings);
    assert_int_equal(sum.untold_openings, 2 * one.untold_openings);
    assert_int_equal(sum.undated_openings, 2 * one.undated_openings);
    assert_int_equal(sum.detect_ns, 2 * one.detect_ns);
    assert_int_equal(sum.leaked, 2 * one.leaked);
    assert_int_equal(sum.probes, 2 * one.probes);
    assert_int_equal(sum.refused, 2 * one.refused);
    assert_int_equal(sum.refused_wrongly, 2 * one.refused_wrongly);
    assert_int_equal(sum.longest_detect_ns, 30);
}

static void a_success_in_between_begins_the_count_anew(void **state)
{
    struct bench *bench = *state;

    for (unsigned int i = 0; i < 8; i++)
        call(bench, 1000 * i, 1000 * i + 10, i % 3 == 2 ? VERDICT_SUCCESS : VERDICT_FAILURE);
    assert_int_equal(run(bench)->openings, 0);
    assert_int_equal(bench->simulation.results[0].leaked, 3); /* the second of each run */
}

static void calls_that_were_under_way_at_the_opening_have_gone(void **state)
{
    struct bench *bench = *state;

    for (unsigned int i = 0; i < 8; i++)
        call(bench, i, 1000 + i, VERDICT_FAILURE);
    call(bench, 1003, 1500, VERDICT_FAILURE); /* behind the third's end */
    const struct sim_result *result = run(bench);
    assert_int_equal(result->openings, 1);
    assert_int_equal(result->leaked, 7);
    assert_int_equal(result->refused, 1);
}

static void a_call_is_charged_at_the_policys_limit(void **state)
{
    struct bench *bench = *state;

    bench->target.response_timeout_ns = 2 * NS_PER_S;
    call(bench, 0, 2000, VERDICT_SUCCESS);   /* AT the limit */
    call(bench, 10, 60000, VERDICT_SUCCESS); /* the answer came a minute later */
    call(bench, 20, 60000, VERDICT_FAILURE)->kind = FAILURE_RESPONSE_TIMEOUT;
    call(bench, 2500, 2600, VERDICT_SUCCESS);
    const struct sim_result *result = run(bench);
    assert_int_equal(result->openings, 1);
    assert_int_equal(ms_of(bench->simulation.transitions[0].at_ns), 2020);
    assert_int_equal(result->refused, 1);
    assert_int_equal(result->refused_wrongly, 1);
    assert_int_equal(result->false_openings, 1);
}

static void what_a_call_means_is_judged_by_the_policys_own_rules(void **state)
{
    struct bench *bench = *state;
    struct sim_call *at = call(bench, 0, 100, VERDICT_BUSINESS);
    uint64_t known_ns;

    at->http_status = 503;
    assert_int_equal(sim_judge(at, &bench->target, &known_ns).verdict, VERDICT_BUSINESS);
    bench->target.rules.http_failures[0] = (struct status_range){500, 599};
    bench->target.rules.http_failure_count = 1;
    assert_int_equal(sim_judge(at, &bench->target, &known_ns).kind, FAILURE_HTTP);
    at = call(bench, 0, 100, VERDICT_FAILURE);
    assert_int_equal(sim_judge(at, &bench->target, &known_ns).verdict, VERDICT_FAILURE);
    bench->target.rules.failure_mask = 1u << FAILURE_REFUSED;
    assert_int_equal(sim_judge(at, &bench->target, &known_ns).reason, NEUTRAL_UNLISTED);
    at = call(bench, 0, 3000, VERDICT_SUCCESS);
    assert_false(sim_judge(at, &bench->target, &known_ns).slow);
    bench->target.breaker.slow_call_ns = 2 * NS_PER_S;
    assert_true(sim_judge(at, &bench->target, &known_ns).slow);
    at = call(bench, 0, 100, VERDICT_NEUTRAL);
    at->reason = NEUTRAL_LOCAL;
    assert_int_equal(sim_judge(at, &bench->target, &known_ns).reason, NEUTRAL_LOCAL);
}

static void each_kind_of_failure_is_judged_as_itself(void **state)
{
    struct bench *bench = *state;
    uint64_t known_ns;

    for (unsigned int kind = FAILURE_NONE + 1; kind < FAILURE_HTTP; kind++) {
        struct sim_call *at = call(bench, 0, 100, VERDICT_FAILURE);
        at->kind = (uint8_t)kind;
        assert_int_equal(sim_judge(at, &bench->target, &known_ns).verdict, VERDICT_FAILURE);
        assert_int_equal(sim_judge(at, &bench->target, &known_ns).kind, kind);
        assert_int_equal(known_ns, at->ended_ns);
    }
}

static void a_rate_opens_and_its_detection_begins_with_the_windows_first_failure(void **state)
{
    struct bench *bench = *state;

    bench->target.breaker.failure_threshold = 0;
    bench->target.breaker.failure_rate_permille = 500;
    bench->target.breaker.minimum_calls = 6;
    for (unsigned int i = 0; i < 6; i++)
        call(bench, 1000 * i, 1000 * i + 10, i % 2 == 1 ? VERDICT_FAILURE : VERDICT_SUCCESS);
    const struct sim_result *result = run(bench);
    assert_int_equal(result->openings, 1);
    assert_int_equal(bench->simulation.transitions[0].what.reason, REASON_FAILURE_RATE);
    assert_int_equal(result->detect_ns, 4010 * NS_PER_MS);
}

static void a_probe_that_fails_opens_again_for_its_pause(void **state)
{
    struct bench *bench = *state;

    for (unsigned int i = 0; i < 40; i++)
        call(bench, 1000 * i, 1000 * i + 10, VERDICT_FAILURE);
    const struct sim_result *result = run(bench); /* opens at 2010, probes at 13000 and 24000 and 35000 */
    assert_int_equal(result->openings, 1);
    assert_int_equal(result->probes, 3);
    assert_int_equal(result->reopenings, 3);
    assert_int_equal(result->leaked, 2);
    assert_int_equal(result->refused, 40 - 3 - 3);
}

/* When the circuit would have probed, after three answers of which the last asks to be left alone. */
static uint64_t probed_after(struct bench *bench, uint64_t retry_after_s)
{
    simulation_free(&bench->simulation);
    bench->count = 0;
    for (unsigned int i = 0; i < 3; i++)
        call(bench, 1000 * i, 1000 * i + 100, VERDICT_FAILURE);
    bench->calls[2].retry_after_ns = retry_after_s * NS_PER_S; /* opens at 2100 */
    for (uint64_t ms = 3000; ms < 60000; ms += 1000)
        call(bench, ms, ms + 10, VERDICT_SUCCESS);
    run(bench);
    assert_int_equal(bench->simulation.transitions[1].what.to, CIRCUIT_HALF_OPEN);
    return ms_of(bench->simulation.transitions[1].at_ns);
}

static void an_answer_that_asks_to_be_left_alone_holds_the_pause(void **state)
{
    struct bench *bench = *state;

    bench->target.breaker.retry_after_max_ns = 40 * NS_PER_S;
    assert_int_equal(probed_after(bench, 25), 13000); /* this policy does not heed it */
    bench->target.retry_after = true;
    assert_int_equal(probed_after(bench, 0), 13000);
    assert_int_equal(probed_after(bench, 5), 13000);
    assert_int_equal(probed_after(bench, 25), 28000);
    assert_int_equal(probed_after(bench, 3600), 43000);
}

static void lanes_may_share_a_circuit_or_have_none(void **state)
{
    struct bench *bench = *state;

    for (unsigned int i = 0; i < 6; i++)
        call(bench, 1000 * i, 1000 * i + 10, VERDICT_FAILURE)->lane = i % 2;
    bench->rules[1].circuit = 0;
    run(bench);
    assert_int_equal(bench->simulation.transition_count, 1);
    assert_int_equal(bench->simulation.results[0].refused + bench->simulation.results[1].refused, 3);
    simulation_free(&bench->simulation);
    bench->rules[1] = (struct sim_rule){NULL, 1};
    run(bench);
    assert_int_equal(bench->simulation.results[0].openings, 1);
    assert_int_equal(bench->simulation.results[1].refused, 0);
    assert_int_equal(bench->simulation.results[1].leaked, 2);
}

static void modes_are_obeyed(void **state)
{
    struct bench *bench = *state;

    for (unsigned int i = 0; i < 6; i++)
        call(bench, 1000 * i, 1000 * i + 10, VERDICT_FAILURE);
    bench->target.mode = MODE_CLOSED;
    assert_int_equal(run(bench)->refused, 0);
    simulation_free(&bench->simulation);
    bench->target.mode = MODE_OPEN;
    assert_int_equal(run(bench)->refused, 6);
    simulation_free(&bench->simulation);
    bench->target.mode = MODE_OBSERVE; /* what it would have refused */
    assert_int_equal(run(bench)->refused, 3);
}

static void an_opening_is_false_when_more_succeeded_in_its_pause_than_failed(void **state)
{
    struct bench *bench = *state;

    for (unsigned int i = 0; i < 3; i++)
        call(bench, i, 10 + i, VERDICT_FAILURE);
    call(bench, 1000, 1010, VERDICT_SUCCESS);
    call(bench, 2000, 2010, VERDICT_FAILURE);
    assert_int_equal(run(bench)->false_openings, 0); /* as many */
    simulation_free(&bench->simulation);
    call(bench, 3000, 3010, VERDICT_SUCCESS);
    assert_int_equal(run(bench)->false_openings, 1);
    simulation_free(&bench->simulation);
    bench->count = 3;
    assert_int_equal(run(bench)->untold_openings, 1);
    assert_int_equal(bench->simulation.results[0].false_openings, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(three_failures_open_and_a_probe_closes),
        TEST(all_circuits_together_are_their_sum_and_the_slowest_of_them),
        TEST(a_success_in_between_begins_the_count_anew),
        TEST(calls_that_were_under_way_at_the_opening_have_gone),
        TEST(a_call_is_charged_at_the_policys_limit),
        TEST(what_a_call_means_is_judged_by_the_policys_own_rules),
        TEST(each_kind_of_failure_is_judged_as_itself),
        TEST(a_rate_opens_and_its_detection_begins_with_the_windows_first_failure),
        TEST(a_probe_that_fails_opens_again_for_its_pause),
        TEST(an_answer_that_asks_to_be_left_alone_holds_the_pause),
        TEST(lanes_may_share_a_circuit_or_have_none),
        TEST(modes_are_obeyed),
        TEST(an_opening_is_false_when_more_succeeded_in_its_pause_than_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
