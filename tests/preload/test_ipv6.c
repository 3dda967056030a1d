/*
 * test_ipv6.c - IPv6, and IPv4 through IPv6 sockets, as Java does it.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static void play(struct server *server, bool answers)
{
    char byte;
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        int fd = caller_connect(server, flags), peer = server_accept(server);
        poll_for(fd, POLLOUT);
        assert_int_equal(send(fd, "request", 7, 0), 7);
        if (answers) {
            assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, &byte, 1, 0), 1);
            expect(server, "1 succeeded");
        } else {
            server_reset(peer);
            poll_for(fd, POLLIN);
            close(fd);
            expect(server, "1 failed:reset");
            continue;
        }
        close(fd);
        bare.close(peer);
        expect(server, "nothing");
    }
}

static void play_refused(struct server *server)
{
    int fd = caller_socket(server, 0);
    assert_int_equal(connect(fd, AT(server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    expect(server, "1 failed:refused");
    close(fd);
}

static void ipv6_calls_are_judged_as_ipv4_ones(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "::1", SERVER_LISTENS);
    play(&server, true);
    play(&server, false);
    server_stop(&server);
    server_start(&server, "::1", SERVER_REFUSES);
    play_refused(&server);
    server_stop(&server);
    server_start(&server, "::1", SERVER_BLACK_HOLE);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    wait_long();
    close(fd);
    expect(&server, "1 failed:connect-timeout");
    server_stop(&server);
}

static void mapped_address_is_the_ipv4_destination(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_map(&server); /* the destination's name stays 127.0.0.1:PORT */
    play(&server, true);
    play(&server, false);
    server_stop(&server);
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    play_refused(&server);
    server_map(&server);
    play_refused(&server); /* one circuit for both */
    assert_int_equal(counted(&server, COUNT_FAILED), 2);
    server_stop(&server);
}

static void flow_and_scope_do_not_make_other_destinations(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "::1", SERVER_REFUSES);
    play_refused(&server);
    ((struct sockaddr_in6 *)&server.address)->sin6_flowinfo = htonl(7);
    play_refused(&server);
    assert_int_equal(counted(&server, COUNT_FAILED), 2);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv6_calls_are_judged_as_ipv4_ones),
        cmocka_unit_test(mapped_address_is_the_ipv4_destination),
        cmocka_unit_test(flow_and_scope_do_not_make_other_destinations),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
