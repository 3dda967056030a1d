/*
 * support_stepped.c - stepping through a child. See support_stepped.h.
 */
#include "support_stepped.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The points lie in the middle of the way on the average. */
#define STEPS_TOGETHER 150000u

static _Atomic bool *is_over; /* shared with the child */

void *stepped_share(size_t size)
{
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    return shared;
}

void stepped_unshare(void *shared, size_t size)
{
    munmap(shared, size);
}

pid_t stepped_start_behind(void (*first)(void *what), void (*does)(void *what), void *what)
{
    int status;

    if (is_over == NULL)
        is_over = stepped_share(sizeof *is_over);
    atomic_store(is_over, false);
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
        if (first != NULL)
            first(what);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(2);
        raise(SIGSTOP);
        does(what);
        atomic_store(is_over, true);
        raise(SIGSTOP);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status))
        skip();
    return child;
}

pid_t stepped_start(void (*does)(void *what), void *what)
{
    return stepped_start_behind(NULL, does, what);
}

bool stepped_is_over(void)
{
    return atomic_load(is_over);
}

unsigned int stepped_go(pid_t child, unsigned int most)
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

void stepped_finish(pid_t child)
{
    int status;

    if (atomic_load(is_over))
        return;
    assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

void stepped_kill(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

unsigned int stepped_stride(unsigned int total, unsigned int points)
{
    const unsigned int afforded = STEPS_TOGETHER / (total / 2 + 1);

    return 1 + total / ((afforded < points ? afforded : points) + 1);
}
