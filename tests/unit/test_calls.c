/*
 * test_calls.c - the table of records: beginning, moving, settling, giving back; and what a corrupt one does.
 */
#include "support_guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "segment/layout.h"
#include "segment/segment.h"

#define HOLDER 0x100001u

static const struct ticket some_ticket = {.generation = 11, .token = 22, .address = 3};

static void begin(struct segment *segment, uint32_t call, const struct ticket *ticket)
{
    struct call_view view;

    assert_true(calls_read(segment, call, &view));
    assert_true(calls_fill(segment, call, &view, 7, ticket, 100, 200));
    assert_true(calls_begin(segment, call, &view, PHASE_CONNECTING, 200));
}

static uint32_t begun(struct segment *segment)
{
    uint32_t call = calls_claim(segment, HOLDER);

    assert_int_not_equal(call, CALL_NONE);
    begin(segment, call, &some_ticket);
    return call;
}

static void a_begun_call_reads_back_as_it_was(void **state)
{
    struct call_view view;
    uint32_t call = begun(*state);

    assert_true(calls_read(*state, call, &view));
    assert_int_equal(view.owner, HOLDER);
    assert_int_equal(view.circuit, 7);
    assert_int_equal(view.phase, PHASE_CONNECTING);
    assert_true(view.in_flight);
    assert_int_equal(view.started_ns, 100);
    assert_int_equal(view.due_ns, 200);
    assert_int_equal(view.ticket.generation, 11);
    assert_int_equal(view.ticket.token, 22);
    assert_int_equal(view.ticket.address, 3);
}

static void a_call_without_an_address_reads_back_without_one(void **state)
{
    const struct ticket ticket = {.generation = 1, .address = ADDRESS_NONE};
    struct call_view view;
    uint32_t call = calls_claim(*state, HOLDER);

    begin(*state, call, &ticket);
    assert_true(calls_read(*state, call, &view));
    assert_int_equal(view.ticket.address, ADDRESS_NONE);
}

static void a_claimed_record_is_not_in_flight_before_its_call_begins(void **state)
{
    struct call_view view;
    uint32_t call = calls_claim(*state, HOLDER);

    assert_true(calls_read(*state, call, &view));
    assert_false(view.in_flight);
    /* Nor the second time, when it has the state of its former call. */
    begin(*state, call, &some_ticket);
    assert_true(calls_read(*state, call, &view));
    assert_true(calls_settle(*state, call, &view, CALL_SETTLED));
    assert_true(calls_release(*state, call, HOLDER));
    assert_int_equal(calls_claim(*state, HOLDER + 1), call);
    assert_true(calls_read(*state, call, &view));
    assert_false(view.in_flight);
}

static void of_two_who_read_a_call_one_settles_it(void **state)
{
    struct call_view first, second;
    uint32_t call = begun(*state);

    assert_true(calls_read(*state, call, &first));
    assert_true(calls_read(*state, call, &second));
    assert_true(calls_settle(*state, call, &first, CALL_SETTLED));
    assert_false(calls_settle(*state, call, &second, CALL_OVERDUE));
    assert_false(calls_move(*state, call, &second, PHASE_CONNECTED));
}

static void who_read_a_former_call_of_a_record_cannot_settle_the_present_one(void **state)
{
    struct call_view former, present;
    uint32_t call = begun(*state);

    assert_true(calls_read(*state, call, &former));
    assert_true(calls_settle(*state, call, &former, CALL_SETTLED));
    assert_true(calls_release(*state, call, HOLDER));
    assert_int_equal(begun(*state), call);
    assert_true(calls_read(*state, call, &present));
    assert_false(calls_settle(*state, call, &former, CALL_SETTLED));
    assert_true(calls_settle(*state, call, &present, CALL_SETTLED));
}

static void a_settled_call_is_answered_and_an_overdue_one_keeps_its_phase(void **state)
{
    struct call_view view;
    uint32_t call = begun(*state), other = begun(*state);

    assert_true(calls_read(*state, call, &view));
    assert_true(calls_move(*state, call, &view, PHASE_REQUESTED));
    assert_true(calls_read(*state, call, &view));
    assert_true(calls_settle(*state, call, &view, CALL_OVERDUE));
    assert_true(calls_read(*state, call, &view));
    assert_int_equal(view.phase, PHASE_REQUESTED);
    assert_int_equal(view.settled, CALL_OVERDUE);
    assert_false(view.in_flight);

    assert_true(calls_read(*state, other, &view));
    assert_true(calls_settle(*state, other, &view, CALL_SETTLED));
    assert_true(calls_read(*state, other, &view));
    assert_int_equal(view.phase, PHASE_ANSWERED);
}

