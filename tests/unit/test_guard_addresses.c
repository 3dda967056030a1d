/*
 * test_guard_addresses.c - destinations with several addresses, of which some are dead.
 */
#include "support_guard.h"

#include <errno.h>

static const uint64_t both[] = {ADDRESS_A, ADDRESS_B};

static enum admission try_address(struct guard_bench *bench, uint64_t address, uint32_t *call)
{
    return bench_admit_to(bench, address, both, 2, call);
}

/* An attempt to a dead address; returns its outcome. */
static struct outcome fail_at(struct guard_bench *bench, uint64_t address)
{
    uint32_t call;
    enum admission admission = try_address(bench, address, &call);

    assert_true(admission == ADMIT_PASS || admission == ADMIT_PROBE);
    struct outcome outcome = bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
    bench_forget(bench, call);
    return outcome;
}

static void answer_at(struct guard_bench *bench, uint64_t address)
{
    uint32_t call;
    enum admission admission = try_address(bench, address, &call);

    assert_true(admission == ADMIT_PASS || admission == ADMIT_PROBE);
    bench_connected(bench, call);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
}

static void a_dead_first_address_keeps_no_circuit_from_staying_closed(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_threshold = 2;
    for (unsigned int i = 0; i < 1000; i++) {
        struct outcome outcome = fail_at(bench, ADDRESS_A);

        assert_int_equal(outcome.kind, FAILURE_REFUSED);
        if (i > 0)
            assert_int_equal(outcome.reason, NEUTRAL_ADDRESS);
        answer_at(bench, ADDRESS_B);
        assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    }
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 1);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_ADDRESS), 999);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 0);
}

static void two_dead_addresses_open_the_circuit(void **state)
{
    struct guard_bench *bench = *state;

    answer_at(bench, ADDRESS_B);
    assert_int_equal(fail_at(bench, ADDRESS_A).verdict, VERDICT_FAILURE);
    answer_at(bench, ADDRESS_B);
    assert_int_equal(fail_at(bench, ADDRESS_A).reason, NEUTRAL_ADDRESS);
    /* From here on nobody answers. */
    for (unsigned int i = 0; i < 3; i++)
        assert_int_equal(fail_at(bench, i % 2 == 0 ? ADDRESS_B : ADDRESS_A).verdict, VERDICT_FAILURE);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
}

static void an_overdue_attempt_at_one_of_two_addresses_is_neutral_too(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    answer_at(bench, ADDRESS_B);
    fail_at(bench, ADDRESS_A);
    answer_at(bench, ADDRESS_B);
    assert_int_equal(try_address(bench, ADDRESS_A, &call), ADMIT_PASS);
    bench->now_ns += 10 * NS_PER_S;
    answer_at(bench, ADDRESS_B);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL_REASON + NEUTRAL_ADDRESS), 1);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_CONNECT_TIMEOUT), 0);
    bench_forget(bench, call);
}

static void an_open_circuit_comes_back_by_one_probe_over_two_addresses(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t first, second, other;

    for (unsigned int i = 0; i < 3; i++)
        fail_at(bench, ADDRESS_A);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    bench->now_ns += 10 * NS_PER_S;

    assert_int_equal(try_address(bench, ADDRESS_A, &first), ADMIT_PROBE);
    assert_int_equal(try_address(bench, ADDRESS_A, &other), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench_settle(bench, first, SEEN_ERROR, ECONNREFUSED, 0).verdict, VERDICT_FAILURE);
    assert_int_equal(bench_state(bench), CIRCUIT_HALF_OPEN);
    assert_int_equal(try_address(bench, ADDRESS_B, &second), ADMIT_PROBE);
    assert_int_equal(bench_settle(bench, second, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_events(bench, EVENT_PROBE, NULL), 1);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    bench_forget(bench, first);
    bench_forget(bench, second);
}

static void a_probe_fails_when_all_its_addresses_have_failed(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t first, second;

    for (unsigned int i = 0; i < 3; i++)
        fail_at(bench, ADDRESS_A);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(try_address(bench, ADDRESS_A, &first), ADMIT_PROBE);
    assert_int_equal(try_address(bench, ADDRESS_B, &second), ADMIT_PROBE);
    bench_settle(bench, first, SEEN_ERROR, ECONNREFUSED, 0);
    assert_int_equal(bench_state(bench), CIRCUIT_HALF_OPEN);
    bench_settle(bench, second, SEEN_ERROR, ECONNREFUSED, 0);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_PROBES_FAILED), 1);
    bench_forget(bench, first);
    bench_forget(bench, second);
}

