/*
 * test_lineage.c - what a child has of its parent: connections that were handed to it, in whatever way it was made, and
 * with scope = process the circuits, but none of the parent's calls.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
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

/* --- ways to make a child that comes to nothing --- */

static pid_t by_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid;
}

static pid_t by_vfork(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(0);
    return pid;
}

static int leave(void *unused)
{
    (void)unused;
    syscall(SYS_exit, 0);
    return 0;
}

static pid_t by_clone(void)
{
    static _Alignas(16) char stack[65536];
    return clone(leave, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static pid_t by_number_fork(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        syscall(SYS_exit_group, 0);
    return pid;
}

static char *const true_words[] = {"true", NULL};

static pid_t by_spawn(void)
{
    pid_t pid;
    CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, true_words, environ) == 0);
    return pid;
}

static pid_t by_spawn_in_path(void)
{
    pid_t pid;
    CHECK(posix_spawnp(&pid, "true", NULL, NULL, true_words, environ) == 0);
    return pid;
}

static pid_t by_system(void)
{
    CHECK(system("true") == 0);
    return 0;
}

static pid_t by_popen(void)
{
    FILE *pipe = popen("true", "r");
    CHECK(pipe && pclose(pipe) == 0);
    return 0;
}

static pid_t by_nothing(void)
{
    return 0;
}

static const struct way {
    const char *name;
    pid_t (*make)(void);
} ways[] = {
    {"fork", by_fork},         {"vfork", by_vfork},
    {"clone", by_clone},       {"clone by number", by_number_fork},
    {"posix_spawn", by_spawn}, {"posix_spawnp", by_spawn_in_path},
    {"system", by_system},     {"popen", by_popen},
};

enum behaviour { ASKS_NOTHING, ASKS, ASKS_AND_CLOSES_LATER };

/* Connects, lets it stay for a while, makes a child, and closes; what is counted says whether it was charged. */
static bool is_charged_after(pid_t (*make)(void), enum behaviour behaviour)
{
    struct server server;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    if (behaviour != ASKS_NOTHING)
        CHECK(send(fd, "request", 7, 0) == 7);
    wait_long();
    pid_t pid = make();
    CHECK(pid >= 0);
    if (behaviour == ASKS_AND_CLOSES_LATER)
        wait_long();
    close(fd);
    uint64_t charged = counted(&server, COUNT_FAILED), given_up = counted(&server, COUNT_NEUTRAL);
    assert_int_equal(charged + given_up, 1);
    if (pid > 0)
        actor_wait(pid);
    bare.close(peer);
    server_stop(&server);
    return charged != 0;
}

static void connection_that_any_child_may_have_is_not_given_up_by_the_close(void **state)
{
    (void)state;
    assert_true(is_charged_after(by_nothing, ASKS_NOTHING));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (is_charged_after(ways[i].make, ASKS_NOTHING))
            fail_msg("charged after %s", ways[i].name);
}

/* A helper that has nothing to do with it takes away no failure. */
static void request_of_ones_own_is_given_up_whatever_children_there_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!is_charged_after(ways[i].make, ASKS_AND_CLOSES_LATER))
            fail_msg("not charged after %s", ways[i].name);
}

/* The child may not have come to anything yet. Tried some times, for the machine may pause. */
static void request_whose_connection_is_closed_right_behind_a_fork_is_the_childs(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) { /* the others wait for the child */
        unsigned int tries = 0;
        while (is_charged_after(ways[i].make, ASKS))
            assert_true(++tries < 20);
    }
    assert_true(is_charged_after(by_nothing, ASKS));
}

/* --- handed over --- */

static pid_t hand_by_vfork(int fd)
{
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(fd, 0);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    return pid;
}

static pid_t hand_by_vfork_and_number(int fd)
{
    pid_t pid = vfork();
    if (pid == 0) {
        syscall(SYS_dup3, fd, 99, O_CLOEXEC);
        _exit(0);
    }
    return pid;
}

