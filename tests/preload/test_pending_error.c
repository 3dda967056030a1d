/*
 * test_pending_error.c - a socket's error is the program's to read. The library reads it where the last descriptor is
 * about to be closed and nobody can read it any more, and nowhere else: whoever reads it takes it away, and the next
 * write says EPIPE with its SIGPIPE instead of ECONNRESET.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "support_passing.h"

static struct server server;

static int pending_error(int fd)
{
    int error = -1;
    socklen_t length = sizeof error;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

/* Reset by its peer, which nobody has noticed. */
static int reset_connection(struct server *called)
{
    int fd = caller_connect(called, 0);
    server_reset(server_accept(called));
    poll_for(fd, POLLIN);
    return fd;
}

/* --- stdio writes at fclose, and at exit --- */

static void fclose_that_flushes_finds_the_reset(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    FILE *file = fdopen(reset_connection(&server), "w");
    assert_int_equal(fprintf(file, "more"), 4);
    assert_int_equal(fclose(file), EOF);
    assert_int_equal(errno, ECONNRESET);
    expect(&server, "1 failed:reset");
    server_stop(&server);
}

static void fclose_with_nothing_to_write_reads_the_error_itself(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    assert_int_equal(fclose(fdopen(reset_connection(&server), "w")), 0);
    expect(&server, "1 failed:reset");
    server_stop(&server);
}

/* With status 0 and 3: the exit's own way of judging is another one. */
static int leave_words_to_exit(int argc, char **argv)
{
    struct server called;
    CHECK(argc == 2);
    signal(SIGPIPE, SIG_DFL);
    server_at_port(&called, argv[0]);
    FILE *file = fdopen(caller_connect(&called, 0), "w");
    CHECK(fprintf(file, "words") == 5 && fflush(file) == 0);
    poll_for(fileno(file), POLLIN); /* it is reset */
    CHECK(fprintf(file, "more") == 4);
    return atoi(argv[1]);
}

static void exit_that_flushes_a_reset_stream_dies_of_no_signal(void **state)
{
    static const char *const statuses[] = {"0", "3"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        server_start(&server, "127.0.0.1", SERVER_LISTENS);
        pid_t pid = scene_start("exit", &(struct scene_options){.arguments = {server_port(&server), statuses[i]}});
        int peer = server_accept(&server);
        poll_for(peer, POLLIN);
        server_reset(peer);
        assert_int_equal(actor_wait(pid), atoi(statuses[i]) << 8);
        expect(&server, "1 failed:reset");
        server_stop(&server);
    }
}

/* Nobody has asked it how its attempt stands. */
static int leave_an_attempt_to_exit(int argc, char **argv)
{
    struct server called;
    CHECK(argc == 2);
    server_at_port(&called, argv[0]);
    poll_for(caller_connect(&called, SOCK_NONBLOCK), POLLOUT);
    return atoi(argv[1]);
}

static void exit_tells_of_a_refused_attempt(void **state)
{
    static const char *const statuses[] = {"0", "3"};
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (int i = 0; i < 2; i++) {
        int status = scene_run("attempt", &(struct scene_options){.arguments = {server_port(&server), statuses[i]}});
        assert_int_equal(status, atoi(statuses[i]) << 8);
        expect(&server, "1 failed:refused");
    }
    server_stop(&server);
}

/* All is sent, and the answer awaited. */
static int leave_a_request_to_exit(int argc, char **argv)
{
    struct server called;
    CHECK(argc == 2);
    server_at_port(&called, argv[0]);
    int fd = caller_connect(&called, 0);
    CHECK(send(fd, "words", 5, 0) == 5 && shutdown(fd, SHUT_WR) == 0);
    poll_for(fd, POLLIN); /* it is reset */
    return atoi(argv[1]);
}

static void exit_tells_of_a_reset_after_the_last_word(void **state)
{
    static const char *const statuses[] = {"0", "3"};
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int i = 0; i < 2; i++) {
        pid_t pid = scene_start("request", &(struct scene_options){.arguments = {server_port(&server), statuses[i]}});
        int peer = server_accept(&server);
        poll_for(peer, POLLRDHUP);
        server_reset(peer);
        assert_int_equal(actor_wait(pid), atoi(statuses[i]) << 8);
        expect(&server, "1 failed:reset");
    }
    server_stop(&server);
}

/* --- a socket with several numbers --- */

