/*
 * test_full_tables.c - a segment that has no room left: what finds none passes at once, is counted, and gets a place
 * when there is one again.
 */
/* links: core */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

#include "segment/circuits.h"
#include "segment/segment.h"

/* This program has one place; two more are for children. */
#define CAPACITY_POLICY                                                                                                \
    "[defaults]\ncapacity = 3 processes 4 circuits 6 connections\njournal = 5 events\n[all]\nmatch = 127.0.0.1:*\n"
#define CALLS 20
/* socket, connect and close; and what one try to join costs, of which there may be another each second. */
#define SYSTEM_CALLS (3 * CALLS)
#define TRIES 3
#define TRY_MAX 150

static uint64_t no_room(enum no_room kind)
{
    static struct segment segment;
    static struct segment_error error;
    char file[PATH_MAX], identity[PATH_MAX];
    assert_non_null(realpath(getenv("SOCKFUSE_POLICY"), identity));
    assert_true(segment_path(getenv("SOCKFUSE_STATE"), identity, file, sizeof file));
    assert_true(segment_open(&segment, file, false, &error));
    uint64_t count = segment_no_room(&segment, kind);
    segment_detach(&segment);
    return count;
}

static void call_once(const struct server *server)
{
    int fd = caller_socket(server, 0);
    CHECK(connect(fd, AT(server)) == 0);
    close(fd);
}

struct place {
    struct server *server;
    int ready[2];
};

static void take_a_place(void *context)
{
    struct place *place = context;
    call_once(place->server);
    CHECK(write(place->ready[1], "!", 1) == 1);
    for (;;)
        pause();
}

/* A child that has joined, and stays. */
static pid_t start_neighbour(struct server *server)
{
    struct place place = {.server = server};
    char byte;
    CHECK(pipe(place.ready) == 0);
    pid_t child = actor_fork(take_a_place, &place);
    CHECK(read(place.ready[0], &byte, 1) == 1);
    close(place.ready[0]);
    close(place.ready[1]);
    return child;
}

static void end_neighbour(pid_t child)
{
    CHECK(kill(child, SIGKILL) == 0);
    actor_wait(child);
}

static void call_without_a_place(void *context)
{
    call_once(context);
    syscall(MARK);
    for (int i = 0; i < CALLS; i++)
        call_once(context);
    syscall(MARK);
}

static void a_process_without_a_place_passes_at_once_and_is_counted(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    call_once(&server);
    pid_t first = start_neighbour(&server), second = start_neighbour(&server);
    uint64_t before = no_room(NO_ROOM_PROCESSES);
    int made = system_calls_of(call_without_a_place, &server, NULL, 0);
    assert_in_range(made, SYSTEM_CALLS, SYSTEM_CALLS + TRIES * TRY_MAX);
    assert_int_equal(no_room(NO_ROOM_PROCESSES) - before, CALLS + 1);
    end_neighbour(first);
    end_neighbour(second);
    server_stop(&server);
}

static void call_for_ever(void *context)
{
    for (;;) {
        call_once(context);
        wait_ms(50);
    }
}

static void it_gets_the_place_of_one_that_has_died(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    call_once(&server);
    pid_t first = start_neighbour(&server), second = start_neighbour(&server);
    uint64_t before = no_room(NO_ROOM_PROCESSES), admitted = counted(&server, COUNT_ADMITTED);
    pid_t late = actor_fork(call_for_ever, &server);
    for (int tries = 0; no_room(NO_ROOM_PROCESSES) == before; tries++) {
        assert_in_range(tries, 0, 500);
        wait_ms(10);
    }
    assert_int_equal(counted(&server, COUNT_ADMITTED), admitted);
    end_neighbour(first);
    for (int tries = 0; counted(&server, COUNT_ADMITTED) == admitted; tries++) {
        assert_in_range(tries, 0, 2000);
        wait_ms(10);
    }
    end_neighbour(late);
    end_neighbour(second);
    server_stop(&server);
}

static void destinations_beyond_the_room_pass_and_are_counted(void **state)
{
    struct server servers[8];
    unsigned int guarded = 0;
    (void)state;
    uint64_t before = no_room(NO_ROOM_CIRCUITS);
    for (int i = 0; i < 8; i++) {
        server_start(&servers[i], "127.0.0.1", SERVER_LISTENS);
        call_once(&servers[i]);
        guarded += has_circuit(&servers[i]);
    }
    assert_in_range(guarded, 0, 4);
    assert_int_equal(no_room(NO_ROOM_CIRCUITS) - before, 8 - guarded);
    for (int i = 0; i < 8; i++)
        server_stop(&servers[i]);
}

static void connections_beyond_the_room_pass_and_are_counted(void **state)
{
    struct server server;
    int fds[9];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    call_once(&server);
    if (!has_circuit(&server))
        fail_msg("the test that fills the circuits comes last");
    uint64_t before = no_room(NO_ROOM_CONNECTIONS);
    for (int i = 0; i < 9; i++)
        fds[i] = caller_connect(&server, 0);
    assert_int_equal(no_room(NO_ROOM_CONNECTIONS) - before, 9 - 6);
    for (int i = 0; i < 9; i++)
        close(fds[i]);
    call_once(&server);
    assert_int_equal(no_room(NO_ROOM_CONNECTIONS) - before, 9 - 6);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{NULL, NULL}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_without_a_place_passes_at_once_and_is_counted),
        cmocka_unit_test(it_gets_the_place_of_one_that_has_died),
        cmocka_unit_test(connections_beyond_the_room_pass_and_are_counted),
        cmocka_unit_test(destinations_beyond_the_room_pass_and_are_counted),
    };
    stage_enter(argc, argv, CAPACITY_POLICY, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
