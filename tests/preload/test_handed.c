/*
 * test_handed.c - connections that another program goes on with: a probe that is handed on has shown that the peer
 * takes connections, and the circuit closes; any other call is neither charged nor overdue.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "support_clock.h"
#include "support_passing.h"

#define PROBED                                                                                                         \
    "[probed]\nmatch = 127.0.0.1:* unix:*\nfailure_threshold = 1\nreset_timeout = 1s\njitter = 0%\n"                   \
    "probe_timeout = 1h\nconnect_timeout = 1h\nresponse_timeout = 2s\nfailure_rate = 0%\nabandon_after = 50ms\n"

static int try(const struct server *server)
{
    int fd = caller_socket(server, 0);
    if (connect(fd, AT(server)) == 0)
        return fd;
    CHECK(errno == ECONNREFUSED);
    close(fd);
    return -1;
}

/* --- ways to hand a connection on --- */

static char *const true_words[] = {"true", NULL};
static char *const none[] = {NULL};

static void send_away(int fd)
{
    int ends[2];
    struct passing_message passing;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    passing_begin(&passing, fd);
    CHECK(sendmsg(ends[0], &passing.message, 0) == 1);
    close(ends[0]);
    close(ends[1]);
}

static void send_away_and_close(int fd)
{
    send_away(fd);
    close(fd);
}

static void vfork_and_become(int fd)
{
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(fd, 0);
        execve("/bin/true", true_words, none);
        _exit(1);
    }
    CHECK(exited_well(actor_wait(pid)));
}

static void vfork_with_the_number(int fd)
{
    CHECK(fcntl(fd, F_SETFD, 0) == 0);
    pid_t pid = vfork();
    if (pid == 0) {
        execve("/bin/true", true_words, none);
        _exit(1);
    }
    CHECK(exited_well(actor_wait(pid)));
}

static void fork_and_become(int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, 0);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK(exited_well(actor_wait(pid)));
}

static void fork_with_the_number(int fd)
{
    CHECK(fcntl(fd, F_SETFD, 0) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        execv("/bin/true", true_words);
        _exit(1);
    }
    CHECK(exited_well(actor_wait(pid)));
}

static void spawn_over_input(int fd)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_adddup2(&actions, fd, 0) == 0 &&
          posix_spawn(&pid, "/bin/true", &actions, NULL, true_words, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(exited_well(actor_wait(pid)));
}

static void spawn_with_the_number(int fd)
{
    pid_t pid = -1;
    CHECK(fcntl(fd, F_SETFD, 0) == 0 && posix_spawnp(&pid, "true", NULL, NULL, true_words, none) == 0);
    CHECK(exited_well(actor_wait(pid)));
}

static void leave_to_a_child(int fd)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    close(fd);
    CHECK(exited_well(actor_wait(pid)));
}

static void (*const ways[])(int fd) = {
    send_away,        send_away_and_close,  vfork_and_become, vfork_with_the_number,
    fork_and_become,  fork_with_the_number, spawn_over_input, spawn_with_the_number,
    leave_to_a_child,
};
#define WAYS (sizeof ways / sizeof *ways)

/* --- becoming another program, as the process that has the connection; these do not come back --- */

static void become_by_execve(int fd)
{
    (void)fd;
    execve("/bin/true", true_words, none);
}

static void become_by_many_words(int fd)
{
    dup2(fd, 6);
    execl("/bin/sh", "sh", "-c", "test $# = 6", "sh", "1", "2", "3", "4", "5", "6", NULL);
}

static void become_in_path(int fd)
{
    dup2(fd, 6);
    close(fd);
    execlp("true", "true", NULL);
}

static void become_with_environment(int fd)
{
    dup2(fd, 6);
    execle("/bin/sh", "sh", "-c", "test \"$A$B\" = 12 && test $# = 1", "sh", "1", NULL,
           ((char *const[]){"A=1", "B=2", NULL}));
}

static void become_by_vector(int fd)
{
    (void)fd;
    execvp("true", true_words);
}

static void become_by_number(int fd)
{
    (void)fd;
    syscall(SYS_execve, "/bin/true", true_words, none);
}

static void become_by_descriptor(int fd)
{
    (void)fd;
    fexecve(open("/bin/true", O_RDONLY | O_CLOEXEC), true_words, environ);
}

static void (*const becoming[])(int fd) = {
    become_by_execve, become_by_many_words, become_in_path,       become_with_environment,
    become_by_vector, become_by_number,     become_by_descriptor,
};
#define BECOMING (sizeof becoming / sizeof *becoming)

/* --- the circuit --- */