static void the_next_call_of_a_record_is_reserved_for_one_of_two(void **state)
{
    struct call_view first, second;
    uint32_t call = begun(*state);

    assert_true(calls_read(*state, call, &first));
    assert_false(calls_reserve(*state, call, &first)); /* in flight */
    assert_true(calls_settle(*state, call, &first, CALL_SETTLED));
    assert_true(calls_read(*state, call, &first));
    assert_true(calls_read(*state, call, &second));
    assert_true(calls_reserve(*state, call, &first));
    assert_false(calls_reserve(*state, call, &second));
    assert_true(calls_read(*state, call, &second));
    assert_false(second.in_flight);
    assert_false(calls_reserve(*state, call, &second));
    assert_true(calls_settle(*state, call, &first, CALL_SETTLED));
    assert_true(calls_read(*state, call, &second));
    assert_true(calls_reserve(*state, call, &second));
}

static void a_record_goes_back_only_from_its_owner(void **state)
{
    struct call_view view;
    uint32_t call = begun(*state);

    assert_true(calls_read(*state, call, &view));
    assert_false(calls_release(*state, call, HOLDER)); /* its call is in flight */
    assert_true(calls_settle(*state, call, &view, CALL_SETTLED));
    assert_false(calls_release(*state, call, HOLDER + 1));
    assert_true(calls_release(*state, call, HOLDER));
    assert_false(calls_release(*state, call, HOLDER));
    assert_false(calls_read(*state, call, &view));
}

static void records_in_use_stay_low_in_the_table(void **state)
{
    struct segment *segment = *state;

    for (unsigned int i = 0; i < 1000; i++) {
        uint32_t call = begun(segment);
        struct call_view view;

        assert_true(calls_read(segment, call, &view));
        assert_true(calls_settle(segment, call, &view, CALL_SETTLED));
        assert_true(calls_release(segment, call, HOLDER));
    }
    assert_int_equal(calls_limit(segment), 1);
}

static void a_record_that_was_given_back_is_the_next_one_to_be_taken(void **state)
{
    struct segment *segment = *state;
    struct call_view view;

    for (unsigned int i = 0; i < 200; i++)
        begun(segment);
    assert_true(calls_read(segment, 150, &view));
    assert_true(calls_settle(segment, 150, &view, CALL_SETTLED));
    assert_true(calls_release(segment, 150, HOLDER));
    assert_int_equal(begun(segment), 150);
    assert_int_equal(calls_limit(segment), 200);
}

static void the_table_grows_past_a_place_whose_claimer_was_killed(void **state)
{
    struct segment *segment = *state;

    /* Claimed, but calls_high was not raised yet. */
    atomic_store(&segment->call_owner[0], HOLDER);
    assert_int_equal(calls_claim(segment, HOLDER), 1);
    assert_int_equal(calls_limit(segment), 2);
}

static void what_is_out_of_range_in_a_record_is_cut(void **state)
{
    struct segment *segment = *state;
    struct call *record = &segment->calls[0];
    struct call_view view;

    memset(record, 0xff, sizeof *record);
    atomic_store(&segment->call_owner[0], UINT32_MAX);
    assert_true(calls_read(segment, 0, &view));
    assert_int_equal(view.phase, PHASE_ANSWERED);
    assert_int_equal(view.settled, CALL_SETTLED);
    assert_int_equal(view.ticket.address, ADDRESS_NONE);
    atomic_store(&record->address, CIRCUIT_ADDRESSES + 1);
    assert_true(calls_read(segment, 0, &view));
    assert_int_equal(view.ticket.address, ADDRESS_NONE);
    atomic_store(&segment->map->calls_high, UINT32_MAX);
    atomic_store(&segment->map->calls_hint, UINT32_MAX);
    assert_int_equal(calls_limit(segment), CAPACITY_CALLS);
    assert_int_not_equal(calls_claim(segment, HOLDER), CALL_NONE);
    assert_false(calls_read(segment, CAPACITY_CALLS, &view));
    assert_false(calls_read(segment, CALL_NONE, &view));
}

static void the_number_of_calls_on_a_record_wraps_past_zero(void **state)
{
    struct segment *segment = *state;
    struct call_view view;

    atomic_store(&segment->calls[0].state, (uint64_t)PHASE_ANSWERED << 40 | UINT64_C(1) << 32 | UINT32_MAX);
    uint32_t call = begun(segment);
    assert_int_equal(call, 0);
    assert_true(calls_read(segment, call, &view));
    assert_true(view.in_flight);
    assert_true(calls_settle(segment, call, &view, CALL_SETTLED));
    atomic_store(&segment->calls[0].state, (uint64_t)PHASE_ANSWERED << 40 | UINT64_C(1) << 32 | UINT32_MAX);
    assert_true(calls_read(segment, call, &view));
    assert_true(calls_reserve(segment, call, &view));
    assert_true(calls_fill(segment, call, &view, 7, &some_ticket, 100, 200));
    assert_true(calls_begin(segment, call, &view, PHASE_REQUESTED, 200));
    assert_true(calls_read(segment, call, &view));
    assert_true(view.in_flight);
}

