/*
 * test_outcomes_unix.c - UNIX stream sockets: paths, abstract names, full queues.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

static void answer(int peer)
{
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
}

static void call_that_is_answered(const char *host)
{
    struct server server;
    char byte;
    server_start(&server, host, SERVER_LISTENS);
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        int fd = caller_connect(&server, flags), peer = server_accept(&server);
        expect(&server, "1 in-flight");
        assert_int_equal(send(fd, "request", 7, 0), 7);
        answer(peer);
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        expect(&server, "1 succeeded");
        close(fd);
        bare.close(peer);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static void answer_is_success_by_path_and_by_abstract_name(void **state)
{
    (void)state;
    call_that_is_answered("unix");
    call_that_is_answered("@");
}

static void path_without_a_listener_or_without_a_file_is_refused(void **state)
{
    struct server server;
    (void)state;
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        server_start(&server, "unix", SERVER_REFUSES);
        int fd = caller_socket(&server, flags);
        assert_int_equal(connect(fd, AT(&server)), -1);
        assert_int_equal(errno, ECONNREFUSED);
        expect(&server, "1 failed:refused");
        server_stop(&server);
        assert_int_equal(connect(fd, AT(&server)), -1);
        assert_int_equal(errno, ENOENT);
        expect(&server, "1 failed:refused");
        close(fd);
        expect(&server, "nothing");
    }
}

static void own_errors_are_local(void **state)
{
    struct server server;
    struct sockaddr_un file = {.sun_family = AF_UNIX};
    (void)state;
    /* A file that is no socket: ECONNREFUSED says the kernel, and there is nobody who listens. */
    snprintf(file.sun_path, sizeof file.sun_path, "%s", stage_file("plain", "text"));
    server_start(&server, "unix", SERVER_REFUSES);
    snprintf(server.destination, sizeof server.destination, "unix:%s", file.sun_path);
    int fd = caller_socket(&server, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&file, sizeof file), -1);
    assert_int_equal(errno, ECONNREFUSED);
    expect(&server, "1 failed:refused");
    close(fd);
    /* A datagram socket listens there: EPROTOTYPE is the program's mistake. */
    int datagram = bare.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(file.sun_path, sizeof file.sun_path, "%s/datagram", stage_folder());
    assert_int_equal(bind(datagram, (struct sockaddr *)&file, sizeof file), 0);
    snprintf(server.destination, sizeof server.destination, "unix:%s", file.sun_path);
    fd = caller_socket(&server, 0);
    memset(server.counted, 0, sizeof server.counted);
    assert_int_equal(connect(fd, (struct sockaddr *)&file, sizeof file), -1);
    assert_int_equal(errno, EPROTOTYPE);
    expect(&server, "1 neutral:local");
    close(fd);
    bare.close(datagram);
    server_stop(&server);
}

static void full_queue_is_no_failure_without_blocking_and_a_timeout_with_it(void **state)
{
    struct server server;
    struct timeval limit = {.tv_usec = 20000};
    (void)state;
    server_start(&server, "unix", SERVER_BLACK_HOLE);
    int fd = caller_socket(&server, SOCK_NONBLOCK);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EAGAIN);
    expect(&server, "1 failed:refused"); /* nobody has room for it: the fault is not on this side */
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EAGAIN);
    expect(&server, "1 failed:refused"); /* each is an attempt */
    close(fd);
    expect(&server, "nothing");
    fd = caller_socket(&server, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EAGAIN); /* not EINPROGRESS, as over TCP */
    expect(&server, "1 failed:connect-timeout");
    close(fd);
    expect(&server, "nothing");
    server_stop(&server);
}

static void peer_that_closes_is_an_early_close(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    bare.close(server_accept(&server));
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    expect(&server, "1 failed:early-close");
    close(fd);
    /* The peer had not read the request: then it is a reset. */
    fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    bare.close(server_accept(&server));
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    expect(&server, "1 failed:reset");
    close(fd);
    /* And EPIPE for one who sends. */
    fd = caller_connect(&server, 0);
    bare.close(server_accept(&server));
    assert_int_equal(send(fd, "request", 7, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    expect(&server, "1 failed:reset");
    close(fd);
    expect(&server, "nothing");
    server_stop(&server);
}

static void ends_that_were_not_read_are_found_at_the_close(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    answer(peer);
    close(fd);
    expect(&server, "1 succeeded");
    bare.close(peer);
    fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    bare.close(server_accept(&server));
    close(fd);
    expect(&server, "1 failed:reset");
    fd = caller_connect(&server, 0);
    peer = server_accept(&server);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    assert_int_equal(bare.recv(peer, (char[8]){0}, 8, 0), 7);
    bare.close(peer);
    close(fd);
    expect(&server, "1 failed:early-close");
    server_stop(&server);
}

static void waiting_ends_as_over_tcp(void **state)
{
    struct server server;
    struct timeval limit = {.tv_usec = 60000};
    char byte;
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    expect(&server, "1 failed:response-timeout");
    close(fd);
    fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    wait_long();
    close(fd);
    expect(&server, "1 failed:response-timeout");
    server_stop(&server);
}

static void relative_path_is_the_same_destination(void **state)
{
    struct server server;
    struct sockaddr_un relative = {.sun_family = AF_UNIX};
    char folder[PATH_MAX], byte;
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    const char *path = ((struct sockaddr_un *)&server.address)->sun_path;
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(chdir(stage_folder()), 0);
    snprintf(relative.sun_path, sizeof relative.sun_path, "%s", strrchr(path, '/') + 1);
    int fd = caller_socket(&server, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&relative, sizeof relative), 0);
    assert_int_equal(chdir(folder), 0);
    int peer = server_accept(&server);
    answer(peer);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    close(fd);
    bare.close(peer);
    /* Made absolute or left as it is: in either case no other circuit may be charged, and the call passed. */
    uint64_t absolute = counted(&server, COUNT_SUCCEEDED);
    snprintf(server.destination, sizeof server.destination, "unix:%s", relative.sun_path);
    assert_int_equal(absolute + counted(&server, COUNT_SUCCEEDED), 1);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_is_success_by_path_and_by_abstract_name),
        cmocka_unit_test(path_without_a_listener_or_without_a_file_is_refused),
        cmocka_unit_test(own_errors_are_local),
        cmocka_unit_test(full_queue_is_no_failure_without_blocking_and_a_timeout_with_it),
        cmocka_unit_test(peer_that_closes_is_an_early_close),
        cmocka_unit_test(ends_that_were_not_read_are_found_at_the_close),
        cmocka_unit_test(waiting_ends_as_over_tcp),
        cmocka_unit_test(relative_path_is_the_same_destination),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
