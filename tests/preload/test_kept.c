/*
 * test_kept.c - requests on a connection that has answered before: its usual ones go a short way, and nothing that a
 * circuit counts may tell which way was gone.
 */
/* links: core */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#define SLOW_MS 200u
/* A program's last words are said no later before the end than this; see life.c. */
#define LAST_WORDS_MS 40u

static const char policy[] = "[defaults]\n"
                             "failure_threshold = 1000\n"
                             "failure_rate = 0%\n"
                             "slow_call_rate = 0%\n"
                             "[kept]\n"
                             "match = 127.0.0.1:*\n"
                             "slow_call = 200ms\n";

static void ask(int fd, const char *request)
{
    ssize_t length = (ssize_t)strlen(request);
    assert_int_equal(send(fd, request, (size_t)length, 0), length);
}

static void answer(int fd, int peer)
{
    char byte;
    assert_int_equal(bare.send(peer, "+", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
}

/* The second request is the first on a connection that has answered, so the third goes the short way. */
static int caller_kept(struct server *server, int *peer)
{
    int fd = caller_connect(server, 0);
    *peer = server_accept(server);
    for (int i = 0; i < 2; i++) {
        ask(fd, "a");
        answer(fd, *peer);
    }
    expect(server, "2 succeeded");
    return fd;
}

static void answer_to_a_request_in_two_parts_is_as_slow_as_its_first_part(void **state)
{
    struct server server;
    int peer;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_kept(&server, &peer);
    for (int tries = 0;; tries++) {
        uint64_t slow = counted(&server, COUNT_SLOW);
        ask(fd, "first");
        wait_ms(SLOW_MS + LAST_WORDS_MS);
        uint64_t since_ms = now_ms();
        ask(fd, "second");
        answer(fd, peer);
        expect(&server, "1 succeeded");
        if (now_ms() - since_ms >= LAST_WORDS_MS && tries < 20) /* the machine was busy */
            continue;
        assert_int_equal(counted(&server, COUNT_SLOW) - slow, 1);
        break;
    }
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_to_a_request_in_two_parts_is_as_slow_as_its_first_part),
    };
    stage_enter(argc, argv, policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
