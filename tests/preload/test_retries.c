/*
 * test_retries.c - a connect that is made again: on real sockets; and what signals, jumps, other threads and children
 * do to the wait before.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/*
 * 127.0.0.1: short waits, and so many that a slow machine has its time; 127.0.0.2: a wait that nobody sees the end of;
 * 127.0.0.3: none.
 */
static const char policy[] = "[defaults]\nfailure_threshold = 60000\nfailure_rate = 0%\n"
                             "[short]\nmatch = 127.0.0.1:* unix:*\nretry = 10\nretry_backoff = 100ms\n"
                             "retry_budget = 100%\n"
                             "[long]\nmatch = 127.0.0.2:*\nretry = 1\nretry_backoff = 10s\n"
                             "[none]\nmatch = 127.0.0.3:*\n";
#define OTHERS 40 /* calls that are no retries, of which there may be as many */

static void fail_often(const struct server *server)
{
    for (int i = 0; i < OTHERS; i++) {
        int fd = caller_socket(server, SOCK_NONBLOCK);
        if (connect(fd, AT(server)) < 0)
            assert_true(errno == ECONNREFUSED || errno == ENOENT || errno == EINPROGRESS);
        else
            bare.close(server_accept((struct server *)server));
        close(fd);
    }
    assert_int_equal(counted(server, COUNT_RETRIES), 0);
}

/* --- a thread that makes one connect --- */

struct caller {
    pthread_t thread;
    _Atomic pid_t id;
    int fd, result, error;
    const struct server *server;
};

static void *make_call(void *context)
{
    struct caller *self = context;
    atomic_store(&self->id, gettid());
    errno = 4711;
    self->result = connect(self->fd, AT(self->server));
    self->error = errno;
    return NULL;
}

/* Until it waits behind its first failure. */
static void call_begin(struct caller *self, int fd, const struct server *server)
{
    const uint64_t failed = counted(server, COUNT_FAILED);
    *self = (struct caller){.fd = fd, .server = server};
    assert_int_equal(pthread_create(&self->thread, NULL, make_call, self), 0);
    while (!atomic_load(&self->id) || counted(server, COUNT_FAILED) == failed)
        wait_ms(1);
    await_asleep(atomic_load(&self->id));
}

static int call_end(struct caller *self)
{
    pthread_join(self->thread, NULL);
    return self->result < 0 ? -self->error : self->result;
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

/* --- what becomes of it --- */

/* Of this host's 127.0.0.9. */
static in_port_t free_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8)};
    socklen_t length = sizeof in;
    int fd = bare.socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &length), 0);
    bare.close(fd);
    return ntohs(in.sin_port);
}

static void server_that_listens_a_moment_later_is_connected_to(void **state)
{
    struct server server;
    struct caller caller;
    struct sockaddr_in own = {.sin_family = AF_INET}, then;
    socklen_t length = sizeof own;
    (void)state;
    for (int is_bound = 0; is_bound < 2; is_bound++) {
        server_start(&server, "127.0.0.1", SERVER_REFUSES);
        fail_often(&server);
        int fd = caller_socket(&server, 0);
        if (is_bound) {
            own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);
            own.sin_port = htons(free_port());
            assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
        }
        call_begin(&caller, fd, &server);
        assert_int_equal(listen(server.fd, 8), 0);
        assert_int_equal(call_end(&caller), 0);
        assert_int_equal(caller.error, 4711); /* as after any connect that succeeds */
        assert_true(counted(&server, COUNT_RETRIES) >= 1);
        length = sizeof then;
        assert_int_equal(getsockname(fd, (struct sockaddr *)&then, &length), 0);
        assert_true(!is_bound || (then.sin_port == own.sin_port && then.sin_addr.s_addr == own.sin_addr.s_addr));
        assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
        int peer = server_accept(&server);
        assert_int_equal(send(fd, "request", 7, 0), 7);
        bare.send(peer, "+", 1, 0);
        char byte;
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        close(fd);
        bare.close(peer);
        assert_int_equal(counted(&server, COUNT_SUCCEEDED), 1);
        server_stop(&server);
    }
}

