/*
 * test_fallback.c - what an open circuit refuses is connected to the fallback, on the program's own socket, and stays
 * nobody's affair.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

/*
 * The fallbacks stand at fixed addresses, but at ports that only the tests know: so each test is a scene under a policy
 * of its own.
 */
static const char policy[] = "[nothing]\nmatch = 127.0.9.9:1\n";

static char policy_text[1024];
static struct server fallback;

/* A scene whose target is always refused, with that fallback. */
static void play(const char *scene, const char *place, const char *match)
{
    static const char *const variables[] = {"SOCKFUSE_NAMES=backup.test=127.0.2.1,::1"};
    char path[PATH_MAX];
    snprintf(policy_text, sizeof policy_text,
             "[refused]\nmatch = %s\nmode = open\nfallback = %s\n[fallback]\nmatch = 127.0.2.1:*\n", match, place);
    struct scene_options options = {
        .policy = policy_text, .environment = {variables[0]}, .arguments = {server_port(&fallback), place}};
    assert_true(exited_well(scene_run(scene, &options)));
    snprintf(path, sizeof path, "%s/%s.policy", stage_folder(), scene);
    observe_policy(path);
}

static void fallback_at(const char *host)
{
    server_start(&fallback, host, SERVER_LISTENS);
}

/* "127.0.2.1:PORT" of the server that stands for the fallback. */
static const char *place(const char *host)
{
    static char text[128];
    snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, server_port(&fallback));
    return text;
}

/* --- scenes --- */

static struct sockaddr_in refused_at(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
    CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
}

static struct sockaddr_in6 refused_at6(const char *host)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    CHECK(inet_pton(AF_INET6, host, &address.sin6_addr) == 1);
    return address;
}

static void talk(int fd)
{
    char bytes[8];
    CHECK(send(fd, "ping", 4, 0) == 4);
    poll_for(fd, POLLIN);
    CHECK(recv(fd, bytes, sizeof bytes, 0) == 4 && !memcmp(bytes, "pong", 4));
    CHECK(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0);
    CHECK(close(fd) == 0);
}

static int blocking_scene(int argc, char **argv)
{
    struct sockaddr_in address = refused_at("127.0.9.1");
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    (void)argv;
    CHECK(argc == 2);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && ntohs(peer.sin_port) == atoi(argv[0]));
    CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EISCONN);
    talk(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(syscall(SYS_connect, fd, &address, sizeof address) == 0);
    talk(fd);
    return 0;
}

static int nonblocking_scene(int argc, char **argv)
{
    struct sockaddr_in address = refused_at("127.0.9.1");
    int error = -1;
    socklen_t length = sizeof error;
    (void)argc;
    (void)argv;
    /* The last one is a socket of which nothing was known. */
    for (int by_connect = 0; by_connect < 3; by_connect++) {
        int fd = (by_connect < 2 ? socket : bare.socket)(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EINPROGRESS);
        CHECK(!(poll_for(fd, POLLOUT) & POLLERR));
        if (by_connect)
            CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EISCONN);
        else
            CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
        CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
        talk(fd);
    }
    return 0;
}

/* IPv6 sockets and a fallback with an IPv4 address, and the other way round. */
static int families_scene(int argc, char **argv)
{
    struct sockaddr_in6 address = refused_at6("::ffff:127.0.9.1");
    int only = 1;
    (void)argc;
    bool is_six = argv[1][0] == '[';
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    talk(fd);
    /* Without IPv4 on it, there is none for its fallback either. */
    address = refused_at6("fd00::1");
    fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) == 0);
    int result = connect(fd, (struct sockaddr *)&address, sizeof address);
    CHECK(is_six ? result == 0 : result == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
    struct sockaddr_in four = refused_at("127.0.9.1");
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    result = connect(fd, (struct sockaddr *)&four, sizeof four);
    CHECK(is_six ? result == -1 && errno == ECONNREFUSED : result == 0);
    CHECK(close(fd) == 0);
    return 0;
}

/* A fallback that refuses as well: its error is the program's, and the next attempt is one again. */
static int dead_scene(int argc, char **argv)
{
    struct sockaddr_in address = refused_at("127.0.9.1");
    int error = -1;
    socklen_t length = sizeof error;
    (void)argc;
    (void)argv;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EINPROGRESS);
    poll_for(fd, POLLOUT);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNREFUSED);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == ECONNABORTED);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EINPROGRESS);
    CHECK(close(fd) == 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == ECONNREFUSED);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
    return 0;
}

