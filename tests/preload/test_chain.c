/*
 * test_chain.c - other preloads before and behind this library.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

/*
 * arguments: port of a healthy server, port of a refusing one; "-" or how many connects the interposer must have seen
 */
static int scene_calls(int argc, char **argv)
{
    struct server healthy, refusing;
    char bytes[8];
    (void)argc;
    server_at_port(&healthy, argv[0]);
    server_at_port(&refusing, argv[1]);
    for (int i = 0; i < 3; i++) {
        free(malloc(100000)); /* an allocator may start as late as now */
        int fd = caller_connect(&healthy, 0);
        CHECK(send(fd, "request", 7, 0) == 7);
        poll_for(fd, POLLIN);
        CHECK(recv(fd, bytes, sizeof bytes, 0) == 6);
        CHECK(close(fd) == 0);
    }
    int fd = caller_socket(&refusing, 0);
    CHECK(connect(fd, AT(&refusing)) == -1 && errno == ECONNREFUSED);
    close(fd);
    /* One that is given up late, by the real clock. */
    fd = caller_connect(&healthy, 0);
    CHECK(send(fd, "request", 7, 0) == 7);
    wait_long();
    close(fd);
    int *interposed = dlsym(RTLD_DEFAULT, "interposed");
    if (argv[2][0] != '-')
        CHECK(interposed != NULL && *interposed == atoi(argv[2]));
    return 0;
}

static void play(const char *preload, const char *interposed, const char *variable)
{
    struct server healthy, refusing;
    server_start(&healthy, "127.0.0.1", SERVER_LISTENS);
    server_start(&refusing, "127.0.0.1", SERVER_REFUSES);
    pid_t pid = scene_start(
        "calls", &(struct scene_options){.preload = preload,
                                         .environment = {variable},
                                         .arguments = {server_port(&healthy), server_port(&refusing), interposed}});
    for (int i = 0; i < 3; i++) {
        int peer = server_accept(&healthy);
        poll_for(peer, POLLIN);
        assert_int_equal(bare.recv(peer, (char[8]){0}, 8, 0), 7);
        assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        poll_for(peer, POLLIN);
        bare.close(peer);
    }
    assert_true(exited_well(actor_wait(pid)));
    at_hand = preload;
    expect(&healthy, "3 succeeded, 1 failed:response-timeout");
    expect(&refusing, "1 failed:refused");
    server_stop(&healthy);
    server_stop(&refusing);
}

/* Before us and behind us. */
static void play_both(const char *other, const char *interposed, const char *variable)
{
    char preload[3 * PATH_MAX];
    snprintf(preload, sizeof preload, "%s %s", other, stage_library());
    play(preload, interposed, variable);
    snprintf(preload, sizeof preload, "%s %s", stage_library(), other);
    play(preload, interposed, variable);
}

/* The first file that the pattern finds; the test is skipped without one. */
static const char *installed(const char *pattern)
{
    static char path[PATH_MAX];
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) {
        print_message("%s is not installed\n", pattern);
        skip();
    }
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    return path;
}

static void another_interposer_of_connect_sees_each_call_once(void **state)
{
    (void)state;
    play_both(stage_compile("interposer", NULL, "-ldl"), "5", NULL);
}

static void jemalloc_before_and_behind_works(void **state)
{
    (void)state;
    play_both(installed("/usr/lib/*/libjemalloc.so.2"), "-", NULL);
}

static void libfaketime_before_and_behind_works(void **state)
{
    (void)state;
    play_both(installed("/usr/lib/*/faketime/libfaketime.so.1"), "-", "FAKETIME=+400d");
    play_both(installed("/usr/lib/*/faketime/libfaketimeMT.so.1"), "-", "FAKETIME=-10d");
}

/*
 * jemalloc and libfaketime themselves lock each other up at the start, with or without this library: so not both at
 * once.
 */
static void two_others_work_together(void **state)
{
    char others[3 * PATH_MAX];
    (void)state;
    int length = snprintf(others, sizeof others, "%s", installed("/usr/lib/*/libjemalloc.so.2"));
    snprintf(others + length, sizeof others - (size_t)length, " %s", stage_compile("interposer", NULL, "-ldl"));
    play_both(others, "5", NULL);
}

/* --- refusals --- */

static int scene_refused(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_at_port(&server, argv[0]);
    for (int i = 0; i < 4; i++) {
        int fd = caller_socket(&server, 0);
        CHECK(connect(fd, AT(&server)) == -1 && errno == ECONNREFUSED);
        close(fd);
    }
    int *interposed = dlsym(RTLD_DEFAULT, "interposed");
    CHECK(interposed != NULL && *interposed == atoi(argv[1]));
    return 0;
}

