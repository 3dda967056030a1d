/*
 * test_health_state.c - what follows from health checks, whatever they say: on a clock of its own. links: agent
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/health_state.h"
#include "base/units.h"

#define START_NS (1000 * NS_PER_S)

static const struct health_rules rules = {.interval_ns = 2 * NS_PER_S, .rise = 2, .patience = 5};

/* A circuit as the agent sees it: looked at each second. */
struct bench {
    struct health_state state;
    struct health_view view;
    uint64_t now_ns;
    unsigned int checks; /* that were begun */
    bool is_busy;        /* one is under way */
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->now_ns = START_NS;
    bench->view = (struct health_view){.since_ns = START_NS, .pause_ns = 10 * NS_PER_S};
    *state = bench;
    return bench == NULL;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static enum health_step look(struct bench *bench)
{
    bool check = !bench->is_busy;
    const enum health_step step = health_look(&bench->state, &rules, &bench->view, bench->now_ns, &check);
    bench->checks += check;
    return step;
}

static enum health_step check(struct bench *bench, bool passed)
{
    return health_result(&bench->state, &rules, passed, bench->now_ns);
}

/* A second later. */
static enum health_step later(struct bench *bench)
{
    bench->now_ns += NS_PER_S;
    return look(bench);
}

/* The probe failed: another opening, with a longer pause. */
static void reopen(struct bench *bench)
{
    health_probed(&bench->state);
    bench->now_ns += NS_PER_S;
    bench->view.since_ns = bench->now_ns;
    bench->view.pause_ns *= 2;
    bench->view.step++;
}

static void the_first_check_is_made_at_once_and_the_others_by_their_interval(void **state)
{
    struct bench *bench = *state;
    look(bench);
    assert_int_equal(bench->checks, 1);
    later(bench);
    assert_int_equal(bench->checks, 1);
    later(bench);
    assert_int_equal(bench->checks, 2);
    bench->is_busy = true;
    bench->now_ns += 5 * NS_PER_S;
    look(bench);
    assert_int_equal(bench->checks, 2);
    bench->is_busy = false; /* it is followed at once by the one that is due */
    look(bench);
    assert_int_equal(bench->checks, 3);
    bench->now_ns += 3600 * NS_PER_S; /* the agent slept: one, and no 1,800 */
    look(bench);
    assert_int_equal(bench->checks, 4);
    bench->now_ns -= 1800 * NS_PER_S; /* a clock that goes back */
    look(bench);
    assert_int_equal(bench->checks, 5);
}

static void passed_so_often_in_a_row_it_ends_the_pause_once(void **state)
{
    struct bench *bench = *state;
    look(bench);
    assert_int_equal(check(bench, true), HEALTH_NOTHING);
    assert_int_equal(check(bench, true), HEALTH_END_PAUSE);
    for (unsigned int i = 0; i < 10; i++)
        assert_int_equal(check(bench, true), HEALTH_NOTHING);
}

static void a_failure_holds_and_is_said_with_each_look(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(look(bench), HEALTH_NOTHING);
    assert_int_equal(check(bench, false), HEALTH_HOLD);
    for (unsigned int i = 1; i < 10; i++)
        assert_int_equal(later(bench), HEALTH_HOLD);
    assert_int_equal(check(bench, true), HEALTH_HOLD); /* once is not enough */
    assert_int_equal(later(bench), HEALTH_HOLD);
    assert_int_equal(check(bench, true), HEALTH_END_PAUSE);
    assert_int_equal(later(bench), HEALTH_NOTHING);
}

static void a_flapping_check_never_ends_a_pause(void **state)
{
    struct bench *bench = *state;
    look(bench);
    for (unsigned int i = 0; i < 20; i++) {
        assert_int_equal(check(bench, false), HEALTH_HOLD);
        assert_int_equal(check(bench, true), HEALTH_HOLD);
    }
}

static void the_patience_with_a_failing_check_ends_by_its_time_and_is_said_once(void **state)
{
    struct bench *bench = *state;
    look(bench);
    check(bench, false);
    bench->now_ns = START_NS + 50 * NS_PER_S - 1;
    assert_int_equal(look(bench), HEALTH_HOLD);
    bench->now_ns += 1;
    assert_int_equal(look(bench), HEALTH_LOSE_PATIENCE);
    assert_int_equal(later(bench), HEALTH_NOTHING);
    assert_int_equal(check(bench, false), HEALTH_NOTHING);
    /* A probe failed: with the next pause it begins anew. */
    reopen(bench);
    look(bench);
    assert_int_equal(check(bench, false), HEALTH_HOLD);
    bench->now_ns += 100 * NS_PER_S - 1;
    assert_int_equal(look(bench), HEALTH_HOLD);
    bench->now_ns += 1;
    assert_int_equal(look(bench), HEALTH_LOSE_PATIENCE);
}

static void a_check_that_passes_while_the_dead_stay_dead_is_asked_twice_as_often_each_time(void **state)
{
    struct bench *bench = *state;
    for (unsigned int wanted = 2; wanted <= 64; wanted *= 2) {
        look(bench);
        for (unsigned int i = 1; i < wanted; i++)
            assert_int_equal(check(bench, true), HEALTH_NOTHING);
        assert_int_equal(check(bench, true), HEALTH_END_PAUSE);
        reopen(bench);
    }
    /* From closed it has a good name again. */
    bench->view.step = 0;
    bench->view.since_ns++;
    look(bench);
    assert_int_equal(check(bench, true), HEALTH_NOTHING);
    assert_int_equal(check(bench, true), HEALTH_END_PAUSE);
}

static void one_that_was_wrong_still_lets_go_of_what_it_held(void **state)
{
    struct bench *bench = *state;
    look(bench);
    check(bench, true);
    check(bench, true);
    reopen(bench);
    look(bench);
    assert_int_equal(check(bench, false), HEALTH_HOLD);
    assert_int_equal(check(bench, true), HEALTH_HOLD);
    assert_int_equal(check(bench, true), HEALTH_LET_GO); /* the pause goes on by itself */
    assert_int_equal(later(bench), HEALTH_NOTHING);
    check(bench, true);
    assert_int_equal(check(bench, true), HEALTH_END_PAUSE);
}

static void one_that_fails_behind_the_pauses_end_holds_again(void **state)
{
    struct bench *bench = *state;
    look(bench);
    check(bench, true);
    assert_int_equal(check(bench, true), HEALTH_END_PAUSE);
    assert_int_equal(check(bench, false), HEALTH_HOLD);
    check(bench, true);
    assert_int_equal(check(bench, true), HEALTH_LET_GO);
}

static void a_probe_that_is_under_way_ends_what_the_check_said(void **state)
{
    struct bench *bench = *state;
    look(bench);
    check(bench, false);
    health_probed(&bench->state);
    assert_int_equal(look(bench), HEALTH_NOTHING);
    health_closed(&bench->state);
    assert_int_equal(check(bench, true), HEALTH_NOTHING);
    assert_int_equal(check(bench, false), HEALTH_NOTHING);
}

/* Whatever a check says: nothing is held for longer than its patience, and each probe that fails makes it wait. */
static void no_history_holds_a_circuit_for_ever(void **state)
{
    struct bench *bench = *state;
    uint64_t held_since_ns = 0, random = 4711;
    for (unsigned int step = 0; step < 100000; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const unsigned int draw = (unsigned int)(random >> 40) % 100;
        enum health_step said = draw < 50 ? later(bench) : draw < 95 ? check(bench, draw < 60) : HEALTH_NOTHING;
        if (draw >= 95) {
            reopen(bench);
            bench->view.pause_ns = (1 + draw % 7) * NS_PER_S;
            held_since_ns = 0;
        }
        if (said != HEALTH_HOLD && said != HEALTH_NOTHING)
            held_since_ns = 0;
        if (said == HEALTH_HOLD && held_since_ns == 0)
            held_since_ns = bench->now_ns;
        if (said == HEALTH_HOLD)
            assert_true(bench->now_ns - bench->view.since_ns < rules.patience * bench->view.pause_ns ||
                        bench->state.since_ns != bench->view.since_ns);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_check_is_made_at_once_and_the_others_by_their_interval),
        TEST(passed_so_often_in_a_row_it_ends_the_pause_once),
        TEST(a_failure_holds_and_is_said_with_each_look),
        TEST(a_flapping_check_never_ends_a_pause),
        TEST(the_patience_with_a_failing_check_ends_by_its_time_and_is_said_once),
        TEST(a_check_that_passes_while_the_dead_stay_dead_is_asked_twice_as_often_each_time),
        TEST(one_that_was_wrong_still_lets_go_of_what_it_held),
        TEST(one_that_fails_behind_the_pauses_end_holds_again),
        TEST(a_probe_that_is_under_way_ends_what_the_check_said),
        TEST(no_history_holds_a_circuit_for_ever),
    };

    return cmocka_run_group_tests_name("health checks", tests, NULL, NULL);
}