static void refused_attempt_ends_with_its_last_number(int fd, int other)
{
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EINPROGRESS);
    poll_for(fd, POLLOUT);
    close(fd);
    expect(&server, "1 in-flight");
    assert_int_equal(pending_error(other), ECONNREFUSED);
    expect(&server, "1 failed:refused");
    close(other);
}

static void number_from_before_the_connect_still_has_the_error(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (int i = 0; i < 2; i++) {
        int fd = caller_socket(&server, SOCK_NONBLOCK), other = dup(fd);
        refused_attempt_ends_with_its_last_number(i ? fd : other, i ? other : fd);
    }
    server_stop(&server);
}

static void closed_number_from_before_the_connect_is_the_last_ones_end(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    int fd = caller_socket(&server, SOCK_NONBLOCK), other = fcntl(fd, F_DUPFD, 100);
    assert_int_equal(connect(fd, AT(&server)), -1);
    poll_for(fd, POLLOUT);
    close(fd);
    expect(&server, "1 in-flight");
    close(other);
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

static void further_attempt_is_that_of_all_numbers(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    int fd = caller_socket(&server, SOCK_NONBLOCK);
    assert_int_equal(connect(fd, AT(&server)), -1);
    poll_for(fd, POLLOUT);
    int other = dup(fd);
    assert_int_equal(pending_error(fd), ECONNREFUSED);
    expect(&server, "1 failed:refused");
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNABORTED); /* the kernel's answer to a connect after a failed one */
    expect(&server, "1 neutral:local");
    refused_attempt_ends_with_its_last_number(fd, other);
    server_stop(&server);
}

static void dissolved_association_keeps_the_error(void **state)
{
    struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (int numbers = 1; numbers <= 2; numbers++) {
        int fd = caller_socket(&server, SOCK_NONBLOCK), other = numbers == 2 ? dup(fd) : fd;
        assert_int_equal(connect(fd, AT(&server)), -1);
        poll_for(fd, POLLOUT);
        assert_int_equal(connect(fd, &unspecified, sizeof unspecified), 0);
        if (other != fd)
            close(fd);
        assert_int_equal(pending_error(other), ECONNREFUSED);
        close(other);
        expect(&server, "1 neutral:unknown"); /* which error it was, nobody may ask */
    }
    server_stop(&server);
}

/* A thread that closes a number while another one connects its socket by another number. */
static struct {
    void (**after_cookie)(int fd);
    int number;
    struct server *live; /* that the number is connected to after its close; NULL: it is not */
} meanwhile;

static void close_meanwhile(int fd)
{
    if (fd != meanwhile.number)
        return;
    *meanwhile.after_cookie = NULL;
    CHECK(close(fd) == 0);
    if (meanwhile.live)
        CHECK(caller_connect(meanwhile.live, 0) == fd);
}

static int close_a_number_meanwhile(int argc, char **argv)
{
    struct server refusing, live;
    CHECK(argc == 2);
    server_at_port(&refusing, argv[0]);
    server_at_port(&live, argv[1]);
    *(void **)&meanwhile.after_cookie = dlsym(RTLD_DEFAULT, "after_cookie");
    CHECK(meanwhile.after_cookie != NULL);
    for (int i = 0; i < 2; i++) {
        meanwhile.live = i ? &live : NULL;
        int spare = dup(0), fd = caller_socket(&refusing, SOCK_NONBLOCK);
        CHECK(dup2(fd, spare) == spare); /* the lowest number that is free after its close */
        meanwhile.number = spare;
        *meanwhile.after_cookie = close_meanwhile;
        CHECK(connect(fd, AT(&refusing)) == -1 && errno == EINPROGRESS);
        CHECK(*meanwhile.after_cookie == NULL);
        poll_for(fd, POLLOUT);
        CHECK(close(fd) == 0);
    }
    CHECK(recv(meanwhile.number, (char[8]){0}, 8, 0) == 6);
    return 0;
}

static void number_closed_during_the_connect_is_not_taken_for_the_sockets(void **state)
{
    char preload[2 * PATH_MAX];
    struct server live;
    (void)state;
    snprintf(preload, sizeof preload, "%s %s", stage_library(), stage_compile("cookie", NULL, "-ldl"));
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    server_start(&live, "127.0.0.1", SERVER_LISTENS);
    pid_t pid =
        scene_start("meanwhile", &(struct scene_options){.preload = preload,
                                                         .arguments = {server_port(&server), server_port(&live)}});
    int peer = server_accept(&live);
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    assert_true(exited_well(actor_wait(pid)));
    bare.close(peer);
    expect(&server, "2 failed:refused");
    expect(&live, "1 succeeded");
    server_stop(&live);
    server_stop(&server);
}

