/*
 * test_undisturbed.c - what the library reads and writes in a host's thread, while the host's handlers jump out of
 * whatever they interrupt, and while it is cancelled.
 */
#include "support_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "segment/handover.h"
#include "segment/process_alive.h"
#include "base/log.h"
#include "base/undisturbed.h"

/* Enough that, without protection, many signals meet each of the system calls. */
enum { ROUNDS = 3000, TICK_US = 30 };

static sigjmp_buf way_out;
static volatile sig_atomic_t may_jump;

static void jump(int number)
{
    (void)number;
    if (may_jump)
        siglongjmp(way_out, 1);
}

static void tick(unsigned int interval_us)
{
    struct itimerval timer = {{0, (suseconds_t)interval_us}, {0, (suseconds_t)interval_us}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static bool is_cancellable(void)
{
    int now;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &now);
    return now == PTHREAD_CANCEL_ENABLE;
}

/* Does it again and again while a handler jumps out of it, and looks at what the jumps have left behind. */
static void assert_jumps_leave_nothing(void (*act)(struct state *), struct state *place)
{
    struct sigaction action = {.sa_handler = jump}, former;
    volatile unsigned int uncancellable = 0;
    act(place);
    unsigned int descriptors = open_descriptors();
    sigaction(SIGALRM, &action, &former);
    tick(TICK_US);
    for (volatile unsigned int i = 0; i < ROUNDS; i++) {
        if (sigsetjmp(way_out, 1) == 0) {
            may_jump = 1;
            act(place);
        }
        may_jump = 0;
        if (!is_cancellable())
            uncancellable = uncancellable + 1;
    }
    tick(0);
    sigaction(SIGALRM, &former, NULL);
    assert_int_equal(uncancellable, 0);
    assert_int_equal(open_descriptors(), descriptors);
}

static void append_to_log(struct state *place)
{
    char file[128];
    snprintf(file, sizeof file, "%s/log", place->parent);
    log_append(file, "a line\n", 7);
}

static void ask_for_self(struct state *place)
{
    struct process_life self;
    (void)place;
    process_life_know_self(&self);
}

static void ask_for_parent(struct state *place)
{
    struct process_life parent = {.pid = (uint32_t)getppid()};
    (void)place;
    process_life_goes_on(&parent);
}

static void read_handover(struct state *place)
{
    size_t size;
    bool again;
    /* Memory may be lost by a jump behind the call, as by any jump; descriptors may not. */
    void *bytes = handover_read(&place->segment, 65536, &size, &again);
    if (bytes != NULL)
        handover_free(bytes, size);
}

static void a_jump_out_of_the_log_leaves_no_descriptor_and_can_be_cancelled(void **state)
{
    assert_jumps_leave_nothing(append_to_log, *state);
}

static void a_jump_out_of_asking_who_lives_leaves_nothing(void **state)
{
    assert_jumps_leave_nothing(ask_for_self, *state);
    assert_jumps_leave_nothing(ask_for_parent, *state);
}

static void a_jump_out_of_reading_an_edited_policy_leaves_nothing(void **state)
{
    struct state *place = *state;
    assert_true(handover_write(&place->segment, "policy", 6, &place->error));
    assert_jumps_leave_nothing(read_handover, place);
}

static void the_threads_own_mask_and_errno_come_back(void **state)
{
    struct undisturbed before;
    sigset_t own, during, after;
    (void)state;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    errno = ERANGE;
    undisturbed_begin(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &during);
    undisturbed_end(&before);
    assert_int_equal(errno, ERANGE);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < SIGSYS; number++)
        assert_int_equal(sigismember(&after, number), number == SIGUSR2);
    assert_true(sigismember(&during, SIGTERM) == 1 && sigismember(&during, SIGALRM) == 1);
    /* Faults of the thread's own must reach their handler: SIGSYS serves system calls in some sandboxes. */
    assert_true(sigismember(&during, SIGSEGV) == 0 && sigismember(&during, SIGSYS) == 0);
    sigemptyset(&own);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
}

static void *be_cancelled(void *context)
{
    struct undisturbed before;
    atomic_bool *came_through = context;
    undisturbed_begin(&before);
    pthread_cancel(pthread_self());
    close(open("/dev/null", O_RDONLY)); /* cancellation points */
    atomic_store(came_through, true);
    undisturbed_end(&before);
    pthread_testcancel();
    return NULL;
}

static void a_cancelled_thread_ends_afterwards(void **state)
{
    atomic_bool came_through = false;
    pthread_t thread;
    void *result;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, be_cancelled, &came_through), 0);
    pthread_join(thread, &result);
    assert_true(atomic_load(&came_through));
    assert_ptr_equal(result, PTHREAD_CANCELED);
}

/* In a child with a full pipe as its standard error. */
static void log_into_a_full_pipe(void *context)
{
    int ends[2];
    char byte = 'x';
    (void)context;
    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], &byte, 1) == 1) {
    }
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    alarm(10); /* the end, if it waits */
    log_append("stderr", "a line\n", 7);
    _exit(0);
}

static void a_full_pipe_as_stderr_is_not_waited_for(void **state)
{
    (void)state;
    assert_int_equal(child_run(log_into_a_full_pipe, NULL), 0);
}

#define STATE_TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATE_TEST(a_jump_out_of_the_log_leaves_no_descriptor_and_can_be_cancelled),
        STATE_TEST(a_jump_out_of_asking_who_lives_leaves_nothing),
        STATE_TEST(a_jump_out_of_reading_an_edited_policy_leaves_nothing),
        cmocka_unit_test(the_threads_own_mask_and_errno_come_back),
        cmocka_unit_test(a_cancelled_thread_ends_afterwards),
        cmocka_unit_test(a_full_pipe_as_stderr_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
