/*
 * test_descriptors.c - one connection under several numbers, high numbers, and closes that the library never saw.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

#define ALIAS 150

/* Other names that libc exports for the same functions. */
extern int __dup2(int fd, int to);
extern int __fcntl(int fd, int command, ...);

static int by_dup(int fd)
{
    return dup(fd);
}
static int by_dup2(int fd)
{
    return dup2(fd, ALIAS);
}
static int by_dup3(int fd)
{
    return dup3(fd, ALIAS, O_CLOEXEC);
}
static int by_fcntl(int fd)
{
    return fcntl(fd, F_DUPFD, ALIAS);
}
static int by_fcntl_cloexec(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, ALIAS);
}
static int by_fcntl64(int fd)
{
    return fcntl64(fd, F_DUPFD, ALIAS);
}
static int by_fcntl64_cloexec(int fd)
{
    return fcntl64(fd, F_DUPFD_CLOEXEC, ALIAS);
}
static int by_dup2_alias(int fd)
{
    return __dup2(fd, ALIAS);
}
static int by_fcntl_alias(int fd)
{
    return __fcntl(fd, F_DUPFD, ALIAS);
}
static int by_number_dup(int fd)
{
    return (int)syscall(SYS_dup, fd);
}
#ifdef SYS_dup2
static int by_number_dup2(int fd)
{
    return (int)syscall(SYS_dup2, fd, ALIAS);
}
#endif
static int by_number_dup3(int fd)
{
    return (int)syscall(SYS_dup3, fd, ALIAS, 0);
}
static int by_number_fcntl(int fd)
{
    return (int)syscall(SYS_fcntl, fd, F_DUPFD, ALIAS);
}
static int by_number_fcntl_cloexec(int fd)
{
    return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, ALIAS);
}

static const struct way {
    const char *name;
    int (*duplicate)(int fd);
} ways[] = {
    {"dup", by_dup},
    {"dup2", by_dup2},
    {"dup3", by_dup3},
    {"fcntl(F_DUPFD)", by_fcntl},
    {"fcntl(F_DUPFD_CLOEXEC)", by_fcntl_cloexec},
    {"fcntl64(F_DUPFD)", by_fcntl64},
    {"fcntl64(F_DUPFD_CLOEXEC)", by_fcntl64_cloexec},
    {"__dup2", by_dup2_alias},
    {"__fcntl(F_DUPFD)", by_fcntl_alias},
    {"syscall(SYS_dup)", by_number_dup},
#ifdef SYS_dup2
    {"syscall(SYS_dup2)", by_number_dup2},
#endif
    {"syscall(SYS_dup3)", by_number_dup3},
    {"syscall(SYS_fcntl F_DUPFD)", by_number_fcntl},
    {"syscall(SYS_fcntl F_DUPFD_CLOEXEC)", by_number_fcntl_cloexec},
};
#define WAYS (sizeof ways / sizeof *ways)

static int duplicate(size_t way, int fd)
{
    at_hand = ways[way].name;
    int to = ways[way].duplicate(fd);
    assert_true(to >= 0 && to != fd);
    return to;
}

static void answer(int peer)
{
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
}

static void close_of_one_alias_is_not_the_end(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < WAYS; i++) {
        for (int keep_original = 0; keep_original < 2; keep_original++) {
            int fd = caller_connect(&server, 0), peer = server_accept(&server);
            int alias = duplicate(i, fd);
            int kept = keep_original ? fd : alias;
            assert_int_equal(send(keep_original ? alias : fd, "request", 7, 0), 7);
            assert_int_equal(call_phase(&server), PHASE_REQUESTED);
            close(keep_original ? alias : fd);
            expect(&server, "1 in-flight");
            answer(peer);
            assert_int_equal(recv(kept, &byte, 1, 0), 1);
            expect(&server, "1 succeeded");
            close(kept);
            bare.close(peer);
            expect(&server, "nothing");
        }
    }
    server_stop(&server);
}

static void close_of_the_last_alias_is_the_end(void **state)
{
    struct server server;
    int fds[WAYS], peers[WAYS];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < WAYS; i++) {
        fds[i] = caller_connect(&server, 0);
        peers[i] = server_accept(&server);
        assert_int_equal(send(fds[i], "request", 7, 0), 7);
    }
    wait_long();
    for (size_t i = 0; i < WAYS; i++) {
        char words[80];
        int alias = duplicate(i, fds[i]);
        snprintf(words, sizeof words, "%zu in-flight", WAYS - i);
        close(fds[i]);
        expect(&server, words);
        close(alias);
        snprintf(words, sizeof words,
                 i + 1 < WAYS ? "1 failed:response-timeout, %zu in-flight" : "1 failed:response-timeout", WAYS - i - 1);
        expect(&server, words);
        bare.close(peers[i]);
    }
    server_stop(&server);
}

