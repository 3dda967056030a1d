/*
 * test_overdue_looks.c - an admission's look for overdue calls: what it asks first, whose calls it charges and how
 * many, and what disturbs it.
 */
#include "support_guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "segment/due.h"
#include "segment/layout.h"

#define TIMEOUT_NS (10 * NS_PER_S)

static uint32_t asked_call;
static unsigned int times_asked;

static bool has_connected(uint32_t call, enum phase phase, void *context)
{
    struct guard_bench *bench = context;

    asked_call = call;
    times_asked++;
    if (phase != PHASE_CONNECTING)
        return true;
    guard_connected(&bench->guard, call, &bench->target, bench->now_ns - 1);
    return false;
}

static bool still_hangs(uint32_t call, enum phase phase, void *context)
{
    (void)phase, (void)context;
    asked_call = call;
    times_asked++;
    return true;
}

static void an_own_attempt_that_the_kernel_knows_to_be_connected_is_not_charged(void **state)
{
    struct guard_bench *bench = *state;

    bench->guard.context = bench;
    bench->guard.still_hangs = has_connected;
    bench->target.response_timeout_ns = 5 * NS_PER_S;
    times_asked = 0;
    uint32_t call = bench_call(bench);
    bench->now_ns += TIMEOUT_NS;
    bench_succeed(bench);
    assert_int_equal(times_asked, 1);
    assert_int_equal(asked_call, call);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 0);
    /* From then on it waits for a greeting. */
    bench->now_ns += 5 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(times_asked, 2);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_RESPONSE_TIMEOUT), 1);
    bench_forget(bench, call);
}

static void an_own_attempt_that_hangs_is_charged(void **state)
{
    struct guard_bench *bench = *state;

    bench->guard.still_hangs = still_hangs;
    times_asked = 0;
    uint32_t call = bench_call(bench);
    bench->now_ns += TIMEOUT_NS;
    bench_succeed(bench);
    assert_int_equal(times_asked, 1);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    bench_forget(bench, call);
}

static void another_processes_attempt_is_charged_without_asking(void **state)
{
    struct guard_bench *bench = *state;

    bench->guard.still_hangs = has_connected;
    times_asked = 0;
    bench_child(bench, live_connecting);
    bench->now_ns += TIMEOUT_NS;
    bench_succeed(bench);
    assert_int_equal(times_asked, 0);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
}

/* Another target of the same policy, for which a timeout is no failure. */
static struct target other_target;

static const struct target *one_of_two_targets(const char *name, void *context)
{
    const struct guard_bench *bench = context;

    if (strcmp(name, other_target.name) == 0)
        return &other_target;
    return strcmp(name, bench->target.name) == 0 ? &bench->target : NULL;
}

/* Attempts of this process to another target's destination, which become overdue. */
static uint32_t begin_elsewhere(struct guard_bench *bench, unsigned int count)
{
    struct attempt attempt = {.target = &other_target, .address_key = ADDRESS_A};
    uint32_t call;

    other_target = bench->target;
    snprintf(other_target.name, sizeof other_target.name, "ledger");
    other_target.breaker.failure_threshold = 0;
    attempt.circuit = circuits_find(&bench->segment, other_target.name, "ledger.internal:1", bench->now_ns);
    assert_int_not_equal(attempt.circuit, bench->circuit);
    for (unsigned int i = 0; i < count; i++) {
        assert_int_equal(guard_admit(&bench->guard, &attempt, bench->now_ns, &call), ADMIT_PASS);
        assert_int_not_equal(call, CALL_NONE);
    }
    return attempt.circuit;
}

static uint64_t sum_of(const struct guard_bench *bench, uint32_t circuit, unsigned int counter)
{
    return counters_sum(&circuits_at(&bench->segment, circuit)->counters, counter);
}

static void an_overdue_call_of_another_circuit_is_charged_under_its_own_target(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t there = begin_elsewhere(bench, 3);

    bench->guard.target_named = one_of_two_targets;
    bench->target.breaker.failure_threshold = 1;
    other_target.rules.failure_mask = 0;
    bench->now_ns += TIMEOUT_NS;
    bench_succeed(bench);
    assert_int_equal(sum_of(bench, there, COUNT_OVERDUE), 3);
    assert_int_equal(sum_of(bench, there, COUNT_FAILED), 0);
    assert_int_equal(sum_of(bench, there, COUNT_OPENED), 0);
    assert_int_equal(calls_in_flight(&bench->segment, there), 0);
}

static void an_overdue_call_whose_target_is_not_in_the_policy_is_left_to_others(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t there = begin_elsewhere(bench, 3);

    bench->now_ns += TIMEOUT_NS; /* the bench's policy has one target */
    bench_succeed(bench);
    bench_succeed(bench);
    assert_int_equal(sum_of(bench, there, COUNT_OVERDUE), 0);
    assert_int_equal(calls_in_flight(&bench->segment, there), 3);
    /* Not looked at again and again meanwhile, but later by somebody who knows it. */
    assert_false(due_has_come(&bench->segment.map->calls_due, bench->now_ns));
    bench->guard.target_named = one_of_two_targets;
    bench->now_ns += NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(sum_of(bench, there, COUNT_OVERDUE), 3);
}

