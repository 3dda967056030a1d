/*
 * test_fleet_order.c - what a command asks of a fleet's agent, and what is kept of the words that were obeyed: whole, fresh,
 * bounded, or not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "segment/fleet_order.h"
#include "segment/forced.h"
#include "segment/layout.h"
#include "segment/segment.h"

static struct fleet_board board;
static struct segment segment;

static int setup(void **state)
{
    (void)state;
    memset(&board, 0, sizeof board);
    segment.fleet = &board;
    return 0;
}

static const struct fleet_order given = {
    .token = 7, .asked_ns = 100 * NS_PER_S, .word = FORCED_OPEN, .user = "alice", .target = "t", .destination = "d:1"};

static void an_order_is_found_while_it_is_fresh(void **state)
{
    struct fleet_order order;
    (void)state;
    for (uint32_t place = 0; place < FLEET_ORDERS; place++)
        assert_false(fleet_order_read(&segment, place, given.asked_ns, &order));
    const uint32_t place = fleet_order_give(&segment, &given);
    assert_true(fleet_order_read(&segment, place, given.asked_ns, &order));
    assert_string_equal(order.destination, "d:1");
    assert_true(fleet_order_read(&segment, place, given.asked_ns + FLEET_ORDER_FRESH_NS, &order));
    assert_false(fleet_order_read(&segment, place, given.asked_ns + FLEET_ORDER_FRESH_NS + 1, &order));
    assert_false(fleet_order_read(&segment, place, given.asked_ns - FLEET_ORDER_FRESH_NS - 1, &order));
}

/* As from whoever may write there. */
static void an_order_of_rubbish_is_bounded_or_none(void **state)
{
    struct fleet_order order = given;
    (void)state;
    memset(order.user, 'x', sizeof order.user);
    memset(order.target, 'x', sizeof order.target);
    memset(order.destination, 'x', sizeof order.destination);
    uint32_t place = fleet_order_give(&segment, &order);
    assert_true(fleet_order_read(&segment, place, given.asked_ns, &order));
    assert_int_equal(strlen(order.user), sizeof order.user - 1);
    assert_int_equal(strlen(order.target), sizeof order.target - 1);
    assert_int_equal(strlen(order.destination), sizeof order.destination - 1);
    order.word = FORCED_WORDS;
    place = fleet_order_give(&segment, &order);
    assert_false(fleet_order_read(&segment, place, given.asked_ns, &order));
    order = given;
    order.asked_ns = UINT64_MAX;
    place = fleet_order_give(&segment, &order);
    assert_false(fleet_order_read(&segment, place, given.asked_ns, &order));
    place = fleet_order_give(&segment, &given);
    board.orders[place].order.for_ns = 1; /* half written */
    assert_false(fleet_order_read(&segment, place, given.asked_ns, &order));
}

static void an_answer_is_to_the_order_in_its_place(void **state)
{
    struct fleet_answer answer = {.token = 7, .state = FLEET_ORDER_SAID, .hosts = 4, .obeying = 2};
    (void)state;
    assert_false(fleet_order_answered(&segment, 3, &answer));
    answer = (struct fleet_answer){.token = 7, .state = FLEET_ORDER_FAILED};
    memset(answer.trouble, 'x', sizeof answer.trouble);
    fleet_order_answer(&segment, 3, &answer);
    assert_true(fleet_order_answered(&segment, 3, &answer));
    assert_int_equal(strlen(answer.trouble), sizeof answer.trouble - 1);
    assert_false(fleet_order_answered(&segment, 2, &answer));
    answer.state = FLEET_ORDER_STATES;
    fleet_order_answer(&segment, 3, &answer);
    assert_false(fleet_order_answered(&segment, 3, &answer));
}

static void of_more_words_than_there_is_room_for_the_oldest_goes(void **state)
{
    struct fleet_obeyed obeyed;
    (void)state;
    assert_false(fleet_obeyed_find(&segment, 0, &obeyed));
    for (uint64_t key = 1; key <= FLEET_OBEYED + 1; key++)
        fleet_obeyed_put(&segment, &(struct fleet_obeyed){.key = key, .token = key, .at_ns = key, .user = "alice"});
    assert_false(fleet_obeyed_find(&segment, 1, &obeyed));
    for (uint64_t key = 2; key <= FLEET_OBEYED + 1; key++) {
        assert_true(fleet_obeyed_find(&segment, key, &obeyed));
        assert_int_equal(obeyed.token, key);
    }
    fleet_obeyed_put(&segment, &(struct fleet_obeyed){.key = 2, .token = 9, .at_ns = 1000});
    assert_true(fleet_obeyed_find(&segment, 2, &obeyed) && obeyed.token == 9);
    assert_true(fleet_obeyed_find(&segment, 3, &obeyed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_order_is_found_while_it_is_fresh, setup),
        cmocka_unit_test_setup(an_order_of_rubbish_is_bounded_or_none, setup),
        cmocka_unit_test_setup(an_answer_is_to_the_order_in_its_place, setup),
        cmocka_unit_test_setup(of_more_words_than_there_is_room_for_the_oldest_goes, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
