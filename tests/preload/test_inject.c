/*
 * test_inject.c - injected refusals, hangs and delays: the program meets each where it would meet a real one, and the
 * destination sees nothing of it.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "support_inject.h"

/* What must be over soon is tried so often on a machine that may pause. */
#define TRIES 20

/* --- refuse --- */

static void injected_refusal_comes_from_a_blocking_connect(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, REFUSES, SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(syscall(SYS_connect, fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "2 failed:refused, 2 injected");
    nobody_came(&server);
    server_stop(&server);
}

static void injected_refusal_comes_late_without_blocking(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, REFUSES, SERVER_LISTENS);
    for (int by_connect = 0; by_connect < 2; by_connect++) {
        int fd = caller_socket(&server, SOCK_NONBLOCK);
        assert_int_equal(connect(fd, AT(&server)), -1);
        assert_int_equal(errno, EINPROGRESS);
        assert_true(poll_for(fd, POLLOUT) & POLLERR);
        if (by_connect) {
            assert_int_equal(connect(fd, AT(&server)), -1);
            assert_int_equal(errno, ECONNREFUSED);
        } else {
            assert_int_equal(pending_error(fd), ECONNREFUSED);
        }
        close(fd);
        expect(&server, "1 failed:refused, 1 injected");
    }
    nobody_came(&server);
    server_stop(&server);
}

/* --- hang --- */

static void injected_hang_lasts_until_the_program_gives_up(void **state)
{
    struct server server;
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    (void)state;
    server_start(&server, HANGS, SERVER_LISTENS);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    struct pollfd wanted = {.fd = fd, .events = POLLIN | POLLOUT};
    assert_int_equal(poll(&wanted, 1, 65), 0);
    assert_int_equal(pending_error(fd), 0);
    assert_int_equal(getpeername(fd, (struct sockaddr *)&name, &length), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EALREADY);
    assert_int_equal(send(fd, "x", 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    expect(&server, "1 failed:connect-timeout, 1 injected");
    nobody_came(&server);
    server_stop(&server);
}

static void injected_hang_ends_with_the_sockets_own_timeout(void **state)
{
    struct server server;
    struct timeval timeout = {.tv_usec = 80000};
    (void)state;
    server_start(&server, HANGS, SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0);
    uint64_t began = now_ms();
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EINPROGRESS);
    assert_true(now_ms() - began >= 75);
    expect(&server, "1 failed:connect-timeout, 1 injected");
    close(fd);
    expect(&server, "nothing");
    server_stop(&server);
}

static void do_nothing(int number)
{
    (void)number;
}

/* And again and again: the first one may come before the call that it is for, if the machine pauses. */
static void ring_after(unsigned int ms, int flags)
{
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = flags};
    const struct timeval every = {.tv_usec = (suseconds_t)ms * 1000};
    struct itimerval timer = {.it_interval = every, .it_value = every};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void ring_no_more(void)
{
    struct itimerval none = {.it_value = {0}};
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0 && signal(SIGALRM, SIG_DFL) != SIG_ERR);
}

static void injected_hang_is_interrupted_by_a_signal(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, HANGS, SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    ring_after(70, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EINTR);
    ring_no_more();
    expect(&server, "1 injected, 1 in-flight");
    wait_long();
    close(fd);
    expect(&server, "1 failed:connect-timeout");
    server_stop(&server);
}

static sigjmp_buf way_out;

static void jump_out(int number)
{
    (void)number;
    siglongjmp(way_out, 1);
}

static void program_may_jump_out_of_a_hang_and_of_a_delay(void **state)
{
    struct server servers[2];
    (void)state;
    server_start(&servers[0], HANGS, SERVER_LISTENS);
    server_start(&servers[1], DELAYS, SERVER_LISTENS);
    for (volatile size_t i = 0; i < 2; i++) {
        int fd = caller_socket(&servers[i], 0);
        ring_after(70, 0);
        CHECK(signal(SIGALRM, jump_out) != SIG_ERR);
        if (sigsetjmp(way_out, 1) == 0) {
            connect(fd, AT(&servers[i]));
            fail_msg("connect came back");
        }
        ring_no_more();
        wait_long();
        close(fd);
        expect(&servers[i], "1 failed:connect-timeout, 1 injected");
        nobody_came(&servers[i]);
        server_stop(&servers[i]);
    }
}

