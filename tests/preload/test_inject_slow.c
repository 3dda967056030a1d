/*
 * test_inject_slow.c - answers that are to come later: the program does not wait in its send, whatever it waits with
 * then, and the server gets the whole request, late.
 */
/* links: core */
#define _GNU_SOURCE
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "support_inject.h"

static unsigned long pacing_rate(int fd)
{
    unsigned long rate = 0;
    socklen_t length = sizeof rate;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &length) == 0);
    return rate;
}

static int nodelay(int fd)
{
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &length) == 0);
    return value;
}

/* The server reads what is to come, in one go or many. Returns when it had all of it. */
static uint64_t read_request(int peer, const char *expected, size_t count)
{
    static char bytes[70000];
    size_t length = 0;
    while (length < count) {
        ssize_t got = bare.recv(peer, bytes + length, sizeof bytes - length, 0);
        CHECK(got > 0);
        length += (size_t)got;
    }
    assert_int_equal(length, count);
    assert_memory_equal(bytes, expected, count);
    return now_ms();
}

static void served(int fd, int peer, uint64_t began)
{
    char byte;
    assert_true(read_request(peer, request_text(), (size_t)LENGTH) - began >= SLOW_MS - 1);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
}

static ssize_t by_send(int fd)
{
    return send(fd, request_text(), (size_t)LENGTH, 0);
}
static ssize_t by_syscall(int fd)
{
    return syscall(SYS_write, fd, request_text(), LENGTH);
}
static ssize_t by_writev(int fd)
{
    struct iovec vector[] = {{request_text(), 0}, {request_text(), 5}, {request_text() + 5, (size_t)LENGTH - 5}};
    return writev(fd, vector, 3);
}
static ssize_t by_sendmsg(int fd)
{
    struct iovec vector[] = {{request_text(), (size_t)LENGTH - 1}, {request_text() + LENGTH - 1, 1}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    return sendmsg(fd, &message, MSG_DONTWAIT);
}

static ssize_t (*const ways_to_send[])(int fd) = {by_send, by_syscall, by_writev, by_sendmsg};
#define WAYS_TO_SEND (sizeof ways_to_send / sizeof *ways_to_send)

static void each_request_on_a_connection_is_answered_late(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, SLOW, SERVER_LISTENS);
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        int fd = caller_connect(&server, flags);
        poll_for(fd, POLLOUT);
        int peer = server_accept(&server);
        unsigned long rate = pacing_rate(fd);
        CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &flags, sizeof flags) == 0);
        for (size_t i = 0; i < WAYS_TO_SEND; i++) {
            uint64_t began = now_ms();
            assert_int_equal(ways_to_send[i](fd), LENGTH);
            served(fd, peer, began);
            expect(&server, "1 succeeded, 1 injected");
            assert_int_equal(pacing_rate(fd), rate);
            assert_int_equal(nodelay(fd), flags != 0);
        }
        close(fd);
        bare.close(peer);
    }
    server_stop(&server);
}

static void request_is_with_the_kernel_and_goes_out_though_the_program_has_left(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, SLOW, SERVER_LISTENS);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    int peer = server_accept(&server);
    uint64_t began = now_ms();
    assert_int_equal(by_send(fd), LENGTH);
    /* The request is with the kernel, and not with the server. */
    char bytes[128];
    ssize_t early = bare.recv(peer, bytes, sizeof bytes, 0);
    assert_true(early < LENGTH || now_ms() - began >= SLOW_MS - 1);
    close(fd); /* it goes out all the same, as it had with a slow server */
    while (early < LENGTH) {
        ssize_t got = bare.recv(peer, bytes, sizeof bytes, 0);
        assert_true(got > 0);
        early += got;
    }
    assert_true(now_ms() - began >= SLOW_MS - 1);
    assert_int_equal(bare.recv(peer, bytes, 1, 0), 0);
    bare.close(peer);
    server_stop(&server);
}

static void rest_of_a_request_waits_behind_its_beginning(void **state)
{
    static char body[65536];
    struct server server;
    (void)state;
    server_start(&server, SLOW, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    int peer = server_accept(&server);
    const char head[] = "POST / HTTP/1.1\r\nContent-Length: 65536\r\n\r\n";
    uint64_t began = now_ms();
    assert_int_equal(send(fd, head, sizeof head - 1, 0), sizeof head - 1);
    assert_int_equal(send(fd, body, sizeof body, 0), sizeof body);
    char byte;
    static char whole[sizeof head - 1 + sizeof body];
    memcpy(whole, head, sizeof head - 1);
    assert_true(read_request(peer, whole, sizeof whole) - began >= SLOW_MS - 1);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded, 1 injected");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

static void what_can_not_be_late_has_no_fault(void **state)
{
    struct server server;
    char byte;
    (void)state;
    for (int is_unix = 0; is_unix < 2; is_unix++) {
        server_start(&server, is_unix ? "unix:slow-" : SLOW, SERVER_LISTENS);
        int fd = caller_connect(&server, 0);
        int peer = server_accept(&server);
        for (int i = 0; i < 2; i++) {
            const char *text = is_unix ? request_text() : "short";
            size_t length = strlen(text);
            assert_int_equal(send(fd, text, length, 0), length);
            read_request(peer, text, length);
            assert_int_equal(bare.send(peer, "a", 1, 0), 1);
            assert_int_equal(recv(fd, &byte, 1, 0), 1);
            expect(&server, "1 succeeded");
        }
        close(fd);
        bare.close(peer);
        server_stop(&server);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_on_a_connection_is_answered_late),
        cmocka_unit_test(request_is_with_the_kernel_and_goes_out_though_the_program_has_left),
        cmocka_unit_test(rest_of_a_request_waits_behind_its_beginning),
        cmocka_unit_test(what_can_not_be_late_has_no_fault),
    };
    stage_enter(argc, argv, inject_policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
