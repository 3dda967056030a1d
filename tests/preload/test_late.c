/*
 * test_late.c - answers that come after their limit, and those that only the program saw late: what lies unread in a
 * socket has come.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support_clock.h"

#define LIMIT_S 5

static const char policy[] = "[defaults]\n"
                             "failure_threshold = 1000\n"
                             "failure_rate = 0%\n"
                             "abandon_after = 1m\n"
                             "[limited]\n"
                             "match = 127.0.0.1:* unix:*\n"
                             "response_timeout = 5s\n"
                             "[polls]\n"
                             "match = 127.0.0.2:*\n";
static const char *const places[] = {"127.0.0.1", "unix"};
#define PLACES (sizeof places / sizeof places[0])

static void ask(int fd)
{
    CHECK(send(fd, "request", 7, 0) == 7);
}

static void answer(int peer)
{
    CHECK(bare.send(peer, "+", 1, 0) == 1);
}

static void read_answer(int fd)
{
    char byte;
    CHECK(recv(fd, &byte, 1, 0) == 1);
}

static int scene_limit(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    for (size_t i = 0; i < PLACES; i++) {
        struct server server;
        at_hand = places[i];
        server_start(&server, places[i], SERVER_LISTENS);
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        for (int request = 0; request < 5; request++) {
            ask(fd);
            advance_s(LIMIT_S);
            answer(peer);
            read_answer(fd);
            expect(&server, "1 failed:response-timeout");
        }
        ask(fd);
        answer(peer);
        read_answer(fd);
        expect(&server, "1 succeeded");
        close(fd);
        bare.close(peer);
        server_stop(&server);
    }
    return 0;
}

static int scene_polls(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    CHECK(find_clock());
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    for (int request = 0; request < 4; request++) {
        ask(fd);
        advance_s(3600);
        answer(peer);
        read_answer(fd);
        expect(&server, "1 succeeded");
    }
    close(fd);
    bare.close(peer);
    server_stop(&server);
    return 0;
}

/* The answer to a first request, the one to a further one, and a greeting: each has come, and the program is late. */
static int scene_unread(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    for (size_t i = 0; i < PLACES; i++) {
        struct server server;
        at_hand = places[i];
        server_start(&server, places[i], SERVER_LISTENS);
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        for (int request = 0; request < 3; request++) {
            ask(fd);
            answer(peer);
            advance_s(LIMIT_S + 1);
            look_for_overdue(&server, "1 neutral:cancelled, 1 in-flight");
            advance_s(LIMIT_S + 1);
            look_for_overdue(&server, "1 neutral:cancelled, 1 in-flight");
            read_answer(fd);
            expect(&server, "1 succeeded");
        }
        close(fd);
        fd = caller_connect(&server, 0);
        bare.close(peer);
        peer = server_accept(&server);
        answer(peer);
        advance_s(LIMIT_S + 1);
        look_for_overdue(&server, "1 neutral:cancelled, 1 in-flight");
        read_answer(fd);
        expect(&server, "1 succeeded");
        close(fd);
        bare.close(peer);
        server_stop(&server);
    }
    return 0;
}

/* A kept connection that has gone stale in the meantime, as the program will find. */
static int scene_stale(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    for (size_t i = 0; i < PLACES; i++) {
        struct server server;
        char byte;
        at_hand = places[i];
        server_start(&server, places[i], SERVER_LISTENS);
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        ask(fd);
        answer(peer);
        read_answer(fd);
        expect(&server, "1 succeeded");
        ask(fd);
        CHECK(bare.recv(peer, (char[16]){0}, 16, 0) > 0 && bare.close(peer) == 0);
        poll_for(fd, 0x2000 /* POLLRDHUP */);
        advance_s(LIMIT_S + 1);
        look_for_overdue(&server, "1 neutral:cancelled, 1 in-flight");
        CHECK(recv(fd, &byte, 1, 0) <= 0);
        expect(&server, "1 neutral:stale");
        close(fd);
        server_stop(&server);
    }
    return 0;
}

/* On the real clock, which the kernel knows: nobody has looked, and the program reads late, or the peer is late. */
static int scene_real(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int early = caller_connect(&server, 0), early_peer = server_accept(&server);
    int late = caller_connect(&server, 0), late_peer = server_accept(&server);
    for (int request = 0; request < 2; request++) {
        ask(early);
        answer(early_peer);
        ask(late);
        wait_ms(1300);
        answer(late_peer);
        read_answer(late);
        read_answer(early);
        expect(&server, "1 succeeded, 1 failed:response-timeout");
    }
    close(early);
    close(late);
    bare.close(early_peer);
    bare.close(late_peer);
    server_stop(&server);
    return 0;
}

static void answers_at_their_limit_are_failures_on_each_request_of_a_connection(void **state)
{
    (void)state;
    play_with_clock("limit", policy, NULL);
}

static void without_a_limit_an_answer_may_take_any_time(void **state)
{
    (void)state;
    play_with_clock("polls", policy, NULL);
}

static void an_answer_that_lies_unread_has_come(void **state)
{
    (void)state;
    play_with_clock("unread", policy, NULL);
}

static void a_kept_connection_that_has_ended_unread_is_stale_and_not_overdue(void **state)
{
    (void)state;
    play_with_clock("stale", policy, NULL);
}

static void the_kernel_tells_a_late_program_from_a_late_peer(void **state)
{
    (void)state;
    struct scene_options options = {.policy = "[t]\nmatch = 127.0.0.1:*\nfailure_threshold = 1000\nfailure_rate = 0%\n"
                                              "response_timeout = 1s\nabandon_after = 1m\n"};
    assert_true(exited_well(scene_run("real", &options)));
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"limit", scene_limit}, {"polls", scene_polls}, {"unread", scene_unread},
                                          {"stale", scene_stale}, {"real", scene_real},   {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_at_their_limit_are_failures_on_each_request_of_a_connection),
        cmocka_unit_test(without_a_limit_an_answer_may_take_any_time),
        cmocka_unit_test(an_answer_that_lies_unread_has_come),
        cmocka_unit_test(a_kept_connection_that_has_ended_unread_is_stale_and_not_overdue),
        cmocka_unit_test(the_kernel_tells_a_late_program_from_a_late_peer),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