/* --- delay --- */

static void delayed_attempt_reaches_the_server_later(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, DELAYS, SERVER_LISTENS);
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        uint64_t began = now_ms();
        int fd = caller_connect(&server, flags);
        assert_true(now_ms() - began >= DELAY_MS - 1);
        int peer = server_accept(&server);
        assert_int_equal(bare.send(peer, "a", 1, 0), 1);
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        close(fd);
        bare.close(peer);
        expect(&server, "1 succeeded, 1 injected");
    }
    server_stop(&server);
}

static void delay_counts_for_the_sockets_own_timeout(void **state)
{
    struct server server;
    struct timeval timeout = {.tv_usec = 60000}, after = {0};
    socklen_t length = sizeof after;
    (void)state;
    server_start(&server, DELAYS, SERVER_BLACK_HOLE);
    uint64_t least = UINT64_MAX;
    for (int tries = 0; tries < TRIES && least >= DELAY_MS; tries++) {
        int fd = caller_socket(&server, 0);
        CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0);
        uint64_t began = now_ms();
        assert_int_equal(connect(fd, AT(&server)), -1);
        assert_int_equal(errno, EINPROGRESS);
        uint64_t took = now_ms() - began;
        least = took < least ? took : least;
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &after, &length), 0);
        assert_int_equal(after.tv_usec / 10000, timeout.tv_usec / 10000);
        expect(&server, "1 failed:connect-timeout, 1 injected");
        close(fd);
    }
    assert_true(least >= 59 && least < DELAY_MS);
    server_stop(&server);
}

static void signal_that_interrupts_ends_the_delay_and_others_do_not(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, DELAYS, SERVER_BLACK_HOLE);
    uint64_t least = UINT64_MAX;
    for (int tries = 0; tries < TRIES && least >= DELAY_MS; tries++) {
        int fd = caller_socket(&server, 0);
        ring_after(30, 0);
        uint64_t began = now_ms();
        assert_int_equal(connect(fd, AT(&server)), -1);
        assert_int_equal(errno, EINTR);
        uint64_t took = now_ms() - began;
        least = took < least ? took : least;
        ring_no_more();
        /* As after any connect that was interrupted, the kernel goes on. */
        assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(connect(fd, AT(&server)), -1);
        assert_int_equal(errno, EALREADY);
        close(fd);
    }
    assert_true(least < DELAY_MS);
    server_stop(&server);

    server_start(&server, DELAYS, SERVER_LISTENS);
    ring_after(30, SA_RESTART);
    int fd = caller_socket(&server, 0);
    uint64_t began = now_ms();
    assert_int_equal(connect(fd, AT(&server)), 0);
    assert_true(now_ms() - began >= DELAY_MS - 1);
    ring_no_more();
    close(fd);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(injected_refusal_comes_from_a_blocking_connect),
        cmocka_unit_test(injected_refusal_comes_late_without_blocking),
        cmocka_unit_test(injected_hang_lasts_until_the_program_gives_up),
        cmocka_unit_test(injected_hang_ends_with_the_sockets_own_timeout),
        cmocka_unit_test(injected_hang_is_interrupted_by_a_signal),
        cmocka_unit_test(program_may_jump_out_of_a_hang_and_of_a_delay),
        cmocka_unit_test(delayed_attempt_reaches_the_server_later),
        cmocka_unit_test(delay_counts_for_the_sockets_own_timeout),
        cmocka_unit_test(signal_that_interrupts_ends_the_delay_and_others_do_not),
    };
    stage_enter(argc, argv, inject_policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
