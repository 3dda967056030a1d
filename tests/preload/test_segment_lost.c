/*
 * test_segment_lost.c - the segment's file goes away under a running program (a cleaner of /run, an operator): it
 * attaches again.
 */
/* links: core */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
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

static unsigned int count_in(const char *folder, const char *part)
{
    unsigned int count = 0;
    DIR *list = opendir(folder);
    CHECK(list != NULL);
    for (struct dirent *entry; (entry = readdir(list));)
        count += strstr(entry->d_name, part) != NULL;
    closedir(list);
    return count;
}

static unsigned int segments(void)
{
    return count_in(getenv("SOCKFUSE_STATE"), ".segment");
}

static unsigned int open_descriptors(void)
{
    return count_in("/proc/self/fd", "");
}

/* How many mappings of segments there are. */
static unsigned int mapped_segments(void)
{
    char line[PATH_MAX + 128];
    unsigned int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, ".segment") != NULL;
    fclose(maps);
    return count;
}

/* --- on a small stack --- */

#define SMALL_STACK 8192u
static struct server *at_hand_of_handler;

static void connect_in_handler(int number)
{
    (void)number;
    int keep = errno, fd = bare.socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, AT(at_hand_of_handler)) == 0)
        abort();
    bare.close(fd);
    errno = keep;
}

/* The page below it can't be touched. */
static char *small_stack(void)
{
    char *memory = mmap(NULL, 2 * SMALL_STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + SMALL_STACK, SMALL_STACK, PROT_READ | PROT_WRITE) == 0);
    return memory;
}

static void handler_on_a_small_stack_attaches_anew(void **state)
{
    struct server server;
    char *memory = small_stack();
    stack_t small = {.ss_sp = memory + SMALL_STACK, .ss_size = SMALL_STACK}, former;
    struct sigaction handle = {.sa_handler = connect_in_handler, .sa_flags = SA_ONSTACK};
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    at_hand_of_handler = &server;
    fail_once(&server);
    if (sigaltstack(&small, &former) != 0) { /* this processor's registers alone need more */
        server_stop(&server);
        skip();
    }
    CHECK(sigaction(SIGUSR1, &handle, NULL) == 0);
    assert_int_equal(delete_segments(), 1);
    for (int i = 0; i < 60 && segments() == 0; i++) {
        raise(SIGUSR1);
        wait_ms(50);
    }
    assert_int_equal(segments(), 1);
    signal(SIGUSR1, SIG_DFL);
    sigaltstack(&former, NULL);
    munmap(memory, 2 * SMALL_STACK);
    observe_policy(NULL);
    server_stop(&server);
}

/* --- whatever interrupts it --- */

static sigjmp_buf away;
static volatile sig_atomic_t may_jump;

static void jump_away(int number)
{
    (void)number;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(away, 1);
    }
}

static void jump_out_of_attaching(struct server *server)
{
    volatile int fd = -1;
    if (sigsetjmp(away, 1) == 0) {
        fd = bare.socket(AF_INET, SOCK_STREAM, 0);
        may_jump = 1;
        if (connect(fd, AT(server)) == 0)
            abort();
        may_jump = 0;
    }
    bare.close(fd);
}

/* Many a handler jumps out of connect while the segment goes away again and again. */
static int scene_jumps(int argc, char **argv)
{
    struct server server;
    struct sigaction handle = {.sa_handler = jump_away};
    struct itimerval storm = {{0, 300}, {0, 300}}, calm = {{0, 0}, {0, 0}};
    (void)argc;
    server_at_port(&server, argv[0]);
    fail_once(&server);
    unsigned int before = open_descriptors();
    CHECK(sigaction(SIGALRM, &handle, NULL) == 0);
    for (int round = 0; round < 3; round++) {
        CHECK(delete_segments() == 1);
        CHECK(setitimer(ITIMER_REAL, &storm, NULL) == 0);
        for (uint64_t end = now_ms() + 30000; segments() == 0;) {
            CHECK(now_ms() < end);
            jump_out_of_attaching(&server);
        }
        CHECK(setitimer(ITIMER_REAL, &calm, NULL) == 0);
    }
    CHECK(open_descriptors() == before);
    CHECK(count_in(getenv("SOCKFUSE_STATE"), ".new-") == 0);
    return 0;
}

