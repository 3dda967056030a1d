/*
 * test_label_steps.c - a process is stopped at any instruction while it looks up its circuit, for so long that the
 * place goes to another destination: whatever it writes then, the new circuit comes to bear its own texts.
 */
#include "support_guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/layout.h"

#define STEPS_MAX 1000000u
#define POINTS_MAX 300u
#define OTHER "other.internal:443"

static _Atomic bool *is_over; /* shared with the child */

/* The bench's circuit as its claimer leaves it before it has written anything. */
static void begin(struct guard_bench *bench)
{
    struct circuit_entry *entry = bench_entry(bench);

    atomic_store(&entry->ready, 0);
    memset(entry->target, 0, sizeof entry->target);
    memset(entry->destination, 0, sizeof entry->destination);
}

static pid_t start(struct guard_bench *bench)
{
    pid_t parent = getpid(), child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        raise(SIGSTOP);
        circuits_find(&bench->segment, BENCH_TARGET, BENCH_DESTINATION, bench->now_ns);
        atomic_store(is_over, true);
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) /* this machine lets nobody step through a child */
        skip();
    return child;
}

static unsigned int step(pid_t child, unsigned int most)
{
    unsigned int steps = 0;
    int status;

    for (; steps < most && !atomic_load(is_over); steps++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
    }
    return steps;
}

static void end(pid_t child)
{
    int status;

    if (!atomic_load(is_over)) {
        assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

/* As circuits_find leaves it that took the place over for OTHER. */
static uint64_t change_hands(struct guard_bench *bench, uint64_t other)
{
    struct circuit_entry *entry = bench_entry(bench);
    uint64_t former = atomic_exchange(&entry->hash, 1);

    snprintf(entry->target, sizeof entry->target, BENCH_TARGET);
    snprintf(entry->destination, sizeof entry->destination, OTHER);
    atomic_store(&entry->ready, 1);
    atomic_store(&entry->last_used_ns, bench->now_ns);
    atomic_store(&entry->hash, other);
    return former;
}

static void a_place_that_changed_hands_bears_no_texts_of_who_was_late(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = bench_entry(bench);
    unsigned int total = STEPS_MAX, stride = 1;
    char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];

    /* OTHER's key; its own place is given back. */
    uint32_t elsewhere = bench_find(bench, OTHER);
    assert_int_not_equal(elsewhere, bench->circuit);
    uint64_t other = atomic_load(&circuits_entry(&bench->segment, elsewhere)->hash);
    atomic_store(&circuits_entry(&bench->segment, elsewhere)->hash, 0);

    for (unsigned int at = STEPS_MAX; at <= total; at = at == STEPS_MAX ? 0 : at + stride) {
        begin(bench);
        atomic_store(is_over, false);
        pid_t child = start(bench);
        unsigned int steps = step(child, at);
        uint64_t former = change_hands(bench, other);
        end(child);
        if (atomic_load(&entry->ready) != 0 &&
            circuits_copy_texts(&bench->segment, bench->circuit, target, destination) &&
            strcmp(destination, OTHER) != 0)
            fail_msg("stopped at instruction %u of %u: the new circuit is called %s", steps, total, destination);
        if (at == STEPS_MAX) {
            total = steps;
            stride = 1 + total / POINTS_MAX;
        }
        /* The late one has found another place, or none. */
        atomic_store(&entry->hash, 0);
        for (uint32_t i = 0; i < bench->segment.capacity.circuits; i++)
            if (atomic_load(&circuits_entry(&bench->segment, i)->hash) == former)
                atomic_store(&circuits_entry(&bench->segment, i)->hash, 0);
        atomic_store(&entry->hash, former);
    }
    begin(bench);
    bench_find(bench, BENCH_DESTINATION);
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
        cmocka_unit_test_setup_teardown(a_place_that_changed_hands_bears_no_texts_of_who_was_late, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