static void unix_socket_whose_path_is_made_a_moment_later_is_connected_to(void **state)
{
    struct server server;
    struct caller caller;
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    const char *path = ((struct sockaddr_un *)&server.address)->sun_path;
    char away[sizeof((struct sockaddr_un *)0)->sun_path + 8];
    snprintf(away, sizeof away, "%s.away", path);
    fail_often(&server);
    assert_int_equal(rename(path, away), 0);
    int fd = caller_socket(&server, 0);
    call_begin(&caller, fd, &server);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(call_end(&caller), 0);
    assert_true(counted(&server, COUNT_RETRIES) >= 1);
    bare.close(server_accept(&server));
    close(fd);
    server_stop(&server);
}

static void unix_socket_with_a_time_out_of_its_own_is_left_alone(void **state)
{
    struct timeval own = {.tv_sec = 60};
    struct server server;
    (void)state;
    server_start(&server, "unix", SERVER_REFUSES);
    int fd = caller_socket(&server, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &own, sizeof own), 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

static void other_ways_to_connect_are_left_alone(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_REFUSES);
    for (int way = 0; way < 3; way++) {
        int fd = caller_socket(&server, way == 0 ? SOCK_NONBLOCK : 0);
        long result = way == 0   ? connect(fd, AT(&server))
                      : way == 1 ? syscall(SYS_connect, fd, AT(&server))
                                 : sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, AT(&server));
        assert_int_equal(result, -1);
        assert_true(errno == ECONNREFUSED || (way == 0 && errno == EINPROGRESS));
        close(fd);
    }
    assert_int_equal(counted(&server, COUNT_RETRIES) + counted(&server, COUNT_RETRIES_DENIED), 0);
    server_stop(&server);
}

/* --- what it costs --- */

static void connect_and_close(void *context)
{
    const struct server *server = context;
    int fd = caller_socket(server, SOCK_NONBLOCK); /* a child joins the segment with its first */
    connect(fd, AT(server));
    close(fd);
    fd = caller_socket(server, 0);
    syscall(MARK);
    connect(fd, AT(server));
    syscall(MARK);
    close(fd);
}

static void without_it_or_where_connect_succeeds_there_is_no_system_call_more(void **state)
{
    static const struct {
        const char *host;
        enum server_kind kind;
    } rows[] = {{"127.0.0.3", SERVER_REFUSES}, {"127.0.0.3", SERVER_LISTENS}, {"127.0.0.1", SERVER_LISTENS}};
    struct system_call calls[16];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct server server;
        server_start(&server, rows[i].host, rows[i].kind);
        int made = system_calls_of(connect_and_close, &server, calls, 16);
        assert_true(made >= 2 && made <= 16);
        int connects = 0, cookies = 0, rest = 0;
        for (int call = 0; call < made; call++) {
            connects += calls[call].number == SYS_connect;
            cookies += calls[call].number == SYS_getsockopt;
            rest += calls[call].number == SYS_fcntl || calls[call].number == SYS_clock_nanosleep ||
                    calls[call].number == SYS_getitimer;
        }
        assert_int_equal(connects, 1);
        assert_true(cookies >= 1 && cookies <= 2);
        assert_int_equal(rest, 0);
        server_stop(&server);
    }
}

/* --- what ends the wait --- */

static void note(int number)
{
    (void)number;
}

static void signal_ends_the_wait_if_its_handler_ends_a_connect(void **state)
{
    struct server server;
    struct caller caller;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_REFUSES);
    int fd = caller_socket(&server, 0);
    handle(SIGUSR1, note, SA_RESTART);
    call_begin(&caller, fd, &server);
    for (int i = 0; i < 3; i++) {
        pthread_kill(caller.thread, SIGUSR1);
        await_asleep(atomic_load(&caller.id));
    }
    handle(SIGUSR1, note, 0);
    pthread_kill(caller.thread, SIGUSR1);
    assert_int_equal(call_end(&caller), -ECONNREFUSED); /* and not EINTR: nothing goes on */
    close(fd);
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

/* With a time-out of the socket's own the kernel resumes no connect. */
static void signal_ends_the_wait_of_a_socket_with_a_time_out(void **state)
{
    struct timeval own = {.tv_sec = 60};
    struct server server;
    struct caller caller;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_REFUSES);
    int fd = caller_socket(&server, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &own, sizeof own), 0);
    handle(SIGUSR1, note, SA_RESTART);
    call_begin(&caller, fd, &server);
    pthread_kill(caller.thread, SIGUSR1);
    assert_int_equal(call_end(&caller), -ECONNREFUSED);
    close(fd);
    server_stop(&server);
}

static sigjmp_buf away;

static void jump(int number)
{
    (void)number;
    siglongjmp(away, 1);
}

