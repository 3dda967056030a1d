/*
 * test_bulkhead_steps.c - taking and giving a share, stopped at one instruction after the other while others take and
 * give theirs, or killed there.
 *
 * A child is stepped through bulkhead_take or bulkhead_give; at each instruction that changes something this process
 * comes in between and does all of its own part, then the child goes on, or is killed and buried. However they meet, no
 * more have a share than may, and the count is that of the shares.
 */
#include "support_guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/bulkhead.h"
#include "segment/calls.h"
#include "segment/layout.h"
#include "segment/processes.h"

/* Sanitizers make it some ten thousand instructions long. */
#define STEPS_MAX 1000000u
#define CHANGES_MAX 16u

/* --- the child --- */

struct stepped {
    pid_t pid;
    uint32_t call, holder;
    _Atomic bool is_over;
    bool admitted;
};

enum way { TAKES, GIVES };

static struct stepped *stepped; /* shared with the child */

static void wait_for_stop(void)
{
    int status;

    assert_int_equal(waitpid(stepped->pid, &status, 0), stepped->pid);
    assert_true(WIFSTOPPED(status));
}

/* The child is about to take a share, or to give back one that it has. False: nobody may be stepped through here. */
static bool start(struct guard_bench *bench, enum way way, uint32_t limit)
{
    pid_t parent = getpid(), child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        stepped->holder = process_join(&bench->segment, "child", 1);
        stepped->call = calls_claim(&bench->segment, stepped->holder);
        atomic_store(&stepped->is_over, false);
        if (way == GIVES && !bulkhead_take(&bench->segment, bench->circuit, stepped->call, limit))
            _exit(4);
        if (stepped->holder == 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        raise(SIGSTOP);
        if (way == TAKES)
            stepped->admitted = bulkhead_take(&bench->segment, bench->circuit, stepped->call, limit);
        else
            bulkhead_give(&bench->segment, stepped->call, stepped->holder, limit);
        atomic_store(&stepped->is_over, true);
        raise(SIGSTOP);
        _exit(3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    stepped->pid = child;
    return WIFSTOPPED(status);
}

static bool is_over(void)
{
    return atomic_load(&stepped->is_over);
}

static void step(void)
{
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, stepped->pid, NULL, NULL), 0);
    wait_for_stop();
}

/* Lets the child come to the end of its step; it lives on, stopped. */
static void run_to_the_end(void)
{
    if (!is_over()) {
        assert_int_equal(ptrace(PTRACE_CONT, stepped->pid, NULL, NULL), 0);
        wait_for_stop();
    }
    assert_true(is_over());
}

/* Kills the child and gives back what it left. */
static void end(struct guard_bench *bench)
{
    int status;

    kill(stepped->pid, SIGKILL);
    waitpid(stepped->pid, &status, 0);
    bench_bury(bench);
    assert_int_equal(atomic_load(&bench->segment.call_owner[stepped->call]), 0);
}

static int set_up(void **state)
{
    stepped = mmap(NULL, sizeof *stepped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return stepped == MAP_FAILED ? -1 : guard_bench_setup(state);
}

static int tear_down(void **state)
{
    munmap(stepped, sizeof *stepped);
    return guard_bench_teardown(state);
}

/* --- points in between --- */

/* Finds after which of the child's instructions something has changed; returns how many there are. */
static unsigned int find_changes(struct guard_bench *bench, enum way way, uint32_t limit, unsigned int at[CHANGES_MAX])
{
    unsigned int count = 0;

    if (!start(bench, way, limit))
        skip();
    _Atomic uint64_t *counted = &bench_entry(bench)->connections, *mark = &bench->segment.calls[stepped->call].share;
    uint64_t word = atomic_load(counted), share = atomic_load(mark);
    at[count++] = 0;
    for (unsigned int steps = 1; steps < STEPS_MAX && !is_over(); steps++) {
        step();
        if ((atomic_load(counted) != word || atomic_load(mark) != share) && count < CHANGES_MAX)
            at[count++] = steps;
        word = atomic_load(counted);
        share = atomic_load(mark);
    }
    assert_true(is_over());
    assert_int_equal(count, 4); /* before; marked; counted; marked again */
    end(bench);
    return count;
}

static void start_and_step(struct guard_bench *bench, enum way way, uint32_t limit, unsigned int steps)
{
    assert_true(start(bench, way, limit));
    for (; steps > 0; steps--)
        step();
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
