/*
 * test_circuit_hold.c - the floor under the pause that a destination asks for, and failures that are HTTP answers.
 */
#include "support_breaker.h"

#include <pthread.h>

#include "breaker/backoff.h"

static const struct outcome unavailable = {.verdict = VERDICT_FAILURE, .kind = FAILURE_HTTP, .http_status = 503};

static void hold_for(struct breaker_bench *bench, uint64_t wait_ns)
{
    circuit_hold_open(bench->circuit, bench->now_ns + wait_ns);
}

/* The circuit is open, and is so for just that long from now. */
static void assert_open_for(struct breaker_bench *bench, uint64_t pause_ns)
{
    const uint64_t opened_ns = bench->now_ns;

    assert_int_equal(breaker_view(bench).state, CIRCUIT_OPEN);
    assert_int_equal(breaker_view(bench).retry_in_ns, pause_ns);
    bench->now_ns = opened_ns + pause_ns - 1;
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    bench->now_ns = opened_ns + pause_ns;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
}

static void an_opening_does_not_end_before_its_floor(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 17 * SECOND);
    breaker_open(bench);
    assert_int_equal(bench->last.at[0].pause_ns, 17 * SECOND);
    assert_int_equal(bench->circuit->pause_ns, 17 * SECOND);
    assert_open_for(bench, 17 * SECOND);
}

static void a_pause_that_is_longer_anyway_stays_as_it_is(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 10 * SECOND - 1);
    breaker_open(bench);
    assert_int_equal(bench->last.at[0].pause_ns, 10 * SECOND);
    assert_open_for(bench, 10 * SECOND);
}

static void of_several_floors_the_latest_holds(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 12 * SECOND);
    hold_for(bench, 17 * SECOND);
    hold_for(bench, 11 * SECOND);
    breaker_open(bench);
    assert_open_for(bench, 17 * SECOND);
}

static void a_floor_is_a_time_and_not_a_length(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 17 * SECOND);
    bench->now_ns += 5 * SECOND;
    breaker_open(bench);
    assert_open_for(bench, 12 * SECOND);
}

static void a_floor_that_has_passed_says_nothing(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 17 * SECOND);
    bench->now_ns += 17 * SECOND;
    breaker_open(bench);
    assert_open_for(bench, 10 * SECOND);
}

static void a_floor_opens_nothing_and_leaves_an_opening_that_has_been_alone(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 17 * SECOND);
    assert_int_equal(breaker_view(bench).state, CIRCUIT_CLOSED);
    breaker_call(bench, breaker_success);
    breaker_call(bench, breaker_business);
    breaker_open(bench);
    hold_for(bench, 30 * SECOND);
    assert_open_for(bench, 17 * SECOND);
}

static void a_failed_probe_opens_for_its_floor_or_its_backoff_whichever_is_longer(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    hold_for(bench, 45 * SECOND);
    breaker_settle(bench, bench->ticket, unavailable);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(bench->last.at[0].pause_ns, 45 * SECOND);
    assert_open_for(bench, 45 * SECOND);

    hold_for(bench, 25 * SECOND);
    breaker_settle(bench, bench->ticket, unavailable);
    assert_open_for(bench, 40 * SECOND);
}

static void an_opening_as_of_a_leases_deadline_has_the_floor_too_for_observers_and_callers(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    breaker_probe(bench);
    const uint64_t probed_ns = bench->now_ns; /* its lease ends 5 s later, and the next pause is of 20 s */
    hold_for(bench, 100 * SECOND);

    bench->now_ns = probed_ns + 30 * SECOND;
    assert_int_equal(breaker_view(bench).state, CIRCUIT_OPEN);
    assert_int_equal(breaker_view(bench).retry_in_ns, 70 * SECOND);
    assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_TIMEOUT);
    assert_int_equal(bench->last.at[0].pause_ns, 95 * SECOND);
    assert_open_for(bench, 70 * SECOND);
}

static void an_absurd_floor_is_as_long_as_a_pause_can_be(void **state)
{
    struct breaker_bench *bench = *state;

    circuit_hold_open(bench->circuit, UINT64_MAX);
    breaker_open(bench);
    assert_int_equal(bench->last.at[0].pause_ns, BACKOFF_PAUSE_MAX_NS);
    assert_open_for(bench, BACKOFF_PAUSE_MAX_NS);
}

static void a_circuit_that_becomes_anothers_has_no_floor(void **state)
{
    struct breaker_bench *bench = *state;

    hold_for(bench, 17 * SECOND);
    circuit_reset(bench->circuit);
    assert_int_equal(bench->circuit->not_before_ns, 0);
    breaker_open(bench);
    assert_open_for(bench, 10 * SECOND);
}

