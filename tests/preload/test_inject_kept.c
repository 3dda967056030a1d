/*
 * test_inject_kept.c - faults of requests on a kept connection: each is drawn for itself, is met where a real one would
 * be, and the server hears nothing of the request.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "base/hash.h"
#include "support_inject.h"
#include "support_inject_sending.h"

#define SHARE 500u /* of 1000: each call's chance in what follows */
#define KEPT_DELAY_MS 80u

/* The name of a target, the fault, and where its servers are. The first call gets none, the next one does, the third
 * none: a seed is looked for that has it so. */
static const struct {
    const char *name, *fault, *places;
} faults[] = {
    {"refusing", "refuse", "127.0.2.1:* unix:*/refusing-*"},
    {"resetting", "reset", "127.0.2.2:* unix:*/resetting-*"},
    {"hanging", "hang", "127.0.2.3:*"},
    {"silent", "silence", "127.0.2.4:* unix:*/silent-*"},
    {"closing", "early-close", "127.0.2.5:* unix:*/closing-*"},
    {"delaying", "delay 80ms", "127.0.2.6:* unix:*/delaying-*"},
    {"answering", "http-503", "127.0.2.7:* unix:*/answering-*"},
    {"six", "http-503", "[::1]:*"},
};
#define FAULTS (sizeof faults / sizeof *faults)
#define REFUSING "127.0.2.1"
#define RESETTING "127.0.2.2"
#define HANGING "127.0.2.3"
#define QUIET "127.0.2.4"
#define ENDING "127.0.2.5"
#define DELAYING "127.0.2.6"
#define ANSWERING "127.0.2.7"

/* As fault_drawing.c draws: rehearsals are written down, and are to be the same in the next version. */
static bool is_drawn(const char *name, uint64_t seed, uint32_t number)
{
    uint64_t mixed = hash_spread(seed + HASH_STEP) ^ hash_spread(hash_bytes(HASH_BEGIN, name, strlen(name)) + number);
    return hash_spread(mixed) % 1000 < SHARE;
}

static unsigned int seed_for(const char *name)
{
    unsigned int seed = 0;
    while (is_drawn(name, seed, 0) || !is_drawn(name, seed, 1) || is_drawn(name, seed, 2))
        seed++;
    return seed;
}

static const char *policy(void)
{
    static char text[4096];
    size_t length = (size_t)snprintf(
        text, sizeof text, "[defaults]\nfailure_threshold = 1000\nfailure_rate = 0%%\nabandon_after = 50ms\n");
    for (size_t i = 0; i < FAULTS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "[%s]\nmatch = %s\ninject = %s at 50%%\ninject_seed = %u\n", faults[i].name,
                                   faults[i].places, faults[i].fault, seed_for(faults[i].name));
    return text;
}

static void ask(int fd)
{
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
}

/* The server reads the whole request, and answers. */
static void answer(int peer)
{
    char request[256];
    ssize_t length = 0;
    while (length < LENGTH) {
        ssize_t got = bare.recv(peer, request, sizeof request, 0);
        CHECK(got > 0);
        length += got;
    }
    assert_int_equal(length, LENGTH);
    assert_int_equal(bare.send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40, MSG_NOSIGNAL), 40);
}

static void hear(int fd)
{
    char bytes[128];
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 40);
}

/* A connection on which the first request was answered; the next one meets the fault. */
static int caller_kept(struct server *server, const char *host, int flags, int *peer)
{
    server_start(server, host, SERVER_LISTENS);
    int fd = caller_connect(server, flags);
    poll_for(fd, POLLOUT);
    *peer = server_accept(server);
    ask(fd);
    answer(*peer);
    hear(fd);
    expect(server, "1 succeeded");
    return fd;
}

/* The server has heard nothing but, perhaps, the end. */
static void heard_nothing(int peer, bool ended)
{
    char byte;
    struct pollfd look = {.fd = peer, .events = POLLIN};
    if (ended)
        CHECK(poll(&look, 1, 5000) == 1);
    assert_int_equal(bare.recv(peer, &byte, 1, MSG_DONTWAIT), ended ? 0 : -1);
}

static void over_with(int error, int fd, int peer, struct server *server)
{
    char byte;
    close(fd);
    if (error) {
        assert_int_equal(bare.recv(peer, &byte, 1, 0), -1);
        assert_int_equal(errno, error);
    } else {
        heard_nothing(peer, true);
    }
    bare.close(peer);
    nobody_came(server);
    server_stop(server);
}

