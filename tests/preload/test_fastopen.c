/*
 * test_fastopen.c - TCP Fast Open: a send that is the attempt too, and a connect that succeeds before a packet has
 * left.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support.h"

#ifndef TCP_FASTOPEN_NO_COOKIE
#define TCP_FASTOPEN_NO_COOKIE 34
#endif

static bool is_permitted(void)
{
    char flags = '0';
    int fd = open("/proc/sys/net/ipv4/tcp_fastopen", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        CHECK(read(fd, &flags, 1) == 1);
        close(fd);
    }
    return (flags - '0') & 1;
}

/* A socket whose first send goes out with the SYN, without a cookie of an earlier connection. */
static int fast_socket(const struct server *server, int flags)
{
    int fd = caller_socket(server, flags), yes = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &yes, sizeof yes) == 0);
    return fd;
}

static ssize_t by_sendto(int fd, const struct server *server)
{
    return sendto(fd, "request", 7, MSG_FASTOPEN | MSG_NOSIGNAL, AT(server));
}
static ssize_t by_sendmsg(int fd, const struct server *server)
{
    struct iovec vector = {"request", 7};
    struct msghdr message = {
        .msg_name = (void *)&server->address, .msg_namelen = server->length, .msg_iov = &vector, .msg_iovlen = 1};
    return sendmsg(fd, &message, MSG_FASTOPEN | MSG_NOSIGNAL);
}
static ssize_t by_number(int fd, const struct server *server)
{
    return syscall(SYS_sendto, fd, "request", 7, MSG_FASTOPEN | MSG_NOSIGNAL, &server->address, server->length);
}
static ssize_t by_number_message(int fd, const struct server *server)
{
    struct iovec vector = {"request", 7};
    struct msghdr message = {
        .msg_name = (void *)&server->address, .msg_namelen = server->length, .msg_iov = &vector, .msg_iovlen = 1};
    return syscall(SYS_sendmsg, fd, &message, MSG_FASTOPEN | MSG_NOSIGNAL);
}
static ssize_t by_connect(int fd, const struct server *server)
{
    int yes = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &yes, sizeof yes) == 0);
    return connect(fd, AT(server)) == 0 ? send(fd, "request", 7, MSG_NOSIGNAL) : -1;
}

static const struct {
    const char *name;
    ssize_t (*send)(int fd, const struct server *server);
} ways[] = {{"sendto", by_sendto},
            {"sendmsg", by_sendmsg},
            {"syscall(SYS_sendto)", by_number},
            {"syscall(SYS_sendmsg)", by_number_message},
            {"TCP_FASTOPEN_CONNECT", by_connect}};
#define WAYS (sizeof ways / sizeof *ways)

static void answered_fast_open_is_success(void **state)
{
    struct server server;
    char byte, request[16];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < WAYS; i++) {
        for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
            at_hand = ways[i].name;
            int fd = fast_socket(&server, flags);
            assert_int_equal(ways[i].send(fd, &server), 7);
            int peer = server_accept(&server);
            poll_for(peer, POLLIN);
            assert_int_equal(bare.recv(peer, request, sizeof request, 0), 7);
            expect(&server, "1 in-flight");
            assert_int_equal(bare.send(peer, "a", 1, 0), 1);
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, &byte, 1, 0), 1);
            expect(&server, "1 succeeded");
            /* It was asked for: no greeting, and from now on the connection is a kept one. */
            assert_int_equal(send(fd, "request", 7, 0), 7);
            shutdown(peer, SHUT_WR);
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, &byte, 1, 0), 0);
            expect(&server, "1 neutral:stale");
            close(fd);
            bare.close(peer);
            expect(&server, "nothing");
        }
    }
    server_stop(&server);
}