static void more_addresses_than_a_circuit_remembers_do_no_harm(void **state)
{
    struct guard_bench *bench = *state;
    uint64_t many[40];
    uint32_t call;

    for (unsigned int i = 0; i < 40; i++)
        many[i] = i + 1;
    for (unsigned int i = 0; i < 400 && bench_state(bench) == CIRCUIT_CLOSED; i++) {
        assert_int_equal(bench_admit_to(bench, many[i % 40], many, 40, &call), ADMIT_PASS);
        bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
        bench_forget(bench, call);
    }
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    for (unsigned int probe = 0; probe < 5; probe++) {
        bench->now_ns += 60 * NS_PER_S;
        for (unsigned int i = 0; i < 40; i++) {
            enum admission admission = bench_admit_to(bench, many[i], many, 40, &call);

            assert_true(admission == ADMIT_PROBE || admission == ADMIT_REFUSED_HALF_OPEN ||
                        admission == ADMIT_REFUSED_OPEN);
            bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
            bench_forget(bench, call);
        }
    }
    bench->now_ns += 60 * NS_PER_S;
    assert_int_equal(bench_admit_to(bench, many[39], many, 40, &call), ADMIT_PROBE);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

/* --- judgements that wait for the next address --- */

static bool waits(struct guard_bench *bench, uint32_t call, enum seen seen, int error)
{
    struct observation observation = {.seen = seen, .error = error};

    return guard_waits_for_siblings(&bench->guard, call, &bench->target, &observation, both, 2, ADDRESS_A);
}

static void a_failure_at_one_address_waits_while_another_was_never_tried(void **state)
{
    struct guard_bench *bench = *state;
    struct observation observation = {.seen = SEEN_ERROR, .error = ECONNREFUSED, .other_tried = true};
    uint32_t call;

    assert_int_equal(try_address(bench, ADDRESS_A, &call), ADMIT_PASS);
    assert_true(waits(bench, call, SEEN_ERROR, ECONNREFUSED));
    assert_int_equal(calls_in_flight(&bench->segment, bench->circuit), 1);
    struct outcome outcome = guard_settle(&bench->guard, call, &bench->target, 0, &observation, bench->now_ns);
    assert_int_equal(outcome.reason, NEUTRAL_ADDRESS);
    assert_int_equal(outcome.kind, FAILURE_REFUSED);
    bench_forget(bench, call);
}

static void a_failure_does_not_wait_when_the_other_address_is_known_to_be_dead(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    fail_at(bench, ADDRESS_B);
    assert_int_equal(try_address(bench, ADDRESS_A, &call), ADMIT_PASS);
    assert_false(waits(bench, call, SEEN_ERROR, ECONNREFUSED));
    bench_forget(bench, call);
}

static void what_is_no_failure_to_connect_does_not_wait(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    assert_int_equal(try_address(bench, ADDRESS_A, &call), ADMIT_PASS);
    assert_false(waits(bench, call, SEEN_ERROR, EMFILE));
    assert_false(waits(bench, call, SEEN_BYTES, 0));
    bench_connected(bench, call);
    assert_false(waits(bench, call, SEEN_ERROR, ECONNRESET));
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    assert_false(waits(bench, call, SEEN_ERROR, ECONNRESET));
    bench_forget(bench, call);
    assert_false(waits(bench, CALL_NONE, SEEN_ERROR, ECONNREFUSED));
}

static void a_probe_does_not_wait_for_its_lease_sees_to_the_other_addresses(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(try_address(bench, ADDRESS_A, &call), ADMIT_PROBE);
    assert_false(waits(bench, call, SEEN_ERROR, ECONNREFUSED));
    bench_forget(bench, call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_dead_first_address_keeps_no_circuit_from_staying_closed),
        GUARD_TEST(two_dead_addresses_open_the_circuit),
        GUARD_TEST(an_overdue_attempt_at_one_of_two_addresses_is_neutral_too),
        GUARD_TEST(an_open_circuit_comes_back_by_one_probe_over_two_addresses),
        GUARD_TEST(a_probe_fails_when_all_its_addresses_have_failed),
        GUARD_TEST(more_addresses_than_a_circuit_remembers_do_no_harm),
        GUARD_TEST(a_failure_at_one_address_waits_while_another_was_never_tried),
        GUARD_TEST(a_failure_does_not_wait_when_the_other_address_is_known_to_be_dead),
        GUARD_TEST(what_is_no_failure_to_connect_does_not_wait),
        GUARD_TEST(a_probe_does_not_wait_for_its_lease_sees_to_the_other_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