static pid_t hand_by_spawn(int fd)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    CHECK(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_adddup2(&actions, fd, 0) == 0 &&
          posix_spawn(&pid, "/bin/true", &actions, NULL, true_words, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* As libuv, perl and shells do it. */
static pid_t hand_by_fork(int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, 0);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    return pid;
}

static void request_whose_answer_a_spawned_child_reads_is_not_given_up(void **state)
{
    static pid_t (*const hands[])(int fd) = {hand_by_vfork, hand_by_vfork_and_number, hand_by_spawn, hand_by_fork};
    (void)state;
    for (size_t i = 0; i < sizeof hands / sizeof *hands; i++) {
        for (int again = 0; again < 2; again++) {
            struct server server;
            server_start(&server, "127.0.0.1", SERVER_LISTENS);
            int fd = caller_connect(&server, 0), peer = server_accept(&server);
            CHECK(send(fd, "request", 7, 0) == 7);
            wait_long();
            actor_wait(hands[i](fd));
            wait_long(); /* no longer right behind it */
            if (again) { /* it is the parent's after all */
                CHECK(send(fd, "request", 7, 0) == 7);
                wait_long();
            }
            close(fd);
            expect(&server, again ? "1 failed:response-timeout" : "1 neutral:unknown");
            bare.close(peer);
            server_stop(&server);
        }
    }
}

/* --- exec --- */

static void exec_that_fails_leaves_everything_as_it_was(void **state)
{
    static char *const words[] = {"nothing", NULL};
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    CHECK(send(fd, "request", 7, 0) == 7);
    assert_int_equal(execv("/nowhere/nothing", words), -1);
    assert_int_equal(execvp("nothing-of-this-name", words), -1);
    assert_int_equal(execve("/etc/passwd", words, environ), -1);
    expect(&server, "1 in-flight");
    CHECK(bare.send(peer, "answer", 6, 0) == 6 && recv(fd, &byte, 1, 0) == 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* --- scope = process --- */

#define OWN                                                                                                            \
    "[own]\nmatch = 127.0.0.1:*\nscope = process\nfailure_threshold = 1\nreset_timeout = 1h\nresponse_timeout = 1s\n"  \
    "connect_timeout = 1m\nfailure_rate = 0%\n"

static pid_t fork_by_number(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* What is played in a child, a grandchild, and a child that libc knows nothing of, each from a fresh start. */
static void play_in_children(void (*prepare)(struct server *server), void (*play)(struct server *server))
{
    for (int way = 0; way < 3; way++) {
        struct server server;
        server_start(&server, "127.0.0.1", SERVER_LISTENS);
        prepare(&server);
        pid_t pid = way == 2 ? fork_by_number() : fork();
        if (pid == 0) {
            if (way == 1)
                _exit(exited_well(actor_wait(actor_fork((void (*)(void *))play, &server))) ? 0 : 1);
            play(&server);
            _exit(0);
        }
        CHECK(exited_well(actor_wait(pid)));
        server_stop(&server);
    }
}

static bool is_refused(const struct server *server)
{
    int fd = caller_socket(server, 0), result = connect(fd, AT(server));
    if (result < 0)
        CHECK(errno == ECONNREFUSED);
    return result < 0;
}

static void ask(struct server *server)
{
    int fd = caller_connect(server, 0);
    server_accept(server);
    CHECK(send(fd, "request", 7, 0) == 7);
}

static void answer_then_come_back_later(struct server *server)
{
    char byte;
    int fd = caller_connect(server, 0), peer = server_accept(server);
    CHECK(send(fd, "request", 7, 0) == 7 && bare.send(peer, "answer", 6, 0) == 6 && recv(fd, &byte, 1, 0) == 1);
    advance_s(2);
    CHECK(!is_refused(server));
}

static int scene_overdue(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    play_in_children(ask, answer_then_come_back_later);
    /* The parent is charged for its own. */
    struct server server;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    ask(&server);
    advance_s(2);
    CHECK(is_refused(&server));
    return 0;
}

static void take_the_only_place(struct server *server)
{
    CHECK(!is_refused(server) && is_refused(server));
}

static int scene_places(int argc, char **argv)
{
    (void)argc, (void)argv;
    play_in_children(take_the_only_place, take_the_only_place);
    return 0;
}

static void open_it(struct server *server)
{
    int fd = caller_connect(server, 0);
    char byte;
    bare.close(server_accept(server));
    CHECK(recv(fd, &byte, 1, 0) == 0 && is_refused(server));
    close(fd);
}

static void find_it_open(struct server *server)
{
    CHECK(is_refused(server));
}

static void open_it_and_probe(struct server *server)
{
    open_it(server);
    advance_s(3601 * 2);
    CHECK(!is_refused(server) && is_refused(server)); /* the probe, and who comes beside it */
}

static void probe_too(struct server *server)
{
    CHECK(!is_refused(server) && is_refused(server));
}

static int scene_states(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    play_in_children(open_it, find_it_open);
    play_in_children(open_it_and_probe, probe_too);
    return 0;
}

static void child_is_not_charged_for_its_parents_calls(void **state)
{
    (void)state;
    play_with_clock("overdue", OWN, NULL);
}

static void child_has_its_own_places_of_max_connections(void **state)
{
    (void)state;
    play_with_clock("places", OWN "max_connections = 1\n", NULL);
}

static void child_begins_with_what_the_circuits_know_but_without_the_probes(void **state)
{
    (void)state;
    play_with_clock("states", OWN, NULL);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"overdue", scene_overdue}, {"places", scene_places}, {"states", scene_states}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_that_any_child_may_have_is_not_given_up_by_the_close),
        cmocka_unit_test(request_of_ones_own_is_given_up_whatever_children_there_are),
        cmocka_unit_test(request_whose_connection_is_closed_right_behind_a_fork_is_the_childs),
        cmocka_unit_test(request_whose_answer_a_spawned_child_reads_is_not_given_up),
        cmocka_unit_test(exec_that_fails_leaves_everything_as_it_was),
        cmocka_unit_test(child_is_not_charged_for_its_parents_calls),
        cmocka_unit_test(child_has_its_own_places_of_max_connections),
        cmocka_unit_test(child_begins_with_what_the_circuits_know_but_without_the_probes),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
