/*
 * test_limits_end.c - enforce_timeouts: how waits end, by the limit, by a signal, by a jump, by another thread; and
 * what is left behind: nothing.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "support.h"

/* 127.0.0.1: limits that are far away; 127.0.0.2: near ones. */
static const char policy[] = "[defaults]\nfailure_threshold = 60000\nfailure_rate = 0%\nenforce_timeouts = yes\n"
                             "[far]\nmatch = 127.0.0.1:*\nconnect_timeout = 1m\nresponse_timeout = 1m\n"
                             "[near]\nmatch = 127.0.0.2:* unix:*\nconnect_timeout = 200ms\nresponse_timeout = 200ms\n"
                             "abandon_after = 50ms\n";

static void note(int number)
{
    (void)number;
}

static sigjmp_buf away;

static void jump(int number)
{
    (void)number;
    siglongjmp(away, 1);
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

/* --- a thread that makes one call --- */

struct caller {
    pthread_t thread;
    _Atomic pid_t id;
    int fd, result, error;
    char what;
    const struct server *server;
    char byte;
};

static void *make_call(void *context)
{
    struct caller *self = context;
    atomic_store(&self->id, gettid());
    errno = 0;
    self->result = self->what == 'c' ? connect(self->fd, AT(self->server)) : (int)recv(self->fd, &self->byte, 1, 0);
    self->error = errno;
    return NULL;
}

static void call_begin(struct caller *self, char what, int fd, const struct server *server)
{
    *self = (struct caller){.fd = fd, .what = what, .server = server};
    assert_int_equal(pthread_create(&self->thread, NULL, make_call, self), 0);
    while (!atomic_load(&self->id))
        wait_ms(1);
    await_asleep(atomic_load(&self->id));
}

static int call_end(struct caller *self)
{
    pthread_join(self->thread, NULL);
    return self->result < 0 ? -self->error : self->result;
}

/* Nothing of ours is on the socket. */
static void is_untouched(int fd)
{
    struct timeval in = {0}, out = {0};
    unsigned int user = 0;
    socklen_t length = sizeof in;
    assert_int_equal(bare.getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &in, &length), 0);
    assert_int_equal(bare.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &out, &length), 0);
    length = sizeof user;
    assert_int_equal(bare.getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user, &length), 0);
    assert_true(in.tv_sec == 0 && in.tv_usec == 0 && out.tv_sec == 0 && out.tv_usec == 0 && user == 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

static int tcp_state(int fd)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    assert_int_equal(bare.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_state;
}

/* --- connecting --- */

static void attempt_that_the_limit_ended_leaves_the_socket_as_the_kernels_own_time_out_does(void **state)
{
    struct server hole, live;
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    int error = 1;
    (void)state;
    server_start(&hole, "127.0.0.2", SERVER_BLACK_HOLE);
    server_start(&live, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_socket(&hole, 0);
    assert_int_equal(connect(fd, AT(&hole)), -1);
    assert_int_equal(errno, ETIMEDOUT);
    expect(&hole, "1 failed:connect-timeout");
    is_untouched(fd);
    assert_int_equal(tcp_state(fd), TCP_CLOSE);
    assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &length), -1);
    length = sizeof error;
    assert_int_equal(bare.getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    assert_int_equal(error, 0);
    assert_int_equal(connect(fd, AT(&live)), 0);
    is_untouched(fd);
    close(fd);
    expect(&live, "1 neutral:cancelled");
    server_stop(&hole);
    server_stop(&live);
}

static void connect_that_a_signal_interrupts_goes_on_or_not_as_its_handler_says(void **state)
{
    static const int flags[] = {SA_RESTART, 0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct server server;
        struct caller caller;
        server_start(&server, "127.0.0.1", SERVER_BLACK_HOLE);
        handle(SIGUSR1, note, flags[i]);
        int fd = caller_socket(&server, 0);
        call_begin(&caller, 'c', fd, &server);
        is_untouched(fd);
        pthread_kill(caller.thread, SIGUSR1);
        if (flags[i] & SA_RESTART) {
            await_asleep(atomic_load(&caller.id));
            shutdown(fd, SHUT_RDWR); /* as Java does */
            assert_int_equal(call_end(&caller), -ECONNRESET);
        } else {
            assert_int_equal(call_end(&caller), -EINTR);
            assert_int_equal(tcp_state(fd), TCP_SYN_SENT); /* the kernel goes on */
            call_begin(&caller, 'c', fd, &server);         /* and a further connect waits for it */
            shutdown(fd, SHUT_RDWR);
            assert_int_equal(call_end(&caller), -ECONNRESET);
        }
        is_untouched(fd);
        close(fd);
        server_stop(&server);
    }
}

static void interrupted_connect_is_still_limited_when_it_is_called_again(void **state)
{
    struct itimerval often = {.it_interval = {.tv_usec = 20000}, .it_value = {.tv_usec = 20000}}, never = {{0}, {0}};
    struct server server;
    int result, calls = 0;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_BLACK_HOLE);
    handle(SIGALRM, note, 0);
    int fd = caller_socket(&server, 0);
    setitimer(ITIMER_REAL, &often, NULL);
    do {
        result = connect(fd, AT(&server));
        calls++;
    } while (result < 0 && errno == EINTR && calls < 10000);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(result, -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(calls > 1);
    close(fd);
    server_stop(&server);
}

static void jump_out_of_a_call_leaves_nothing_behind(void **state)
{
    struct itimerval soon = {.it_value = {.tv_usec = 50000}};
    struct server hole, live;
    char byte;
    (void)state;
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&live, "127.0.0.1", SERVER_LISTENS);
    handle(SIGALRM, jump, 0);
    int fd = caller_socket(&hole, 0);
    if (sigsetjmp(away, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, NULL);
        connect(fd, AT(&hole));
        fail();
    }
    is_untouched(fd);
    close(fd);
    fd = caller_connect(&live, 0);
    if (sigsetjmp(away, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, NULL);
        recv(fd, &byte, 1, 0);
        fail();
    }
    is_untouched(fd);
    close(fd);
    server_stop(&hole);
    server_stop(&live);
}

