/*
 * test_fork.c - whose call is it? fork, vfork, spawn, exec and daemons, with connections open.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "support_passing.h"

/* A server that lives as long as the test, a guarded connection to it with a request sent, and the server's end. */
struct line {
    struct server server;
    int fd, peer;
};

static void line_open(struct line *line, const char *host)
{
    server_start(&line->server, host, SERVER_LISTENS);
    line->fd = caller_connect(&line->server, 0);
    line->peer = server_accept(&line->server);
    CHECK(send(line->fd, "request", 7, 0) == 7);
}

static void answer(int peer)
{
    CHECK(bare.send(peer, "answer", 6, 0) == 6);
}

/* The parent's call goes on as if there had been no child. */
static void line_finish(struct line *line)
{
    char byte;
    expect(&line->server, "1 in-flight");
    answer(line->peer);
    CHECK(recv(line->fd, &byte, 1, 0) == 1);
    expect(&line->server, "1 succeeded");
    close(line->fd);
    bare.close(line->peer);
    expect(&line->server, "nothing");
    server_stop(&line->server);
}

/* --- fork --- */

static void close_in_child(void *context)
{
    struct line *line = context;
    wait_long();
    shutdown(line->fd, SHUT_RD); /* no packet: the parent's side of the wire stays as it is */
    close(line->fd);
}

static void close_in_a_forked_child_settles_nothing_of_the_parent(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    int copy = dup(line.fd);
    assert_true(exited_well(actor_wait(actor_fork(close_in_child, &line))));
    close(copy);
    expect(&line.server, "1 in-flight");
    close(line.fd);
    expect(&line.server, "1 failed:response-timeout");
    bare.close(line.peer);
    server_stop(&line.server);
}

static void use_in_child(void *context)
{
    struct line *line = context;
    CHECK(send(line->fd, "request", 7, 0) == 7);
    wait_long();
}

static void wait_and_use_in_child(void *context)
{
    wait_long();
    wait_long();
    use_in_child(context);
}

static void connection_that_a_child_goes_on_with_is_not_given_up_by_the_parents_close(void **state)
{
    void (*const users[])(void *) = {use_in_child, wait_and_use_in_child};
    (void)state;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        struct line line;
        server_start(&line.server, "127.0.0.1", SERVER_LISTENS);
        line.fd = caller_connect(&line.server, 0);
        line.peer = server_accept(&line.server);
        pid_t child = actor_fork(users[i], &line);
        wait_long();
        close(line.fd);
        expect(&line.server, "1 neutral:unknown");
        assert_true(exited_well(actor_wait(child)));
        bare.close(line.peer);
        server_stop(&line.server);
    }
}

enum passing { BY_SENDMSG, BY_NUMBER, BY_SENDMMSG, BY_NUMBER_OF_MANY, BY_FASTOPEN, PASSINGS };

/* As the second of two messages, where there are two. */
static void pass_on(int fd, enum passing way)
{
    int ends[2];
    struct passing_message passing;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    passing_begin(&passing, fd);
    struct mmsghdr both[] = {{.msg_hdr = {.msg_iov = &passing.vector, .msg_iovlen = 1}}, {.msg_hdr = passing.message}};
    switch (way) {
    case BY_NUMBER:
        assert_int_equal(syscall(SYS_sendmsg, ends[0], &passing.message, 0), 1);
        break;
    case BY_SENDMMSG:
        assert_int_equal(sendmmsg(ends[0], both, 2, 0), 2);
        break;
    case BY_NUMBER_OF_MANY:
        assert_int_equal(syscall(SYS_sendmmsg, ends[0], both, 2, 0), 2);
        break;
    default:
        assert_int_equal(sendmsg(ends[0], &passing.message, way == BY_FASTOPEN ? MSG_FASTOPEN : 0), 1);
    }
    close(ends[0]);
    close(ends[1]);
}

static void connection_that_was_passed_on_is_not_given_up_by_the_close(void **state)
{
    struct line line;
    (void)state;
    for (enum passing way = 0; way < PASSINGS; way++) {
        line_open(&line, "127.0.0.1");
        pass_on(line.fd, way);
        wait_long();
        close(line.fd);
        expect(&line.server, "1 neutral:unknown");
        bare.close(line.peer);
        server_stop(&line.server);
    }
}

