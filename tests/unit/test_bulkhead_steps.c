/*
 * test_bulkhead_steps.c - taking a share, stopped at one instruction after the other while another process takes
 * its own.
 *
 * A child is stepped through bulkhead_take; at a chosen instruction this process comes in between and does all of its
 * own part, then the child goes on. However the two meet, no more have a share than may, and the count is not too low.
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
#include "segment/process.h"

/* Sanitizers make it some ten thousand instructions long, and /proc is read in between. */
#define STEPS_MAX 3000000u
#define POINTS 16u
/* Of a taking that is longer than this (with a sanitizer in it) fewer points will do. */
#define MANY_STEPS 20000u
#define FEW_POINTS 4u
/* Records between two that matter, so that a scan is on its way between them for long. */
#define BETWEEN 100u

/* --- the child --- */

struct stepped {
    pid_t pid;
    uint32_t call;
    _Atomic int admitted; /* -1: not yet known */
};

static struct stepped *stepped; /* shared with the child */

static void wait_for_stop(void)
{
    int status;

    assert_int_equal(waitpid(stepped->pid, &status, 0), stepped->pid);
    assert_true(WIFSTOPPED(status));
}

/* False: this machine lets nobody step through a child. */
static bool start(struct guard_bench *bench, uint32_t limit)
{
    pid_t parent = getpid(), child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        uint32_t holder = process_join(&bench->segment, "child", 1);
        stepped->call = calls_claim(&bench->segment, holder);
        atomic_store(&stepped->admitted, -1);
        if (holder == 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        raise(SIGSTOP);
        bool admitted = bulkhead_take(&bench->segment, bench->circuit, stepped->call, limit);
        atomic_store(&stepped->admitted, admitted);
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
    return atomic_load(&stepped->admitted) >= 0;
}

static void step(void)
{
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, stepped->pid, NULL, NULL), 0);
    wait_for_stop();
}

/* Lets the child come to its end of the taking; it lives on, stopped. */
static bool run_to_the_end(void)
{
    if (!is_over()) {
        assert_int_equal(ptrace(PTRACE_CONT, stepped->pid, NULL, NULL), 0);
        wait_for_stop();
    }
    assert_true(is_over());
    return atomic_load(&stepped->admitted) == 1;
}

static void end(struct guard_bench *bench)
{
    int status;

    kill(stepped->pid, SIGKILL);
    waitpid(stepped->pid, &status, 0);
    for (uint32_t call = 0; call < calls_limit(&bench->segment); call++)
        atomic_store(&bench->segment.call_owner[call], 0);
    atomic_store(&bench_entry(bench)->connections, 0);
    bench_let_recount(bench);
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

/* --- one place, two who want it --- */

/* Marks after which of the child's instructions something in the table has changed; returns how many there are. */
static unsigned int find_changes(struct guard_bench *bench, unsigned int at[], unsigned int most)
{
    unsigned int count = 0;
    uint64_t word = atomic_load(&bench_entry(bench)->connections);
    uint32_t share = atomic_load(&bench->segment.calls[stepped->call].share);

    at[count++] = 0;
    for (unsigned int steps = 1; steps < STEPS_MAX && !is_over(); steps++) {
        step();
        uint64_t word_now = atomic_load(&bench_entry(bench)->connections);
        uint32_t share_now = atomic_load(&bench->segment.calls[stepped->call].share);
        if ((word_now != word || share_now != share) && count < most)
            at[count++] = steps;
        word = word_now;
        share = share_now;
    }
    assert_true(is_over());
    return count;
}

/* `leaked`: the count is one too high, as after a kill, so that the child has to count anew. */
static void one_of_two_gets_the_last_place(struct guard_bench *bench, bool leaked)
{
    unsigned int at[16];

    atomic_store(&bench_entry(bench)->connections, leaked);
    if (!start(bench, 1))
        skip();
    unsigned int count = find_changes(bench, at, sizeof at / sizeof *at);
    assert_true(atomic_load(&stepped->admitted) == 1);
    assert_true(count >= 4); /* before; marked; counted; held */
    end(bench);
    for (unsigned int i = 0; i < count; i++) {
        atomic_store(&bench_entry(bench)->connections, leaked);
        assert_true(start(bench, 1));
        for (unsigned int steps = 0; steps < at[i]; steps++)
            step();
        bench_let_recount(bench);
        uint32_t call = calls_claim(&bench->segment, bench->guard.holder);
        bool own = bulkhead_take(&bench->segment, bench->circuit, call, 1);
        bench_let_recount(bench);
        bool others = run_to_the_end();
        if (own + others != 1)
            fail_msg("at change %u of %u: %d and %d have the one place", i, count, own, others);
        assert_int_equal(bench_connections(bench), 1);
        end(bench);
    }
}

static void of_two_who_want_the_last_place_one_gets_it(void **state)
{
    one_of_two_gets_the_last_place(*state, false);
}

static void of_two_who_count_anew_for_the_last_place_one_gets_it(void **state)
{
    one_of_two_gets_the_last_place(*state, true);
}

/* --- counting while another one goes and comes --- */

/*
 * Two places; one is held by this process in a later record, and one was lost to a kill. While the child counts
 * anew, this process gives its share back and takes one in an earlier record, behind the child's back: the word's count
 * is the same as before then, and the marks that the child has seen are not.
 */
static void a_count_that_was_overtaken_is_thrown_away(void **state)
{
    struct guard_bench *bench = *state;
    unsigned int total = 0, points = POINTS;

    for (unsigned int point = 0; point <= points; point++) {
        uint32_t first = calls_claim(&bench->segment, bench->guard.holder);
        uint32_t second = first;
        while (second < first + BETWEEN)
            second = calls_claim(&bench->segment, bench->guard.holder);
        assert_true(bulkhead_take(&bench->segment, bench->circuit, second, 2));
        atomic_store(&bench_entry(bench)->connections, 2);
        bench_let_recount(bench);
        if (!start(bench, 2))
            skip();
        if (point == 0) {
            for (; total < STEPS_MAX && !is_over(); total++)
                step();
            points = total > MANY_STEPS ? FEW_POINTS : POINTS;
        }
        for (unsigned int steps = 0; point > 0 && steps < total / points * (point - 1); steps++)
            step();
        bulkhead_give(&bench->segment, second, 2);
        bulkhead_take(&bench->segment, bench->circuit, first, 2);
        run_to_the_end();
        uint32_t within = bulkhead_count(&bench->segment, bench->circuit);
        assert_in_range(within, 1, 2);
        if (bench_connections(bench) < within)
            fail_msg("at point %u: %u are counted, and %u are within", point, bench_connections(bench), within);
        end(bench);
    }
}

#define STEPS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_TEST(of_two_who_want_the_last_place_one_gets_it),
        STEPS_TEST(of_two_who_count_anew_for_the_last_place_one_gets_it),
        STEPS_TEST(a_count_that_was_overtaken_is_thrown_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