/* --- a socket of another process --- */

static void attempt_and_close(void *context)
{
    int fd = *(int *)context;
    CHECK(connect(fd, AT(&server)) == -1 && errno == EINPROGRESS);
    poll_for(fd, POLLOUT);
    close(fd);
}

static void child_that_connects_leaves_its_parent_the_error(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    int fd = caller_socket(&server, SOCK_NONBLOCK);
    assert_true(exited_well(actor_wait(actor_fork(attempt_and_close, &fd))));
    assert_int_equal(pending_error(fd), ECONNREFUSED);
    close(fd);
    server_stop(&server);
}

static int heard[2]; /* a pair by which the child hears that its parent has closed the socket */

static void find_the_error(void *context)
{
    int fd = *(int *)context, error = 0;
    socklen_t length = sizeof error;
    char byte;
    CHECK(bare.recv(heard[0], &byte, 1, 0) == 1);
    CHECK(bare.getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNREFUSED);
}

/* Also when it is not the first attempt on that socket. */
static void parent_that_connects_leaves_its_child_the_error(void **state)
{
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, heard), 0);
    for (int attempts = 1; attempts <= 2; attempts++) {
        int fd = caller_socket(&server, SOCK_NONBLOCK);
        pid_t child = actor_fork(find_the_error, &fd);
        if (attempts == 2) {
            assert_int_equal(connect(fd, AT(&server)), -1);
            poll_for(fd, POLLOUT);
            assert_int_equal(pending_error(fd), ECONNREFUSED);
            assert_int_equal(connect(fd, AT(&server)), -1);
            assert_int_equal(errno, ECONNABORTED);
        }
        attempt_and_close(&fd);
        assert_int_equal(bare.send(heard[1], "x", 1, 0), 1);
        assert_true(exited_well(actor_wait(child)));
    }
    close(heard[0]);
    close(heard[1]);
    server_stop(&server);
}

static void process_that_was_passed_the_socket_finds_the_error(void **state)
{
    struct passing_message passing;
    int ends[2], passed;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = reset_connection(&server);
    passing_begin(&passing, fd);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(sendmsg(ends[0], &passing.message, 0), 1);
    close(fd);
    assert_int_equal(recvmsg(ends[1], &passing.message, 0), 1);
    memcpy(&passed, CMSG_DATA(&passing.control.aligned), sizeof passed);
    assert_int_equal(pending_error(passed), ECONNRESET);
    close(passed);
    close(ends[0]);
    close(ends[1]);
    server_stop(&server);
}

static void unspec_on_a_unix_socket_is_einval_and_changes_nothing(void **state)
{
    struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    assert_int_equal(connect(fd, &unspecified, sizeof unspecified), -1);
    assert_int_equal(errno, EINVAL);
    expect(&server, "1 in-flight");
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    assert_int_equal(recv(fd, (char[8]){0}, 8, 0), 6);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(fclose_that_flushes_finds_the_reset),
        cmocka_unit_test(fclose_with_nothing_to_write_reads_the_error_itself),
        cmocka_unit_test(exit_that_flushes_a_reset_stream_dies_of_no_signal),
        cmocka_unit_test(exit_tells_of_a_refused_attempt),
        cmocka_unit_test(exit_tells_of_a_reset_after_the_last_word),
        cmocka_unit_test(number_from_before_the_connect_still_has_the_error),
        cmocka_unit_test(closed_number_from_before_the_connect_is_the_last_ones_end),
        cmocka_unit_test(further_attempt_is_that_of_all_numbers),
        cmocka_unit_test(dissolved_association_keeps_the_error),
        cmocka_unit_test(number_closed_during_the_connect_is_not_taken_for_the_sockets),
        cmocka_unit_test(child_that_connects_leaves_its_parent_the_error),
        cmocka_unit_test(parent_that_connects_leaves_its_child_the_error),
        cmocka_unit_test(process_that_was_passed_the_socket_finds_the_error),
        cmocka_unit_test(unspec_on_a_unix_socket_is_einval_and_changes_nothing),
    };
    static const struct scene scenes[] = {
        {"exit", leave_words_to_exit},
        {"attempt", leave_an_attempt_to_exit},
        {"request", leave_a_request_to_exit},
        {"meanwhile", close_a_number_meanwhile},
        {NULL, NULL},
    };
    stage_enter(argc, argv, NULL, scenes);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