static void kept_connection_that_was_passed_on_is_given_up_where_it_was_asked_again(void **state)
{
    struct line line;
    char byte;
    (void)state;
    line_open(&line, "127.0.0.1");
    assert_int_equal(send(line.fd, "a", 1, 0), 1);
    assert_int_equal(bare.send(line.peer, "+", 1, 0), 1);
    assert_int_equal(recv(line.fd, &byte, 1, 0), 1);
    pass_on(line.fd, BY_SENDMSG);
    assert_int_equal(send(line.fd, "b", 1, 0), 1);
    wait_long();
    close(line.fd);
    expect(&line.server, "1 succeeded, 1 failed:response-timeout");
    bare.close(line.peer);
    server_stop(&line.server);
}

static void shut_in_child(void *context)
{
    struct line *line = context;
    CHECK(shutdown(line->fd, SHUT_WR) == 0);
}

static void send_after_a_childs_shutdown_is_no_reset_by_the_peer(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.2");
    assert_true(exited_well(actor_wait(actor_fork(shut_in_child, &line))));
    assert_int_equal(send(line.fd, "more", 4, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    expect(&line.server, "1 in-flight");
    close(line.fd);
    expect(&line.server, "1 neutral:cancelled");
    bare.close(line.peer);
    server_stop(&line.server);
}

static void read_in_child(void *context)
{
    struct line *line = context;
    char byte;
    CHECK(recv(line->fd, &byte, 1, 0) == 1);
    close(line->fd);
}

static void answer_read_by_the_child_settles_the_call_once(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    answer(line.peer);
    assert_true(exited_well(actor_wait(actor_fork(read_in_child, &line))));
    expect(&line.server, "1 succeeded");
    wait_long();
    close(line.fd);
    expect(&line.server, "nothing");
    bare.close(line.peer);
    server_stop(&line.server);
}

/* Exits in every way, with the parent's connections open. */
static void exit_in_child(void *context)
{
    int way = *(int *)context;
    wait_long();
    if (way == 0)
        exit(3);
    if (way == 1)
        _exit(3);
    if (way == 2)
        quick_exit(3);
    syscall(SYS_exit_group, 3);
}

static void exit_of_a_forked_child_settles_nothing_of_the_parent(void **state)
{
    struct line line;
    struct server hole;
    (void)state;
    line_open(&line, "127.0.0.1");
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    int pending = caller_connect(&hole, SOCK_NONBLOCK);
    for (int way = 0; way < 4; way++) {
        int status = actor_wait(actor_fork(exit_in_child, &way));
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    expect(&hole, "1 in-flight");
    close(pending);
    expect(&hole, "1 failed:connect-timeout");
    line_finish(&line);
    server_stop(&hole);
}

/* Calls on its own account: an answered one, one that it closes too late, and one that its exit gives up. */
static void call_in_child(void *context)
{
    struct server *server = context;
    char byte;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = caller_connect(server, 0);
        int peer = server_accept(server);
        CHECK(send(fds[i], "request", 7, 0) == 7);
        if (i == 0)
            answer(peer);
    }
    CHECK(recv(fds[0], &byte, 1, 0) == 1);
    close(fds[0]);
    wait_long();
    close(fds[1]);
    _exit(0);
}

static void forked_child_calls_on_its_own_account(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    assert_true(exited_well(actor_wait(actor_fork(call_in_child, &server))));
    expect(&server, "1 succeeded, 1 failed:response-timeout, 1 neutral:unknown");
    server_stop(&server);
}

static void families_of_processes_share_a_circuit_and_each_has_its_calls(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    /* One after the other, for each accepts its own connections. */
    for (int i = 0; i < 3; i++)
        assert_true(exited_well(actor_wait(actor_fork(call_in_child, &server))));
    expect(&server, "3 succeeded, 3 failed:response-timeout, 3 neutral:unknown");
    server_stop(&server);
}

static void reuse_in_child(void *context)
{
    struct line *line = context;
    struct server own;
    char byte;
    /* The child closes its copy, and the number is used again for a call of its own. */
    server_start(&own, "127.0.0.2", SERVER_LISTENS);
    close(line->fd);
    CHECK(caller_socket(&own, 0) == line->fd); /* the lowest free number */
    CHECK(connect(line->fd, AT(&own)) == 0);
    int server_side = server_accept(&own);
    answer(server_side);
    CHECK(recv(line->fd, &byte, 1, 0) == 1);
    close(line->fd);
    CHECK(counted(&own, COUNT_SUCCEEDED) == 1);
}

static void number_of_the_parent_used_again_by_the_child_stays_the_parents_there(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    assert_true(exited_well(actor_wait(actor_fork(reuse_in_child, &line))));
    line_finish(&line);
}

/* --- vfork and spawn --- */

static void vforked_child_that_closes_everything_leaves_the_parents_calls(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    wait_long();
    /* CPython's subprocess: vfork, dup2 over standard input, close_range, exec. */
    for (int i = 0; i < 3; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            dup2(0, line.fd); /* in the child the number means something else now, in the parent it does not */
            if (i == 0)
                close_range(3, ~0u, 0);
            else if (i == 1)
                close(line.fd);
            else
                syscall(SYS_close_range, 3, ~0u, 0);
            execl("/bin/true", "true", NULL);
            _exit(99);
        }
        assert_true(pid > 0);
        assert_true(exited_well(actor_wait(pid)));
        expect(&line.server, "1 in-flight");
    }
    line_finish(&line);
}

static void vforked_child_that_exits_leaves_the_parents_calls(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    wait_long();
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/nonexistent/program", "program", NULL);
        _exit(127);
    }
    assert_int_equal(WEXITSTATUS(actor_wait(pid)), 127);
    expect(&line.server, "1 in-flight");
    /* And the parent is still guarded. */
    struct server other;
    server_start(&other, "127.0.0.1", SERVER_REFUSES);
    int fd = caller_socket(&other, 0);
    assert_int_equal(connect(fd, AT(&other)), -1);
    expect(&other, "1 failed:refused");
    close(fd);
    server_stop(&other);
    line_finish(&line);
}