static void open_circuit(struct server *server)
{
    int fd = caller_connect(server, 0);
    char byte;
    CHECK(send(fd, "request", 7, 0) == 7);
    int peer = server_accept(server);
    shutdown(peer, SHUT_WR);
    CHECK(recv(fd, &byte, 1, 0) == 0);
    close(fd);
    bare.close(peer);
    CHECK(try(server) < 0);
    advance_s(2);
}

/* Two at a time: only a closed circuit lets them. */
static bool is_closed(struct server *server)
{
    int one = try(server), other = one < 0 ? -1 : try(server);
    close(one);
    close(other);
    return other >= 0;
}

static int scene_probes(int argc, char **argv)
{
    struct server server;
    (void)argc;
    CHECK(find_clock());
    for (size_t i = 0; i < WAYS; i++) {
        for (int asks = 0; asks < 2; asks++) {
            bool is_asked_first = asks && (ways[i] == vfork_with_the_number || ways[i] == fork_with_the_number ||
                                           ways[i] == spawn_with_the_number);
            server_start(&server, argv[0], SERVER_LISTENS);
            open_circuit(&server);
            int fd = caller_connect(&server, SOCK_CLOEXEC);
            if (asks)
                CHECK(send(fd, "request", 7, 0) == 7);
            CHECK(try(&server) < 0);
            ways[i](fd);
            /* A program that a child becomes may know nothing of a number, and then the answer is still to come. */
            if (is_closed(&server) == is_asked_first) {
                fprintf(stderr, "way %zu, %s: ", i, asks ? "asked" : "not asked");
                return 1;
            }
            server_stop(&server);
        }
    }
    for (size_t i = 0; i < BECOMING; i++) {
        server_start(&server, argv[0], SERVER_LISTENS);
        open_circuit(&server);
        pid_t pid = fork();
        if (pid == 0) {
            int fd = caller_connect(&server, 0);
            CHECK(fcntl(fd, F_SETFD, 0) == 0);
            becoming[i](fd);
            _exit(1);
        }
        CHECK(exited_well(actor_wait(pid)));
        if (!is_closed(&server)) {
            fprintf(stderr, "becoming %zu: ", i);
            return 1;
        }
        server_stop(&server);
    }
    return 0;
}

static int scene_not_handed(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    CHECK(find_clock());
    /* It goes with the exec. */
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    open_circuit(&server);
    pid_t pid = fork();
    if (pid == 0) {
        caller_connect(&server, SOCK_CLOEXEC);
        become_by_execve(-1);
        _exit(1);
    }
    CHECK(exited_well(actor_wait(pid)) && !is_closed(&server));
    server_stop(&server);
    /* Whoever takes it and says nothing. */
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    open_circuit(&server);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    shutdown(peer, SHUT_WR);
    poll_for(fd, POLLRDHUP);
    send_away_and_close(fd);
    CHECK(!is_closed(&server));
    server_stop(&server);
    return 0;
}

static int scene_overdue(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    CHECK(find_clock());
    for (size_t i = 0; i < WAYS; i++) {
        if (ways[i] == vfork_with_the_number || ways[i] == fork_with_the_number || ways[i] == spawn_with_the_number ||
            ways[i] == leave_to_a_child)
            continue;
        server_start(&server, "127.0.0.1", SERVER_LISTENS);
        int fd = caller_connect(&server, 0);
        CHECK(send(fd, "request", 7, 0) == 7);
        ways[i](fd);
        advance_s(30);
        pid_t pid = fork(); /* another process can't ask the kernel about it */
        if (pid == 0)
            _exit(try(&server) < 0);
        CHECK(exited_well(actor_wait(pid)));
        if (try(&server) < 0) {
            fprintf(stderr, "way %zu: ", i);
            return 1;
        }
        server_stop(&server);
    }
    return 0;
}

static void play(const char *scene, const char *host)
{
    play_with_clock(scene, PROBED, host);
}

static void probe_that_is_handed_on_closes_the_circuit(void **state)
{
    (void)state;
    play("probes", "127.0.0.1");
}

static void probe_of_a_unix_socket_that_is_handed_on_closes_the_circuit(void **state)
{
    (void)state;
    play("probes", "unix");
}

static void probe_that_nobody_has_got_or_whose_peer_has_left_proves_nothing(void **state)
{
    (void)state;
    play("not-handed", NULL);
}

static void call_that_is_handed_on_is_never_overdue(void **state)
{
    (void)state;
    play("overdue", NULL);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"probes", scene_probes}, {"not-handed", scene_not_handed}, {"overdue", scene_overdue}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_that_is_handed_on_closes_the_circuit),
        cmocka_unit_test(probe_of_a_unix_socket_that_is_handed_on_closes_the_circuit),
        cmocka_unit_test(probe_that_nobody_has_got_or_whose_peer_has_left_proves_nothing),
        cmocka_unit_test(call_that_is_handed_on_is_never_overdue),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
