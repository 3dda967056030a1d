/*
 * test_upload.c - requests that take time to be sent: who pauses in one keeps nobody waiting, and a peer that takes it
 * is not silent. One that takes nothing is.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support_clock.h"

#define LIMIT_S 5
#define POST "POST /upload HTTP/1.1\r\nHost: x\r\n"

static const char policy[] = "[defaults]\n"
                             "failure_threshold = 1000\n"
                             "failure_rate = 0%\n"
                             "abandon_after = 50ms\n"
                             "[limited]\n"
                             "match = 127.0.0.1:* unix:*\n"
                             "response_timeout = 5s\n"
                             "[unlimited]\n"
                             "match = 127.0.0.2:*\n";
static const char *const places[] = {"127.0.0.1", "unix"};

static void say(int fd, const char *text)
{
    CHECK(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
}

static void answer(int fd, int peer)
{
    char bytes[4096];
    while (bare.recv(peer, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    CHECK(bare.send(peer, "HTTP/1.1 200 OK\r\n\r\n", 19, 0) == 19);
    poll_for(fd, POLLIN);
    CHECK(recv(fd, bytes, sizeof bytes, 0) == 19);
}

/* --- ways to send a request in parts; each is open between any two --- */

static void by_sendfile(int fd)
{
    char bytes[8] = "12345678";
    int pipe_ends[2], file = memfd_create("body", MFD_CLOEXEC);
    CHECK(write(file, bytes, 8) == 8);
    off_t offset = 0;
    CHECK(sendfile(fd, file, &offset, 8) == 8);
    CHECK(pipe2(pipe_ends, O_CLOEXEC) == 0 && write(pipe_ends[1], bytes, 8) == 8);
    CHECK(splice(pipe_ends[0], NULL, fd, NULL, 8, 0) == 8);
    close(file);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void by_vectors(int fd)
{
    struct iovec vector[2] = {{(char[]){"12345"}, 5}, {(char[]){"678"}, 3}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = vector, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = vector + 1, .msg_iovlen = 1}}};
    CHECK(writev(fd, vector, 2) == 8);
    CHECK(sendmsg(fd, &message, 0) == 8);
    CHECK(sendmmsg(fd, messages, 2, 0) == 2);
}

static const struct upload {
    const char *head;
    void (*middle)(int fd);
    const char *rest;
} uploads[] = {
    {POST "Content-Length: 16\r\n\r\n", NULL, "0123456789abcdef"},
    {POST "Content-Length: 20\r\n\r\nbody", by_sendfile, ""},
    {POST "Content-Length: 24\r\n\r\n", by_vectors, ""},
    {POST "Content-Length: 25\r\n\r\n", by_vectors, "x"},
    {POST "Transfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", NULL, "3\r\nend\r\n0\r\n\r\n"},
    {POST "Transfer-Encoding: chunked\r\n\r\n10\r\n", by_sendfile, "\r\n0\r\n\r\n"},
    {"GET / HTTP/1.1\r\nHost: x\r\n", NULL, "\r\n"},
};
#define UPLOADS (sizeof uploads / sizeof uploads[0])

static void send_with_pauses(struct server *server, int fd, const struct upload *upload)
{
    say(fd, upload->head);
    advance_s(LIMIT_S + 1);
    look_for_overdue(server, "1 neutral:cancelled, 1 in-flight");
    if (upload->middle) {
        upload->middle(fd);
        if (*upload->rest) {
            advance_s(LIMIT_S + 1);
            look_for_overdue(server, "1 neutral:cancelled, 1 in-flight");
        }
    }
    if (*upload->rest)
        say(fd, upload->rest);
}

static int scene_pauses(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    for (size_t i = 0; i < 2 * UPLOADS; i++) {
        struct server server;
        at_hand = uploads[i / 2].head;
        server_start(&server, places[i % 2], SERVER_LISTENS);
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        for (int request = 0; request < 4; request++) { /* the first, a further one, and those of the short way */
            send_with_pauses(&server, fd, &uploads[i / 2]);
            answer(fd, peer);
            expect(&server, "1 succeeded");
            say(fd, "GET / HTTP/1.1\r\n\r\n");
            answer(fd, peer);
            expect(&server, "1 succeeded");
        }
        /* Whole, and then it waits for an answer like any other. */
        send_with_pauses(&server, fd, &uploads[i / 2]);
        advance_s(LIMIT_S - 1);
        look_for_overdue(&server, "1 neutral:cancelled, 1 in-flight");
        advance_s(1);
        look_for_overdue(&server, "1 failed:response-timeout, 1 neutral:cancelled, 1 overdue");
        close(fd);
        bare.close(peer);
        server_stop(&server);
    }
    return 0;
}

/* What is no part of a request, or one that the server is to answer before it is whole, waits. */
static int scene_waits(int argc, char **argv)
{
    static const char *const whole[] = {POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
                                        "CONNECT x:1 HTTP/1.1\r\n\r\n",
                                        "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
                                        "POST\r\n",
                                        "SET x",
                                        "GET / HTTP/1.1\r\n\r\n" POST "Content-Length: 9\r\n\r\n"};
    (void)argc, (void)argv;
    CHECK(find_clock());
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        struct server server;
        at_hand = whole[i];
        server_start(&server, "127.0.0.1", SERVER_LISTENS);
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        say(fd, whole[i]);
        advance_s(LIMIT_S);
        look_for_overdue(&server, "1 failed:response-timeout, 1 neutral:cancelled, 1 overdue");
        close(fd);
        bare.close(peer);
        server_stop(&server);
    }
    return 0;
}

