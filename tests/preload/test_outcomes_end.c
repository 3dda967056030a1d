/*
 * test_outcomes_end.c - the ways in which a program ends its interest in a call: all forms of closing, exits, jumps,
 * cancelled threads.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* --- closing --- */

/* Other names that libc exports for the same functions. */
extern int __close(int fd);
extern int __dup2(int fd, int to);

static void end_by_close(int fd)
{
    assert_int_equal(close(fd), 0);
}
static void end_by_close_alias(int fd)
{
    assert_int_equal(__close(fd), 0);
}
static void end_by_system_call(int fd)
{
    assert_int_equal(syscall(SYS_close, fd), 0);
}
static void end_by_range(int fd)
{
    assert_int_equal(close_range((unsigned int)fd, (unsigned int)fd, 0), 0);
}
static void end_by_range_of_all(int fd)
{
    assert_int_equal(close_range((unsigned int)fd, ~0u, 0), 0);
}
static void end_by_range_system_call(int fd)
{
    assert_int_equal(syscall(SYS_close_range, fd, ~0u, 0), 0);
}
static void end_by_closefrom(int fd)
{
    closefrom(fd);
}
static void end_by_fclose(int fd)
{
    FILE *file = fdopen(fd, "r");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}
static void end_by_dup2(int fd)
{
    assert_int_equal(dup2(STDIN_FILENO, fd), fd);
    bare.close(fd);
}
static void end_by_dup2_alias(int fd)
{
    assert_int_equal(__dup2(STDIN_FILENO, fd), fd);
    bare.close(fd);
}
static void end_by_dup3(int fd)
{
    assert_int_equal(dup3(STDIN_FILENO, fd, O_CLOEXEC), fd);
    bare.close(fd);
}
static void end_by_dup2_system_call(int fd)
{
    assert_int_equal(syscall(SYS_dup3, STDIN_FILENO, fd, 0), fd);
    bare.close(fd);
}
static void end_by_shutdown(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}
static void end_by_half_close(int fd)
{
    shutdown(fd, SHUT_WR);
    close(fd);
}
static void end_by_shutdown_system_call(int fd)
{
    syscall(SYS_shutdown, fd, SHUT_RDWR);
    close(fd);
}

static const struct {
    const char *name;
    void (*end)(int fd);
} ends[] = {
    {"close", end_by_close},
    {"__close", end_by_close_alias},
    {"syscall(SYS_close)", end_by_system_call},
    {"close_range of one", end_by_range},
    {"close_range of all above", end_by_range_of_all},
    {"syscall(SYS_close_range)", end_by_range_system_call},
    {"closefrom", end_by_closefrom},
    {"fclose", end_by_fclose},
    {"dup2", end_by_dup2},
    {"__dup2", end_by_dup2_alias},
    {"dup3", end_by_dup3},
    {"syscall(SYS_dup3)", end_by_dup2_system_call},
    {"shutdown", end_by_shutdown},
    {"shutdown(SHUT_WR), close", end_by_half_close},
    {"syscall(SYS_shutdown)", end_by_shutdown_system_call},
};
#define ENDS (sizeof ends / sizeof *ends)
/* So high that a range from there on closes nothing else. */
#define HIGH 300

static int move_up(int fd)
{
    assert_int_equal(dup2(fd, HIGH), HIGH);
    assert_int_equal(close(fd), 0);
    return HIGH;
}

static void pending_attempt_ended_in_any_way_is_a_connect_timeout(void **state)
{
    struct server server;
    int fds[ENDS];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_BLACK_HOLE);
    for (size_t i = 0; i < ENDS; i++)
        fds[i] = caller_connect(&server, SOCK_NONBLOCK);
    wait_long();
    for (size_t i = 0; i < ENDS; i++) {
        char words[80];
        snprintf(words, sizeof words,
                 i + 1 < ENDS ? "1 failed:connect-timeout, %zu in-flight" : "1 failed:connect-timeout", ENDS - 1 - i);
        ends[i].end(move_up(fds[i]));
        at_hand = ends[i].name;
        expect(&server, words);
    }
    server_stop(&server);
}

