/*
 * test_sharers.c - sockets with several numbers before they are connected, beside many others of that kind.
 */
/* links: core */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

#define OTHERS 300

struct play {
    struct server *server;
    int others; /* sockets with two numbers each, which nobody connects */
};

/* One socket with two numbers is connected, loses one, fails, and is closed. */
static void share_and_connect(void *context)
{
    const struct play *play = context;
    for (int i = 0; i < play->others; i++)
        CHECK(dup(caller_socket(play->server, 0)) >= 0);
    int fd = caller_socket(play->server, 0), copy = dup(fd);
    CHECK(copy >= 0);
    syscall(MARK);
    CHECK(connect(fd, AT(play->server)) == 0);
    CHECK(close(fd) == 0);
    int third = dup(copy);
    CHECK(close(copy) == 0 && close(third) == 0);
    syscall(MARK);
}

static void no_call_asks_for_the_numbers_of_other_sockets(void **state)
{
    struct server server;
    struct rlimit limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct play alone = {&server, 1}, among = {&server, OTHERS};
    int few = system_calls_of(share_and_connect, &alone, NULL, 0);
    int many = system_calls_of(share_and_connect, &among, NULL, 0);
    assert_in_range(few, 6, 60);
    assert_in_range(many, 1, few + 4); /* memory for tables, perhaps */
    server_stop(&server);
}

/* All orders in which four numbers of one socket may go; only with the last one its call ends. */
static void whichever_number_goes_the_last_one_ends_the_call(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (unsigned int order = 0; order < 24; order++) {
        int fds[4] = {caller_socket(&server, 0)};
        fds[1] = dup(fds[0]);
        fds[2] = dup(fds[order % 2]);
        assert_int_equal(connect(fds[order % 3], AT(&server)), 0);
        fds[3] = dup(fds[order % 3]);
        int peer = server_accept(&server);
        for (unsigned int left = 4, rest = order; left > 1; left--) {
            unsigned int one = rest % left;
            rest /= left;
            assert_int_equal(close(fds[one]), 0);
            memmove(fds + one, fds + one + 1, (3 - one) * sizeof *fds);
            expect(&server, "1 in-flight");
        }
        assert_int_equal(close(fds[0]), 0);
        expect(&server, "1 neutral:cancelled");
        bare.close(peer);
    }
    server_stop(&server);
}

/* The first attempt is refused; by the other number the socket is connected to something that answers. */
static void after_a_failure_all_numbers_are_the_next_attempts(void **state)
{
    struct server dead, server;
    (void)state;
    server_start(&dead, "127.0.0.1", SERVER_REFUSES);
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_socket(&server, 0), copy = dup(fd);
    assert_int_equal(connect(fd, AT(&dead)), -1);
    expect(&dead, "1 failed:refused");
    assert_int_equal(connect(copy, AT(&server)), 0);
    int peer = server_accept(&server);
    expect(&server, "1 in-flight");
    close(copy);
    expect(&server, "1 in-flight");
    close(fd);
    expect(&server, "1 neutral:cancelled");
    bare.close(peer);
    server_stop(&dead);
    server_stop(&server);
}

/* More numbers than are listed: the call still ends with the last one, and not before. */
static void a_socket_of_many_numbers_ends_with_the_last(void **state)
{
    enum { NUMBERS = 40 };
    struct server server;
    int fds[NUMBERS];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (unsigned int round = 0; round < 4; round++) {
        fds[0] = caller_socket(&server, 0);
        assert_int_equal(round % 2 ? connect(fds[0], AT(&server)) : 0, 0);
        for (int i = 1; i < NUMBERS; i++)
            fds[i] = dup(fds[i - 1]);
        if (round % 2 == 0) { /* those beyond the list are not known to be the connection's */
            for (int i = 8; i < NUMBERS; i++)
                close(fds[i]);
            assert_int_equal(connect(fds[0], AT(&server)), 0);
        }
        int peer = server_accept(&server), last = round % 2 ? NUMBERS : 8;
        for (int i = 0; i < last - 1; i++)
            assert_int_equal(close(fds[round < 2 ? i : last - 1 - i]), 0);
        expect(&server, "1 in-flight");
        assert_int_equal(close(fds[round < 2 ? last - 1 : 0]), 0);
        expect(&server, "1 neutral:cancelled");
        bare.close(peer);
    }
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_asks_for_the_numbers_of_other_sockets),
        cmocka_unit_test(whichever_number_goes_the_last_one_ends_the_call),
        cmocka_unit_test(after_a_failure_all_numbers_are_the_next_attempts),
        cmocka_unit_test(a_socket_of_many_numbers_ends_with_the_last),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