static int fast_open_scene(int argc, char **argv)
{
    struct sockaddr_in address = refused_at("127.0.9.1");
    (void)argc;
    (void)argv;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(sendto(fd, "ping", 4, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address) == -1 &&
          errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
    return 0;
}

static int refused_scene(int argc, char **argv)
{
    struct sockaddr_in address = refused_at("127.0.9.1");
    (void)argc;
    (void)argv;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
    return 0;
}

static int unix_scene(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/nowhere/refused"};
    (void)argc;
    (void)argv;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    talk(fd);
    struct sockaddr_in four = refused_at("127.0.9.1");
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&four, sizeof four) == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
    return 0;
}

static void do_nothing(void *context)
{
    (void)context;
}

/* A fallback that is dead too, and then another destination, on the same socket, of which there are two numbers. */
static int again_scene(int argc, char **argv)
{
    struct sockaddr_in first = refused_at("127.0.9.1"), second = refused_at("127.0.2.1");
    int error = 0;
    socklen_t length = sizeof error;
    CHECK(argc == 2);
    second.sin_port = htons((in_port_t)atoi(argv[0]));
    CHECK(exited_well(actor_wait(actor_fork(do_nothing, NULL))));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), other = dup(fd);
    CHECK(connect(fd, (struct sockaddr *)&first, sizeof first) == -1 && errno == ECONNREFUSED);
    CHECK(connect(fd, (struct sockaddr *)&second, sizeof second) == 0);
    poll_for(fd, POLLIN); /* it is reset */
    CHECK(close(fd) == 0);
    CHECK(bare.getsockopt(other, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNRESET);
    CHECK(close(other) == 0);
    return 0;
}

static int dissolved_scene(int argc, char **argv)
{
    struct sockaddr_in first = refused_at("127.0.9.1"), second = refused_at("127.0.2.1");
    struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
    CHECK(argc == 2);
    second.sin_port = htons((in_port_t)atoi(argv[0]));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&first, sizeof first) == 0);
    CHECK(connect(fd, &unspecified, sizeof unspecified) == 0);
    CHECK(connect(fd, (struct sockaddr *)&second, sizeof second) == 0);
    poll_for(fd, POLLIN); /* it is reset */
    CHECK(close(fd) == 0);
    return 0;
}

/* --- tests --- */

static pid_t answering;

static void answer(void *context)
{
    for (int left = *(int *)context; left > 0; left--) {
        char bytes[8];
        int peer = server_accept(&fallback);
        if (bare.recv(peer, bytes, sizeof bytes, 0) == 4)
            CHECK(bare.send(peer, "pong", 4, 0) == 4);
        bare.close(peer);
    }
}

static void answer_so_many(int count)
{
    answering = actor_fork(answer, &count);
}

static void expect_at(const char *destination, const char *words)
{
    struct server seen;
    memset(&seen, 0, sizeof seen);
    snprintf(seen.destination, sizeof seen.destination, "%s", destination);
    expect(&seen, words);
}

/* Nobody has counted anything for the fallback, though another target takes it. */
static void expect_untouched(void)
{
    assert_false(has_circuit(&fallback));
}

