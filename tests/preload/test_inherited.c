/*
 * test_inherited.c - one connection in several processes: what a fork's child sees of it counts for the call, and who
 * leaves while a child reads gives nothing up.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "support_clock.h"

struct line {
    struct server server;
    int fd, peer, told[2]; /* a pipe */
};

static void line_open(struct line *line, const char *host)
{
    server_start(&line->server, host, SERVER_LISTENS);
    line->fd = caller_connect(&line->server, 0);
    line->peer = server_accept(&line->server);
    CHECK(pipe(line->told) == 0);
}

static void line_close(struct line *line)
{
    close(line->fd);
    bare.close(line->peer);
    close(line->told[0]);
    close(line->told[1]);
    server_stop(&line->server);
}

static void ask(struct line *line)
{
    CHECK(send(line->fd, "request", 7, 0) == 7);
}

static void answer(struct line *line, const char *bytes)
{
    CHECK(bare.send(line->peer, bytes, strlen(bytes), 0) == (ssize_t)strlen(bytes));
}

/* Until the child sleeps in the call that it was about to make. */
static void await_child_asleep(pid_t child)
{
    char path[64], text[400];
    uint64_t end = now_ms() + 5000;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    for (int asleep = 0; asleep < 3;) {
        FILE *file = fopen(path, "re");
        CHECK(file && fgets(text, sizeof text, file) && fclose(file) == 0 && now_ms() < end);
        const char *state = strrchr(text, ')');
        asleep = state && state[2] == 'S' ? asleep + 1 : 0;
        wait_ms(5);
    }
}

/* --- children that read one answer --- */

static void read_all(void *context)
{
    struct line *line = context;
    char bytes[256];
    CHECK(recv(line->fd, bytes, sizeof bytes, 0) > 0);
}

static void read_by_call(void *context)
{
    struct line *line = context;
    char bytes[256];
    CHECK(read(line->fd, bytes, sizeof bytes) > 0);
}

static void read_by_number(void *context)
{
    struct line *line = context;
    char bytes[256];
    CHECK(syscall(SYS_read, line->fd, bytes, sizeof bytes) > 0);
}

static void read_another_number(void *context)
{
    struct line *line = context;
    line->fd = dup(line->fd);
    read_all(line);
}

static void read_in_grandchild(void *context)
{
    CHECK(exited_well(actor_wait(actor_fork(read_all, context))));
}

static void read_in_third_generation(void *context)
{
    CHECK(exited_well(actor_wait(actor_fork(read_in_grandchild, context))));
}

/* A child that has had calls of its own, and so a place in the segment. */
static void call_and_read(void *context)
{
    struct line own;
    line_open(&own, "127.0.0.2");
    ask(&own);
    answer(&own, "answer");
    read_all(&own);
    close(own.fd);
    read_all(context);
}

static pid_t fork_by_number(void (*play)(void *), void *context)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        play(context);
        _exit(0);
    }
    return pid;
}

static const struct reader {
    pid_t (*fork)(void (*play)(void *), void *context);
    void (*read)(void *context);
} readers[] = {
    {actor_fork, read_all},           {actor_fork, read_by_call},
    {actor_fork, read_by_number},     {actor_fork, read_another_number},
    {actor_fork, read_in_grandchild}, {actor_fork, read_in_third_generation},
    {actor_fork, call_and_read},      {fork_by_number, read_all},
};
#define READERS (sizeof readers / sizeof *readers)

static void answer_that_a_descendant_reads_settles_the_call(void **state)
{
    (void)state;
    for (size_t i = 0; i < READERS; i++) {
        struct line line;
        line_open(&line, "127.0.0.1");
        ask(&line);
        answer(&line, "answer");
        assert_true(exited_well(actor_wait(readers[i].fork(readers[i].read, &line))));
        expect(&line.server, "1 succeeded");
        wait_long();
        line_close(&line);
    }
}

static void greeting_that_a_child_reads_settles_the_call(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    answer(&line, "220 ready");
    assert_true(exited_well(actor_wait(actor_fork(read_all, &line))));
    expect(&line.server, "1 succeeded");
    line_close(&line);
}

