/*
 * test_segment_lost.c - the segment's file goes away under a running program (a cleaner of /run, an operator): it
 * attaches again.
 */
/* links: core */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

#define LOOKS_EVERY_MS 1000
#define CALLS_EVERY_MS 20

/* Deletes all segments; returns how many there were. */
static int delete_segments(void)
{
    const char *folder = getenv("SOCKFUSE_STATE");
    char path[PATH_MAX];
    struct dirent *entry;
    int count = 0;
    DIR *list = opendir(folder);
    CHECK(list != NULL);
    while ((entry = readdir(list)))
        if (strstr(entry->d_name, ".segment")) {
            snprintf(path, sizeof path, "%s/%.255s", folder, entry->d_name);
            CHECK(unlink(path) == 0);
            count++;
        }
    closedir(list);
    return count;
}

static void fail_once(struct server *server)
{
    int fd = caller_socket(server, 0);
    assert_int_equal(connect(fd, AT(server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
}

/* Calls until a segment is there again, at most some seconds; returns how many calls it took. */
static unsigned int fail_until_attached(struct server *server)
{
    char path[PATH_MAX];
    unsigned int calls = 0;
    do {
        fail_once(server);
        calls++;
        DIR *list = opendir(getenv("SOCKFUSE_STATE"));
        struct dirent *entry = NULL;
        while (list && (entry = readdir(list)) && !strstr(entry->d_name, ".segment")) {
        }
        if (list)
            closedir(list);
        if (entry)
            return calls;
        wait_ms(CALLS_EVERY_MS);
    } while (calls < 3 * LOOKS_EVERY_MS / CALLS_EVERY_MS); /* so many even if the machine pauses meanwhile */
    snprintf(path, sizeof path, "%s", getenv("SOCKFUSE_STATE"));
    fail_msg("no segment came back in %s", path);
    return 0;
}

static void deleted_file_is_made_anew_within_a_second_or_two(void **state)
{
    struct server server, healthy;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    server_start(&healthy, "127.0.0.1", SERVER_LISTENS);
    fail_once(&server);
    expect(&server, "1 failed:refused");
    int before = caller_connect(&healthy, 0), before_peer = server_accept(&healthy);
    expect(&healthy, "1 in-flight");
    assert_int_equal(delete_segments(), 1);
    fail_until_attached(&server);
    observe_policy(NULL);
    memset(server.counted, 0, sizeof server.counted);
    /* The call that noticed is the new circuit's first. */
    expect(&server, "1 failed:refused");

    /* A call of before ends in the memory that it began in; it harms nobody. */
    assert_int_equal(bare.send(before_peer, "a", 1, 0), 1);
    assert_int_equal(recv(before, &byte, 1, 0), 1);
    close(before);
    bare.close(before_peer);
    memset(healthy.counted, 0, sizeof healthy.counted);
    expect(&healthy, "nothing");
    int fd = caller_connect(&healthy, 0), peer = server_accept(&healthy);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&healthy, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
    server_stop(&healthy);
}

/* Calls, says that it has, and calls again when it is told to. */
static int scene_calls(int argc, char **argv)
{
    struct server server;
    char word;
    (void)argc;
    server_at_port(&server, argv[0]);
    CHECK(connect(caller_socket(&server, 0), AT(&server)) == -1);
    CHECK(write(STDOUT_FILENO, "1", 1) == 1);
    CHECK(read(STDIN_FILENO, &word, 1) == 1);
    fail_until_attached(&server);
    fail_once(&server);
    return 0;
}

static void plug(void *context)
{
    int *ends = context;
    dup2(ends[0], STDIN_FILENO);
    dup2(ends[3], STDOUT_FILENO);
}

static void processes_meet_in_the_new_file(void **state)
{
    struct server server;
    int pipes[4];
    char word;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    fail_once(&server);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(pipes + 2), 0);
    pid_t pid = scene_start(
        "calls", &(struct scene_options){.arguments = {server_port(&server)}, .before = plug, .context = pipes});
    assert_int_equal(read(pipes[2], &word, 1), 1);
    assert_int_equal(delete_segments(), 1);
    assert_int_equal(write(pipes[1], "2", 1), 1);
    assert_true(exited_well(actor_wait(pid)));
    wait_ms(LOOKS_EVERY_MS); /* this process has not called meanwhile, so it looks now */
    fail_once(&server);
    fail_once(&server);
    observe_policy(NULL);
    memset(server.counted, 0, sizeof server.counted);
    assert_int_equal(counted(&server, COUNT_FAILURE_KIND + FAILURE_REFUSED), 4);
    for (int i = 0; i < 4; i++)
        bare.close(pipes[i]);
    server_stop(&server);
}

static void folder_that_cannot_be_made_again_leaves_the_program_alone(void **state)
{
    struct server server;
    char aside[PATH_MAX];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    fail_once(&server);
    snprintf(aside, sizeof aside, "%s.aside", getenv("SOCKFUSE_STATE"));
    assert_int_equal(rename(getenv("SOCKFUSE_STATE"), aside), 0);
    fclose(fopen(getenv("SOCKFUSE_STATE"), "we")); /* a file in its place */
    wait_ms(LOOKS_EVERY_MS + 50);
    for (int i = 0; i < 3; i++)
        fail_once(&server); /* the kernel's own refusals: nothing is in the way */
    assert_int_equal(unlink(getenv("SOCKFUSE_STATE")), 0);
    assert_int_equal(rename(aside, getenv("SOCKFUSE_STATE")), 0);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"calls", scene_calls}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(deleted_file_is_made_anew_within_a_second_or_two),
        cmocka_unit_test(processes_meet_in_the_new_file),
        cmocka_unit_test(folder_that_cannot_be_made_again_leaves_the_program_alone),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
