/*
 * test_refusal.c - an open circuit: what the program sees, what the server sees, and that the kernel sees nothing at
 * all.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

/* A server that answered with a reset once, so that its circuit (failure_threshold 1) is open. */
static void start_open(struct server *server, const char *host)
{
    char byte;
    server_start(server, host, SERVER_LISTENS);
    int fd = caller_connect(server, 0);
    bare.close(server_accept(server));
    CHECK(recv(fd, &byte, 1, 0) == 0);
    close(fd);
    expect(server, "1 failed:early-close, 1 opened");
}

static void nobody_came(struct server *server)
{
    struct pollfd wanted = {.fd = server->fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 0), 0);
}

/* Another name that libc exports for connect. */
extern int __connect(int fd, const struct sockaddr *address, socklen_t length);

static void refuse_all(const char *host)
{
    struct server server;
    start_open(&server, host);
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        int fd = caller_socket(&server, flags);
        for (int i = 0; i < 3; i++) {
            errno = 0;
            assert_int_equal(connect(fd, AT(&server)), -1);
            assert_int_equal(errno, ECONNREFUSED);
            /* The kernel knows nothing of it: no error waits, the socket is fresh. */
            int error = -1;
            socklen_t length = sizeof error;
            assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
            assert_int_equal(error, 0);
        }
        assert_int_equal(syscall(SYS_connect, fd, AT(&server)), -1);
        assert_int_equal(errno, ECONNREFUSED);
        assert_int_equal(__connect(fd, AT(&server)), -1);
        assert_int_equal(errno, ECONNREFUSED);
        close(fd);
        expect(&server, "5 refused");
    }
    nobody_came(&server);
    server_stop(&server);
}

static void open_circuit_refuses_over_tcp(void **state)
{
    (void)state;
    refuse_all("127.0.0.4");
}

static void open_circuit_refuses_on_unix_sockets(void **state)
{
    (void)state;
    refuse_all("unix:touchy-");
}

static void refused_socket_is_still_good_for_another_destination(void **state)
{
    struct server dead, alive;
    char byte;
    (void)state;
    start_open(&dead, "127.0.0.4");
    server_start(&alive, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_socket(&dead, 0);
    assert_int_equal(connect(fd, AT(&dead)), -1);
    assert_int_equal(connect(fd, AT(&alive)), 0);
    int peer = server_accept(&alive);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&alive, "1 succeeded");
    expect(&dead, "1 refused");
    close(fd);
    bare.close(peer);
    server_stop(&dead);
    server_stop(&alive);
}

static void fast_open_sends_are_refused_too(void **state)
{
    struct server server;
    (void)state;
    start_open(&server, "127.0.0.4");
    struct iovec vector = {"request", 7};
    struct msghdr message = {
        .msg_name = &server.address, .msg_namelen = server.length, .msg_iov = &vector, .msg_iovlen = 1};
    int fd = caller_socket(&server, 0);
    assert_int_equal(sendto(fd, "request", 7, MSG_FASTOPEN, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(sendmsg(fd, &message, MSG_FASTOPEN), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(syscall(SYS_sendto, fd, "request", 7, MSG_FASTOPEN, &server.address, server.length), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(syscall(SYS_sendmsg, fd, &message, MSG_FASTOPEN), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "4 refused");
    nobody_came(&server);
    server_stop(&server);
}

static void datagrams_are_never_refused(void **state)
{
    struct server server;
    (void)state;
    start_open(&server, "127.0.0.4");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, AT(&server)), 0);
    close(fd);
    /* Nor if the library has not seen the socket made: then the kernel is asked what it is. */
    fd = bare.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, AT(&server)), 0);
    close(fd);
    fd = bare.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 refused");
    server_stop(&server);
}

static void connections_of_before_are_left_alone(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.4", SERVER_LISTENS);
    int old = caller_connect(&server, 0), old_peer = server_accept(&server);
    int fd = caller_connect(&server, 0);
    bare.close(server_accept(&server));
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    expect(&server, "1 failed:early-close, 1 opened, 1 in-flight");
    assert_int_equal(send(old, "request", 7, 0), 7);
    assert_int_equal(bare.send(old_peer, "a", 1, 0), 1);
    assert_int_equal(recv(old, &byte, 1, 0), 1);
    expect(&server, "1 late"); /* from before the trip: it closes nothing */
    assert_int_equal(connect(caller_socket(&server, 0), AT(&server)), -1);
    expect(&server, "1 refused");
    close(old);
    close(fd);
    bare.close(old_peer);
    server_stop(&server);
}

