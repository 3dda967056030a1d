/*
 * test_signals.c - wrappers are async-signal-safe, as the functions are that they stand for: a storm of signals whose
 * handler connects, sends and closes amid the program's own connecting, sending and closing.
 */
/* links: core */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

#define STORM_US 200
#define STORM_MS 1000
#define ENOUGH_SIGNALS 100u
#define ENOUGH_CALLS 20u

static struct server healthy, refusing, stormy; /* the handler has a destination of its own, and the program's too */
static _Atomic unsigned int handled, handler_calls;
static _Thread_local int kept = -1; /* a connection that the handler uses now and closes the next time */

static void *serve(void *context)
{
    struct server *server = context;
    int fd;
    while ((fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        bare.send(fd, "a", 1, MSG_NOSIGNAL);
        bare.close(fd);
    }
    return NULL;
}

static void storm(int number)
{
    int error = errno;
    (void)number;
    atomic_fetch_add(&handled, 1);
    if (kept >= 0) {
        send(kept, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(kept);
        kept = -1;
    } else if ((kept = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) >= 0) {
        struct server *server = atomic_fetch_add(&handler_calls, 1) % 2 ? &stormy : &healthy;
        connect(kept, AT(server));
    }
    errno = error;
}

static void storm_start(void)
{
    struct sigaction action = {.sa_handler = storm, .sa_flags = SA_RESTART};
    struct itimerval every = {.it_interval = {.tv_usec = STORM_US}, .it_value = {.tv_usec = STORM_US}};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void storm_end(void)
{
    struct itimerval none = {.it_value = {0}};
    setitimer(ITIMER_REAL, &none, NULL);
    signal(SIGALRM, SIG_IGN);
    if (kept >= 0)
        close(kept);
    kept = -1;
}

static bool has_stormed(void)
{
    return atomic_load(&handled) > ENOUGH_SIGNALS && atomic_load(&handler_calls) > ENOUGH_CALLS;
}

/* A whole call on the healthy server, and a refused one. */
static unsigned int calls_until(uint64_t end)
{
    unsigned int calls = 0;
    char byte;
    while (now_ms() < end || !has_stormed() || calls <= ENOUGH_CALLS) { /* the machine may pause meanwhile */
        int fd = caller_socket(&healthy, 0);
        int result = connect(fd, AT(&healthy));
        if (result != 0 && errno == EINTR) { /* a timer of 200 us leaves no connect in peace: it goes on by itself */
            poll_for(fd, 4);
            result = 0;
        }
        CHECK(result == 0);
        ssize_t got;
        while ((got = recv(fd, &byte, 1, 0)) < 0 && errno == EINTR) {
        }
        CHECK(got == 1);
        CHECK(close(fd) == 0);
        fd = caller_socket(&refusing, 0);
        CHECK(connect(fd, AT(&refusing)) == -1 && (errno == ECONNREFUSED || errno == EINTR));
        CHECK(close(fd) == 0);
        calls++;
    }
    return calls;
}

static void all_is_accounted_for(struct server *server)
{
    uint64_t sum = counted(server, COUNT_SUCCEEDED) + counted(server, COUNT_FAILED) + counted(server, COUNT_NEUTRAL) +
                   counted(server, COUNT_LATE);
    assert_int_equal(sum, counted(server, COUNT_ADMITTED));
}

static void *calls_in_thread(void *end)
{
    sigset_t all;
    calls_until(*(uint64_t *)end);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (kept >= 0) /* the handler's own, in this thread */
        close(kept);
    return NULL;
}

static void play(bool in_threads)
{
    pthread_t servants[2], callers[2];
    uint64_t end = now_ms() + STORM_MS;
    sigset_t all, own;
    sigfillset(&all);
    server_start(&healthy, "127.0.0.2", SERVER_LISTENS);
    server_start(&stormy, "127.0.0.2", SERVER_LISTENS);
    server_start(&refusing, "127.0.0.2", SERVER_REFUSES);
    pthread_sigmask(SIG_BLOCK, &all, &own); /* the servers' threads are spared */
    assert_int_equal(pthread_create(&servants[0], NULL, serve, &healthy), 0);
    assert_int_equal(pthread_create(&servants[1], NULL, serve, &stormy), 0);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    atomic_store(&handled, 0);
    atomic_store(&handler_calls, 0);
    storm_start();
    for (int i = 0; in_threads && i < 2; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, calls_in_thread, &end), 0);
    unsigned int calls = calls_until(end);
    for (int i = 0; in_threads && i < 2; i++)
        assert_int_equal(pthread_join(callers[i], NULL), 0);
    storm_end();
    /* It did storm, and the program went on. */
    assert_true(has_stormed() && calls > ENOUGH_CALLS);
    all_is_accounted_for(&healthy);
    all_is_accounted_for(&stormy);
    if (!in_threads)
        assert_int_equal(counted(&healthy, COUNT_ADMITTED) + counted(&stormy, COUNT_ADMITTED),
                         calls + atomic_load(&handler_calls));
    all_is_accounted_for(&refusing);
    assert_true(counted(&healthy, COUNT_SUCCEEDED) >= calls);
    assert_int_equal(counted(&healthy, COUNT_FAILED), counted(&healthy, COUNT_FAILURE_KIND + FAILURE_EARLY_CLOSE) +
                                                          counted(&healthy, COUNT_FAILURE_KIND + FAILURE_RESET));
    for (int i = 0; i < 2; i++) {
        shutdown(i ? stormy.fd : healthy.fd, SHUT_RDWR);
        pthread_join(servants[i], NULL);
    }
    server_stop(&healthy);
    server_stop(&stormy);
    server_stop(&refusing);
}

static void storm_of_signals_that_connect_loses_no_call(void **state)
{
    (void)state;
    play(false);
}

static void storm_of_signals_over_threads_loses_no_call(void **state)
{
    (void)state;
    play(true);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(storm_of_signals_that_connect_loses_no_call),
        cmocka_unit_test(storm_of_signals_over_threads_loses_no_call),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
