/*
 * test_storms.c - timers whose handler jumps out of whatever call it finds, at random microseconds, and threads that
 * are cancelled at random points: a few seconds of ordinary calls later nothing of it is left.
 *
 * Each thread has one descriptor number of its own, so that a close can be repeated after a jump out of it.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "support.h"
#include "support_rest.h"

#define CALLERS 3
#define FIRST_FD 400
#define STORM_MS 1500
#define LONGEST_US 400
/* What was jumped out of is found in rounds of a second; a busy machine takes longer. */
#define CLEAN_WITHIN_MS 40000
#define CALL_EVERY_MS 50
/* Attempts that are left by a jump, or a cancellation, before a storm counts as one. */
#define ENOUGH 50u

/* `limited` always passes; `flapping` opens at the first failures, and a permit that is lost is so for a minute. */
static const char policy[] = "[limited]\nmatch = 127.0.0.10:*\nmax_connections = 4\nfailure_threshold = 0\n"
                             "failure_rate = 0\n"
                             "[flapping]\nmatch = 127.0.0.11:*\nmax_connections = 4\nfailure_threshold = 2\n"
                             "failure_rate = 0\nreset_timeout = 5ms\nreset_timeout_max = 5ms\njitter = 0\n"
                             "probe_timeout = 60s\n";

struct storm {
    struct server server;
    pthread_t servant;
    _Atomic bool healthy, over; /* the server resets no connection; the callers end */
    _Atomic unsigned int left, whole;
    uint32_t seed;
};
static struct storm storm;

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed % below;
}

/* --- the server --- */

static void *serve(void *context)
{
    uint32_t seed = 7;
    int fd;

    (void)context;
    while ((fd = accept4(storm.server.fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (!atomic_load(&storm.healthy) && draw(&seed, 4) == 0) {
            server_reset(fd);
            continue;
        }
        bare.send(fd, "a", 1, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        bare.close(fd);
    }
    return NULL;
}

static void begin(const char *host)
{
    sigset_t all, own;

    memset(&storm, 0, sizeof storm);
    storm.seed = 0x9e3779b9;
    server_start(&storm.server, host, SERVER_LISTENS);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &own);
    assert_int_equal(pthread_create(&storm.servant, NULL, serve, NULL), 0);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
}

static void end(void)
{
    shutdown(storm.server.fd, SHUT_RDWR);
    pthread_join(storm.servant, NULL);
    server_stop(&storm.server);
}

/* --- one call --- */

/* The thread's number, connected or on its way; what fails, fails. */
static void call_once(int fd, bool blocks, uint32_t *seed)
{
    struct timeval patience = {.tv_sec = 1};
    char byte;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, AT(&storm.server)) != 0 && (blocks || errno != EINPROGRESS))
        return;
    if (draw(seed, 2) == 0)
        send(fd, "x", 1, MSG_NOSIGNAL);
    if (!blocks && draw(seed, 2) == 0)
        poll_for(fd, 1);
    recv(fd, &byte, 1, 0);
}

static bool take_socket(int fd, bool blocks)
{
    int taken = caller_socket(&storm.server, blocks ? 0 : SOCK_NONBLOCK);
    bool placed = dup2(taken, fd) == fd;

    close(taken);
    return placed;
}

/* --- the storm of jumps --- */

static _Thread_local sigjmp_buf way_out;
static _Thread_local volatile sig_atomic_t armed;
static _Thread_local timer_t timer;
static _Thread_local uint32_t timer_seed;

static void set_timer(void)
{
    struct itimerspec when = {.it_value = {.tv_nsec = 1000 * (1 + (long)draw(&timer_seed, LONGEST_US))}};

    timer_settime(timer, 0, &when, NULL);
}

static void jump(int number)
{
    (void)number;
    if (armed) {
        armed = 0;
        siglongjmp(way_out, 1);
    }
}

/* Each call is left at most once: by its end, or out of its close. */
static void *call_in_a_storm(void *context)
{
    const int fd = FIRST_FD + (int)(intptr_t)context;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    uint32_t seed = storm.seed + (uint32_t)fd;

    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    timer_seed = seed * 2654435761u | 1;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    while (!atomic_load(&storm.over)) {
        bool blocks = draw(&seed, 2) == 0;

        if (!take_socket(fd, blocks))
            break;
        set_timer();
        if (sigsetjmp(way_out, 1) == 0) {
            armed = 1;
            call_once(fd, blocks, &seed);
            close(fd);
            armed = 0;
            atomic_fetch_add(&storm.whole, 1);
        } else {
            atomic_fetch_add(&storm.left, 1);
        }
        close(fd); /* mostly EBADF */
    }
    timer_delete(timer);
    return NULL;
}

/* Storms for a while, or until it was a storm. */
static void rage(void *(*caller)(void *context))
{
    struct sigaction action = {.sa_handler = jump};
    uint64_t from = now_ms(), until = from + STORM_MS, latest = until + 20000;
    pthread_t callers[CALLERS];

    sigaction(SIGUSR1, &action, NULL);
    for (intptr_t i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&callers[i], NULL, caller, (void *)i) == 0);
    while (now_ms() < until || (atomic_load(&storm.left) < ENOUGH && now_ms() < latest))
        wait_ms(20);
    atomic_store(&storm.over, true);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
}

/* --- the storm of cancellations --- */

static void *call_until_cancelled(void *context)
{
    const int fd = (int)(intptr_t)context;
    uint32_t seed = (uint32_t)fd + atomic_load(&storm.left);
    int former;

    for (;;) {
        bool blocks = draw(&seed, 2) == 0;

        /* A number that is lost between two calls here would be the test's own fault. */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former);
        bool taken = take_socket(fd, blocks);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &former);
        if (!taken)
            return NULL;
        call_once(fd, blocks, &seed);
        close(fd);
        atomic_fetch_add(&storm.whole, 1);
    }
}

