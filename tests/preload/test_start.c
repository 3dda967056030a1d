/*
 * test_start.c - from being loaded to being ready, in processes of all kinds: early callers, bad policies, few
 * descriptors.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

/* One refused call to the port in the first argument; says on its output what it saw. */
static int scene_call(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_at_port(&server, argv[0]);
    int fd = caller_socket(&server, 0);
    int result = connect(fd, AT(&server));
    printf("%d %d\n", result, errno);
    close(fd);
    return 0;
}

static int scene_nothing(int argc, char **argv)
{
    (void)argc, (void)argv;
    return 0;
}

#define SEEN "-1 111\n"

/* Plays the call with these options; the output must be this. */
static void play(struct server *server, struct scene_options options, const char *expected)
{
    char output[4096];
    options.arguments[0] = server_port(server);
    options.output = output;
    options.output_size = sizeof output;
    assert_true(exited_well(scene_run("call", &options)));
    assert_string_equal(output, expected);
}

static unsigned int lines_of(const char *text)
{
    unsigned int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* One line of complaint, and the program's own. */
static void play_with_complaint(struct server *server, struct scene_options options, const char *complaint)
{
    char output[4096];
    options.arguments[0] = server_port(server);
    options.output = output;
    options.output_size = sizeof output;
    assert_true(exited_well(scene_run("call", &options)));
    if (lines_of(output) != 2 || strncmp(output, "sockfuse: ", 10) != 0 || !strstr(output, complaint) ||
        !strstr(output, "\n" SEEN))
        fail_msg("it said: %s", output);
}

static void program_under_the_library_is_guarded(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    play(&server, (struct scene_options){.policy = NULL}, SEEN);
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

/* --- early callers --- */

static int scene_early(int argc, char **argv)
{
    struct server server;
    (void)argc;
    int *result = dlsym(RTLD_DEFAULT, "early_result"), *fd = dlsym(RTLD_DEFAULT, "early_fd");
    CHECK(result != NULL && fd != NULL);
    if (*result)
        fprintf(stderr, "early.c:%d failed\n", *result);
    CHECK(*result == 0);
    /* The connection from before our start is nobody's: using and closing it changes nothing. */
    CHECK(send(*fd, "late", 4, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(close(*fd) == 0);
    server_at_port(&server, argv[0]);
    CHECK(connect(caller_socket(&server, 0), AT(&server)) == -1);
    return 0;
}

static void constructors_before_ours_may_use_sockets(void **state)
{
    struct server server, refusing;
    char preload[2 * PATH_MAX], port[32];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&refusing, "127.0.0.1", SERVER_REFUSES);
    const char *early = stage_compile("early", NULL, "");
    snprintf(port, sizeof port, "EARLY_PORT=%s", server_port(&server));
    /* What stands later in the list starts earlier. */
    snprintf(preload, sizeof preload, "%s %s", stage_library(), early);
    assert_true(exited_well(scene_run(
        "early",
        &(struct scene_options){.preload = preload, .environment = {port}, .arguments = {server_port(&refusing)}})));
    assert_false(has_circuit(&server));
    expect(&refusing, "1 failed:refused");
    snprintf(preload, sizeof preload, "%s %s", early, stage_library());
    assert_true(exited_well(scene_run(
        "early",
        &(struct scene_options){.preload = preload, .environment = {port}, .arguments = {server_port(&refusing)}})));
    expect(&refusing, "1 failed:refused");
    server_stop(&server);
    server_stop(&refusing);
}

/* --- twice --- */

static void library_loaded_twice_counts_once(void **state)
{
    struct server server;
    char preload[3 * PATH_MAX], folder[PATH_MAX], command[3 * PATH_MAX];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    snprintf(preload, sizeof preload, "%s %s", stage_library(), stage_library());
    play(&server, (struct scene_options){.preload = preload}, SEEN);
    expect(&server, "1 failed:refused");
    snprintf(folder, sizeof folder, "%s/copy", stage_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(command, sizeof command, "cp '%s' '%s'", stage_library(), folder);
    assert_int_equal(system(command), 0);
    snprintf(preload, sizeof preload, "%s %s/libsockfuse.so", stage_library(), folder);
    play(&server, (struct scene_options){.preload = preload}, SEEN);
    expect(&server, "1 failed:refused");
    snprintf(preload, sizeof preload, "%s/libsockfuse.so:%s", folder, stage_library());
    play(&server, (struct scene_options){.preload = preload}, SEEN);
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

/* --- policies --- */

static void bad_policy_is_one_line_and_the_program_runs(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    play_with_complaint(&server, (struct scene_options){.policy = "[t]\nmatch = 127.0.0.1:*\nreset_timeot = 3s\n"},
                        ":3:");
    play_with_complaint(&server, (struct scene_options){.policy = "[t\n"}, ":1:");
    play_with_complaint(&server, (struct scene_options){.environment = {"SOCKFUSE_POLICY=/nonexistent/policy"}},
                        "/nonexistent/policy");
    play_with_complaint(&server, (struct scene_options){.environment = {"SOCKFUSE_POLICY=/"}}, "/");
    play_with_complaint(&server, (struct scene_options){.environment = {"SOCKFUSE_CLOCK=/dev/null"}}, "SOCKFUSE_CLOCK");
    server_stop(&server);
}

static void no_policy_is_silence(void **state)
{
    struct server server;
    (void)state;
    char nowhere[PATH_MAX + 32], state_folder[PATH_MAX + 32];
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    snprintf(nowhere, sizeof nowhere, "XDG_CONFIG_HOME=%s", stage_folder());
    snprintf(state_folder, sizeof state_folder, "SOCKFUSE_STATE=%s/untouched", stage_folder());
    play(&server, (struct scene_options){.environment = {"SOCKFUSE_POLICY", nowhere, state_folder}}, SEEN);
    /* A policy without targets is none either. */
    play(&server, (struct scene_options){.policy = "# nothing\n", .environment = {state_folder}}, SEEN);
    play(&server, (struct scene_options){.environment = {"SOCKFUSE=off", state_folder}}, SEEN);
    assert_int_equal(access(strchr(state_folder, '=') + 1, F_OK), -1);
    expect(&server, "nothing");
    server_stop(&server);
}

static void policy_of_the_program_is_found_by_its_name(void **state)
{
    struct server server;
    char folder[PATH_MAX], file[2 * PATH_MAX], home[PATH_MAX + 32];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    snprintf(folder, sizeof folder, "%s/sockfuse", stage_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(file, sizeof file, "sockfuse/%s.policy", strrchr(stage_program(), '/') + 1);
    const char *path = stage_file(file, "[t]\nmatch = 127.0.0.1:*\n");
    snprintf(home, sizeof home, "XDG_CONFIG_HOME=%s", stage_folder());
    play(&server, (struct scene_options){.environment = {"SOCKFUSE_POLICY", home}}, SEEN);
    expect(&server, "nothing");
    observe_policy(path);
    expect(&server, "1 failed:refused");
    observe_policy(NULL);
    server_stop(&server);
}

static void state_folder_that_cannot_be_used_is_one_line(void **state)
{
    struct server server;
    char variable[PATH_MAX + 32];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    play_with_complaint(&server, (struct scene_options){.environment = {"SOCKFUSE_STATE=/dev/null/state"}},
                        "/dev/null");
    snprintf(variable, sizeof variable, "SOCKFUSE_STATE=%s", stage_file("a-file", "text"));
    play_with_complaint(&server, (struct scene_options){.environment = {variable}}, "a-file");
    server_stop(&server);
}

/* --- descriptors --- */

static void close_standard(void *context)
{
    unsigned int mask = *(unsigned int *)context;
    for (int fd = 0; fd < 3; fd++)
        if (mask >> fd & 1)
            bare.close(fd);
}

/* Exit status: the descriptor that the call got, + 10; the complaint of a bad policy must not go into it. */
static int scene_low(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_at_port(&server, argv[0]);
    int fd = caller_socket(&server, 0);
    if (connect(fd, AT(&server)) != -1 || errno != ECONNREFUSED)
        return 1;
    return close(fd) == 0 ? fd + 10 : 2;
}

static void closed_standard_descriptors_are_the_programs(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (unsigned int mask = 0; mask < 8; mask++) {
        struct scene_options options = {
            .arguments = {server_port(&server)}, .before = close_standard, .context = &mask};
        int status = scene_run("low", &options);
        assert_true(WIFEXITED(status));
        /* The lowest free number: nothing of ours is open. */
        assert_int_equal(WEXITSTATUS(status) - 10, mask & 1 ? 0 : mask & 2 ? 1 : mask & 4 ? 2 : 3);
        expect(&server, "1 failed:refused");
        options.policy = "[bad\n";
        status = scene_run("low", &options);
        assert_int_equal(WEXITSTATUS(status) - 10, mask & 1 ? 0 : mask & 2 ? 1 : mask & 4 ? 2 : 3);
    }
    server_stop(&server);
}

static void limit_descriptors(void *context)
{
    struct rlimit limit = {.rlim_cur = *(rlim_t *)context, .rlim_max = *(rlim_t *)context};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(77);
}

static void few_descriptors_are_enough(void **state)
{
    struct server server;
    rlim_t limit = 6;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    play(&server, (struct scene_options){.before = limit_descriptors, .context = &limit}, SEEN);
    expect(&server, "1 failed:refused");
    /* Fewer are not; the program has them all to itself. */
    limit = 4;
    play_with_complaint(&server, (struct scene_options){.before = limit_descriptors, .context = &limit}, "EMFILE");
    expect(&server, "nothing");
    server_stop(&server);
}

/* Far above what a start takes and a busy machine adds, far below what a walk over the descriptors would cost. */
#define TOLERANCE_US 5000

/* The fastest of some starts, in microseconds; 0: the limit is not permitted. */
static uint64_t start_time(rlim_t limit, const char *preload)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 15; i++) {
        struct timespec before, after;
        struct scene_options options = {.preload = preload, .before = limit_descriptors, .context = &limit};
        clock_gettime(CLOCK_MONOTONIC, &before);
        int status = scene_run("nothing", &options);
        clock_gettime(CLOCK_MONOTONIC, &after);
        if (WEXITSTATUS(status) == 77)
            return 0;
        assert_true(exited_well(status));
        uint64_t took =
            (uint64_t)(after.tv_sec - before.tv_sec) * 1000000 + (uint64_t)((after.tv_nsec - before.tv_nsec) / 1000);
        best = took < best ? took : best;
    }
    return best;
}

/* The same under the library; on a machine that was busy all the while, of some more starts. */
static uint64_t start_time_within(rlim_t limit, uint64_t most)
{
    uint64_t best = UINT64_MAX;
    for (int tries = 0; tries < 10 && best >= most; tries++) {
        uint64_t took = start_time(limit, NULL);
        best = took < best ? took : best;
    }
    return best;
}

static void start_takes_no_longer_with_a_million_descriptors(void **state)
{
    struct rlimit own;
    (void)state;
    getrlimit(RLIMIT_NOFILE, &own);
    uint64_t bare_time = start_time(256, ""), usual = start_time_within(256, bare_time + TOLERANCE_US);
    assert_true(usual < bare_time + TOLERANCE_US);
    const rlim_t limits[] = {own.rlim_max, 1 << 20, 1 << 30};
    for (size_t i = 0; i < 3; i++) {
        uint64_t high = start_time_within(limits[i], usual + TOLERANCE_US);
        if (!high) /* only a privileged process may go beyond its hard limit */
            print_message("a limit of %lu descriptors is not permitted here\n", (unsigned long)limits[i]);
        assert_true(high < usual + TOLERANCE_US);
    }
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"call", scene_call}, {"nothing", scene_nothing}, {"early", scene_early}, {"low", scene_low}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_under_the_library_is_guarded),
        cmocka_unit_test(constructors_before_ours_may_use_sockets),
        cmocka_unit_test(library_loaded_twice_counts_once),
        cmocka_unit_test(bad_policy_is_one_line_and_the_program_runs),
        cmocka_unit_test(no_policy_is_silence),
        cmocka_unit_test(policy_of_the_program_is_found_by_its_name),
        cmocka_unit_test(state_folder_that_cannot_be_used_is_one_line),
        cmocka_unit_test(closed_standard_descriptors_are_the_programs),
        cmocka_unit_test(few_descriptors_are_enough),
        cmocka_unit_test(start_takes_no_longer_with_a_million_descriptors),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