static void refusal_does_not_reach_what_stands_behind(void **state)
{
    struct server server;
    char preload[2 * PATH_MAX];
    const char *interposer = stage_compile("interposer", NULL, "-ldl");
    static const char policy[] = "[t]\nmatch = 127.0.0.1:*\nfailure_threshold = 1\nreset_timeout = 1h\n";
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    snprintf(preload, sizeof preload, "%s %s", stage_library(), interposer);
    /* The first one opens the circuit. */
    assert_true(exited_well(scene_run(
        "refused",
        &(struct scene_options){.policy = policy, .preload = preload, .arguments = {server_port(&server), "1"}})));
    server_stop(&server);
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    snprintf(preload, sizeof preload, "%s %s", interposer, stage_library());
    assert_true(exited_well(scene_run(
        "refused",
        &(struct scene_options){.policy = policy, .preload = preload, .arguments = {server_port(&server), "4"}})));
    server_stop(&server);
}

/* --- another socket under the number --- */

/* arguments: port; what comes of its connection: "answers", "hangs", "refused" */
static int scene_swapped(int argc, char **argv)
{
    struct server server;
    char bytes[8];
    (void)argc;
    server_at_port(&server, argv[0]);
    int fd = caller_socket(&server, 0);
    int copy = dup(fd); /* stays what it was */
    if (!strcmp(argv[1], "refused")) {
        CHECK(connect(fd, AT(&server)) == -1 && errno == ECONNREFUSED);
        CHECK(close(fd) == 0);
        return 0;
    }
    CHECK(connect(fd, AT(&server)) == 0);
    CHECK(send(fd, "request", 7, 0) == 7);
    if (!strcmp(argv[1], "answers")) {
        poll_for(fd, POLLIN);
        CHECK(recv(fd, bytes, sizeof bytes, 0) == 6);
        CHECK(send(fd, "request", 7, 0) == 7); /* the next call on it */
        poll_for(fd, POLLIN);
        CHECK(recv(fd, bytes, sizeof bytes, 0) == 6);
    } else {
        wait_long();
    }
    CHECK(close(copy) == 0);
    CHECK(close(fd) == 0);
    return 0;
}

static void play_swapped(struct server *server, struct server *proxy, const char *way, const char *end)
{
    char preload[3 * PATH_MAX], variable[64], at[PATH_MAX + 16];
    snprintf(preload, sizeof preload, "%s %s", stage_library(), stage_compile("swapper", NULL, "-ldl"));
    snprintf(variable, sizeof variable, "SWAP=%s", way);
    snprintf(at, sizeof at, "SWAP_AT%s%s", proxy != server ? "=" : "",
             proxy != server ? ((struct sockaddr_un *)&proxy->address)->sun_path : "");
    at_hand = way;
    pid_t pid = scene_start("swapped", &(struct scene_options){.preload = preload,
                                                               .environment = {variable, at},
                                                               .arguments = {server_port(server), end}});
    if (strcmp(end, "refused") != 0) {
        int peer = server_accept(proxy);
        if (proxy == server)
            assert_int_equal(bare.send(peer, "p", 1, 0), 1);
        for (int i = 0; i < 2 && !strcmp(end, "answers"); i++) {
            poll_for(peer, POLLIN);
            assert_int_equal(bare.recv(peer, (char[8]){0}, 8, 0), 7);
            assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        }
        assert_true(exited_well(actor_wait(pid)));
        bare.close(peer);
    } else {
        assert_true(exited_well(actor_wait(pid)));
    }
}

static const char *const swaps[] = {"dup2", "dup3", "unseen"};
#define SWAPS (sizeof swaps / sizeof *swaps)

static void what_another_preload_has_connected_at_the_number_is_the_connection(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < SWAPS; i++) {
        play_swapped(&server, &server, swaps[i], "answers");
        expect(&server, "2 succeeded");
        play_swapped(&server, &server, swaps[i], "hangs"); /* what the proxy has said is no answer */
        expect(&server, "1 failed:response-timeout");
    }
    server_stop(&server);
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (size_t i = 0; i < SWAPS; i++) {
        play_swapped(&server, &server, swaps[i], "refused");
        expect(&server, "1 failed:refused");
    }
    server_stop(&server);
}

static void it_may_be_a_unix_socket(void **state)
{
    struct server server, proxy;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    server_start(&proxy, "unix", SERVER_LISTENS);
    for (size_t i = 0; i < SWAPS; i++) {
        play_swapped(&server, &proxy, swaps[i], "answers");
        expect(&server, "2 succeeded");
        play_swapped(&server, &proxy, swaps[i], "hangs");
        expect(&server, "1 failed:response-timeout");
    }
    server_stop(&server);
    server_stop(&proxy);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"calls", scene_calls}, {"refused", scene_refused}, {"swapped", scene_swapped}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_interposer_of_connect_sees_each_call_once),
        cmocka_unit_test(jemalloc_before_and_behind_works),
        cmocka_unit_test(libfaketime_before_and_behind_works),
        cmocka_unit_test(two_others_work_together),
        cmocka_unit_test(refusal_does_not_reach_what_stands_behind),
        cmocka_unit_test(what_another_preload_has_connected_at_the_number_is_the_connection),
        cmocka_unit_test(it_may_be_a_unix_socket),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
