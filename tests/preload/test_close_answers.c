/*
 * test_close_answers.c - protocols whose right answer is the end of the stream: PostgreSQL's CancelRequest without
 * being told, others with `success = close`.
 */
/* links: core */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static const char policy[] = "[defaults]\n"
                             "failure_threshold = 1000\n"
                             "failure_rate = 0%\n"
                             "[usual]\n"
                             "match = 127.0.0.1:* unix:*\n"
                             "[hangs-up]\n"
                             "match = 127.0.0.2:*\n"
                             "success = close\n";

/* What a peer does that has accepted, and perhaps read. */
enum peer_ends { CLOSES, RESETS };

/* Sends, and waits for the end, which it reads (or leaves to the close, if `unread`). */
static void say(struct server *server, const void *bytes, size_t count, enum peer_ends end, bool unread,
                const char *words)
{
    char byte;
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        int fd = caller_connect(server, flags), peer = server_accept(server);
        poll_for(fd, POLLOUT);
        if (count > 0) {
            char taken[512];
            assert_int_equal(send(fd, bytes, count, 0), count);
            assert_int_equal(bare.recv(peer, taken, sizeof taken, 0), count);
        }
        if (end == RESETS)
            server_reset(peer);
        else
            bare.close(peer);
        poll_for(fd, POLLRDHUP);
        if (!unread)
            assert_true(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
        expect(server, words);
    }
}

static const unsigned char cancel[] = {0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0x30, 0x39, 1, 2, 3, 4};

static void cancel_request_is_answered_by_the_end_of_the_stream(void **state)
{
    static const char *const places[] = {"127.0.0.1", "unix"};
    unsigned char longer[64] = {0, 0, 0, 44, 0x04, 0xd2, 0x16, 0x2e}; /* the key of protocol 3.2 */
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        at_hand = places[i];
        server_start(&server, places[i], SERVER_LISTENS);
        say(&server, cancel, sizeof cancel, CLOSES, false, "1 succeeded");
        say(&server, cancel, sizeof cancel, CLOSES, true, "1 succeeded");
        say(&server, longer, 44, CLOSES, false, "1 succeeded");
        server_stop(&server);
    }
}

static void what_is_like_a_cancel_request_is_an_early_close(void **state)
{
    static const struct {
        size_t at;
        unsigned char byte;
    } spoilt[] = {{3, 15}, {2, 1}, {0, 1}, {7, 0x2f} /* SSLRequest */, {5, 0}};
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        unsigned char bytes[sizeof cancel];
        memcpy(bytes, cancel, sizeof bytes);
        bytes[spoilt[i].at] = spoilt[i].byte;
        say(&server, bytes, sizeof bytes, CLOSES, false, "1 failed:early-close");
    }
    say(&server, cancel, 8, CLOSES, false, "1 failed:early-close");
    say(&server, "quit\r\n", 6, CLOSES, false, "1 failed:early-close");
    server_stop(&server);
}

static void reset_is_no_answer_to_a_cancel_request(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    say(&server, cancel, sizeof cancel, RESETS, false, "1 failed:reset");
    server_stop(&server);
}

static void where_hanging_up_is_the_answer_it_is_one_to_what_was_sent(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    say(&server, "quit\r\n", 6, CLOSES, false, "1 succeeded");
    say(&server, "quit\r\n", 6, CLOSES, true, "1 succeeded");
    say(&server, "quit\r\n", 6, RESETS, false, "1 failed:reset");
    say(&server, "", 0, CLOSES, false, "1 failed:early-close");
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_request_is_answered_by_the_end_of_the_stream),
        cmocka_unit_test(what_is_like_a_cancel_request_is_an_early_close),
        cmocka_unit_test(reset_is_no_answer_to_a_cancel_request),
        cmocka_unit_test(where_hanging_up_is_the_answer_it_is_one_to_what_was_sent),
    };
    stage_enter(argc, argv, policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
