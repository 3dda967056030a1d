/*
 * test_bulkhead_steps.c - taking and giving a share, stopped at one instruction after the other while others take and
 * give theirs, or killed there.
 *
 * A child is stepped through bulkhead_take or bulkhead_give; at each instruction that changes something this process
 * comes in between and does all of its own part, then the child goes on, or is killed and buried. However they meet, no
 * more have a share than may, and the count is that of the shares.
 */
#include "support_guard.h"
#include "support_stepped.h"

#include <stdatomic.h>

#include "segment/bulkhead.h"
#include "segment/calls.h"
#include "segment/layout.h"
#include "segment/processes.h"

#define CHANGES_MAX 16u

/* --- the child --- */

enum way { TAKES, GIVES };

struct stepped {
    struct guard_bench *bench;
    enum way way;
    uint32_t limit, call, holder;
    bool admitted;
    pid_t pid;
};

static struct stepped *stepped; /* shared with the child */

static void take(void *what)
{
    (void)what;
    stepped->admitted = bulkhead_take(&stepped->bench->segment, stepped->bench->circuit, stepped->call, stepped->limit);
}

static void begin(void *what)
{
    stepped->holder = process_join(&stepped->bench->segment, "child", 1);
    stepped->call = calls_claim(&stepped->bench->segment, stepped->holder);
    if (stepped->way == GIVES)
        take(what);
}

static void do_it(void *what)
{
    if (stepped->way == TAKES)
        take(what);
    else
        bulkhead_give(&stepped->bench->segment, stepped->call, stepped->holder, stepped->limit);
}

/* The child is about to take a share, or to give back one that it has. */
static void start(struct guard_bench *bench, enum way way, uint32_t limit)
{
    *stepped = (struct stepped){.bench = bench, .way = way, .limit = limit};
    stepped->pid = stepped_start_behind(begin, do_it, NULL);
    assert_int_not_equal(stepped->holder, 0);
    assert_true(stepped->admitted == (way == GIVES));
}

/* Lets the child come to the end of its step; it lives on, stopped. */
static void run_to_the_end(void)
{
    stepped_finish(stepped->pid);
    assert_true(stepped_is_over());
}

/* Kills the child and gives back what it left. */
static void end(struct guard_bench *bench)
{
    stepped_kill(stepped->pid);
    bench_bury(bench);
    assert_int_equal(atomic_load(&bench->segment.call_owner[stepped->call]), 0);
}

static int set_up(void **state)
{
    stepped = stepped_share(sizeof *stepped);
    return guard_bench_setup(state);
}

static int tear_down(void **state)
{
    stepped_unshare(stepped, sizeof *stepped);
    return guard_bench_teardown(state);
}

/* --- points in between --- */

/* Finds after which of the child's instructions something has changed; returns how many there are. */
static unsigned int find_changes(struct guard_bench *bench, enum way way, uint32_t limit, unsigned int at[CHANGES_MAX])
{
    unsigned int count = 0;

    start(bench, way, limit);
    _Atomic uint64_t *counted = &bench_entry(bench)->connections, *mark = &bench->segment.calls[stepped->call].share;
    uint64_t word = atomic_load(counted), share = atomic_load(mark);
    at[count++] = 0;
    for (unsigned int steps = 1; steps < STEPPED_MAX && stepped_go(stepped->pid, 1) > 0; steps++) {
        if ((atomic_load(counted) != word || atomic_load(mark) != share) && count < CHANGES_MAX)
            at[count++] = steps;
        word = atomic_load(counted);
        share = atomic_load(mark);
    }
    assert_true(stepped_is_over());
    assert_int_equal(count, 4); /* before; marked; counted; marked again */
    end(bench);
    return count;
}

static void start_and_step(struct guard_bench *bench, enum way way, uint32_t limit, unsigned int steps)
{
    start(bench, way, limit);
    assert_int_equal(stepped_go(stepped->pid, steps), steps);
}

static uint32_t own_record(struct guard_bench *bench)
{
    uint32_t call = calls_claim(&bench->segment, bench->guard.holder);

    assert_int_not_equal(call, CALL_NONE);
    return call;
}