static void over(int fd, int peer, struct server *server)
{
    over_with(0, fd, peer, server);
}

/* --- refuse --- */

static void request_is_refused_without_a_signal_and_so_are_all_after_it(void **state)
{
    static const char *const hosts[] = {REFUSING, "unix:refusing-"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, hosts[i], 0, &peer);
        char byte;
        assert_int_equal(write(fd, request_text(), (size_t)LENGTH), -1);
        assert_int_equal(errno, ECONNRESET);
        expect(&server, "1 neutral:stale, 1 injected");
        assert_int_equal(write(fd, request_text(), (size_t)LENGTH), -1);
        assert_int_equal(errno, ECONNRESET);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        expect(&server, "nothing");
        heard_nothing(peer, false);
        over(fd, peer, &server);
    }
}

/* --- reset --- */

static void reset_follows_the_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS_TO_SEND; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, RESETTING, 0, &peer);
        char byte;
        at_hand = ways_to_send[i].name;
        assert_int_equal(ways_to_send[i].send(fd), LENGTH);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
        expect(&server, "1 neutral:stale, 1 injected");
        assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
        assert_int_equal(errno, EPIPE);
        over_with(ECONNRESET, fd, peer, &server);
    }
}

static void reset_and_answer_wake_who_polls(void **state)
{
    static const char *const hosts[] = {RESETTING, ANSWERING, ENDING};
    static const uint32_t events[] = {EPOLLERR, EPOLLIN, EPOLLIN};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, hosts[i], SOCK_NONBLOCK, &peer);
        int poller = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
        at_hand = hosts[i];
        CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0);
        assert_int_equal(epoll_wait(poller, &event, 1, 0), 0);
        ask(fd);
        assert_int_equal(epoll_wait(poller, &event, 1, 1000), 1);
        assert_int_equal(event.events & (i == 0 ? EPOLLERR : EPOLLIN | EPOLLERR), events[i]);
        close(poller);
        over_with(i == 0 ? ECONNRESET : 0, fd, peer, &server);
    }
}

/* --- silence --- */

static void silence_lasts_until_the_program_gives_up(void **state)
{
    static const char *const hosts[] = {QUIET, HANGING, "unix:silent-"};
    const struct timeval timeout = {.tv_usec = 70000};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, hosts[i], 0, &peer);
        struct pollfd look = {.fd = fd, .events = POLLIN | POLLRDHUP};
        char byte;
        at_hand = hosts[i];
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
        ask(fd);
        assert_int_equal(poll(&look, 1, 20), 0);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
        expect(&server, "1 failed:response-timeout, 1 injected");
        heard_nothing(peer, false);
        over(fd, peer, &server);
    }
}

static void silent_connection_hears_neither_its_peers_words_nor_its_end(void **state)
{
    struct server server;
    int peer, fd = caller_kept(&server, QUIET, SOCK_NONBLOCK, &peer);
    struct pollfd look = {.fd = fd, .events = POLLIN | POLLRDHUP};
    (void)state;
    ask(fd);
    assert_int_equal(bare.send(peer, "+", 1, MSG_NOSIGNAL), 1);
    bare.close(peer);
    assert_int_equal(poll(&look, 1, 60), 0);
    ask(fd); /* and stays silent */
    assert_int_equal(poll(&look, 1, 20), 0);
    close(fd);
    expect(&server, "1 failed:response-timeout, 1 injected");
    nobody_came(&server);
    server_stop(&server);
}

static void request_in_pieces_is_swallowed_whole(void **state)
{
    struct server server;
    int peer, fd = caller_kept(&server, QUIET, 0, &peer);
    const char *text = request_text();
    (void)state;
    for (ssize_t i = 0; i < LENGTH; i += 7) {
        ssize_t piece = LENGTH - i < 7 ? LENGTH - i : 7;
        assert_int_equal(send(fd, text + i, (size_t)piece, 0), piece);
    }
    heard_nothing(peer, false);
    over(fd, peer, &server);
}

/* --- early close --- */

static void end_of_the_stream_comes_in_place_of_an_answer(void **state)
{
    static const char *const hosts[] = {ENDING, "unix:closing-"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, hosts[i], 0, &peer);
        char byte;
        at_hand = hosts[i];
        ask(fd);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        expect(&server, "1 neutral:stale, 1 injected");
        heard_nothing(peer, false);
        over(fd, peer, &server);
    }
}