static void an_admission_charges_few_calls_of_other_circuits_and_the_next_goes_on(void **state)
{
    struct guard_bench *bench = *state;
    uint64_t charged = 0, before;
    uint32_t there = begin_elsewhere(bench, 1000);

    bench->guard.target_named = one_of_two_targets;
    bench->now_ns += TIMEOUT_NS;
    for (unsigned int i = 0; i < 200 && charged < 1000; i++) {
        before = charged;
        bench_succeed(bench);
        charged = sum_of(bench, there, COUNT_OVERDUE);
        assert_in_range(charged - before, 1, 8);
    }
    assert_int_equal(charged, 1000);
}

static void a_hanging_destination_is_noticed_at_once_among_a_thousand_calls_of_others(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    begin_elsewhere(bench, 1000);
    for (unsigned int i = 0; i < 3; i++)
        bench_call(bench);
    begin_elsewhere(bench, 1000);
    bench->guard.target_named = one_of_two_targets;
    bench->now_ns += TIMEOUT_NS;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
}

static void what_one_admission_charges_of_its_own_circuit_is_bounded(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_threshold = 0; /* never open: there is always more to charge */
    for (unsigned int i = 0; i < 1000; i++)
        bench_call(bench);
    bench->now_ns += TIMEOUT_NS;
    for (uint64_t charged = 0, before = 0; charged < 1000; before = charged) {
        bench_forget(bench, bench_call(bench));
        charged = bench_sum(bench, COUNT_OVERDUE);
        assert_in_range(charged - before, 1, 72);
    }
}

static jmp_buf way_out;

static bool never_comes_back(uint32_t call, enum phase phase, void *context)
{
    (void)call, (void)phase, (void)context;
    longjmp(way_out, 1);
}

static void a_look_that_is_jumped_out_of_hides_nothing(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench), unused;

    bench->now_ns += TIMEOUT_NS;
    bench->guard.still_hangs = never_comes_back;
    if (setjmp(way_out) == 0) {
        bench_admit(bench, &unused);
        fail();
    }
    bench->guard.still_hangs = NULL;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    bench_forget(bench, call);
}

static uint32_t call_begun_meanwhile;

/* In the middle of a scan another call begins, in a place that the scan has passed. */
static bool another_begins(uint32_t call, enum phase phase, void *context)
{
    struct guard_bench *bench = context;

    (void)call, (void)phase;
    bench->guard.still_hangs = NULL;
    call_begun_meanwhile = bench_call(bench);
    return true;
}

static void a_call_that_begins_behind_a_scans_back_is_found_when_it_is_overdue(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t low = bench_call(bench), high = bench_call(bench), unused;

    bench_forget(bench, low);
    bench->now_ns += TIMEOUT_NS;
    bench->guard.context = bench;
    bench->guard.still_hangs = another_begins;
    assert_int_equal(bench_admit(bench, &unused), ADMIT_PASS);
    bench_forget(bench, unused);
    assert_int_equal(call_begun_meanwhile, low);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    bench->now_ns += TIMEOUT_NS;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 2);
    bench_forget(bench, low);
    bench_forget(bench, high);
}

static void a_scan_that_was_disturbed_still_notes_the_next_due_time(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t first = bench_call(bench), unused;

    bench->now_ns += NS_PER_S / 2;
    uint32_t soon = bench_call(bench);
    bench->now_ns += TIMEOUT_NS - NS_PER_S / 2;
    bench->guard.context = bench;
    bench->guard.still_hangs = another_begins;
    assert_int_equal(bench_admit(bench, &unused), ADMIT_PASS);
    bench_forget(bench, unused);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    bench->now_ns += NS_PER_S / 2;
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 2);
    bench_forget(bench, first);
    bench_forget(bench, soon);
    bench_forget(bench, call_begun_meanwhile);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(an_own_attempt_that_the_kernel_knows_to_be_connected_is_not_charged),
        GUARD_TEST(an_own_attempt_that_hangs_is_charged),
        GUARD_TEST(another_processes_attempt_is_charged_without_asking),
        GUARD_TEST(an_overdue_call_of_another_circuit_is_charged_under_its_own_target),
        GUARD_TEST(an_overdue_call_whose_target_is_not_in_the_policy_is_left_to_others),
        GUARD_TEST(an_admission_charges_few_calls_of_other_circuits_and_the_next_goes_on),
        GUARD_TEST(a_hanging_destination_is_noticed_at_once_among_a_thousand_calls_of_others),
        GUARD_TEST(what_one_admission_charges_of_its_own_circuit_is_bounded),
        GUARD_TEST(a_look_that_is_jumped_out_of_hides_nothing),
        GUARD_TEST(a_call_that_begins_behind_a_scans_back_is_found_when_it_is_overdue),
        GUARD_TEST(a_scan_that_was_disturbed_still_notes_the_next_due_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