/* Twisted sends nothing, in the word's sense, before it closes a connection. It has asked for nothing by that. */
static void a_send_of_nothing_is_not_refused(void **state)
{
    struct server server;
    struct iovec none = {NULL, 0};
    char byte;
    (void)state;
    server_start(&server, "127.0.0.4", SERVER_LISTENS);
    int kept = caller_connect(&server, 0), peer = server_accept(&server);
    assert_int_equal(send(kept, "request", 7, 0), 7);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(kept, &byte, 1, 0), 1);
    int fd = caller_connect(&server, 0);
    bare.close(server_accept(&server));
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    expect(&server, "1 succeeded, 1 failed:early-close, 1 opened");
    assert_int_equal(send(kept, "", 0, 0), 0);
    assert_int_equal(sendto(kept, "", 0, 0, NULL, 0), 0);
    assert_int_equal(write(kept, "", 0), 0);
    assert_int_equal(writev(kept, &none, 0), 0);
    assert_int_equal(syscall(SYS_sendto, kept, "", 0, 0, NULL, 0), 0);
    assert_int_equal(syscall(SYS_write, kept, "", 0), 0);
    assert_int_equal(syscall(SYS_writev, kept, &none, 0), 0);
    assert_int_equal(syscall(SYS_sendmmsg, kept, NULL, 0, 0), 0);
    assert_int_equal(recv(kept, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN); /* nor is it broken off */
    expect(&server, "nothing");
    assert_int_equal(send(kept, "request", 7, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, ECONNRESET);
    expect(&server, "1 refused");
    close(kept);
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* --- on_open, and the probe --- */

/* A clock file at the time of `ns`. */
static const char *clock_file(void)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/clock", stage_folder());
    return path;
}

static void clock_set(uint64_t ns)
{
    int fd = open(clock_file(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && pwrite(fd, &ns, sizeof ns, 0) == sizeof ns);
    close(fd);
}

#define SECOND UINT64_C(1000000000)

static int scene_on_open(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_socket(&server, 0);
    CHECK(connect(fd, AT(&server)) == -1 && errno == atoi(argv[0]));
    expect(&server, "1 refused");
    nobody_came(&server);
    return 0;
}

static void refusal_has_the_errno_of_the_policy(void **state)
{
    static const struct {
        const char *name;
        int error;
    } all[] = {{"ECONNREFUSED", ECONNREFUSED},
               {"ETIMEDOUT", ETIMEDOUT},
               {"EHOSTUNREACH", EHOSTUNREACH},
               {"ENETUNREACH", ENETUNREACH},
               {"ECONNRESET", ECONNRESET},
               {"ECONNABORTED", ECONNABORTED},
               {"EACCES", EACCES},
               {"EPERM", EPERM}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char policy[128], number[16];
        snprintf(policy, sizeof policy, "[t]\nmatch = 127.0.0.1:*\nmode = open\non_open = %s\n", all[i].name);
        snprintf(number, sizeof number, "%d", all[i].error);
        struct scene_options options = {.policy = policy, .arguments = {number}};
        assert_true(exited_well(scene_run("on-open", &options)));
    }
}

static int scene_probe(int argc, char **argv)
{
    struct server server;
    char byte;
    (void)argc, (void)argv;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    bare.close(server_accept(&server));
    CHECK(recv(fd, &byte, 1, 0) == 0);
    close(fd);
    expect(&server, "1 failed:early-close, 1 opened");

    /* One nanosecond before the end of the pause, and at it. */
    fd = caller_socket(&server, 0);
    clock_set(1010 * SECOND - 1);
    CHECK(connect(fd, AT(&server)) == -1 && errno == ECONNREFUSED);
    clock_set(1010 * SECOND);
    CHECK(connect(fd, AT(&server)) == 0);
    expect(&server, "1 refused, 1 in-flight");

    /* The probe is out: everybody else is refused, on blocking and non-blocking sockets. */
    int busy = caller_socket(&server, 0), other = caller_socket(&server, SOCK_NONBLOCK);
    CHECK(connect(busy, AT(&server)) == -1 && errno == ECONNREFUSED);
    CHECK(connect(other, AT(&server)) == -1 && errno == ECONNREFUSED);
    expect(&server, "2 refused, 1 in-flight");
    int peer = server_accept(&server);
    nobody_came(&server);
    CHECK(bare.send(peer, "a", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    expect(&server, "1 succeeded");
    CHECK(counted(&server, COUNT_PROBES_SUCCEEDED) == 1);

    /* Closed again: the very socket that was refused connects. */
    CHECK(connect(busy, AT(&server)) == 0);
    close(busy);
    close(other);
    close(fd);
    return 0;
}

static void half_open_circuit_admits_one_and_refuses_the_rest(void **state)
{
    char clock[PATH_MAX + 32];
    (void)state;
    clock_set(1000 * SECOND);
    snprintf(clock, sizeof clock, "SOCKFUSE_CLOCK=%s", clock_file());
    struct scene_options options = {.policy = "[t]\nmatch = 127.0.0.1:*\nfailure_threshold = 1\njitter = 0%\n",
                                    .environment = {clock}};
    assert_true(exited_well(scene_run("probe", &options)));
}

/* --- the kernel sees nothing --- */

struct play {
    struct server *server;
    int fd, times;
};

static void connect_some_times(void *context)
{
    struct play *play = context;
    int fd = caller_socket(play->server, 0), wrong = 0;
    connect(fd, AT(play->server)); /* after the fork, the first one joins the segment */
    syscall(MARK);
    for (int i = 0; i < play->times; i++)
        wrong += connect(fd, AT(play->server)) != -1 || errno != ECONNREFUSED;
    syscall(MARK);
    CHECK(wrong == 0);
}

static void refusal_makes_no_system_call(void **state)
{
    struct server server;
    (void)state;
    start_open(&server, "127.0.0.4");
    struct play play = {.server = &server, .times = 50};
    assert_int_equal(system_calls_of(connect_some_times, &play, NULL, 0), 0);
    server_stop(&server);
}

/* Five system calls of its own on a descriptor that nobody guards. */
static void use_unguarded(void *context)
{
    struct play *play = context;
    char bytes[8];
    struct iovec vector = {bytes, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int error;
    socklen_t length = sizeof error;
    close(socket(AF_INET, SOCK_DGRAM, 0));
    syscall(MARK);
    send(play->fd, "a", 1, 0);
    write(play->fd, "a", 1);
    sendmsg(play->fd, &message, 0);
    writev(play->fd, &vector, 1);
    recv(play->fd, bytes, 1, 0);
    read(play->fd, bytes, 1);
    readv(play->fd, &vector, 1);
    recvmsg(play->fd, &message, 0);
    getsockopt(play->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    fcntl(play->fd, F_GETFL);
    close(dup(play->fd));
    close(socket(AF_UNIX, SOCK_DGRAM, 0));
    shutdown(play->fd, SHUT_WR);
    close(play->fd);
    syscall(SYS_getpid);
    syscall(MARK);
}

static void untracked_descriptors_cost_no_system_call(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.9", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    assert_int_equal(bare.send(peer, "answers!", 8, 0), 8);
    struct play play = {.fd = fd};
    assert_int_equal(system_calls_of(use_unguarded, &play, NULL, 0), 17);
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* The hot path of a guarded connection: what follows the first answer. */
static void use_answered(void *context)
{
    struct play *play = context;
    char byte;
    int fd = caller_connect(play->server, 0), peer = server_accept(play->server);
    bare.send(peer, "answers!", 8, 0);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    syscall(MARK);
    for (int i = 0; i < 5; i++) {
        send(fd, "a", 1, 0);
        recv(fd, &byte, 1, 0);
    }
    syscall(MARK);
}

static void send_and_receive_on_a_guarded_connection_cost_no_system_call(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct play play = {.server = &server};
    assert_int_equal(system_calls_of(use_answered, &play, NULL, 0), 10);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"on-open", scene_on_open}, {"probe", scene_probe}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_circuit_refuses_over_tcp),
        cmocka_unit_test(open_circuit_refuses_on_unix_sockets),
        cmocka_unit_test(refused_socket_is_still_good_for_another_destination),
        cmocka_unit_test(fast_open_sends_are_refused_too),
        cmocka_unit_test(datagrams_are_never_refused),
        cmocka_unit_test(connections_of_before_are_left_alone),
        cmocka_unit_test(a_send_of_nothing_is_not_refused),
        cmocka_unit_test(refusal_has_the_errno_of_the_policy),
        cmocka_unit_test(half_open_circuit_admits_one_and_refuses_the_rest),
        cmocka_unit_test(refusal_makes_no_system_call),
        cmocka_unit_test(untracked_descriptors_cost_no_system_call),
        cmocka_unit_test(send_and_receive_on_a_guarded_connection_cost_no_system_call),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