static void refused_connect_goes_to_the_fallback(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    answer_so_many(2);
    play("blocking", place("127.0.2.1"), "127.0.9.0/24:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("127.0.9.1:9", "2 refused, 2 fallback");
    expect_untouched();
    server_stop(&fallback);
}

static void refused_connect_goes_to_the_fallback_without_blocking(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    answer_so_many(3);
    play("nonblocking", place("127.0.2.1"), "127.0.9.0/24:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("127.0.9.1:9", "3 refused, 3 fallback");
    expect_untouched();
    server_stop(&fallback);
}

static void fallback_of_the_other_family_serves_where_the_socket_can(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    answer_so_many(2);
    play("families", place("127.0.2.1"), "127.0.9.0/24:* [fd00::1]:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("127.0.9.1:9", "2 refused, 2 fallback");
    expect_at("[fd00::1]:9", "1 refused");
    server_stop(&fallback);

    fallback_at("::1");
    answer_so_many(2);
    play("families", place("::1"), "127.0.9.0/24:* [fd00::1]:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("127.0.9.1:9", "4 refused, 3 fallback");
    expect_at("[fd00::1]:9", "2 refused, 1 fallback");
    server_stop(&fallback);
}

static void fallback_may_be_a_name_that_was_resolved(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    answer_so_many(2);
    play("blocking", place("backup.test"), "127.0.9.0/24:*");
    assert_true(exited_well(actor_wait(answering)));
    server_stop(&fallback);
}

static void name_that_nobody_resolved_refuses(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    play("refused", place("unknown.test"), "127.0.9.0/24:*");
    expect_at("127.0.9.1:9", "1 refused");
    server_stop(&fallback);
}

static void fast_open_send_is_refused(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    play("fast-open", place("127.0.2.1"), "127.0.9.0/24:*");
    expect_at("127.0.9.1:9", "1 refused");
    server_stop(&fallback);
}

static void dead_fallback_gives_its_own_error(void **state)
{
    (void)state;
    server_start(&fallback, "127.0.2.1", SERVER_REFUSES);
    play("dead", place("127.0.2.1"), "127.0.9.0/24:*");
    expect_at("127.0.9.1:9", "4 refused, 4 fallback");
    expect_untouched();
    server_stop(&fallback);
}

static void reset_so_many(void *context)
{
    for (int left = *(int *)context; left > 0; left--)
        server_reset(server_accept(&fallback));
}

/* How old it is and that it has another number is known of a socket whatever it was tried with. */
static void socket_that_a_dead_fallback_has_left_is_guarded_as_before(void **state)
{
    char nobody[64];
    (void)state;
    fallback_at("127.0.2.1");
    answering = actor_fork(reset_so_many, &(int){1});
    snprintf(nobody, sizeof nobody, "127.0.2.2:%s", server_port(&fallback));
    play("again", nobody, "127.0.9.0/24:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("127.0.9.1:9", "1 refused, 1 fallback");
    expect(&fallback, "1 failed:reset");
    server_stop(&fallback);
}

static void socket_whose_association_was_dissolved_is_guarded_again(void **state)
{
    (void)state;
    fallback_at("127.0.2.1");
    answering = actor_fork(reset_so_many, &(int){2});
    play("dissolved", place("127.0.2.1"), "127.0.9.0/24:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("127.0.9.1:9", "1 refused, 1 fallback");
    expect(&fallback, "1 failed:reset");
    server_stop(&fallback);
}

static void unix_socket_has_a_unix_fallback_and_others_have_none(void **state)
{
    (void)state;
    fallback_at("unix");
    answer_so_many(1);
    play("unix", fallback.destination, "unix:/nowhere/* 127.0.9.0/24:*");
    assert_true(exited_well(actor_wait(answering)));
    expect_at("unix:/nowhere/refused", "1 refused, 1 fallback");
    expect_at("127.0.9.1:9", "1 refused");
    server_stop(&fallback);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"blocking", blocking_scene},   {"nonblocking", nonblocking_scene},
                                          {"families", families_scene},   {"dead", dead_scene},
                                          {"fast-open", fast_open_scene}, {"unix", unix_scene},
                                          {"refused", refused_scene},     {"again", again_scene},
                                          {"dissolved", dissolved_scene}, {NULL, NULL}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_connect_goes_to_the_fallback),
        cmocka_unit_test(refused_connect_goes_to_the_fallback_without_blocking),
        cmocka_unit_test(fallback_of_the_other_family_serves_where_the_socket_can),
        cmocka_unit_test(fallback_may_be_a_name_that_was_resolved),
        cmocka_unit_test(name_that_nobody_resolved_refuses),
        cmocka_unit_test(fast_open_send_is_refused),
        cmocka_unit_test(dead_fallback_gives_its_own_error),
        cmocka_unit_test(socket_that_a_dead_fallback_has_left_is_guarded_as_before),
        cmocka_unit_test(socket_whose_association_was_dissolved_is_guarded_again),
        cmocka_unit_test(unix_socket_has_a_unix_fallback_and_others_have_none),
    };
    stage_enter(argc, argv, policy, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