static void *cancel_again_and_again(void *context)
{
    const int fd = FIRST_FD + (int)(intptr_t)context;
    uint32_t seed = storm.seed + (uint32_t)fd;

    while (!atomic_load(&storm.over)) {
        struct timespec while_it_calls = {.tv_nsec = 1000 * (long)draw(&seed, 5 * LONGEST_US)};
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, call_until_cancelled, (void *)(intptr_t)fd) == 0);
        nanosleep(&while_it_calls, NULL);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        close(fd);
        atomic_fetch_add(&storm.left, 1);
    }
    return NULL;
}

/* --- afterwards --- */

static bool reach(void)
{
    int fd = caller_socket(&storm.server, 0);
    char byte;
    bool reached = connect(fd, AT(&storm.server)) == 0 && recv(fd, &byte, 1, 0) == 1;

    close(fd);
    return reached;
}

/* With ordinary calls, which all find the server in the end. */
static void nothing_is_left(void)
{
    uint64_t latest = now_ms() + CLEAN_WITHIN_MS;
    struct rest rest;

    atomic_store(&storm.healthy, true);
    do {
        reach();
        wait_ms(CALL_EVERY_MS);
        rest = rest_of(storm.server.destination);
    } while ((rest.shares != 0 || rest.in_flight != 0) && now_ms() < latest);
    if (rest.shares != 0 || rest.in_flight != 0)
        fail_msg("%u shares and %u calls are left", rest.shares, rest.in_flight);
    while (!reach() && now_ms() < latest)
        wait_ms(CALL_EVERY_MS);
    for (unsigned int i = 0; i < 20; i++)
        assert_true(reach());
    int64_t slack = atomic_load(&storm.left), missing = rest_of(storm.server.destination).missing;
    print_message("%s: %u whole, %u left, %lld missing in the sums\n", storm.server.destination,
                  atomic_load(&storm.whole), atomic_load(&storm.left), (long long)missing);
    assert_true(missing <= slack && -missing <= slack);
    assert_true(atomic_load(&storm.left) >= ENOUGH && atomic_load(&storm.whole) > 0);
}

static void weather(const char *host, void *(*caller)(void *context))
{
    begin(host);
    rage(caller);
    nothing_is_left();
    end();
}

static void jumps_out_of_calls_leave_no_share_and_no_call(void **state)
{
    (void)state;
    weather("127.0.0.10", call_in_a_storm);
}

static void jumps_out_of_probes_leave_no_permit(void **state)
{
    (void)state;
    weather("127.0.0.11", call_in_a_storm);
}

static void cancelled_threads_leave_no_share_and_no_call(void **state)
{
    (void)state;
    weather("127.0.0.10", cancel_again_and_again);
}

static void cancelled_probes_leave_no_permit(void **state)
{
    (void)state;
    weather("127.0.0.11", cancel_again_and_again);
}

/* --- processes that end in a storm --- */

/* How many calls each of them left and finished, a line each. */
static const char *tally_path(void)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/tally-%s", stage_folder(), server_port(&storm.server));
    return path;
}

static void write_tally(const char *path)
{
    FILE *file = fopen(path, "a");

    CHECK(file != NULL);
    fprintf(file, "%u %u\n", atomic_load(&storm.left), atomic_load(&storm.whole));
    fclose(file);
}

static void read_tally(void)
{
    FILE *file = fopen(tally_path(), "r");
    unsigned int left, whole;

    assert_non_null(file);
    while (fscanf(file, "%u %u", &left, &whole) == 2) {
        atomic_fetch_add(&storm.left, left);
        atomic_fetch_add(&storm.whole, whole);
    }
    fclose(file);
}

/* `storms PORT exit|killed TALLY`: calls another process's server. */
static int play_storms(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    storm.seed = (uint32_t)getpid() | 1;
    server_at_port(&storm.server, argv[0]);
    ((struct sockaddr_in *)&storm.server.address)->sin_addr.s_addr = htonl(0x7f00000a); /* 127.0.0.10 */
    rage(call_in_a_storm);
    write_tally(argv[2]);
    if (strcmp(argv[1], "killed") == 0)
        raise(SIGKILL);
    return 0;
}

static void leave_by(const char *way)
{
    pid_t pids[2];

    begin("127.0.0.10");
    const struct scene_options options = {.arguments = {server_port(&storm.server), way, tally_path()}};
    for (int i = 0; i < 2; i++)
        pids[i] = scene_start("storms", &options);
    for (int i = 0; i < 2; i++)
        actor_wait(pids[i]);
    read_tally();
    nothing_is_left();
    end();
}

static void what_was_left_in_a_process_that_ends_comes_back(void **state)
{
    (void)state;
    leave_by("exit");
}

static void what_was_left_in_a_process_that_is_killed_comes_back(void **state)
{
    (void)state;
    leave_by("killed");
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"storms", play_storms}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(jumps_out_of_calls_leave_no_share_and_no_call),
        cmocka_unit_test(jumps_out_of_probes_leave_no_permit),
        cmocka_unit_test(cancelled_threads_leave_no_share_and_no_call),
        cmocka_unit_test(cancelled_probes_leave_no_permit),
        cmocka_unit_test(what_was_left_in_a_process_that_ends_comes_back),
        cmocka_unit_test(what_was_left_in_a_process_that_is_killed_comes_back),
    };

    stage_enter(argc, argv, policy, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
