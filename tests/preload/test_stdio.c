/*
 * test_stdio.c - stdio over a socket: its writes, reads and the inner close pass the library by, so TCP_INFO must tell.
 */
/* links: core */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

struct stream {
    FILE *file;
    int peer;
};

static struct stream stream_open(struct server *server, bool asks)
{
    struct stream stream = {.file = fdopen(caller_connect(server, 0), "r+")};
    CHECK(stream.file != NULL);
    stream.peer = server_accept(server);
    if (asks) {
        CHECK(fprintf(stream.file, "request\n") == 8 && fflush(stream.file) == 0);
        CHECK(bare.recv(stream.peer, (char[16]){0}, 16, 0) == 8);
    }
    return stream;
}

static void answer(int peer)
{
    assert_int_equal(bare.send(peer, "answer\n", 7, 0), 7);
}

static void answered_stream_is_success(void **state)
{
    struct server server;
    char line[16];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int asks = 0; asks < 2; asks++) {
        struct stream stream = stream_open(&server, asks);
        answer(stream.peer);
        assert_non_null(fgets(line, sizeof line, stream.file));
        assert_string_equal(line, "answer\n");
        wait_long();
        assert_int_equal(fclose(stream.file), 0);
        expect(&server, "1 succeeded");
        bare.close(stream.peer);
    }
    server_stop(&server);
}

static void stream_without_an_answer_is_a_response_timeout(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct stream stream = stream_open(&server, true);
    wait_long();
    expect(&server, "1 in-flight");
    assert_int_equal(fclose(stream.file), 0);
    expect(&server, "1 failed:response-timeout");
    bare.close(stream.peer);
    server_stop(&server);
}

static void stream_closed_soon_is_a_cancellation(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    struct stream stream = stream_open(&server, true);
    assert_int_equal(fclose(stream.file), 0);
    expect(&server, "1 neutral:cancelled");
    bare.close(stream.peer);
    server_stop(&server);
}

static void ended_stream_is_an_early_close(void **state)
{
    struct server server;
    char line[16];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    struct stream stream = stream_open(&server, true);
    bare.close(stream.peer);
    assert_null(fgets(line, sizeof line, stream.file));
    assert_true(feof(stream.file));
    assert_int_equal(fclose(stream.file), 0);
    expect(&server, "1 failed:early-close");
    server_stop(&server);
}

static void reset_stream_is_a_reset_whoever_has_read_the_error(void **state)
{
    struct server server;
    char line[16];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    /* Nobody has read the error: the close finds it. */
    struct stream stream = stream_open(&server, true);
    server_reset(stream.peer);
    poll_for(fileno(stream.file), POLLIN);
    assert_int_equal(fclose(stream.file), 0);
    expect(&server, "1 failed:reset");
    /* stdio has read it, unseen: but nobody here has shut the socket, and it is dead. */
    stream = stream_open(&server, true);
    server_reset(stream.peer);
    assert_null(fgets(line, sizeof line, stream.file));
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(fclose(stream.file), 0);
    expect(&server, "1 failed:reset");
    server_stop(&server);
}

static void stream_that_both_sides_have_shut_is_an_early_close(void **state)
{
    struct server server;
    char line[16];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    struct stream stream = stream_open(&server, true);
    assert_int_equal(shutdown(fileno(stream.file), SHUT_WR), 0);
    assert_int_equal(bare.recv(stream.peer, line, sizeof line, 0), 0);
    bare.close(stream.peer);
    assert_null(fgets(line, sizeof line, stream.file));
    assert_int_equal(fclose(stream.file), 0);
    expect(&server, "1 failed:early-close");
    server_stop(&server);
}

static void written_and_closed_before_the_flush_is_judged_after_it(void **state)
{
    struct server server;
    char line[16];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    FILE *file = fdopen(caller_connect(&server, 0), "w");
    int peer = server_accept(&server);
    assert_int_equal(fprintf(file, "request\n"), 8);
    assert_int_equal(fclose(file), 0); /* which sends it */
    assert_int_equal(bare.recv(peer, line, sizeof line, 0), 8);
    expect(&server, "1 neutral:cancelled");
    bare.close(peer);
    server_stop(&server);
}

static void two_streams_on_one_connection_end_with_the_second(void **state)
{
    struct server server;
    char line[16];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    assert_int_equal(fputs("request\n", out) >= 0 && fflush(out) == 0, 1);
    wait_long();
    assert_int_equal(fclose(out), 0);
    expect(&server, "1 in-flight");
    answer(peer);
    assert_non_null(fgets(line, sizeof line, in));
    assert_int_equal(fclose(in), 0);
    expect(&server, "1 succeeded");
    bare.close(peer);
    server_stop(&server);
}

static void dup2_over_a_stream_is_its_end(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct stream stream = stream_open(&server, true); /* bash: printf >&3, then exec 3>&- */
    answer(stream.peer);
    char line[16];
    assert_non_null(fgets(line, sizeof line, stream.file));
    wait_long();
    assert_int_equal(dup2(STDIN_FILENO, fileno(stream.file)), fileno(stream.file));
    expect(&server, "1 succeeded");
    fclose(stream.file);
    bare.close(stream.peer);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answered_stream_is_success),
        cmocka_unit_test(stream_without_an_answer_is_a_response_timeout),
        cmocka_unit_test(stream_closed_soon_is_a_cancellation),
        cmocka_unit_test(ended_stream_is_an_early_close),
        cmocka_unit_test(reset_stream_is_a_reset_whoever_has_read_the_error),
        cmocka_unit_test(stream_that_both_sides_have_shut_is_an_early_close),
        cmocka_unit_test(written_and_closed_before_the_flush_is_judged_after_it),
        cmocka_unit_test(two_streams_on_one_connection_end_with_the_second),
        cmocka_unit_test(dup2_over_a_stream_is_its_end),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
