/*
 * test_circuit_addresses.c - one probe covers one attempt to each address of the destination, all by one process.
 *
 * Otherwise a dead first address would keep a living destination's circuit open for ever.
 */
#include "support_breaker.h"

#include <stdatomic.h>

#include "breaker/lease.h"

/* Addresses and masks of them. */
enum { A, B, C };
#define MASK_A 1u
#define MASK_AB 3u
#define MASK_ABC 7u
#define OTHER_HOLDER (BREAKER_HOLDER + 1)

/* A probe by BREAKER_HOLDER to address A, which knows `addresses`. */
static struct ticket probe_first(struct breaker_bench *bench, uint32_t addresses)
{
    breaker_open(bench);
    bench->now_ns += breaker_view(bench).retry_in_ns;
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, A, addresses), ADMIT_PROBE);
    return bench->ticket;
}

static struct ticket join(struct breaker_bench *bench, int address, uint32_t addresses)
{
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, address, addresses), ADMIT_PROBE);
    assert_int_equal(bench->last.count, 0);
    return bench->ticket;
}

static void the_attempt_to_another_address_joins_the_probe_of_its_process(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    struct ticket second = join(bench, B, MASK_AB);

    assert_false(first.joined);
    assert_true(second.joined);
    assert_int_equal(second.token, first.token);
    assert_int_equal(second.generation, first.generation);
    assert_int_equal(second.address, B);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(bench->transitions, 2);
}

static void an_address_that_was_tried_is_not_tried_again(void **state)
{
    struct breaker_bench *bench = *state;

    probe_first(bench, MASK_AB);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, A, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    join(bench, B, MASK_AB);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, B, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, ADDRESS_NONE, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void an_address_that_failed_is_not_tried_again_by_the_same_probe(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);

    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    for (int retry = 0; retry < 4; retry++)
        assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, A, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void another_process_does_not_join(void **state)
{
    struct breaker_bench *bench = *state;

    probe_first(bench, MASK_AB);
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, B, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void a_dead_first_address_does_not_fail_the_probe(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);

    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->last.count, 0);
    assert_int_equal(breaker_view(bench).state, CIRCUIT_HALF_OPEN);
    struct ticket second = join(bench, B, MASK_AB);
    assert_int_equal(breaker_settle(bench, second, breaker_success), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 0);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), 4);
    assert_int_equal(bench->transitions, 3);
}

static void the_probe_fails_when_all_known_addresses_have(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_ABC);
    struct ticket second = join(bench, B, MASK_ABC);
    struct ticket third = join(bench, C, MASK_ABC);

    assert_int_equal(breaker_settle(bench, second, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 2);
    assert_int_equal(breaker_settle(bench, third, breaker_failure), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_FAILED), 1);
    assert_int_equal(bench->transitions, 3);
}

static void with_no_other_address_known_the_first_failure_fails_the_probe(void **state)
{
    struct breaker_bench *bench = *state;

    assert_int_equal(breaker_settle(bench, probe_first(bench, 0), breaker_failure), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(bench->transitions, 3);
}

static void an_address_that_turns_up_only_when_it_is_tried_counts_too(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, 0);
    struct ticket second = join(bench, B, 0);

    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 2);
    assert_int_equal(breaker_settle(bench, second, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 3);
}

static void an_address_left_untried_fails_the_probe_only_at_its_deadline(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    uint64_t probed = bench->now_ns;

    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    bench->now_ns = probed + 5 * SECOND - 1;
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, A, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
    bench->now_ns = probed + 5 * SECOND;
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, A, MASK_AB), ADMIT_REFUSED_OPEN);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_TIMEOUT);
    assert_int_equal(bench->transitions, 3);
}

static void a_failure_on_an_unknown_address_fails_the_probe(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    bench->now_ns += 10 * SECOND;
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, ADDRESS_NONE, MASK_ABC), ADMIT_PROBE);
    /* it may have tried just the address that comes next, so nothing joins it */
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, A, MASK_ABC), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_failure), SETTLED_COUNTED);
    breaker_assert_transition(bench, CIRCUIT_HALF_OPEN, CIRCUIT_OPEN, REASON_PROBE_FAILED);
    assert_int_equal(bench->transitions, 3);
}

