/*
 * test_self_connect.c - an attempt that the kernel connects to its own socket: nobody listens there, and what the
 * program reads is its own request.
 */
/* links: core */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

/* A socket that has the very port to which it will be connected; a socket of the ephemeral range has it by chance. */
static int caller_of_itself(struct server *server, const char *host, int flags)
{
    server_start(server, host, SERVER_REFUSES);
    bare.close(server->fd);
    server->fd = -1;
    int fd = caller_socket(server, flags);
    assert_int_equal(bind(fd, AT(server)), 0);
    return fd;
}

static void ask_itself(struct server *server, int fd)
{
    char bytes[16];
    assert_int_equal(send(fd, "request", 7, 0), 7);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 7);
    assert_memory_equal(bytes, "request", 7);
    expect(server, "nothing");
    assert_int_equal(send(fd, "again", 5, 0), 5);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 5);
    assert_int_equal(close(fd), 0);
    expect(server, "nothing");
}

static void blocking_attempt_that_meets_itself_is_refused_and_works_as_the_kernel_made_it(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "::1"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        at_hand = hosts[i];
        int fd = caller_of_itself(&server, hosts[i], 0);
        assert_int_equal(connect(fd, AT(&server)), 0);
        expect(&server, "1 failed:refused");
        ask_itself(&server, fd);
    }
}

static void pending_attempt_that_meets_itself_is_refused_once_somebody_looks(void **state)
{
    struct server server;
    socklen_t length = sizeof(int);
    int error = -1, fd = caller_of_itself(&server, "127.0.0.1", SOCK_NONBLOCK);
    (void)state;
    connect(fd, AT(&server));
    poll_for(fd, POLLOUT);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    assert_int_equal(error, 0);
    expect(&server, "1 failed:refused");
    ask_itself(&server, fd);
}

static int connected_to_itself(struct server *server)
{
    int fd = caller_of_itself(server, "127.0.0.1", SOCK_NONBLOCK);
    connect(fd, AT(server));
    poll_for(fd, POLLOUT);
    return fd;
}

/* The kernel is not asked before. */
static void pending_attempt_that_meets_itself_is_refused_by_the_echo_of_its_request_or_by_its_close(void **state)
{
    struct server server;
    char bytes[16];
    (void)state;
    for (int connects = 0; connects < 2; connects++) {
        int fd = connected_to_itself(&server);
        if (connects)
            assert_int_equal(connect(fd, AT(&server)), 0);
        assert_int_equal(send(fd, "first", 5, 0), 5);
        expect(&server, "1 in-flight");
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 5);
        expect(&server, "1 failed:refused");
        ask_itself(&server, fd);
    }

    int fd = connected_to_itself(&server);
    assert_int_equal(connect(fd, AT(&server)), 0);
    expect(&server, "1 in-flight");
    assert_int_equal(close(fd), 0);
    expect(&server, "1 failed:refused");
}

static void a_socket_that_is_bound_to_another_port_is_as_any_other(void **state)
{
    struct server server, other;
    char byte;
    (void)state;
    int fd = caller_of_itself(&other, "127.0.0.1", 0);
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    assert_int_equal(connect(fd, AT(&server)), 0);
    expect(&server, "1 in-flight");
    int peer = server_accept(&server);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    assert_int_equal(bare.send(peer, "+", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocking_attempt_that_meets_itself_is_refused_and_works_as_the_kernel_made_it),
        cmocka_unit_test(pending_attempt_that_meets_itself_is_refused_once_somebody_looks),
        cmocka_unit_test(pending_attempt_that_meets_itself_is_refused_by_the_echo_of_its_request_or_by_its_close),
        cmocka_unit_test(a_socket_that_is_bound_to_another_port_is_as_any_other),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