static void waiting_request_ended_in_any_way_is_a_response_timeout(void **state)
{
    struct server server;
    int fds[ENDS];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < ENDS; i++) {
        fds[i] = caller_connect(&server, 0);
        assert_int_equal(send(fds[i], "request", 7, 0), 7);
    }
    wait_long();
    for (size_t i = 0; i < ENDS; i++) {
        char words[80];
        snprintf(words, sizeof words,
                 i + 1 < ENDS ? "1 failed:response-timeout, %zu in-flight" : "1 failed:response-timeout", ENDS - 1 - i);
        ends[i].end(move_up(fds[i]));
        at_hand = ends[i].name;
        expect(&server, words);
    }
    server_stop(&server);
}

static void ended_soon_in_any_way_is_a_cancellation(void **state)
{
    struct server server, hole;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    server_start(&hole, "127.0.0.2", SERVER_BLACK_HOLE);
    for (size_t i = 0; i < ENDS; i++) {
        int fd = caller_connect(&server, 0);
        assert_int_equal(send(fd, "request", 7, 0), 7);
        ends[i].end(move_up(fd));
        expect(&server, "1 neutral:cancelled");
        ends[i].end(move_up(caller_connect(&hole, SOCK_NONBLOCK)));
        expect(&hole, "1 neutral:cancelled");
    }
    server_stop(&server);
    server_stop(&hole);
}

static void what_closes_nothing_ends_nothing(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = move_up(caller_connect(&server, 0));
    assert_int_equal(send(fd, "request", 7, 0), 7);
    wait_long();
    assert_int_equal(close_range((unsigned int)fd, ~0u, CLOSE_RANGE_CLOEXEC), 0);
    assert_int_equal(close_range(~0u, (unsigned int)fd, 0), -1);
    assert_int_equal(close_range((unsigned int)fd + 1, ~0u, 0), 0);
    assert_int_equal(close_range((unsigned int)fd, ~0u, 0x40000000), -1);
    closefrom(fd + 1);
    assert_int_equal(dup2(999, fd), -1);
    assert_int_equal(dup2(fd, fd), fd);
    assert_int_equal(dup3(fd, fd, 0), -1);
    assert_int_equal(dup3(STDIN_FILENO, fd, 0x40000000), -1);
    assert_int_equal(syscall(SYS_dup3, 999, fd, 0), -1);
    assert_int_equal(shutdown(fd, 99), -1);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    expect(&server, "1 in-flight");
    close(fd);
    expect(&server, "1 failed:response-timeout");
    server_stop(&server);
}

/* --- the end of the process --- */

enum way { BY_EXIT, BY_UNDERSCORE, BY_CAPITAL, BY_QUICK, BY_GROUP, BY_RETURN, BY_THREAD, BY_KILL, BY_ABORT, WAYS };
static const char *const way_names[] = {"exit",   "_exit",        "_Exit",   "quick_exit", "exit_group",
                                        "return", "pthread_exit", "SIGKILL", "abort"};

/* arguments: port of the server, of the black hole, way, status */
static int scene_end(int argc, char **argv)
{
    struct server servers[2];
    (void)argc;
    for (int i = 0; i < 2; i++)
        server_at_port(&servers[i], argv[i]);
    int fd = caller_connect(&servers[0], 0), status = atoi(argv[3]);
    CHECK(send(fd, "request", 7, 0) == 7);
    caller_connect(&servers[1], SOCK_NONBLOCK);
    wait_long();
    switch (atoi(argv[2])) {
    case BY_EXIT:
        exit(status);
    case BY_UNDERSCORE:
        _exit(status);
    case BY_CAPITAL:
        _Exit(status);
    case BY_QUICK:
        quick_exit(status);
    case BY_GROUP:
        syscall(SYS_exit_group, status);
        break;
    case BY_THREAD:
        pthread_exit(NULL);
    case BY_KILL:
        kill(getpid(), SIGKILL);
        break;
    case BY_ABORT:
        abort();
    default:
        break;
    }
    return status;
}