static void the_winner_of_a_race_of_addresses_makes_the_loser_late(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    struct ticket second = join(bench, B, MASK_AB);

    assert_int_equal(breaker_settle(bench, second, breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_settle(bench, first, breaker_neutral), SETTLED_LATE);
    assert_int_equal(breaker_sum(bench, COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(bench->transitions, 3);
}

static void a_neutral_attempt_keeps_the_permit_while_another_is_in_flight(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    struct ticket second = join(bench, B, MASK_AB);

    assert_int_equal(breaker_settle(bench, first, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, A, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    /* it proved nothing, so that address may be tried again, by the same probe */
    struct ticket again = join(bench, A, MASK_AB);
    assert_int_equal(again.token, second.token);
    assert_int_equal(breaker_settle(bench, second, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(breaker_view(bench).probes, 1);
    assert_int_equal(breaker_settle(bench, again, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(breaker_view(bench).probes, 0);
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, A, MASK_AB), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 2);
}

static void a_permit_goes_back_when_what_is_left_has_failed(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    struct ticket second = join(bench, B, MASK_AB);

    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(breaker_settle(bench, second, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(breaker_view(bench).probes, 0);
    assert_int_equal(bench->transitions, 2);
}

static void eight_addresses_are_tried_in_turn_by_one_probe(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket ticket = probe_first(bench, 0xff);

    for (int address = 1; address < (int)CIRCUIT_ADDRESSES; address++) {
        assert_int_equal(breaker_settle(bench, ticket, breaker_failure), SETTLED_COUNTED);
        assert_int_equal(bench->transitions, 2);
        ticket = join(bench, address, 0xff);
    }
    assert_int_equal(breaker_settle(bench, ticket, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 3);
}

static void addresses_out_of_range_are_unknown_ones(void **state)
{
    struct breaker_bench *bench = *state;

    breaker_open(bench);
    bench->now_ns += 10 * SECOND;
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, 8, UINT32_MAX), ADMIT_PROBE);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, -77, UINT32_MAX), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(bench->transitions, 3);
}

static void with_more_permits_a_tried_address_takes_another_lease(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.half_open_max_calls = 2;
    struct ticket first = probe_first(bench, MASK_AB);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, A, MASK_AB), ADMIT_PROBE);
    struct ticket second = bench->ticket;
    assert_int_not_equal(second.token, first.token);
    assert_int_equal(breaker_view(bench).probes, 2);
    /* the other address: once for each of the two probes */
    assert_int_equal(join(bench, B, MASK_AB).token, first.token);
    assert_int_equal(join(bench, B, MASK_AB).token, second.token);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, B, MASK_AB), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void a_dead_holder_takes_its_joined_attempts_with_it(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    struct ticket second = join(bench, B, MASK_AB);

    bench->dead_holder = BREAKER_HOLDER;
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, A, MASK_AB), ADMIT_PROBE);
    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, second, breaker_success), SETTLED_LATE);
    assert_int_equal(bench->state, CIRCUIT_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void a_straggler_cannot_write_into_a_later_lease(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket old = probe_first(bench, MASK_AB);
    int slot = lease_find(bench->circuit, 0xff, old.token);

    assert_int_equal(breaker_settle(bench, old, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(breaker_admit_as(bench, OTHER_HOLDER, A, MASK_AB), ADMIT_PROBE);
    assert_int_equal(lease_find(bench->circuit, 0xff, bench->ticket.token), slot);
    uint64_t attempts = atomic_load(&bench->circuit->leases[slot].attempts);
    /* what a thread does that found its lease standing, and was then held up until the slot had another one */
    assert_int_equal(lease_attempt_failed(bench->circuit, slot, old.token, A), LEASE_LOST);
    assert_int_equal(lease_attempt_returned(bench->circuit, slot, old.token, A), LEASE_LOST);
    lease_release(bench->circuit, slot, old.token);
    assert_int_equal(atomic_load(&bench->circuit->leases[slot].attempts), attempts);
    assert_int_equal(atomic_load(&bench->circuit->leases[slot].token), bench->ticket.token);
    assert_int_equal(bench->transitions, 2);
}

static void nobody_joins_a_probe_that_is_decided(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_ABC);
    struct ticket second = join(bench, B, MASK_ABC);
    int slot = lease_find(bench->circuit, 0xff, first.token);
    struct caller caller = {.holder = BREAKER_HOLDER, .address = C};
    uint64_t token;

    /* between the last attempt's end and the CAS that gives the permit back */
    assert_int_equal(breaker_settle(bench, first, breaker_failure), SETTLED_COUNTED);
    assert_int_equal(lease_attempt_returned(bench->circuit, slot, second.token, B), LEASE_DECIDED);
    assert_int_equal(lease_join(bench->circuit, 0xff, &caller, &token), LEASE_NONE);
    assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER, C, MASK_ABC), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);
}

static void nobody_joins_a_lease_whose_attempts_are_another_ones(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket first = probe_first(bench, MASK_AB);
    int slot = lease_find(bench->circuit, 0xff, first.token);
    struct caller caller = {.holder = BREAKER_HOLDER, .address = B};
    uint64_t token;

    /* the slot was claimed anew by the same process, and is not filled yet */
    atomic_store(&bench->circuit->leases[slot].token, first.token + 1);
    assert_int_equal(lease_join(bench->circuit, 0xff, &caller, &token), LEASE_NONE);
    assert_int_equal(bench->transitions, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(the_attempt_to_another_address_joins_the_probe_of_its_process),
        breaker_test(an_address_that_was_tried_is_not_tried_again),
        breaker_test(an_address_that_failed_is_not_tried_again_by_the_same_probe),
        breaker_test(another_process_does_not_join),
        breaker_test(a_dead_first_address_does_not_fail_the_probe),
        breaker_test(the_probe_fails_when_all_known_addresses_have),
        breaker_test(with_no_other_address_known_the_first_failure_fails_the_probe),
        breaker_test(an_address_that_turns_up_only_when_it_is_tried_counts_too),
        breaker_test(an_address_left_untried_fails_the_probe_only_at_its_deadline),
        breaker_test(a_failure_on_an_unknown_address_fails_the_probe),
        breaker_test(the_winner_of_a_race_of_addresses_makes_the_loser_late),
        breaker_test(a_neutral_attempt_keeps_the_permit_while_another_is_in_flight),
        breaker_test(a_permit_goes_back_when_what_is_left_has_failed),
        breaker_test(eight_addresses_are_tried_in_turn_by_one_probe),
        breaker_test(addresses_out_of_range_are_unknown_ones),
        breaker_test(with_more_permits_a_tried_address_takes_another_lease),
        breaker_test(a_dead_holder_takes_its_joined_attempts_with_it),
        breaker_test(a_straggler_cannot_write_into_a_later_lease),
        breaker_test(nobody_joins_a_probe_that_is_decided),
        breaker_test(nobody_joins_a_lease_whose_attempts_are_another_ones),
    };

    return cmocka_run_group_tests_name("probes over several addresses", tests, NULL, NULL);
}
