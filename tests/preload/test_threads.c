/*
 * test_threads.c - many threads at once, and threads that pull the descriptor from under each other.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#define THREADS 16
#define PLAY_MS 1500

static _Atomic bool stop;

static void *serve(void *context)
{
    struct server *server = context;
    int fd;
    char request[8];
    while ((fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (bare.recv(fd, request, sizeof request, 0) > 0)
            bare.send(fd, "answer", 6, MSG_NOSIGNAL);
        bare.close(fd);
    }
    return NULL;
}

struct caller_thread {
    pthread_t thread;
    struct server *server;
    unsigned int calls;
};

static void *call(void *context)
{
    struct caller_thread *self = context;
    char answer[8];
    while (!atomic_load(&stop)) {
        int fd = caller_connect(self->server, self->calls % 2 ? SOCK_NONBLOCK : 0);
        poll_for(fd, POLLOUT);
        CHECK(send(fd, "request", 7, MSG_NOSIGNAL) == 7);
        poll_for(fd, POLLIN);
        CHECK(recv(fd, answer, sizeof answer, 0) == 6);
        CHECK(close(fd) == 0);
        self->calls++;
    }
    return NULL;
}

static void healthy_server_gets_no_failure_from_sixteen_threads(void **state)
{
    struct server server;
    struct caller_thread callers[THREADS];
    pthread_t servants[2];
    char words[64];
    unsigned int calls = 0;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&servants[i], NULL, serve, &server), 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller_thread){.server = &server};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    wait_ms(PLAY_MS);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
        calls += callers[i].calls;
    }
    assert_true(calls > 100);
    snprintf(words, sizeof words, "%u succeeded", calls);
    expect(&server, words);
    shutdown(server.fd, SHUT_RDWR);
    for (int i = 0; i < 2; i++)
        pthread_join(servants[i], NULL);
    server_stop(&server);
}

/* --- one connection, many threads --- */

static void *read_shared(void *context)
{
    char byte;
    ssize_t got = recv(*(int *)context, &byte, 1, 0);
    return (void *)(got + 10);
}

static void threads_that_read_one_connection_settle_it_once(void **state)
{
    struct server server;
    pthread_t threads[8];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int round = 0; round < 20; round++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        for (int i = 0; i < 8; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_shared, &fd), 0);
        assert_int_equal(bare.send(peer, "answers!", 8, 0), 8);
        for (int i = 0; i < 8; i++) {
            void *result;
            pthread_join(threads[i], &result);
            assert_int_equal((intptr_t)result, 11);
        }
        close(fd);
        bare.close(peer);
        expect(&server, "1 succeeded");
    }
    server_stop(&server);
}

/* --- Java's Socket.close: the descriptor ends while another thread waits in it --- */

struct waiter {
    struct server *server;
    int fd;
    int result, error;
    _Atomic pid_t thread; /* 0: it does not run yet */
};

static void *wait_in_connect(void *context)
{
    struct waiter *waiter = context;
    atomic_store(&waiter->thread, gettid());
    waiter->result = connect(waiter->fd, AT(waiter->server));
    waiter->error = errno;
    return NULL;
}

static void *wait_in_recv(void *context)
{
    struct waiter *waiter = context;
    char byte;
    atomic_store(&waiter->thread, gettid());
    waiter->result = (int)recv(waiter->fd, &byte, 1, 0);
    waiter->error = errno;
    return NULL;
}

static pthread_t start_waiting(void *(*play)(void *), struct waiter *waiter)
{
    pthread_t thread;
    atomic_store(&waiter->thread, 0);
    assert_int_equal(pthread_create(&thread, NULL, play, waiter), 0);
    while (!atomic_load(&waiter->thread))
        wait_ms(1);
    await_admitted(waiter->server);
    wait_long();
    await_asleep(waiter->thread);
    return thread;
}

/* shutdown, then a marker over the number; the number is closed by the thread that waited. */
static void pull(int fd)
{
    int marker = open("/dev/null", O_RDWR | O_CLOEXEC);
    shutdown(fd, SHUT_RDWR);
    assert_int_equal(dup2(marker, fd), fd);
    bare.close(marker);
}