static void give_own(struct guard_bench *bench, uint32_t call)
{
    bulkhead_give(&bench->segment, call, bench->guard.holder, 0);
    calls_release(&bench->segment, call, bench->guard.holder);
}

static void of_two_who_want_the_last_place_one_gets_it(void **state)
{
    struct guard_bench *bench = *state;
    unsigned int at[CHANGES_MAX], count = find_changes(bench, TAKES, 1, at);

    for (unsigned int i = 0; i < count; i++) {
        start_and_step(bench, TAKES, 1, at[i]);
        uint32_t call = own_record(bench);
        bool own = bulkhead_take(&bench->segment, bench->circuit, call, 1);
        run_to_the_end();
        if (own + stepped->admitted != 1)
            fail_msg("at change %u of %u: %d and %d have the one place", i, count, own, stepped->admitted);
        assert_int_equal(bench_connections(bench), 1);
        end(bench);
        assert_int_equal(bench_connections(bench), own);
        give_own(bench, call);
        assert_int_equal(bench_connections(bench), 0);
    }
}

/* `others`: this process takes and gives in between, so that the dead one's is not the last step. */
static void kill_at_each_change(struct guard_bench *bench, enum way way, bool others)
{
    unsigned int at[CHANGES_MAX], count = find_changes(bench, way, 3, at);
    uint32_t stays = own_record(bench);

    assert_true(bulkhead_take(&bench->segment, bench->circuit, stays, 3));
    for (unsigned int i = 0; i < count; i++) {
        start_and_step(bench, way, 3, at[i]);
        if (others) {
            uint32_t call = own_record(bench);
            assert_true(bulkhead_take(&bench->segment, bench->circuit, call, 3));
            give_own(bench, call);
        }
        end(bench);
        if (bench_connections(bench) != 1)
            fail_msg("killed at change %u of %u: %u are counted, one is within", i, count, bench_connections(bench));
        assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 1);
    }
    give_own(bench, stays);
}

static void a_kill_at_any_step_of_a_taking_leaves_the_count_right(void **state)
{
    kill_at_each_change(*state, TAKES, false);
}

static void a_kill_at_any_step_of_a_taking_that_others_went_past_leaves_the_count_right(void **state)
{
    kill_at_each_change(*state, TAKES, true);
}

static void a_kill_at_any_step_of_a_giving_leaves_the_count_right(void **state)
{
    kill_at_each_change(*state, GIVES, false);
}

static void a_kill_at_any_step_of_a_giving_that_others_went_past_leaves_the_count_right(void **state)
{
    kill_at_each_change(*state, GIVES, true);
}

/* As when a jump left it: the same process gives it back, once, although the one that it was jumped out of goes on. */
static void a_share_that_is_given_back_under_its_owners_hands_is_counted_off_once(void **state)
{
    struct guard_bench *bench = *state;

    for (enum way way = TAKES; way <= GIVES; way++) {
        unsigned int at[CHANGES_MAX], count = find_changes(bench, way, 3, at);
        uint32_t stays = own_record(bench);

        assert_true(bulkhead_take(&bench->segment, bench->circuit, stays, 3));
        for (unsigned int i = 0; i < count; i++) {
            start_and_step(bench, way, 3, at[i]);
            bulkhead_give(&bench->segment, stepped->call, stepped->holder, 3);
            uint32_t before = bench_connections(bench);
            run_to_the_end();
            assert_in_range(before, 1, 1);
            /* One who takes only now, on a record whose share was given back before, has one again. */
            bulkhead_give(&bench->segment, stepped->call, stepped->holder, 3);
            assert_int_equal(bench_connections(bench), 1);
            end(bench);
        }
        give_own(bench, stays);
    }
}

#define STEPS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_TEST(of_two_who_want_the_last_place_one_gets_it),
        STEPS_TEST(a_kill_at_any_step_of_a_taking_leaves_the_count_right),
        STEPS_TEST(a_kill_at_any_step_of_a_taking_that_others_went_past_leaves_the_count_right),
        STEPS_TEST(a_kill_at_any_step_of_a_giving_leaves_the_count_right),
        STEPS_TEST(a_kill_at_any_step_of_a_giving_that_others_went_past_leaves_the_count_right),
        STEPS_TEST(a_share_that_is_given_back_under_its_owners_hands_is_counted_off_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