static void spawned_and_popened_programs_leave_the_parents_calls(void **state)
{
    struct line line;
    posix_spawn_file_actions_t actions;
    char *arguments[] = {"true", NULL};
    pid_t pid;
    (void)state;
    line_open(&line, "127.0.0.1");
    wait_long();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, line.fd);
    posix_spawn_file_actions_adddup2(&actions, 0, line.fd);
    assert_int_equal(posix_spawn(&pid, "/bin/true", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_true(exited_well(actor_wait(pid)));
    assert_int_equal(system("exit 0"), 0);
    FILE *pipe = popen("echo text", "r");
    char text[16];
    assert_non_null(fgets(text, sizeof text, pipe));
    assert_int_equal(pclose(pipe), 0);
    line_finish(&line);
}

/* --- daemon --- */

static void daemon_twice_forked(void *context)
{
    struct server *server = context;
    CHECK(daemon(1, 1) == 0);
    call_in_child(server);
}

static void daemon_forked_twice_is_guarded(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    /* A connection from before the fork; daemon()'s parent ends with _exit(0). */
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    assert_true(exited_well(actor_wait(actor_fork(daemon_twice_forked, &server))));
    uint64_t end = now_ms() + 5000;
    while (counted(&server, COUNT_NEUTRAL_REASON + NEUTRAL_UNKNOWN) == 0 && now_ms() < end)
        wait_ms(5);
    expect(&server, "1 succeeded, 1 failed:response-timeout, 1 neutral:unknown, 1 in-flight");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* --- exec --- */

/* Starts with a connection that the former image made, as descriptor 50. */
static int scene_inherit(int argc, char **argv)
{
    char byte;
    (void)argc, (void)argv;
    CHECK(recv(50, &byte, 1, 0) == 1);
    close(50);
    return 0;
}

static void exec_with_a_connection_open(void *context)
{
    struct line *line = context;
    int flags = fcntl(line->fd, F_GETFD);
    CHECK(fcntl(line->fd, F_SETFD, flags & ~FD_CLOEXEC) == 0);
    CHECK(dup2(line->fd, 50) == 50);
    close(line->fd);
}

/* Makes a call, and becomes another program with it under way. */
static int scene_become(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_at_port(&server, argv[0]);
    int fd = caller_connect(&server, 0);
    CHECK(send(fd, "request", 7, 0) == 7);
    wait_long();
    CHECK(dup2(fd, 50) == 50);
    execl(stage_program(), stage_program(), "scene", "inherit", NULL);
    return 1;
}

static void connection_that_goes_through_exec_is_no_failure(void **state)
{
    struct line line;
    struct scene_options options = {.before = exec_with_a_connection_open, .context = &line};
    (void)state;
    line_open(&line, "127.0.0.1");
    answer(line.peer);
    assert_true(exited_well(scene_run("inherit", &options)));
    expect(&line.server, "1 in-flight");
    wait_long();
    close(line.fd);
    expect(&line.server, "1 succeeded");
    bare.close(line.peer);

    /* The caller's own image ends: its call has a dead owner, and nobody is charged. */
    struct scene_options become = {.arguments = {server_port(&line.server)}};
    pid_t pid = scene_start("become", &become);
    int peer = server_accept(&line.server);
    wait_long();
    answer(peer);
    assert_true(exited_well(actor_wait(pid)));
    expect(&line.server, "1 lost");
    bare.close(peer);
    server_stop(&line.server);
}

/* --- threads that connect while others fork --- */

static _Atomic bool stop;

static void *connect_for_ever(void *context)
{
    struct server *server = context;
    char byte;
    while (!atomic_load(&stop)) {
        int fd = caller_connect(server, 0);
        CHECK(recv(fd, &byte, 1, 0) == 1);
        close(fd);
    }
    return NULL;
}

static void *serve_for_ever(void *context)
{
    struct server *server = context;
    int fd;
    while ((fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        bare.send(fd, "a", 1, MSG_NOSIGNAL);
        bare.close(fd);
    }
    return NULL;
}

static void call_once(void *context)
{
    struct server *server = context;
    char byte;
    int fd = caller_connect(server, 0);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    close(fd);
    close_range(3, ~0u, 0);
}

static void forks_amid_connecting_threads_lose_and_charge_nothing(void **state)
{
    struct server server;
    pthread_t callers[4], servant;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    atomic_store(&stop, false);
    pthread_create(&servant, NULL, serve_for_ever, &server);
    for (int i = 0; i < 4; i++)
        pthread_create(&callers[i], NULL, connect_for_ever, &server);
    uint64_t end = now_ms() + 1000;
    unsigned int children = 0;
    while (now_ms() < end) {
        assert_true(exited_well(actor_wait(actor_fork(call_once, &server))));
        children++;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(callers[i], NULL);
    uint64_t succeeded = counted(&server, COUNT_SUCCEEDED);
    char words[64];
    snprintf(words, sizeof words, "%llu succeeded", (unsigned long long)succeeded);
    expect(&server, words);
    assert_true(succeeded > children);
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(servant, NULL);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"inherit", scene_inherit}, {"become", scene_become}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_that_a_child_goes_on_with_is_not_given_up_by_the_parents_close),
        cmocka_unit_test(connection_that_was_passed_on_is_not_given_up_by_the_close),
        cmocka_unit_test(kept_connection_that_was_passed_on_is_given_up_where_it_was_asked_again),
        cmocka_unit_test(send_after_a_childs_shutdown_is_no_reset_by_the_peer),
        cmocka_unit_test(close_in_a_forked_child_settles_nothing_of_the_parent),
        cmocka_unit_test(answer_read_by_the_child_settles_the_call_once),
        cmocka_unit_test(exit_of_a_forked_child_settles_nothing_of_the_parent),
        cmocka_unit_test(forked_child_calls_on_its_own_account),
        cmocka_unit_test(families_of_processes_share_a_circuit_and_each_has_its_calls),
        cmocka_unit_test(number_of_the_parent_used_again_by_the_child_stays_the_parents_there),
        cmocka_unit_test(vforked_child_that_closes_everything_leaves_the_parents_calls),
        cmocka_unit_test(vforked_child_that_exits_leaves_the_parents_calls),
        cmocka_unit_test(spawned_and_popened_programs_leave_the_parents_calls),
        cmocka_unit_test(daemon_forked_twice_is_guarded),
        cmocka_unit_test(connection_that_goes_through_exec_is_no_failure),
        cmocka_unit_test(forks_amid_connecting_threads_lose_and_charge_nothing),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
