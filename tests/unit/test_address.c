/*
 * test_address.c - the addresses of a destination: whether another one answered since this one last failed.
 */
#include "support_breaker.h"

#include <stdatomic.h>
#include <string.h>

static struct circuit *circuit_of(void **state)
{
    struct breaker_bench *bench = *state;

    return bench->circuit;
}

static void a_key_has_one_index(void **state)
{
    struct circuit *circuit = circuit_of(state);

    for (uint64_t key = 1; key <= CIRCUIT_ADDRESSES; key++)
        assert_int_equal(circuit_address_index(circuit, key * 1000), key - 1);
    for (uint64_t key = CIRCUIT_ADDRESSES; key >= 1; key--)
        assert_int_equal(circuit_address_index(circuit, key * 1000), key - 1);
}

static void key_zero_is_no_address(void **state)
{
    assert_int_equal(circuit_address_index(circuit_of(state), 0), ADDRESS_NONE);
}

static void a_ninth_address_takes_the_place_of_the_one_that_was_noted_the_longest_ago(void **state)
{
    struct circuit *circuit = circuit_of(state);

    for (uint64_t key = 1; key <= CIRCUIT_ADDRESSES; key++)
        circuit_address_index(circuit, key);
    for (int address = (int)CIRCUIT_ADDRESSES - 1; address >= 0; address--)
        circuit_address_failed(circuit, address);
    circuit_address_answered(circuit, 7); /* 7 failed first, but answered last: now 6 is the oldest */
    assert_int_equal(circuit_address_index(circuit, 100), 6);
    assert_int_equal(circuit_address_index(circuit, 100), 6);
    assert_int_equal(atomic_load(&circuit->addresses[6].failed_sequence), 0);
    assert_int_equal(atomic_load(&circuit->addresses[6].answered_sequence), 0);
    assert_int_equal(circuit_address_index(circuit, 8), 7);
    /* the one that was pushed out comes back as a new one; the newest without notes goes first */
    assert_int_equal(circuit_address_index(circuit, 7), 6);
}

static void addresses_without_notes_do_not_all_push_each_other_out_of_one_place(void **state)
{
    struct circuit *circuit = circuit_of(state);
    unsigned int used = 0;

    for (uint64_t key = 1; key <= CIRCUIT_ADDRESSES; key++)
        circuit_address_index(circuit, key);
    for (uint64_t key = 100; key < 108; key++)
        used |= 1u << circuit_address_index(circuit, key);
    assert_int_equal(used, 0xff);
}

static void alone_no_address_is_excused_and_nothing_is_written(void **state)
{
    struct circuit *circuit = circuit_of(state);
    int only = circuit_address_index(circuit, 1);
    struct circuit_address before[CIRCUIT_ADDRESSES];

    circuit_address_failed(circuit, only);
    memcpy(before, circuit->addresses, sizeof before);
    circuit_address_answered(circuit, only);
    assert_memory_equal(before, circuit->addresses, sizeof before);
    assert_false(circuit_other_answered(circuit, only));
}

static void an_answer_excuses_the_neighbour_until_it_fails_again(void **state)
{
    struct circuit *circuit = circuit_of(state);
    int dead = circuit_address_index(circuit, 1), alive = circuit_address_index(circuit, 2);

    circuit_address_failed(circuit, dead);
    assert_false(circuit_other_answered(circuit, dead));
    circuit_address_answered(circuit, alive);
    assert_true(circuit_other_answered(circuit, dead));
    assert_false(circuit_other_answered(circuit, alive));
    /* both dead by now: the answer is older than this failure */
    circuit_address_failed(circuit, dead);
    assert_false(circuit_other_answered(circuit, dead));
    circuit_address_answered(circuit, alive);
    assert_true(circuit_other_answered(circuit, dead));
}

static void the_first_failure_is_excused_by_a_neighbour_that_answered_at_any_time(void **state)
{
    struct circuit *circuit = circuit_of(state);
    int alive = circuit_address_index(circuit, 1), dead = circuit_address_index(circuit, 2);

    assert_false(circuit_other_answered(circuit, dead));
    circuit_address_answered(circuit, alive);
    assert_true(circuit_other_answered(circuit, dead));
}

static void its_own_answers_excuse_nobody_themselves(void **state)
{
    struct circuit *circuit = circuit_of(state);
    int one = circuit_address_index(circuit, 1), two = circuit_address_index(circuit, 2);

    circuit_address_failed(circuit, two);
    circuit_address_answered(circuit, one);
    assert_false(circuit_other_answered(circuit, one));
}

static void a_healthy_pair_is_written_once_each(void **state)
{
    struct circuit *circuit = circuit_of(state);
    int one = circuit_address_index(circuit, 1), two = circuit_address_index(circuit, 2);

    circuit_address_answered(circuit, one);
    circuit_address_answered(circuit, two);
    uint64_t serial = atomic_load(&circuit->serial);
    for (int i = 0; i < 100; i++) {
        circuit_address_answered(circuit, one);
        circuit_address_answered(circuit, two);
    }
    assert_int_equal(atomic_load(&circuit->serial), serial);
}

static void a_dead_address_beside_a_living_one_is_excused_at_any_rate_of_calls(void **state)
{
    struct circuit *circuit = circuit_of(state);
    int dead = circuit_address_index(circuit, 1), alive = circuit_address_index(circuit, 2);
    unsigned int charged = 0;

    for (int call = 0; call < 1000; call++) {
        charged += !circuit_other_answered(circuit, dead);
        circuit_address_failed(circuit, dead);
        circuit_address_answered(circuit, alive);
    }
    assert_int_equal(charged, 1); /* the first, when nobody had answered yet */
}

static void what_is_no_address_is_ignored(void **state)
{
    struct circuit *circuit = circuit_of(state);
    const int strange[] = {ADDRESS_NONE, -2, (int)CIRCUIT_ADDRESSES, INT32_MAX, INT32_MIN};
    struct circuit_address before[CIRCUIT_ADDRESSES];

    circuit_address_answered(circuit, circuit_address_index(circuit, 1));
    circuit_address_failed(circuit, circuit_address_index(circuit, 2));
    memcpy(before, circuit->addresses, sizeof before);
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        circuit_address_answered(circuit, strange[i]);
        circuit_address_failed(circuit, strange[i]);
        assert_false(circuit_other_answered(circuit, strange[i]));
    }
    assert_memory_equal(before, circuit->addresses, sizeof before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(a_key_has_one_index),
        breaker_test(key_zero_is_no_address),
        breaker_test(a_ninth_address_takes_the_place_of_the_one_that_was_noted_the_longest_ago),
        breaker_test(addresses_without_notes_do_not_all_push_each_other_out_of_one_place),
        breaker_test(alone_no_address_is_excused_and_nothing_is_written),
        breaker_test(an_answer_excuses_the_neighbour_until_it_fails_again),
        breaker_test(the_first_failure_is_excused_by_a_neighbour_that_answered_at_any_time),
        breaker_test(its_own_answers_excuse_nobody_themselves),
        breaker_test(a_healthy_pair_is_written_once_each),
        breaker_test(a_dead_address_beside_a_living_one_is_excused_at_any_rate_of_calls),
        breaker_test(what_is_no_address_is_ignored),
    };

    return cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
}