static void asynchronous_close_in_connect_is_the_programs_giving_up(void **state)
{
    struct server late, soon;
    (void)state;
    server_start(&late, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&soon, "127.0.0.2", SERVER_BLACK_HOLE);
    for (int i = 0; i < 2; i++) {
        struct server *server = i ? &late : &soon;
        struct waiter waiter = {.server = server, .fd = caller_socket(server, 0)};
        pthread_t thread = start_waiting(wait_in_connect, &waiter);
        pull(waiter.fd);
        pthread_join(thread, NULL);
        assert_int_equal(waiter.result, -1);
        expect(server, i ? "1 failed:connect-timeout" : "1 neutral:cancelled"); /* and no reset, which connect says */
        close(waiter.fd);
        expect(server, "nothing");
    }
    server_stop(&late);
    server_stop(&soon);
}

static void asynchronous_close_in_recv_is_the_programs_giving_up(void **state)
{
    struct server late, soon;
    (void)state;
    server_start(&late, "127.0.0.1", SERVER_LISTENS);
    server_start(&soon, "127.0.0.2", SERVER_LISTENS);
    for (int i = 0; i < 2; i++) {
        struct server *server = i ? &late : &soon;
        struct waiter waiter = {.server = server, .fd = caller_connect(server, 0)};
        assert_int_equal(send(waiter.fd, "request", 7, 0), 7);
        pthread_t thread = start_waiting(wait_in_recv, &waiter);
        pull(waiter.fd);
        pthread_join(thread, NULL);
        assert_int_equal(waiter.result, 0); /* end of stream, by the own shutdown */
        expect(server, i ? "1 failed:response-timeout" : "1 neutral:cancelled");
        close(waiter.fd);
        expect(server, "nothing");
    }
    server_stop(&late);
    server_stop(&soon);
}

static void number_closed_by_another_thread_and_used_again_is_not_mixed_up(void **state)
{
    struct server hole, alive;
    char byte;
    (void)state;
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&alive, "127.0.0.1", SERVER_LISTENS);
    struct waiter waiter = {.server = &hole, .fd = caller_socket(&hole, 0)};
    pthread_t thread = start_waiting(wait_in_connect, &waiter);
    /* Past the library: for it, the close is the end; but the kernel's socket lives on, and connect waits on. */
    int (*bare_fcntl)(int, int, ...);
    *(void **)&bare_fcntl = libc_symbol("fcntl");
    int keep = bare_fcntl(waiter.fd, F_DUPFD_CLOEXEC, 100);
    close(waiter.fd);
    int fd = caller_connect(&alive, 0), peer = server_accept(&alive);
    assert_int_equal(fd, waiter.fd);
    shutdown(keep, SHUT_RDWR); /* now it comes back, with an error that is not this connection's */
    pthread_join(thread, NULL);
    assert_int_equal(waiter.result, -1);
    expect(&alive, "1 in-flight");
    expect(&hole, "1 failed:connect-timeout");
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&alive, "1 succeeded");
    close(fd);
    close(keep);
    bare.close(peer);
    expect(&hole, "nothing");
    server_stop(&hole);
    server_stop(&alive);
}

/* --- cancelled threads --- */

static void *shut_and_tell(void *context)
{
    int fd = *(int *)context;
    pthread_cancel(pthread_self());
    CHECK(shutdown(fd, SHUT_RDWR) == 0); /* no cancellation point */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return context;
}

static void shutdown_is_no_cancellation_point(void **state)
{
    static const char *const hosts[] = {"127.0.0.2", "unix:patient-"}; /* a thread takes its time to start */
    struct server server;
    pthread_t thread;
    void *result;
    (void)state;
    for (int i = 0; i < 2; i++) {
        server_start(&server, hosts[i], SERVER_LISTENS);
        int fd = caller_connect(&server, 0);
        assert_int_equal(pthread_create(&thread, NULL, shut_and_tell, &fd), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, &fd);
        expect(&server, "1 neutral:cancelled");
        close(fd);
        server_stop(&server);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_server_gets_no_failure_from_sixteen_threads),
        cmocka_unit_test(threads_that_read_one_connection_settle_it_once),
        cmocka_unit_test(asynchronous_close_in_connect_is_the_programs_giving_up),
        cmocka_unit_test(asynchronous_close_in_recv_is_the_programs_giving_up),
        cmocka_unit_test(number_closed_by_another_thread_and_used_again_is_not_mixed_up),
        cmocka_unit_test(shutdown_is_no_cancellation_point),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
