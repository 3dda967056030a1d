/*
 * test_death_steps.c - a place in the table of processes is given up, and who does it is killed at any instruction.
 *
 * A child is stepped through it and killed. Where the place is free by then, the death is counted: or nobody would look
 * for what its owner left.
 */
#include "support_guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/layout.h"
#include "segment/processes.h"

/* Sanitizers make it some ten thousand instructions long. */
#define STEPS_MAX 1000000u
#define POINTS_MAX 400u

static _Atomic bool *is_over; /* shared with the child */

static pid_t start(struct guard_bench *bench, void (*give_up)(struct segment *, uint32_t), uint32_t holder)
{
    pid_t parent = getpid(), child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        raise(SIGSTOP);
        give_up(&bench->segment, holder);
        atomic_store(is_over, true);
        raise(SIGSTOP);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) /* this machine lets nobody step through a child */
        skip();
    return child;
}

/* Steps through it, so far or to its end, and kills the child; returns how far it came. */
static unsigned int step_and_kill(struct guard_bench *bench, void (*give_up)(struct segment *, uint32_t),
                                  uint32_t holder, unsigned int most)
{
    unsigned int steps = 0;
    int status;

    atomic_store(is_over, false);
    pid_t child = start(bench, give_up, holder);
    for (; steps < most && !atomic_load(is_over); steps++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return steps;
}

static void kill_at_each_instruction(struct guard_bench *bench, void (*give_up)(struct segment *, uint32_t))
{
    const uint32_t own = bench->guard.holder;
    unsigned int total = STEPS_MAX, stride = 1;

    for (unsigned int at = STEPS_MAX; at <= total; at = at == STEPS_MAX ? 0 : at + stride) {
        const uint32_t other = process_join(&bench->segment, "other", 1);

        bench->guard.holder = other;
        bench_call(bench);
        bench->guard.holder = own;
        uint32_t deaths = atomic_load(&bench->segment.map->deaths);
        unsigned int steps = step_and_kill(bench, give_up, other, at);
        if (process_asked(&bench->segment, other) == NULL && atomic_load(&bench->segment.map->deaths) == deaths)
            fail_msg("killed at instruction %u of %u: nobody looks for what the dead one left", steps, total);
        if (at == STEPS_MAX) {
            total = steps;
            stride = 1 + total / POINTS_MAX;
        }
        process_died(&bench->segment, other);
        bench_bury(bench);
    }
}

static void who_is_killed_while_giving_up_a_dead_ones_place_leaves_the_death_counted(void **state)
{
    kill_at_each_instruction(*state, process_died);
}

static void who_is_killed_while_leaving_leaves_its_death_counted(void **state)
{
    kill_at_each_instruction(*state, process_leave);
}

static int set_up(void **state)
{
    is_over = mmap(NULL, sizeof *is_over, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return is_over == MAP_FAILED ? -1 : guard_bench_setup(state);
}

static int tear_down(void **state)
{
    munmap((void *)is_over, sizeof *is_over);
    return guard_bench_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_killed_while_giving_up_a_dead_ones_place_leaves_the_death_counted,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_killed_while_leaving_leaves_its_death_counted, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