#define THREADS 4u
#define FLOORS 20000u

static void *raise_floors(void *context)
{
    struct circuit *circuit = context;
    uint64_t random = (uint64_t)(uintptr_t)&circuit | 1;

    for (unsigned int i = 0; i < FLOORS; i++)
        circuit_hold_open(circuit, breaker_random(&random) % 1000);
    circuit_hold_open(circuit, 1000);
    for (unsigned int i = 0; i < FLOORS; i++)
        circuit_hold_open(circuit, breaker_random(&random) % 1000);
    return NULL;
}

static void of_floors_that_race_the_latest_holds(void **state)
{
    struct breaker_bench *bench = *state;
    pthread_t threads[THREADS];

    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, raise_floors, bench->circuit), 0);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(bench->circuit->not_before_ns, 1000);
}

/* --- HTTP answers --- */

static void an_http_failure_fails_the_probe_though_other_addresses_are_untried(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    bench->now_ns += 10 * SECOND;
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, 0, 3), ADMIT_PROBE);
    breaker_settle(bench, bench->ticket, unavailable);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);

    /* Unlike a failure to connect. */
    bench->now_ns += 20 * SECOND;
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, 0, 3), ADMIT_PROBE);
    breaker_settle(bench, bench->ticket, breaker_failure);
    assert_int_equal(bench->last.count, 0);
    assert_int_equal(breaker_view(bench).state, CIRCUIT_HALF_OPEN);
}

static void each_usual_status_is_counted_by_itself_and_the_others_together(void **state)
{
    struct breaker_bench *bench = *state;
    unsigned int status, places = 0, others = 0;

    bench->settings.failure_threshold = 0;
    for (status = HTTP_STATUS_MIN; status <= ANSWER_STATUS_MAX; status++) {
        for (unsigned int i = 0; i < status % 7 + 1; i++)
            breaker_call(bench,
                         (struct outcome){.verdict = VERDICT_FAILURE, .kind = FAILURE_HTTP, .http_status = status});
        if (!((status >= 500 && status <= 511) || status == 429 || status == 408 || status == GRPC_STATUS_BASE + 14))
            others += status % 7 + 1;
    }
    for (unsigned int place = 0; counter_status(place, &status); place++, places++) {
        const uint64_t expected = status == 0 ? others : status % 7 + 1;

        assert_int_equal(breaker_sum(bench, COUNT_HTTP_STATUS + place), expected);
        assert_int_equal(counter_of_status(status), COUNT_HTTP_STATUS + place);
    }
    assert_int_equal(places, 12 + 2 + 1 + 1);
    assert_false(counter_status(UINT32_MAX, &status));
    assert_int_equal(breaker_sum(bench, COUNT_FAILURE_KIND + FAILURE_HTTP), breaker_sum(bench, COUNT_FAILED));
}

static void a_late_http_failure_is_counted_by_no_status(void **state)
{
    struct breaker_bench *bench = *state;

    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    const struct ticket early = bench->ticket;
    breaker_open(bench);
    assert_int_equal(breaker_settle(bench, early, unavailable), SETTLED_LATE);
    assert_int_equal(breaker_sum(bench, counter_of_status(503)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(an_opening_does_not_end_before_its_floor),
        breaker_test(a_pause_that_is_longer_anyway_stays_as_it_is),
        breaker_test(of_several_floors_the_latest_holds),
        breaker_test(a_floor_is_a_time_and_not_a_length),
        breaker_test(a_floor_that_has_passed_says_nothing),
        breaker_test(a_floor_opens_nothing_and_leaves_an_opening_that_has_been_alone),
        breaker_test(a_failed_probe_opens_for_its_floor_or_its_backoff_whichever_is_longer),
        breaker_test(an_opening_as_of_a_leases_deadline_has_the_floor_too_for_observers_and_callers),
        breaker_test(an_absurd_floor_is_as_long_as_a_pause_can_be),
        breaker_test(a_circuit_that_becomes_anothers_has_no_floor),
        breaker_test(of_floors_that_race_the_latest_holds),
        breaker_test(an_http_failure_fails_the_probe_though_other_addresses_are_untried),
        breaker_test(each_usual_status_is_counted_by_itself_and_the_others_together),
        breaker_test(a_late_http_failure_is_counted_by_no_status),
    };

    return cmocka_run_group_tests_name("floors under the pause", tests, NULL, NULL);
}