/* --- an answer --- */

static void answer_comes_in_place_of_the_servers(void **state)
{
    static const char *const hosts[] = {ANSWERING, "::1"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
            struct server server;
            char bytes[1024];
            int peer, fd = caller_kept(&server, hosts[i], flags, &peer);
            ask(fd);
            poll_for(fd, POLLIN);
            size_t length = read_all(fd, bytes, sizeof bytes);
            assert_whole(bytes, length, head_503, true);
            expect(&server, "1 failed:http, 1 injected");
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
            over(fd, peer, &server);
        }
    }
}

static void answer_is_given_once_to_a_request_in_pieces(void **state)
{
    struct server server;
    static char body[65536];
    char bytes[1024];
    int peer, fd = caller_kept(&server, ANSWERING, 0, &peer);
    (void)state;
    assert_int_equal(send(fd, "POST / HTTP/1.1\r\n", 17, MSG_MORE), 17);
    assert_int_equal(send(fd, "Content-Length: 131072\r\n\r\n", 26, 0), 26);
    assert_int_equal(send(fd, body, sizeof body, 0), sizeof body);
    assert_int_equal(send(fd, body, sizeof body, 0), sizeof body);
    size_t length = read_all(fd, bytes, sizeof bytes);
    assert_whole(bytes, length, head_503, true);
    expect(&server, "1 failed:http, 1 injected");
    over(fd, peer, &server);
}

/* --- delay --- */

static void delayed_request_arrives_later_and_the_next_one_does_not(void **state)
{
    static const char *const hosts[] = {DELAYING, "unix:delaying-"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, hosts[i], 0, &peer);
        uint64_t began = now_ms();
        at_hand = hosts[i];
        ask(fd);
        assert_true(now_ms() - began >= KEPT_DELAY_MS - 1);
        answer(peer);
        hear(fd);
        expect(&server, "1 succeeded, 1 injected");
        ask(fd);
        answer(peer);
        hear(fd);
        expect(&server, "1 succeeded");
        over(fd, peer, &server);
    }
}

static void delay_counts_for_the_sockets_own_timeout(void **state)
{
    const struct timeval timeout = {.tv_usec = 20000};
    struct server server;
    int peer, fd = caller_kept(&server, DELAYING, 0, &peer);
    (void)state;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), -1);
    assert_int_equal(errno, EAGAIN);
    heard_nothing(peer, false);
    ask(fd); /* again: it is the same call, and goes out */
    answer(peer);
    hear(fd);
    expect(&server, "1 succeeded, 1 injected");
    over(fd, peer, &server);
}

/* --- what can't be --- */

static void unix_socket_is_not_reset_nor_answered(void **state)
{
    static const char *const hosts[] = {"unix:resetting-", "unix:answering-"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        int peer, fd = caller_kept(&server, hosts[i], 0, &peer);
        at_hand = hosts[i];
        ask(fd);
        answer(peer);
        hear(fd);
        expect(&server, "1 succeeded");
        over(fd, peer, &server);
    }
}

static void connection_that_its_server_has_left_meets_the_real_thing(void **state)
{
    struct server server;
    int peer, fd = caller_kept(&server, ANSWERING, 0, &peer);
    char byte;
    (void)state;
    bare.close(peer);
    poll_for(fd, POLLRDHUP);
    ask(fd);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    expect(&server, "1 neutral:stale");
    close(fd);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_refused_without_a_signal_and_so_are_all_after_it),
        cmocka_unit_test(reset_follows_the_request),
        cmocka_unit_test(reset_and_answer_wake_who_polls),
        cmocka_unit_test(silence_lasts_until_the_program_gives_up),
        cmocka_unit_test(silent_connection_hears_neither_its_peers_words_nor_its_end),
        cmocka_unit_test(request_in_pieces_is_swallowed_whole),
        cmocka_unit_test(end_of_the_stream_comes_in_place_of_an_answer),
        cmocka_unit_test(answer_comes_in_place_of_the_servers),
        cmocka_unit_test(answer_is_given_once_to_a_request_in_pieces),
        cmocka_unit_test(delayed_request_arrives_later_and_the_next_one_does_not),
        cmocka_unit_test(delay_counts_for_the_sockets_own_timeout),
        cmocka_unit_test(unix_socket_is_not_reset_nor_answered),
        cmocka_unit_test(connection_that_its_server_has_left_meets_the_real_thing),
    };
    stage_enter(argc, argv, policy(), NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