static void status_that_a_child_reads_is_judged(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    ask(&line);
    answer(&line, "HTTP/1.1 503 No\r\n\r\n");
    assert_true(exited_well(actor_wait(actor_fork(read_all, &line))));
    expect(&line.server, "1 failed:http");
    line_close(&line);
}

static void read_end(void *context)
{
    struct line *line = context;
    char byte;
    CHECK(recv(line->fd, &byte, 1, 0) <= 0);
}

static void end_that_a_child_sees_counts(void **state)
{
    static const char *const words[] = {"1 failed:early-close", "1 failed:reset"};
    (void)state;
    for (int resets = 0; resets < 2; resets++) {
        struct line line;
        line_open(&line, "127.0.0.1");
        ask(&line);
        char bytes[16];
        CHECK(bare.recv(line.peer, bytes, sizeof bytes, 0) == 7);
        if (resets)
            server_reset(line.peer);
        else
            shutdown(line.peer, SHUT_WR);
        assert_true(exited_well(actor_wait(actor_fork(read_end, &line))));
        expect(&line.server, words[resets]);
        if (resets)
            line.peer = dup(line.fd);
        line_close(&line);
    }
}

static void end_of_the_parents_own_making_counts_for_nothing_in_the_child(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.2");
    ask(&line);
    int (*shutdown_unseen)(int fd, int how) = libc_symbol("shutdown");
    pid_t child = actor_fork(read_end, &line);
    CHECK(shutdown_unseen(line.fd, SHUT_RD) == 0);
    assert_true(exited_well(actor_wait(child)));
    expect(&line.server, "1 in-flight");
    line_close(&line);
}

/* --- one writes, the other reads --- */

static void read_and_tell(void *context)
{
    struct line *line = context;
    char bytes[256];
    ssize_t got;
    while ((got = recv(line->fd, bytes, sizeof bytes, 0)) > 0)
        CHECK(write(line->told[1], bytes, 1) == 1);
}

static void parent_writes_and_child_reads_many_times(void **state)
{
    struct line line;
    char byte;
    (void)state;
    line_open(&line, "127.0.0.1");
    pid_t child = actor_fork(read_and_tell, &line);
    for (int i = 0; i < 5; i++) {
        ask(&line);
        answer(&line, "answer");
        CHECK(read(line.told[0], &byte, 1) == 1);
        /* The child tells behind its wrapper. */
        expect(&line.server, "1 succeeded");
    }
    /* The last words have no answer, and then the parent leaves, late. */
    ask(&line);
    wait_long();
    close(line.fd);
    expect(&line.server, "1 neutral:unknown");
    shutdown(line.peer, SHUT_RDWR);
    assert_true(exited_well(actor_wait(child)));
    line.fd = line.told[0];
    bare.close(line.peer);
    close(line.told[0]);
    close(line.told[1]);
    server_stop(&line.server);
}

/* Whoever has read the answer before, what the parent has read itself is its own again. */
static void answer_that_comes_here_again_makes_the_connection_the_parents(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    ask(&line);
    answer(&line, "answer");
    assert_true(exited_well(actor_wait(actor_fork(read_all, &line))));
    ask(&line);
    answer(&line, "answer");
    read_all(&line);
    wait_ms(20); /* the time of a request is a tick's */
    ask(&line);
    wait_long();
    close(line.fd);
    expect(&line.server, "2 succeeded, 1 failed:response-timeout");
    line.fd = line.told[0];
    line_close(&line);
}

static void parent_that_leaves_while_a_child_waits_gives_nothing_up(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    pid_t child = actor_fork(read_end, &line);
    await_child_asleep(child);
    ask(&line);
    wait_long();
    close(line.fd);
    expect(&line.server, "1 neutral:unknown");
    shutdown(line.peer, SHUT_RDWR);
    assert_true(exited_well(actor_wait(child)));
    line.fd = line.told[0];
    line_close(&line);
}

static void ask_in_child(void *context)
{
    ask(context);
}