static void requests_that_pause_are_no_silence_and_wait_once_they_are_whole(void **state)
{
    (void)state;
    play_with_clock("pauses", policy, NULL);
}

static void what_the_server_is_to_answer_now_waits(void **state)
{
    (void)state;
    play_with_clock("waits", policy, NULL);
}

static void an_upload_that_the_program_gives_up_in_its_own_pause_is_cancelled(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int whole = 0; whole < 2; whole++) {
        int fd = caller_connect(&server, 0);
        say(fd, POST "Content-Length: 5\r\n\r\n");
        say(fd, whole ? "whole" : "half");
        wait_long();
        close(fd);
        expect(&server, whole ? "1 failed:response-timeout" : "1 neutral:cancelled");
    }
    server_stop(&server);
}

static void the_rest_of_a_request_that_was_answered_early_is_no_request(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    for (int request = 0; request < 3; request++) {
        say(fd, POST "Content-Length: 10\r\n\r\n01");
        answer(fd, peer);
        expect(&server, "1 succeeded");
        say(fd, "2345");
        say(fd, "6789");
        expect(&server, "nothing");
        say(fd, "GET / HTTP/1.1\r\n\r\n");
        expect(&server, "1 in-flight");
        answer(fd, peer);
        expect(&server, "1 succeeded");
    }
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* --- on the real clock, by which the kernel tells whether the peer takes what is sent; response_timeout is 1 s --- */

#define LARGE ((size_t)12 << 20)

static void *send_large(void *context)
{
    char *bytes = calloc(1, LARGE);
    int fd = *(int *)context;
    CHECK(bytes && send(fd, bytes, LARGE, MSG_NOSIGNAL) != 0);
    free(bytes);
    return NULL;
}

/* One blocking send: taken bit by bit for longer than the limit, then answered. Nobody is charged. */
static int scene_taken(int argc, char **argv)
{
    (void)argc, (void)argv;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        pthread_t thread;
        char *taken = malloc(LARGE);
        at_hand = places[i];
        server_start(&server, places[i], SERVER_LISTENS);
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        CHECK(taken != NULL);
        CHECK(pthread_create(&thread, NULL, send_large, &fd) == 0);
        uint64_t begin_ms = now_ms();
        for (size_t left = LARGE; left > 0;) {
            size_t part = left < LARGE / 64 ? left : LARGE / 64;
            ssize_t got = bare.recv(peer, taken, part, 0);
            CHECK(got > 0);
            left -= (size_t)got;
            if (left < LARGE / 8)
                continue; /* the last of it, which the send need not wait for */
            wait_ms(40);
            look_for_overdue(&server, "1 neutral:cancelled, 1 in-flight");
        }
        CHECK(now_ms() - begin_ms >= 1500 && pthread_join(thread, NULL) == 0);
        CHECK(bare.send(peer, "+", 1, 0) == 1);
        CHECK(recv(fd, taken, 1, 0) == 1);
        expect(&server, "1 succeeded");
        free(taken);
        close(fd);
        bare.close(peer);
        server_stop(&server);
    }
    return 0;
}

/* A peer that reads nothing is silent once its window is shut: to a send that waits, and to one that comes again. */
static int scene_shut(int argc, char **argv)
{
    struct server server;
    pthread_t thread;
    char *bytes = calloc(1, LARGE);
    (void)argc, (void)argv;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int blocking = caller_connect(&server, 0), peer = server_accept(&server);
    CHECK(bytes != NULL);
    CHECK(pthread_create(&thread, NULL, send_large, &blocking) == 0);
    wait_ms(1600);
    look_for_overdue(&server, "1 failed:response-timeout, 1 neutral:cancelled, 1 overdue");
    server_reset(peer);
    CHECK(pthread_join(thread, NULL) == 0);
    close(blocking);
    expect(&server, "1 overdue-ended");

    int trying = caller_connect(&server, SOCK_NONBLOCK), other = server_accept(&server);
    poll_for(trying, POLLOUT);
    say(trying, POST "Content-Length: 1000000000\r\n\r\n");
    for (int again = 0; again < 40; again++) {
        while (send(trying, bytes, LARGE, MSG_NOSIGNAL) > 0)
            ;
        wait_ms(40); /* it tries again and again, and waits all the same */
    }
    look_for_overdue(&server, "1 failed:response-timeout, 1 neutral:cancelled, 1 overdue");
    server_reset(other);
    close(trying);
    server_stop(&server);
    free(bytes);
    return 0;
}

static void run_real(const char *scene)
{
    struct scene_options options = {.policy = "[t]\nmatch = 127.0.0.1:* unix:*\nfailure_threshold = 1000\n"
                                              "failure_rate = 0%\nresponse_timeout = 1s\nabandon_after = 1m\n"};
    assert_true(exited_well(scene_run(scene, &options)));
}

static void a_large_send_is_not_charged_while_the_peer_takes_it(void **state)
{
    (void)state;
    run_real("taken");
}

static void a_peer_that_takes_nothing_is_silent(void **state)
{
    (void)state;
    run_real("shut");
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"pauses", scene_pauses}, {"waits", scene_waits}, {"taken", scene_taken}, {"shut", scene_shut}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_pause_are_no_silence_and_wait_once_they_are_whole),
        cmocka_unit_test(what_the_server_is_to_answer_now_waits),
        cmocka_unit_test(an_upload_that_the_program_gives_up_in_its_own_pause_is_cancelled),
        cmocka_unit_test(the_rest_of_a_request_that_was_answered_early_is_no_request),
        cmocka_unit_test(a_large_send_is_not_charged_while_the_peer_takes_it),
        cmocka_unit_test(a_peer_that_takes_nothing_is_silent),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
