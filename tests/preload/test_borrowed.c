/*
 * test_borrowed.c - what a child that runs in its parent's memory closes is its own affair: of vfork, of clone, and of
 * a vfork that went past libc's.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* --- what the child does with the number --- */

static void by_close(int fd)
{
    close(fd);
}

static void by_range(int fd)
{
    close_range((unsigned int)fd, (unsigned int)fd, 0);
}

static void by_dup2(int fd)
{
    dup2(0, fd);
}

static void by_number(int fd)
{
    syscall(SYS_close, fd);
}

static void (*const takings[])(int fd) = {by_close, by_range, by_dup2, by_number};
#define TAKINGS (sizeof takings / sizeof *takings)

/* --- how it is made --- */

struct part {
    void (*take)(int fd);
    int fd;
};

static int play_part(void *context)
{
    const struct part *part = context;
    part->take(part->fd);
    syscall(SYS_exit, 0); /* of this child alone, whatever it shares */
    return 0;
}

static void vforked(struct part *part)
{
    pid_t pid = vfork();
    if (pid == 0) {
        part->take(part->fd);
        _exit(0);
    }
    CHECK(pid > 0 && exited_well(actor_wait(pid)));
}

static void cloned(struct part *part, int flags)
{
    static _Alignas(16) char stack[1 << 16];
    pid_t pid = clone(play_part, stack + sizeof stack, flags | SIGCHLD, part);
    CHECK(pid > 0 && exited_well(actor_wait(pid)));
}

static void cloned_like_vfork(struct part *part)
{
    cloned(part, CLONE_VM | CLONE_VFORK);
}

static void cloned_beside(struct part *part)
{
    cloned(part, CLONE_VM);
}

/* By libc's own, which the library does not see. (The compiler does not see that it returns twice: nothing that the
 * parent needs may be written behind it.) */
static void vforked_unseen(struct part *part)
{
    pid_t (*unseen)(void) = (pid_t(*)(void))libc_symbol("vfork");
    pid_t pid = unseen();
    if (pid == 0) {
        part->take(part->fd);
        syscall(SYS_exit, 0);
    }
    CHECK(pid > 0 && exited_well(actor_wait(pid)));
}

static void (*const makings[])(struct part *part) = {vforked, cloned_like_vfork, cloned_beside, vforked_unseen};
#define MAKINGS (sizeof makings / sizeof *makings)
#define SEEN_MAKINGS (MAKINGS - 1)

/* --- the parent's connection --- */

struct line {
    struct server server;
    int fd, peer;
};

static void ask(const struct line *line)
{
    CHECK(send(line->fd, "request", 7, 0) == 7);
}

static void get_answer(const struct line *line)
{
    char bytes[16];
    CHECK(bare.send(line->peer, "answer", 6, 0) == 6);
    CHECK(recv(line->fd, bytes, sizeof bytes, 0) == 6);
}

static void line_open(struct line *line)
{
    server_start(&line->server, "127.0.0.1", SERVER_LISTENS);
    line->fd = caller_connect(&line->server, 0);
    line->peer = server_accept(&line->server);
    ask(line);
}

static void line_close(struct line *line)
{
    close(line->fd);
    bare.close(line->peer);
    expect(&line->server, "nothing");
    server_stop(&line->server);
}

/* The first child of a process: what one was told of another is not known from a former one. */
struct first_child {
    void (*make)(struct part *part);
    void (*take)(int fd);
    void (*play)(const struct first_child *child);
};

static void play_first_child(void *context)
{
    const struct first_child *child = context;
    child->play(child);
}

static void each(void (*play)(const struct first_child *child), size_t first, size_t end)
{
    for (size_t making = first; making < end; making++) {
        for (size_t taking = 0; taking < TAKINGS; taking++) {
            struct first_child child = {makings[making], takings[taking], play};
            if (!exited_well(actor_wait(actor_fork(play_first_child, &child))))
                fail_msg("making %zu, taking %zu", making, taking);
        }
    }
}

static void keep_call_in_flight(const struct first_child *child)
{
    struct line line;
    line_open(&line);
    wait_long();
    child->make(&(struct part){child->take, line.fd});
    expect(&line.server, "1 in-flight");
    get_answer(&line);
    expect(&line.server, "1 succeeded");
    line_close(&line);
}

static void call_in_flight_goes_on_whatever_such_a_child_closes(void **state)
{
    (void)state;
    each(keep_call_in_flight, 0, MAKINGS);
}

/* A child closes a connection between two calls; unless it was seen to, the connection may be unknown from then on. */
static void ask_again(const struct first_child *child, bool is_guarded)
{
    struct line line;
    line_open(&line);
    get_answer(&line);
    expect(&line.server, "1 succeeded");
    child->make(&(struct part){child->take, line.fd});
    ask(&line);
    if (is_guarded)
        expect(&line.server, "1 in-flight");
    get_answer(&line);
    if (is_guarded)
        expect(&line.server, "1 succeeded");
    close(line.fd);
    bare.close(line.peer);
    CHECK(counted(&line.server, COUNT_FAILED) == 0 && counted(&line.server, COUNT_NEUTRAL) == 0);
    server_stop(&line.server);
}

static void keep_connection(const struct first_child *child)
{
    ask_again(child, true);
}

static void kept_connection_stays_guarded_whatever_such_a_child_closes(void **state)
{
    (void)state;
    each(keep_connection, 0, SEEN_MAKINGS);
}

static void charge_nothing(const struct first_child *child)
{
    ask_again(child, false);
}

static void kept_connection_closed_by_a_child_that_nobody_saw_works_and_is_charged_nothing(void **state)
{
    (void)state;
    each(charge_nothing, SEEN_MAKINGS, MAKINGS);
}

static void connection_that_such_a_child_makes_is_nobodys(void **state)
{
    struct line line;
    (void)state;
    line_open(&line);
    pid_t pid = vfork();
    if (pid == 0) {
        int fd = caller_connect(&line.server, 0);
        send(fd, "x", 1, 0);
        _exit(0);
    }
    CHECK(pid > 0 && exited_well(actor_wait(pid)));
    expect(&line.server, "1 neutral:unknown, 1 in-flight");
    get_answer(&line);
    expect(&line.server, "1 succeeded");
    line_close(&line);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_in_flight_goes_on_whatever_such_a_child_closes),
        cmocka_unit_test(kept_connection_stays_guarded_whatever_such_a_child_closes),
        cmocka_unit_test(kept_connection_closed_by_a_child_that_nobody_saw_works_and_is_charged_nothing),
        cmocka_unit_test(connection_that_such_a_child_makes_is_nobodys),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