static void alias_written_over_by_another_connection_leaves_both_right(void **state)
{
    struct server one, two;
    char byte;
    (void)state;
    server_start(&one, "127.0.0.1", SERVER_LISTENS);
    server_start(&two, "127.0.0.1", SERVER_LISTENS);
    int first = caller_connect(&one, 0), first_peer = server_accept(&one);
    int second = caller_connect(&two, 0), second_peer = server_accept(&two);
    int alias = dup(first);
    assert_int_equal(dup2(second, alias), alias); /* first has lost an alias, second has won one */
    assert_int_equal(dup2(alias, alias), alias);
    close(second);
    expect(&one, "1 in-flight");
    expect(&two, "1 in-flight");
    answer(second_peer);
    assert_int_equal(recv(alias, &byte, 1, 0), 1);
    expect(&two, "1 succeeded");
    answer(first_peer);
    assert_int_equal(recv(first, &byte, 1, 0), 1);
    expect(&one, "1 succeeded");
    close(first);
    close(alias);
    assert_int_equal(close(alias), -1);
    assert_int_equal(errno, EBADF);
    expect(&one, "nothing");
    expect(&two, "nothing");
    bare.close(first_peer);
    bare.close(second_peer);
    server_stop(&one);
    server_stop(&two);
}

static void ranges_close_many_and_keep_the_rest(void **state)
{
    struct server server;
    char byte;
    int fds[4], peers[4];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (int i = 0; i < 4; i++) {
        int fd = caller_connect(&server, 0);
        peers[i] = server_accept(&server);
        fds[i] = ALIAS + i;
        assert_int_equal(dup2(fd, fds[i]), fds[i]);
        close(fd);
    }
    int spare = dup2(fds[1], ALIAS + 10);
    assert_int_equal(close_range(ALIAS + 1, ALIAS + 2, 0), 0);
    expect(&server, "1 neutral:cancelled, 3 in-flight"); /* number 1 lives on under its alias */
    answer(peers[1]);
    assert_int_equal(recv(spare, &byte, 1, 0), 1);
    answer(peers[3]);
    assert_int_equal(recv(fds[3], &byte, 1, 0), 1);
    expect(&server, "2 succeeded, 1 in-flight");
    closefrom(ALIAS);
    expect(&server, "1 neutral:cancelled");
    for (int i = 0; i < 4; i++)
        bare.close(peers[i]);
    server_stop(&server);
}

/* --- high numbers --- */

static void guard_at(int number)
{
    struct server server;
    char byte;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int low = caller_socket(&server, 0);
    int fd = fcntl(low, F_DUPFD_CLOEXEC, number);
    assert_true(fd >= number);
    close(low);
    assert_int_equal(connect(fd, AT(&server)), 0);
    int peer = server_accept(&server);
    expect(&server, "1 in-flight");
    answer(peer);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    assert_int_equal(close(fd), 0);
    bare.close(peer);

    /* Made low, and moved up. */
    low = caller_connect(&server, 0);
    peer = server_accept(&server);
    assert_int_equal(dup2(low, number), number);
    close(low);
    assert_int_equal(send(number, "request", 7, 0), 7);
    bare.close(peer);
    poll_for(number, 1 /* POLLIN */);
    assert_int_equal(close_range((unsigned int)number, ~0u, 0), 0);
    bool reset = counted(&server, COUNT_FAILURE_KIND + FAILURE_RESET) >
                 0; /* the request was not read: a reset, or an end first */
    expect(&server, reset ? "1 failed:reset" : "1 failed:early-close");
    server_stop(&server);
}

static void high_numbers_are_guarded_as_low_ones(void **state)
{
    static const int numbers[] = {1023, 1024, 1025, 16383, 19000, 65535, 65536, 66000, 1000000};
    struct rlimit limit, high = {.rlim_cur = 1048576, .rlim_max = 1048576};
    (void)state;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (setrlimit(RLIMIT_NOFILE, &high) != 0) {
        high.rlim_cur = high.rlim_max = limit.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &high), 0);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if ((rlim_t)numbers[i] + 4 < high.rlim_cur)
            guard_at(numbers[i]);
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* --- closes that were not seen --- */

/* A connection with a request that has waited too long, closed past the library; its number is free. */
static int lose(struct server *server)
{
    int fd = caller_connect(server, 0);
    CHECK(send(fd, "request", 7, 0) == 7);
    CHECK(bare.close(fd) == 0);
    bare.close(server_accept(server));
    return fd;
}