static void *send_signal(void *context)
{
    pid_t thread = *(pid_t *)context;
    await_asleep(thread);
    CHECK(syscall(SYS_tgkill, getpid(), thread, SIGUSR1) == 0);
    return NULL;
}

static void jump_out_of_the_wait_leaves_nothing_behind(void **state)
{
    struct server server;
    pid_t self = gettid();
    pthread_t sender;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_REFUSES);
    handle(SIGUSR1, jump, 0);
    int fd = caller_socket(&server, 0);
    assert_int_equal(pthread_create(&sender, NULL, send_signal, &self), 0);
    if (sigsetjmp(away, 1) == 0) {
        connect(fd, AT(&server));
        fail();
    }
    pthread_join(sender, NULL);
    expect(&server, "1 failed:refused"); /* nothing in flight */
    assert_int_equal(listen(server.fd, 8), 0);
    assert_int_equal(connect(fd, AT(&server)), 0); /* and the socket is as after any connect that failed */
    close(fd);
    expect(&server, "1 neutral:cancelled");
    server_stop(&server);
}

static void cancelled_wait_leaves_nothing_behind(void **state)
{
    struct server server;
    struct caller caller;
    void *result;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_REFUSES);
    int fd = caller_socket(&server, 0);
    call_begin(&caller, fd, &server);
    assert_int_equal(pthread_cancel(caller.thread), 0);
    pthread_join(caller.thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    close(fd);
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

static void number_that_another_thread_gives_away_meanwhile_is_not_connected(void **state)
{
    struct server server;
    struct caller caller;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (int shut = 0; shut < 2; shut++) {
        int fd = caller_socket(&server, 0), other = fd;
        call_begin(&caller, fd, &server);
        if (shut) {
            assert_int_equal(shutdown(fd, SHUT_RDWR), -1);
            assert_int_equal(errno, ENOTCONN);
        } else {
            close(fd);
            assert_int_equal(other = caller_socket(&server, 0), fd);
        }
        assert_int_equal(listen(server.fd, 8), 0);
        assert_int_equal(call_end(&caller), -ECONNREFUSED);
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        assert_int_equal(getpeername(other, (struct sockaddr *)&peer, &length), -1);
        close(other);
        server_stop(&server);
        server_start(&server, "127.0.0.1", SERVER_REFUSES);
    }
    server_stop(&server);
}

static pid_t child = -1;

static void fork_once(int number)
{
    (void)number;
    if (child < 0)
        child = fork();
}

/* A handler makes a child, which goes on inside of its parent's wait. */
static void child_that_is_made_meanwhile_does_not_make_it_again(void **state)
{
    struct server server;
    pid_t self = gettid();
    pthread_t sender;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    handle(SIGUSR1, fork_once, SA_RESTART);
    int fd = caller_socket(&server, 0);
    assert_int_equal(pthread_create(&sender, NULL, send_signal, &self), 0);
    int result = connect(fd, AT(&server)), error = errno;
    if (child == 0)
        _exit(result == -1 && error == ECONNREFUSED && counted(&server, COUNT_RETRIES) <= 3 ? 0 : 1);
    pthread_join(sender, NULL);
    assert_int_equal(result, -1);
    assert_int_equal(error, ECONNREFUSED);
    assert_true(exited_well(actor_wait(child)));
    assert_int_equal(counted(&server, COUNT_RETRIES), 3);
    assert_int_equal(counted(&server, COUNT_ADMITTED), 4); /* all of them the parent's */
    close(fd);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_that_listens_a_moment_later_is_connected_to),
        cmocka_unit_test(unix_socket_whose_path_is_made_a_moment_later_is_connected_to),
        cmocka_unit_test(unix_socket_with_a_time_out_of_its_own_is_left_alone),
        cmocka_unit_test(other_ways_to_connect_are_left_alone),
        cmocka_unit_test(without_it_or_where_connect_succeeds_there_is_no_system_call_more),
        cmocka_unit_test(signal_ends_the_wait_if_its_handler_ends_a_connect),
        cmocka_unit_test(signal_ends_the_wait_of_a_socket_with_a_time_out),
        cmocka_unit_test(jump_out_of_the_wait_leaves_nothing_behind),
        cmocka_unit_test(cancelled_wait_leaves_nothing_behind),
        cmocka_unit_test(number_that_another_thread_gives_away_meanwhile_is_not_connected),
        cmocka_unit_test(child_that_is_made_meanwhile_does_not_make_it_again),
    };
    stage_enter(argc, argv, policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