static void who_lost_a_claimed_record_begins_nothing_on_it(void **state)
{
    struct segment *segment = *state;
    struct call_view view, other;
    uint32_t call = calls_claim(segment, HOLDER);

    assert_true(calls_read(segment, call, &view));
    other = view;
    assert_true(calls_settle(segment, call, &other, CALL_SETTLED));
    assert_false(calls_fill(segment, call, &view, 7, &some_ticket, 100, 200));
    assert_false(calls_begin(segment, call, &view, PHASE_CONNECTING, 200));
    assert_true(calls_release(segment, call, HOLDER));
    assert_int_equal(begun(segment), call);
    assert_false(calls_fill(segment, call, &view, 7, &some_ticket, 100, 200));
    assert_false(calls_begin(segment, call, &view, PHASE_CONNECTING, 200));
    assert_true(calls_read(segment, call, &other));
    assert_true(other.in_flight);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 20000, MARKS = 64 };
static _Atomic uint32_t marks[CAPACITY_CALLS];
static _Atomic unsigned int collisions;

static void *claim_and_release(void *context)
{
    struct segment *segment = context;

    for (unsigned int round = 0; round < ROUNDS; round++) {
        uint32_t call = begun(segment);
        struct call_view view;

        if (atomic_fetch_add(&marks[call], 1) != 0)
            atomic_fetch_add(&collisions, 1);
        if (!calls_read(segment, call, &view) || !calls_settle(segment, call, &view, CALL_SETTLED))
            atomic_fetch_add(&collisions, 1);
        atomic_fetch_sub(&marks[call], 1);
        calls_release(segment, call, HOLDER);
    }
    return NULL;
}

static void no_record_is_ever_two_threads(void **state)
{
    pthread_t threads[THREADS];

    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_release, *state), 0);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&collisions), 0);
    assert_in_range(calls_limit(*state), 1, MARKS);
}

static void who_waits_is_who_is_in_flight_or_was_charged_while_it_hangs(void **state)
{
    struct call_view view;
    uint32_t call = calls_claim(*state, HOLDER);

    assert_false(calls_read_waiting(*state, call, &view));
    begin(*state, call, &some_ticket);
    assert_true(calls_read_waiting(*state, call, &view));
    assert_true(view.in_flight);
    assert_int_equal(view.started_ns, 100);
    assert_true(calls_settle(*state, call, &view, CALL_OVERDUE));
    assert_true(calls_read_waiting(*state, call, &view));
    assert_false(view.in_flight);
    assert_int_equal(view.phase, PHASE_CONNECTING);
    assert_true(calls_settle(*state, call, &view, CALL_OVERDUE_ENDED));
    assert_false(calls_read_waiting(*state, call, &view));
    assert_true(calls_read(*state, call, &view) && calls_reserve(*state, call, &view));
    assert_false(calls_read_waiting(*state, call, &view));
    assert_false(calls_read_waiting(*state, CALL_NONE, &view));
}

#define CALLS_TEST(name) cmocka_unit_test_setup_teardown(name, private_segment_setup, private_segment_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALLS_TEST(a_begun_call_reads_back_as_it_was),
        CALLS_TEST(a_call_without_an_address_reads_back_without_one),
        CALLS_TEST(a_claimed_record_is_not_in_flight_before_its_call_begins),
        CALLS_TEST(of_two_who_read_a_call_one_settles_it),
        CALLS_TEST(who_read_a_former_call_of_a_record_cannot_settle_the_present_one),
        CALLS_TEST(a_settled_call_is_answered_and_an_overdue_one_keeps_its_phase),
        CALLS_TEST(the_next_call_of_a_record_is_reserved_for_one_of_two),
        CALLS_TEST(a_record_goes_back_only_from_its_owner),
        CALLS_TEST(records_in_use_stay_low_in_the_table),
        CALLS_TEST(a_record_that_was_given_back_is_the_next_one_to_be_taken),
        CALLS_TEST(the_table_grows_past_a_place_whose_claimer_was_killed),
        CALLS_TEST(what_is_out_of_range_in_a_record_is_cut),
        CALLS_TEST(the_number_of_calls_on_a_record_wraps_past_zero),
        CALLS_TEST(who_lost_a_claimed_record_begins_nothing_on_it),
        CALLS_TEST(no_record_is_ever_two_threads),
        CALLS_TEST(who_waits_is_who_is_in_flight_or_was_charged_while_it_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