static void cancelled_call_leaves_nothing_behind(void **state)
{
    struct server hole, live;
    struct caller caller;
    (void)state;
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&live, "127.0.0.1", SERVER_LISTENS);
    for (int i = 0; i < 2; i++) {
        void *result;
        int fd = i ? caller_connect(&live, 0) : caller_socket(&hole, 0);
        call_begin(&caller, i ? 'r' : 'c', fd, &hole);
        assert_int_equal(pthread_cancel(caller.thread), 0);
        pthread_join(caller.thread, &result);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        is_untouched(fd);
        close(fd);
    }
    server_stop(&hole);
    server_stop(&live);
}

static void programs_own_time_out_for_sending_is_left_to_the_kernel(void **state)
{
    struct timeval own = {.tv_usec = 50000};
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_BLACK_HOLE);
    int fd = caller_socket(&server, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &own, sizeof own), 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EINPROGRESS);
    assert_int_equal(tcp_state(fd), TCP_SYN_SENT);
    close(fd);
    expect(&server, "1 failed:connect-timeout");
    server_stop(&server);
}

static void attempts_of_unix_sockets_and_those_that_do_not_block_are_left_alone(void **state)
{
    struct timeval own = {.tv_usec = 400000}; /* an end of the test's own: the limit is 200 ms */
    struct server local, hole;
    (void)state;
    server_start(&local, "unix", SERVER_BLACK_HOLE);
    server_start(&hole, "127.0.0.2", SERVER_BLACK_HOLE);
    int fd = caller_socket(&local, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &own, sizeof own), 0);
    assert_int_equal(connect(fd, AT(&local)), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    expect(&local, "1 failed:connect-timeout");
    fd = caller_connect(&hole, SOCK_NONBLOCK);
    struct pollfd look = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&look, 1, 400), 0);
    assert_int_equal(tcp_state(fd), TCP_SYN_SENT);
    close(fd);
    server_stop(&local);
    server_stop(&hole);
}

/* --- receiving --- */

static void each_of_two_receivers_has_its_end(void **state)
{
    struct server server;
    struct caller first, second;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (int with_answer = 0; with_answer < 2; with_answer++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        assert_int_equal(send(fd, "q", 1, 0), 1);
        call_begin(&first, 'r', fd, NULL);
        call_begin(&second, 'r', fd, NULL);
        if (with_answer)
            bare.send(peer, "x", 1, 0);
        int sum = call_end(&first);
        sum += call_end(&second);
        assert_int_equal(sum, with_answer ? 1 - ETIMEDOUT : -2 * ETIMEDOUT);
        is_untouched(fd);
        close(fd);
        bare.close(peer);
        expect(&server, with_answer ? "1 succeeded" : "1 failed:response-timeout");
    }
    server_stop(&server);
}

static ssize_t receive_by(int way, int fd, char *bytes, size_t count)
{
    struct iovec vector = {bytes, count};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    switch (way) {
    case 0:
        return read(fd, bytes, count);
    case 1:
        return readv(fd, &vector, 1);
    case 2:
        return recvfrom(fd, bytes, count, MSG_PEEK, NULL, NULL);
    case 3:
        return recvmsg(fd, &message, 0);
    default:
        return recv(fd, bytes, count, MSG_WAITALL);
    }
}