static void end_process(struct server *server, struct server *hole, enum way way, const char *status)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)way);
    struct scene_options options = {.arguments = {server_port(server), server_port(hole), number, status}};
    at_hand = way_names[way];
    int ended = scene_run("end", &options);
    if (way == BY_KILL || way == BY_ABORT)
        assert_true(WIFSIGNALED(ended));
    else
        assert_int_equal(WEXITSTATUS(ended), atoi(status));
}

static void exit_gives_up_pending_attempts_and_with_a_bad_status_requests_too(void **state)
{
    struct server server, hole;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    for (enum way way = BY_EXIT; way <= BY_RETURN; way++) {
        end_process(&server, &hole, way, "0");
        expect(&server, "1 neutral:unknown"); /* a worker that is restarted while it waits */
        expect(&hole, "1 failed:connect-timeout");
        end_process(&server, &hole, way, "3");
        expect(&server, "1 failed:response-timeout");
        expect(&hole, "1 failed:connect-timeout");
    }
    end_process(&server, &hole, BY_THREAD, "0");
    expect(&server, "1 neutral:unknown");
    expect(&hole, "1 failed:connect-timeout");
    server_stop(&server);
    server_stop(&hole);
}

static void killed_process_charges_nobody(void **state)
{
    struct server server, hole;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    end_process(&server, &hole, BY_KILL, "0");
    expect(&server, "1 lost");
    expect(&hole, "1 lost");
    end_process(&server, &hole, BY_ABORT, "0");
    /* The second process's first attempt has given the first one's calls back. */
    expect(&server, "1 neutral:unknown, 1 lost");
    expect(&hole, "1 neutral:unknown, 1 lost");
    server_stop(&server);
    server_stop(&hole);
}

/* --- jumps and cancelled threads --- */

static sigjmp_buf back;

