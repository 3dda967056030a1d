/*
 * test_fleet_board.c - what an agent tells of the fleet is read whole, of the present, or not at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "segment/fleet_board.h"
#include "segment/layout.h"
#include "segment/segment.h"

static struct fleet_board board;
static struct segment segment;
static struct fleet_shown shown;

static int setup(void **state)
{
    (void)state;
    memset(&board, 0, sizeof board);
    segment.fleet = &board;
    return 0;
}

static void nothing_is_told_before_somebody_tells_it(void **state)
{
    struct fleet_head head;
    (void)state;
    assert_false(fleet_board_head(&segment, NS_PER_S, &head));
    assert_false(fleet_board_find(&segment, 7, NS_PER_S, &shown));
    assert_false(fleet_board_find(&segment, 0, NS_PER_S, &shown));
}

static void what_is_told_is_found_until_it_is_old(void **state)
{
    const struct fleet_shown told = {
        .told_ns = NS_PER_S, .seen_ns = NS_PER_S, .key = 7, .votes = 2, .named = 1, .voters = {"web-1"}};
    (void)state;
    fleet_board_show(&segment, 3, &told);
    assert_true(fleet_board_find(&segment, 7, NS_PER_S, &shown));
    assert_int_equal(shown.votes, 2);
    assert_string_equal(shown.voters[0], "web-1");
    assert_true(fleet_board_find(&segment, 7, FLEET_TOLD_NS, &shown));
    assert_false(fleet_board_find(&segment, 7, NS_PER_S + FLEET_TOLD_NS, &shown));
    assert_false(fleet_board_find(&segment, 8, NS_PER_S, &shown));
}

static void what_stands_there_whatever_it_is_ends_and_is_bounded(void **state)
{
    struct fleet_shown told = {.told_ns = NS_PER_S, .seen_ns = 1, .key = 7, .named = UINT32_MAX};
    struct fleet_head head = {.told_ns = NS_PER_S, .link = FLEET_LINK_UP};
    (void)state;
    memset(told.voters, 'x', sizeof told.voters);
    memset(told.prober, 'x', sizeof told.prober);
    memset(head.host, 'x', sizeof head.host);
    memset(head.trouble, 'x', sizeof head.trouble);
    fleet_board_show(&segment, 0, &told);
    fleet_board_tell(&segment, &head);
    assert_true(fleet_board_find(&segment, 7, NS_PER_S, &shown));
    assert_int_equal(shown.named, FLEET_SHOWN_HOSTS);
    assert_int_equal(strlen(shown.prober), FLEET_SHOWN_NAME - 1);
    assert_int_equal(strlen(shown.voters[FLEET_SHOWN_HOSTS - 1]), FLEET_SHOWN_NAME - 1);
    assert_true(fleet_board_head(&segment, NS_PER_S, &head));
    assert_int_equal(strlen(head.host), sizeof head.host - 1);
    head.link = 77;
    fleet_board_tell(&segment, &head);
    assert_false(fleet_board_head(&segment, NS_PER_S, &head));
}

/* Who looks asks the time, and then the agent writes: that is no reason to see less than a moment before. */
static void what_was_told_since_the_time_was_asked_is_of_that_time(void **state)
{
    const struct fleet_shown told = {.told_ns = 20 * NS_PER_S, .seen_ns = 20 * NS_PER_S, .key = 7, .votes = 2};
    const struct fleet_head told_head = {.told_ns = 20 * NS_PER_S, .heard_ns = 20 * NS_PER_S, .link = FLEET_LINK_UP};
    const uint64_t before_ns = 20 * NS_PER_S - NS_PER_MS, long_before_ns = 20 * NS_PER_S - FLEET_TOLD_NS;
    struct fleet_head head;
    (void)state;
    fleet_board_show(&segment, 0, &told);
    fleet_board_tell(&segment, &told_head);
    assert_true(fleet_board_find(&segment, 7, before_ns, &shown));
    assert_true(shown.told_ns == before_ns && shown.seen_ns == before_ns && shown.votes == 2);
    assert_true(fleet_board_head(&segment, before_ns, &head));
    assert_true(head.told_ns == before_ns && head.heard_ns == before_ns);
    /* What was told in the future was not told. */
    assert_false(fleet_board_find(&segment, 7, long_before_ns, &shown));
    assert_false(fleet_board_head(&segment, long_before_ns, &head));
}

/* That it is open is told before anybody has asked where. */
static void votes_that_were_not_seen_are_not_told(void **state)
{
    struct fleet_shown told = {.told_ns = NS_PER_S, .key = 7, .is_open = 1, .votes = 2, .named = 2, .callers = 3};
    (void)state;
    for (unsigned int i = 0; i < 2; i++) {
        told.seen_ns = i * 2 * FLEET_TOLD_NS; /* never, and in the future */
        fleet_board_show(&segment, 0, &told);
        assert_true(fleet_board_find(&segment, 7, NS_PER_S, &shown));
        assert_int_equal(shown.is_open, 1);
        assert_int_equal(shown.seen_ns + shown.votes + shown.named + shown.callers, 0);
    }
}

/* As where an agent was killed while it wrote. */
static void what_is_not_whole_is_not_told(void **state)
{
    const struct fleet_shown told = {.told_ns = NS_PER_S, .key = 7, .votes = 2};
    (void)state;
    fleet_board_show(&segment, 0, &told);
    board.circuits[0].shown.votes = 3;
    assert_false(fleet_board_find(&segment, 7, NS_PER_S, &shown));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_told_before_somebody_tells_it, setup),
        cmocka_unit_test_setup(what_is_told_is_found_until_it_is_old, setup),
        cmocka_unit_test_setup(what_stands_there_whatever_it_is_ends_and_is_bounded, setup),
        cmocka_unit_test_setup(what_was_told_since_the_time_was_asked_is_of_that_time, setup),
        cmocka_unit_test_setup(votes_that_were_not_seen_are_not_told, setup),
        cmocka_unit_test_setup(what_is_not_whole_is_not_told, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