static void signals_do_not_lengthen_a_wait_for_an_answer(void **state)
{
    struct itimerval often = {.it_interval = {.tv_usec = 20000}, .it_value = {.tv_usec = 20000}}, never = {{0}, {0}};
    static const int flags[] = {SA_RESTART, 0};
    struct server server;
    char bytes[4];
    (void)state;
    signal(SIGUSR1, SIG_DFL); /* no handler of the other kind */
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (int i = 0; i < 10; i++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server), calls = 0;
        ssize_t got;
        assert_int_equal(send(fd, "q", 1, 0), 1);
        handle(SIGALRM, note, flags[i % 2]);
        setitimer(ITIMER_REAL, &often, NULL);
        do {
            got = receive_by(i / 2, fd, bytes, sizeof bytes);
            calls++;
        } while (got < 0 && errno == EINTR && calls < 10000);
        setitimer(ITIMER_REAL, &never, NULL);
        assert_int_equal(got, -1);
        assert_int_equal(errno, ETIMEDOUT);
        assert_true((calls > 1) == !(flags[i % 2] & SA_RESTART));
        close(fd);
        bare.close(peer);
        expect(&server, "1 failed:response-timeout");
    }
    server_stop(&server);
}

static void alarms_are_told_from_signals_of_the_other_kind(void **state)
{
    struct itimerval often = {.it_interval = {.tv_usec = 50000}, .it_value = {.tv_usec = 50000}}, never = {{0}, {0}};
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (int restarts = 0; restarts < 2; restarts++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        assert_int_equal(send(fd, "q", 1, 0), 1);
        handle(SIGALRM, note, restarts ? SA_RESTART : 0);
        handle(SIGUSR1, note, restarts ? 0 : SA_RESTART);
        setitimer(ITIMER_REAL, &often, NULL);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        int error = errno;
        setitimer(ITIMER_REAL, &never, NULL);
        assert_int_equal(error, restarts ? ETIMEDOUT : EINTR);
        close(fd);
        bare.close(peer);
    }
    signal(SIGUSR1, SIG_DFL);
    server_stop(&server);
}

static void receive_that_waits_for_all_is_limited_until_its_first_byte(void **state)
{
    struct server server;
    char bytes[4];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    assert_int_equal(send(fd, "q", 1, 0), 1);
    pid_t other = fork();
    if (other == 0) {
        bare.send(peer, "ab", 2, 0);
        wait_ms(400); /* twice the limit */
        bare.send(peer, "cd", 2, 0);
        _exit(0);
    }
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), 4);
    assert_int_equal(actor_wait(other), 0);
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

static void receiver_takes_nothing_from_a_stranger_with_its_number(void **state)
{
    struct server server, other;
    struct caller caller;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&other, "127.0.0.1", SERVER_LISTENS);
    for (int unseen = 0; unseen < 2; unseen++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        int stranger = caller_connect(&other, 0), strangers_peer = server_accept(&other);
        assert_int_equal(send(fd, "q", 1, 0), 1);
        call_begin(&caller, 'r', fd, NULL);
        if (unseen) {
            int (*libc_dup2)(int, int);
            void *found = libc_symbol("dup2");
            memcpy(&libc_dup2, &found, sizeof found);
            libc_dup2(stranger, fd);
        } else {
            dup2(stranger, fd);
        }
        bare.send(strangers_peer, "s", 1, 0);
        bare.send(peer, "x", 1, 0);
        assert_int_equal(call_end(&caller), -EBADF);
        assert_int_equal(recv(stranger, &byte, 1, 0), 1);
        assert_int_equal(byte, 's');
        close(fd), close(stranger);
        bare.close(peer), bare.close(strangers_peer);
    }
    server_stop(&server);
    server_stop(&other);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempt_that_the_limit_ended_leaves_the_socket_as_the_kernels_own_time_out_does),
        cmocka_unit_test(connect_that_a_signal_interrupts_goes_on_or_not_as_its_handler_says),
        cmocka_unit_test(interrupted_connect_is_still_limited_when_it_is_called_again),
        cmocka_unit_test(jump_out_of_a_call_leaves_nothing_behind),
        cmocka_unit_test(cancelled_call_leaves_nothing_behind),
        cmocka_unit_test(programs_own_time_out_for_sending_is_left_to_the_kernel),
        cmocka_unit_test(attempts_of_unix_sockets_and_those_that_do_not_block_are_left_alone),
        cmocka_unit_test(each_of_two_receivers_has_its_end),
        cmocka_unit_test(signals_do_not_lengthen_a_wait_for_an_answer),
        cmocka_unit_test(alarms_are_told_from_signals_of_the_other_kind),
        cmocka_unit_test(receive_that_waits_for_all_is_limited_until_its_first_byte),
        cmocka_unit_test(receiver_takes_nothing_from_a_stranger_with_its_number),
    };
    stage_enter(argc, argv, policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