static void fast_open_into_a_black_hole_is_a_connect_timeout(void **state)
{
    struct server server, patient;
    struct timeval limit = {.tv_usec = 10000};
    int fds[WAYS];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&patient, "127.0.0.2", SERVER_BLACK_HOLE);
    for (size_t i = 0; i < WAYS; i++) {
        fds[i] = fast_socket(&server, SOCK_NONBLOCK);
        at_hand = ways[i].name;
        assert_int_equal(ways[i].send(fds[i], &server), 7); /* and no packet has been answered */
    }
    expect(&server, "5 in-flight");
    wait_long();
    for (size_t i = 0; i < WAYS; i++)
        close(fds[i]);
    expect(&server, "5 failed:connect-timeout");
    for (size_t i = 0; i < WAYS; i++) {
        at_hand = ways[i].name;
        /* A blocking one waits for the peer, but if its SO_SNDTIMEO runs out it says that all is sent. */
        int fd = fast_socket(&patient, 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
        assert_int_equal(ways[i].send(fd, &patient), 7);
        close(fd);
        expect(&patient, "1 neutral:cancelled");
    }
    server_stop(&server);
    server_stop(&patient);
}

static void fast_open_that_is_refused_is_refused(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (size_t i = 0; i < WAYS; i++) {
        at_hand = ways[i].name;
        int fd = fast_socket(&server, 0);
        ssize_t sent = ways[i].send(fd, &server);
        if (sent == 7) { /* the refusal comes after the send */
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, &byte, 1, 0), -1);
        }
        assert_int_equal(errno, ECONNREFUSED);
        expect(&server, "1 failed:refused");
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

/*
 * Without a cookie the kernel connects first: the send on a non-blocking socket says EINPROGRESS, and has sent
 * nothing.
 */
static void fast_open_without_a_cookie_is_an_attempt_in_progress(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (size_t i = 0; i + 1 < WAYS; i++) {
        at_hand = ways[i].name;
        int fd = caller_socket(&server, SOCK_NONBLOCK);
        ssize_t sent = ways[i].send(fd, &server);
        assert_true(sent == 7 || (sent == -1 && errno == EINPROGRESS));
        poll_for(fd, POLLOUT);
        if (sent < 0)
            assert_int_equal(send(fd, "request", 7, 0), 7);
        assert_int_equal(call_phase(&server), PHASE_REQUESTED);
        int peer = server_accept(&server);
        assert_int_equal(bare.send(peer, "a", 1, 0), 1);
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        expect(&server, "1 succeeded");
        close(fd);
        bare.close(peer);
    }
    server_stop(&server);
}

static void kernel_permits_fast_open(void **state)
{
    (void)state;
    if (!is_permitted()) {
        print_message("net.ipv4.tcp_fastopen forbids it to clients here\n");
        skip();
    }
}

/* On a blocking socket; EINPROGRESS is not the end of its patience then. */
static void send_that_never_waits_leaves_a_pending_attempt(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_BLACK_HOLE);
    for (int by_number = 0; by_number < 2; by_number++) {
        int fd = caller_socket(&server, 0), flags = MSG_FASTOPEN | MSG_DONTWAIT;
        assert_int_equal(by_number ? syscall(SYS_sendto, fd, "request", 7, flags, &server.address, server.length)
                                   : sendto(fd, "request", 7, flags, AT(&server)),
                         -1);
        assert_int_equal(errno, EINPROGRESS);
        expect(&server, "1 in-flight");
        close(fd);
        expect(&server, "1 neutral:cancelled");
    }
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest none[] = {cmocka_unit_test(kernel_permits_fast_open)};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_permits_fast_open),
        cmocka_unit_test(answered_fast_open_is_success),
        cmocka_unit_test(fast_open_into_a_black_hole_is_a_connect_timeout),
        cmocka_unit_test(fast_open_that_is_refused_is_refused),
        cmocka_unit_test(fast_open_without_a_cookie_is_an_attempt_in_progress),
        cmocka_unit_test(send_that_never_waits_leaves_a_pending_attempt),
    };
    stage_enter(argc, argv, NULL, NULL);
    return is_permitted() ? cmocka_run_group_tests(tests, NULL, NULL) : cmocka_run_group_tests(none, NULL, NULL);
}