/* A state folder of a scene's own. */
static const char *state_of_its_own(const char *name)
{
    static char variable[PATH_MAX + 32];
    snprintf(variable, sizeof variable, "SOCKFUSE_STATE=%s/%s", stage_folder(), name);
    return variable;
}

static void jumps_out_of_attaching_leave_no_descriptor_and_no_file(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    assert_true(exited_well(
        scene_run("jumps", &(struct scene_options){.policy = "[all]\nmatch = 127.0.0.1:*\nfailure_threshold = 0\n"
                                                             "failure_rate = 0%\n",
                                                   .environment = {state_of_its_own("jumps")},
                                                   .arguments = {server_port(&server)}})));
    server_stop(&server);
}

/* --- with threads inside --- */

enum { THREADS = 6, DELETIONS = 11 };
static _Atomic bool stops;

static void close_it(void *context)
{
    close(*(int *)context);
}

static void *call_again_and_again(void *context)
{
    struct server *server = context;
    while (!atomic_load(&stops)) {
        int fd = bare.socket(AF_INET, SOCK_STREAM, 0);
        char byte = 'x';
        pthread_cleanup_push(close_it, &fd);
        CHECK(connect(fd, AT(server)) == 0);
        CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == 1 || errno == ECONNRESET || errno == EPIPE);
        pthread_cleanup_pop(1);
        pthread_testcancel();
    }
    return NULL;
}

/* Some threads are cancelled in the middle, and others take their place. */
static int scene_threads(int argc, char **argv)
{
    struct server server;
    pthread_t threads[THREADS];
    (void)argc;
    server_at_port(&server, argv[0]);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, call_again_and_again, &server) == 0);
    for (int round = 0; round < DELETIONS; round++) {
        while (segments() == 0)
            wait_ms(10);
        CHECK(delete_segments() == 1);
        pthread_t *one = &threads[round % THREADS];
        wait_ms(round % 2 ? 0 : LOOKS_EVERY_MS - 20);
        CHECK(pthread_cancel(*one) == 0 && pthread_join(*one, NULL) == 0);
        CHECK(pthread_create(one, NULL, call_again_and_again, &server) == 0);
    }
    while (segments() == 0)
        wait_ms(10);
    for (int i = 0; i < 900 && mapped_segments() > 2; i++)
        wait_ms(100); /* the memory of the last one goes back when nobody follows it: asked more and more seldom */
    CHECK(mapped_segments() <= 2); /* its tables, and the page that keeps its lock */
    atomic_store(&stops, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}

static void *accept_all(void *context)
{
    for (int peer; (peer = accept4(((struct server *)context)->fd, NULL, NULL, 0)) >= 0;)
        bare.close(peer);
    return NULL;
}

static void threads_are_inside_while_it_goes_away_again_and_again(void **state)
{
    struct server server;
    pthread_t accepting;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    assert_int_equal(pthread_create(&accepting, NULL, accept_all, &server), 0);
    assert_true(exited_well(
        scene_run("threads", &(struct scene_options){.policy = "[all]\nmatch = 127.0.0.1:*\nfailure_threshold = 0\n"
                                                               "failure_rate = 0%\nsuccess = connect\n",
                                                     .environment = {state_of_its_own("threads")},
                                                     .arguments = {server_port(&server)}})));
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(accepting, NULL);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"calls", scene_calls}, {"jumps", scene_jumps}, {"threads", scene_threads}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(deleted_file_is_made_anew_within_a_second_or_two),
        cmocka_unit_test(processes_meet_in_the_new_file),
        cmocka_unit_test(folder_that_cannot_be_made_again_leaves_the_program_alone),
        cmocka_unit_test(handler_on_a_small_stack_attaches_anew),
        cmocka_unit_test(jumps_out_of_attaching_leave_no_descriptor_and_no_file),
        cmocka_unit_test(threads_are_inside_while_it_goes_away_again_and_again),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
