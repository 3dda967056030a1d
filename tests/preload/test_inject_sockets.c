/*
 * test_inject_sockets.c - injected faults on sockets of all kinds: bound, IPv6, UNIX, with Fast Open, used again; and
 * what they cost.
 */
/* links: core */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/filter.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "support_inject.h"

static size_t count_entries(const char *folder)
{
    DIR *opened = opendir(folder);
    size_t count = 0;
    CHECK(opened != NULL);
    while (readdir(opened))
        count++;
    closedir(opened);
    return count;
}

static void fresh_again(int fd, const struct server *alive, struct server *counts)
{
    assert_int_equal(connect(fd, AT(alive)), 0);
    int peer = server_accept((struct server *)(uintptr_t)alive);
    assert_int_equal(send(fd, "ping", 4, 0), 4);
    char bytes[8];
    assert_int_equal(bare.recv(peer, bytes, sizeof bytes, 0), 4);
    assert_int_equal(bare.send(peer, "pong", 4, 0), 4);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 4);
    close(fd);
    bare.close(peer);
    (void)counts;
}

static void socket_serves_for_another_destination_afterwards(void **state)
{
    struct server dead, alive;
    struct sockaddr dissolve = {.sa_family = AF_UNSPEC};
    struct timeval timeout = {.tv_usec = 60000};
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    char byte;
    (void)state;
    server_start(&alive, "127.0.0.1", SERVER_LISTENS);

    server_start(&dead, REFUSES, SERVER_LISTENS);
    int fd = caller_socket(&dead, 0);
    assert_int_equal(connect(fd, AT(&dead)), -1);
    fresh_again(fd, &alive, &dead);
    server_stop(&dead);

    server_start(&dead, HANGS, SERVER_LISTENS);
    fd = caller_socket(&dead, 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0);
    assert_int_equal(connect(fd, AT(&dead)), -1);
    assert_int_equal(connect(fd, &dissolve, sizeof dissolve), 0);
    fresh_again(fd, &alive, &dead);
    server_stop(&dead);

    server_start(&dead, RESETS, SERVER_LISTENS);
    fd = caller_connect(&dead, 0);
    assert_int_equal(send(fd, "x", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    /* It is bound to nothing any more, so that it may go out by any interface. */
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
    assert_int_equal(name.sin_addr.s_addr, htonl(INADDR_ANY));
    fresh_again(fd, &alive, &dead);
    server_stop(&dead);
    server_stop(&alive);
}

static void filter_of_the_programs_own_stays_and_the_attempt_goes_on(void **state)
{
    static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
    const struct sock_fprog own = {.len = 1, .filter = all};
    struct server server;
    socklen_t length = 0;
    (void)state;
    server_start(&server, RESETS, SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &own, sizeof own), 0);
    assert_int_equal(connect(fd, AT(&server)), 0);
    int peer = server_accept(&server);
    assert_int_equal(bare.getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &length), 0);
    assert_int_equal(length, 1);
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

static void bound_sockets_get_faults_too(void **state)
{
    struct server server;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000901)};
    char byte;
    (void)state;
    server_start(&server, REFUSES, SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 failed:refused, 1 injected");
    server_stop(&server);

    server_start(&server, RESETS, SERVER_LISTENS);
    fd = caller_socket(&server, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, AT(&server)), 0);
    assert_int_equal(send(fd, "x", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    expect(&server, "1 failed:reset, 1 injected");
    nobody_came(&server);
    server_stop(&server);
}

static void ipv6_and_mapped_sockets_get_faults_too(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "::1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, "x", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    expect(&server, "1 failed:reset, 1 injected");
    nobody_came(&server);
    server_stop(&server);

    server_start(&server, REFUSES, SERVER_LISTENS);
    server_map(&server);
    fd = caller_socket(&server, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 failed:refused, 1 injected");
    server_stop(&server);

    char answer[1024];
    server_start(&server, ANSWERS, SERVER_LISTENS);
    server_map(&server);
    fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    assert_true(read_all(fd, answer, sizeof answer) > sizeof head_503);
    close(fd);
    expect(&server, "1 failed:http, 1 injected");
    nobody_came(&server);
    server_stop(&server);
}

static void unix_sockets_are_refused_and_delayed_and_else_left_alone(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "unix:refuses-", SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 failed:refused, 1 injected");
    nobody_came(&server);
    server_stop(&server);

    server_start(&server, "unix:delays-", SERVER_LISTENS);
    uint64_t began = now_ms();
    fd = caller_connect(&server, 0);
    assert_true(now_ms() - began >= DELAY_MS - 1);
    bare.close(server_accept(&server));
    close(fd);
    server_stop(&server);

    server_start(&server, "unix:resets-", SERVER_LISTENS);
    fd = caller_connect(&server, 0);
    int peer = server_accept(&server);
    assert_int_equal(send(fd, "x", 1, 0), 1);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    close(fd);
    bare.close(peer);
    expect(&server, "1 succeeded");
    server_stop(&server);
}

static void fast_open_sends_get_faults_too(void **state)
{
    struct server server;
    char answer[1024];
    (void)state;
    server_start(&server, REFUSES, SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    assert_int_equal(sendto(fd, request_text(), (size_t)LENGTH, MSG_FASTOPEN, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 failed:refused, 1 injected");
    server_stop(&server);

    server_start(&server, ANSWERS, SERVER_LISTENS);
    struct iovec vector = {request_text(), (size_t)LENGTH};
    struct msghdr message = {
        .msg_name = &server.address, .msg_namelen = server.length, .msg_iov = &vector, .msg_iovlen = 1};
    for (int i = 0; i < 3; i++) {
        fd = caller_socket(&server, 0);
        ssize_t sent = i == 0   ? sendto(fd, request_text(), (size_t)LENGTH, MSG_FASTOPEN, AT(&server))
                       : i == 1 ? sendmsg(fd, &message, MSG_FASTOPEN)
                                : syscall(SYS_sendto, fd, request_text(), LENGTH, MSG_FASTOPEN, AT(&server));
        assert_int_equal(sent, LENGTH);
        assert_whole(answer, read_all(fd, answer, sizeof answer), head_503, true);
        close(fd);
        expect(&server, "1 failed:http, 1 injected");
    }
    nobody_came(&server);
    server_stop(&server);

    server_start(&server, DELAYS, SERVER_LISTENS);
    fd = caller_socket(&server, 0);
    uint64_t began = now_ms();
    assert_int_equal(sendto(fd, "x", 1, MSG_FASTOPEN, AT(&server)), 1);
    assert_true(now_ms() - began >= DELAY_MS - 1);
    bare.close(server_accept(&server));
    close(fd);
    server_stop(&server);
}

static void faults_take_no_descriptor_and_no_thread(void **state)
{
    static const char *const hosts[] = {REFUSES, RESETS, HANGS, ANSWERS};
    (void)state;
    struct server servers[4];
    int fds[4];
    for (size_t i = 0; i < 4; i++)
        server_start(&servers[i], hosts[i], SERVER_LISTENS);
    size_t threads = count_entries("/proc/self/task"), open_before = count_entries("/proc/self/fd");
    for (size_t i = 0; i < 4; i++)
        fds[i] = caller_connect(&servers[i], SOCK_NONBLOCK);
    for (size_t i = 0; i < 4; i++)
        send(fds[i], request_text(), (size_t)LENGTH, MSG_NOSIGNAL);
    assert_int_equal(count_entries("/proc/self/fd"), open_before + 4);
    assert_int_equal(count_entries("/proc/self/task"), threads);
    for (size_t i = 0; i < 4; i++) {
        close(fds[i]);
        nobody_came(&servers[i]);
        server_stop(&servers[i]);
    }
    assert_int_equal(count_entries("/proc/self/fd"), open_before - 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(socket_serves_for_another_destination_afterwards),
        cmocka_unit_test(filter_of_the_programs_own_stays_and_the_attempt_goes_on),
        cmocka_unit_test(bound_sockets_get_faults_too),
        cmocka_unit_test(ipv6_and_mapped_sockets_get_faults_too),
        cmocka_unit_test(unix_sockets_are_refused_and_delayed_and_else_left_alone),
        cmocka_unit_test(fast_open_sends_get_faults_too),
        cmocka_unit_test(faults_take_no_descriptor_and_no_thread),
    };
    stage_enter(argc, argv, inject_policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