static void jump(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static void jump_after_ms(unsigned int ms)
{
    struct sigaction action = {.sa_handler = jump};
    struct itimerval soon = {.it_value = {.tv_usec = ms * 1000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void siglongjmp_out_of_connect_is_giving_up(void **state)
{
    struct server hole, refusing;
    volatile int fd = -1;
    (void)state;
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&refusing, "127.0.0.1", SERVER_REFUSES);
    for (int i = 0; i < 2; i++) {
        fd = caller_socket(&hole, 0);
        if (sigsetjmp(back, 1) == 0) {
            jump_after_ms(120);
            connect(fd, AT(&hole));
            fail_msg("connect came back");
        }
        close(fd);
        expect(&hole, "1 failed:connect-timeout");
        /* The thread is guarded as before. */
        fd = caller_socket(&refusing, 0);
        assert_int_equal(connect(fd, AT(&refusing)), -1);
        expect(&refusing, "1 failed:refused");
        close(fd);
    }
    server_stop(&hole);
    server_stop(&refusing);
}

static void siglongjmp_out_of_recv_leaves_the_call_as_it_is(void **state)
{
    struct server server;
    char byte;
    volatile int fd = -1;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    fd = caller_connect(&server, 0);
    int peer = server_accept(&server);
    if (sigsetjmp(back, 1) == 0) {
        jump_after_ms(15);
        recv(fd, &byte, 1, 0);
        fail_msg("recv came back");
    }
    expect(&server, "1 in-flight");
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

struct blocked {
    struct server *server;
    int fd;
};

static void close_blocked(void *context)
{
    struct blocked *blocked = context;
    close(blocked->fd);
}

static void *connect_blocked(void *context)
{
    struct blocked *blocked = context;
    pthread_cleanup_push(close_blocked, blocked);
    connect(blocked->fd, AT(blocked->server));
    pthread_cleanup_pop(0);
    return NULL;
}

static void *receive_blocked(void *context)
{
    struct blocked *blocked = context;
    char byte;
    pthread_cleanup_push(close_blocked, blocked);
    recv(blocked->fd, &byte, 1, 0);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancel_after_a_while(void *(*play)(void *), struct blocked *blocked)
{
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, play, blocked), 0);
    await_admitted(blocked->server);
    wait_long();
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

static void cancelled_thread_in_connect_or_recv_is_giving_up(void **state)
{
    struct server server, hole;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    struct blocked connecting = {&hole, caller_socket(&hole, 0)}, receiving = {&server, caller_connect(&server, 0)};
    assert_ptr_equal(cancel_after_a_while(connect_blocked, &connecting), PTHREAD_CANCELED);
    expect(&hole, "1 failed:connect-timeout");
    assert_int_equal(send(receiving.fd, "request", 7, 0), 7);
    assert_ptr_equal(cancel_after_a_while(receive_blocked, &receiving), PTHREAD_CANCELED);
    expect(&server, "1 failed:response-timeout");
    server_stop(&server);
    server_stop(&hole);
}

/* --- still hanging --- */

#define SECOND UINT64_C(1000000000)

static char clock_path[PATH_MAX];

static void clock_set(uint64_t ns)
{
    int fd = open(clock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && pwrite(fd, &ns, sizeof ns, 0) == sizeof ns);
    bare.close(fd);
}

/* Hangs on what stands at the port until it is killed. */
static int scene_overdue(int argc, char **argv)
{
    struct server hole, server;
    (void)argc, (void)argv;
    snprintf(clock_path, sizeof clock_path, "%s", getenv("SOCKFUSE_CLOCK"));
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int hanging = caller_connect(&hole, SOCK_NONBLOCK), connected = caller_connect(&server, SOCK_NONBLOCK);
    poll_for(connected, 4 /* POLLOUT */);
    clock_set(1010 * SECOND - 1);
    int second = caller_connect(&hole, SOCK_NONBLOCK);
    expect(&hole, "2 in-flight");
    clock_set(1010 * SECOND);
    /* The next admission finds the first one. */
    int third = caller_connect(&hole, SOCK_NONBLOCK);
    expect(&hole, "1 failed:connect-timeout, 1 overdue, 2 in-flight");
    close(hanging);
    expect(&hole, "1 overdue-ended, 2 in-flight");
    close(second);
    close(third);
    expect(&hole, "2 neutral:cancelled");

    /* The program has not asked, but the kernel knows that this one is connected. */
    int fourth = caller_connect(&server, SOCK_NONBLOCK);
    expect(&server, "2 in-flight");
    close(connected);
    close(fourth);
    expect(&server, "2 neutral:cancelled");
    return 0;
}

struct hanging {
    struct server *server;
    _Atomic int fd;
};

static void *connect_and_hang(void *context)
{
    struct hanging *hanging = context;
    hanging->fd = caller_socket(hanging->server, 0);
    connect(hanging->fd, AT(hanging->server));
    return NULL;
}

/* A blocking connect of another thread, which is charged while it stays where it is: over TCP, and at a full queue. */
static int scene_overdue_thread(int argc, char **argv)
{
    static const char *const places[] = {"127.0.0.1", "unix"};
    (void)argc, (void)argv;
    snprintf(clock_path, sizeof clock_path, "%s", getenv("SOCKFUSE_CLOCK"));
    for (size_t i = 0; i < 2; i++) {
        struct server hole;
        pthread_t thread;
        at_hand = places[i];
        clock_set((1000 + 100 * i) * SECOND);
        server_start(&hole, places[i], SERVER_BLACK_HOLE);
        struct hanging hanging = {&hole, -1};
        CHECK(pthread_create(&thread, NULL, connect_and_hang, &hanging) == 0);
        await_admitted(&hole);
        wait_long(); /* until it really hangs */
        clock_set((1010 + 100 * i) * SECOND);
        int second = caller_socket(&hole, SOCK_NONBLOCK);
        CHECK(connect(second, AT(&hole)) == -1 && (errno == EINPROGRESS || errno == EAGAIN));
        close(second);
        expect(&hole, i ? "1 failed:connect-timeout, 1 failed:refused, 1 overdue"
                        : "1 failed:connect-timeout, 1 neutral:cancelled, 1 overdue");
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
        close(hanging.fd);
        server_stop(&hole);
    }
    return 0;
}

/* A scene with a clock of its own, which it may set. */
static void run_with_clock(const char *scene, const char *policy)
{
    char variable[PATH_MAX + 32];
    snprintf(clock_path, sizeof clock_path, "%s/clock-of-%s", stage_folder(), scene);
    snprintf(variable, sizeof variable, "SOCKFUSE_CLOCK=%s", clock_path);
    clock_set(1000 * SECOND);
    struct scene_options options = {.policy = policy, .environment = {variable}};
    assert_true(exited_well(scene_run(scene, &options)));
}

static void overdue_attempts_of_other_threads_are_charged_over_tcp_and_unix(void **state)
{
    (void)state;
    run_with_clock("overdue-thread", "[t]\nmatch = 127.0.0.1:* unix:*\nabandon_after = 1m\n");
}

/* --- half a close --- */

/*
 * What the program waits after its half-close is a wait of its own, if it lasts; a close at once after it ends the wait
 * before it. abandon_after is 1 s.
 */
static int scene_half_close(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int long_ago = caller_connect(&server, 0), just_now = caller_connect(&server, 0);
    CHECK(send(long_ago, "request", 7, 0) == 7 && send(just_now, "request", 7, 0) == 7);
    wait_ms(960);
    shutdown(long_ago, SHUT_WR);
    wait_ms(160);
    close(long_ago);
    expect(&server, "1 neutral:cancelled, 1 in-flight");
    shutdown(just_now, SHUT_WR);
    close(just_now);
    expect(&server, "1 failed:response-timeout");
    server_stop(&server);
    return 0;
}

static void half_close_long_before_the_close_begins_a_wait_of_its_own(void **state)
{
    (void)state;
    struct scene_options options = {.policy = "[t]\nmatch = 127.0.0.1:*\nabandon_after = 1s\n"};
    assert_true(exited_well(scene_run("half-close", &options)));
}

static void overdue_attempts_are_charged_while_they_hang(void **state)
{
    (void)state;
    run_with_clock("overdue", "[t]\nmatch = 127.0.0.1:*\nabandon_after = 1m\n");
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"end", scene_end},
                                          {"overdue", scene_overdue},
                                          {"overdue-thread", scene_overdue_thread},
                                          {"half-close", scene_half_close},
                                          {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pending_attempt_ended_in_any_way_is_a_connect_timeout),
        cmocka_unit_test(waiting_request_ended_in_any_way_is_a_response_timeout),
        cmocka_unit_test(ended_soon_in_any_way_is_a_cancellation),
        cmocka_unit_test(what_closes_nothing_ends_nothing),
        cmocka_unit_test(exit_gives_up_pending_attempts_and_with_a_bad_status_requests_too),
        cmocka_unit_test(killed_process_charges_nobody),
        cmocka_unit_test(siglongjmp_out_of_connect_is_giving_up),
        cmocka_unit_test(siglongjmp_out_of_recv_leaves_the_call_as_it_is),
        cmocka_unit_test(cancelled_thread_in_connect_or_recv_is_giving_up),
        cmocka_unit_test(overdue_attempts_are_charged_while_they_hang),
        cmocka_unit_test(overdue_attempts_of_other_threads_are_charged_over_tcp_and_unix),
        cmocka_unit_test(half_close_long_before_the_close_begins_a_wait_of_its_own),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