static void answer_to_a_childs_request_is_the_calls(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.1");
    assert_true(exited_well(actor_wait(actor_fork(ask_in_child, &line))));
    answer(&line, "answer");
    read_all(&line);
    expect(&line.server, "1 succeeded");
    line_close(&line);
}

/* The record, and the parent's memory, are used again by the next connection; the child's memory is of the former. */
static void child_of_a_former_connection_settles_nothing_of_the_next_one(void **state)
{
    struct line line;
    (void)state;
    line_open(&line, "127.0.0.2");
    ask(&line);
    struct line former = line;
    pid_t child = actor_fork(read_all, &former);
    await_child_asleep(child);
    close(line.fd);
    expect(&line.server, "1 neutral:unknown");
    line.fd = caller_connect(&line.server, 0);
    line.peer = server_accept(&line.server);
    ask(&line);
    answer(&former, "answer");
    assert_true(exited_well(actor_wait(child)));
    expect(&line.server, "1 in-flight");
    bare.close(former.peer);
    line_close(&line);
}

/* --- what is overdue --- */

#define LIMITED                                                                                                        \
    "[limited]\nmatch = 127.0.0.1:*\nresponse_timeout = 2s\nfailure_threshold = 1\nreset_timeout = 1h\n"               \
    "connect_timeout = 1m\nfailure_rate = 0%\n"

static bool is_refused(const struct server *server)
{
    int fd = caller_socket(server, 0), result = connect(fd, AT(server));
    if (result < 0)
        CHECK(errno == ECONNREFUSED);
    return result < 0;
}

/* Asked from another process too, which can't ask the kernel about the connection. */
static void find_nothing_overdue(void *context)
{
    CHECK(!is_refused(context));
}

static void expect_nothing_overdue(struct server *server)
{
    advance_s(30);
    CHECK(exited_well(actor_wait(actor_fork(find_nothing_overdue, server))));
    CHECK(!is_refused(server));
}

static int scene_overdue(int argc, char **argv)
{
    (void)argc, (void)argv;
    CHECK(find_clock());
    struct line line;
    /* Answered, and the child has read it. */
    line_open(&line, "127.0.0.1");
    ask(&line);
    answer(&line, "answer");
    CHECK(exited_well(actor_wait(actor_fork(read_all, &line))));
    expect_nothing_overdue(&line.server);
    /* The child asks late. */
    line_open(&line, "127.0.0.1");
    advance_s(1);
    CHECK(exited_well(actor_wait(actor_fork(ask_in_child, &line))));
    advance_s(1);
    CHECK(!is_refused(&line.server));
    /* But a child that waits in vain is as good as the parent. */
    pid_t child = actor_fork(read_end, &line);
    await_child_asleep(child);
    ask(&line);
    advance_s(30);
    CHECK(is_refused(&line.server));
    shutdown(line.peer, SHUT_RDWR);
    CHECK(exited_well(actor_wait(child)));
    return 0;
}

static void only_what_no_process_has_seen_answered_is_overdue(void **state)
{
    (void)state;
    play_with_clock("overdue", LIMITED, NULL);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"overdue", scene_overdue}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_that_a_descendant_reads_settles_the_call),
        cmocka_unit_test(greeting_that_a_child_reads_settles_the_call),
        cmocka_unit_test(status_that_a_child_reads_is_judged),
        cmocka_unit_test(end_that_a_child_sees_counts),
        cmocka_unit_test(end_of_the_parents_own_making_counts_for_nothing_in_the_child),
        cmocka_unit_test(parent_writes_and_child_reads_many_times),
        cmocka_unit_test(answer_that_comes_here_again_makes_the_connection_the_parents),
        cmocka_unit_test(parent_that_leaves_while_a_child_waits_gives_nothing_up),
        cmocka_unit_test(answer_to_a_childs_request_is_the_calls),
        cmocka_unit_test(child_of_a_former_connection_settles_nothing_of_the_next_one),
        cmocka_unit_test(only_what_no_process_has_seen_answered_is_overdue),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