static void number_used_again_by_socket_charges_nothing(void **state)
{
    struct server server, other;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&other, "127.0.0.1", SERVER_LISTENS);
    int fd = lose(&server);
    wait_long();
    assert_int_equal(caller_connect(&other, 0), fd);
    expect(&server, "1 neutral:unknown");
    int peer = server_accept(&other);
    answer(peer);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&other, "1 succeeded");
    close(fd);
    expect(&server, "nothing");
    bare.close(peer);
    server_stop(&server);
    server_stop(&other);
}

static void number_used_again_unseen_charges_nothing(void **state)
{
    struct server server, other;
    int peer, error = -1;
    char byte;
    socklen_t length = sizeof error;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&other, "127.0.0.9", SERVER_LISTENS);
    static const char *const ends[] = {"end of stream", "reset",    "SO_ERROR",    "send",
                                       "close",         "shutdown", "dup2 over it"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        at_hand = ends[i];
        int fd = lose(&server);
        wait_long();
        /* Another socket stands there now, of which the library has not heard. */
        assert_int_equal(bare.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd);
        assert_int_equal(bare.connect(fd, AT(&other)), 0);
        peer = server_accept(&other);
        if (i == 0) {
            bare.close(peer);
            assert_int_equal(recv(fd, &byte, 1, 0), 0);
        } else if (i < 4) {
            server_reset(peer);
            poll_for(fd, 1);
            if (i == 1)
                assert_int_equal(read(fd, &byte, 1), -1);
            else if (i == 2)
                assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
            else
                assert_int_equal(send(fd, "request", 7, MSG_NOSIGNAL), -1);
        } else if (i == 5) {
            shutdown(fd, SHUT_RDWR);
        } else if (i == 6) {
            assert_int_equal(dup2(STDIN_FILENO, fd), fd);
        }
        close(fd);
        expect(&server, "1 neutral:unknown");
        if (i > 3)
            bare.close(peer);
    }
    server_stop(&server);
    server_stop(&other);
}

static void number_used_again_unseen_is_not_refused_when_the_circuit_opens(void **state)
{
    struct server server, other;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.4", SERVER_LISTENS);
    server_start(&other, "127.0.0.9", SERVER_LISTENS);
    /* A kept connection, whose close is missed. */
    int fd = caller_connect(&server, 0);
    int peer = server_accept(&server);
    CHECK(send(fd, "request", 7, 0) == 7);
    answer(peer);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    CHECK(bare.close(fd) == 0);
    bare.close(peer);
    /* Another socket stands there now; then the circuit opens. */
    assert_int_equal(bare.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd);
    assert_int_equal(bare.connect(fd, AT(&other)), 0);
    peer = server_accept(&other);
    int failing = caller_connect(&server, 0);
    CHECK(send(failing, "request", 7, 0) == 7);
    server_reset(server_accept(&server));
    assert_int_equal(recv(failing, &byte, 1, 0), -1);
    close(failing);

    assert_int_equal(send(fd, "r", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(bare.recv(peer, &byte, 1, 0), 1);
    answer(peer);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    close(fd);
    bare.close(peer);
    server_stop(&server);
    server_stop(&other);
}

static void number_used_again_by_a_file_charges_nothing(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = lose(&server);
    wait_long();
    assert_int_equal(open("/dev/null", O_RDWR | O_CLOEXEC), fd);
    assert_int_equal(write(fd, "text", 4), 4);
    assert_int_equal(read(fd, &(char){0}, 1), 0);
    close(fd);
    expect(&server, "1 neutral:unknown");

    fd = lose(&server);
    wait_long();
    assert_int_equal(close(fd), -1);
    assert_int_equal(errno, EBADF);
    expect(&server, "1 neutral:unknown");
    server_stop(&server);
}

static void sockets_that_the_library_has_not_seen_made_are_guarded(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = bare.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, AT(&server)), 0);
    int peer = server_accept(&server);
    answer(peer);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    /* A descriptor that is no socket at all. */
    assert_int_equal(connect(STDIN_FILENO, AT(&server)), -1);
    assert_int_equal(errno, ENOTSOCK);
    expect(&server, "nothing");
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_of_one_alias_is_not_the_end),
        cmocka_unit_test(close_of_the_last_alias_is_the_end),
        cmocka_unit_test(alias_written_over_by_another_connection_leaves_both_right),
        cmocka_unit_test(ranges_close_many_and_keep_the_rest),
        cmocka_unit_test(high_numbers_are_guarded_as_low_ones),
        cmocka_unit_test(number_used_again_by_socket_charges_nothing),
        cmocka_unit_test(number_used_again_unseen_charges_nothing),
        cmocka_unit_test(number_used_again_unseen_is_not_refused_when_the_circuit_opens),
        cmocka_unit_test(number_used_again_by_a_file_charges_nothing),
        cmocka_unit_test(sockets_that_the_library_has_not_seen_made_are_guarded),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
