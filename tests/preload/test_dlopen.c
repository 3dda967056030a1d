/*
 * test_dlopen.c - libraries that come later: those that bind deep, and those that are found through their caller's
 * search path.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

typedef int connect_fn(int fd, const struct sockaddr *address, socklen_t length);

static connect_fn *function_of(void *library)
{
    if (!library)
        fail_msg("%s", dlerror());
    connect_fn *function;
    *(void **)&function = dlsym(library, "deep_connect");
    assert_non_null(function);
    return function;
}

static void refuse_through(connect_fn *function, struct server *server, const char *words)
{
    int fd = caller_socket(server, 0);
    assert_int_equal(function(fd, AT(server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(server, words);
}

static void deeply_bound_library_is_guarded(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    const char *path = stage_compile("deep", NULL, "");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    refuse_through(function_of(library), &server, "1 failed:refused");
    assert_int_equal(dlclose(library), 0);
    library = dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_DEEPBIND);
    refuse_through(function_of(library), &server, "1 failed:refused");
    assert_int_equal(dlclose(library), 0);
    server_stop(&server);
}

/* Whether a library that asks to bind deep is bound to what stands in front, or past it. */
enum bound { BOUND_TO_US = 1, BOUND_DEEP };

static int scene_bind(int argc, char **argv)
{
    connect_fn *(*deep)(void);
    bool in_space = argc > 1;
    void *library =
        in_space ? dlmopen(LM_ID_BASE, argv[0], RTLD_NOW | RTLD_DEEPBIND) : dlopen(argv[0], RTLD_NOW | RTLD_DEEPBIND);
    if (!library)
        return 9;
    *(void **)&deep = dlsym(library, "deep_function");
    return deep() == dlsym(RTLD_DEFAULT, "connect") ? BOUND_TO_US : BOUND_DEEP;
}

static void flag_is_left_out_only_where_the_library_guards(void **state)
{
    static const struct {
        const char *environment, *policy;
        int bound;
    } cases[] = {
        {NULL, NULL, BOUND_TO_US},
        {"SOCKFUSE=off", NULL, BOUND_DEEP},
        {"SOCKFUSE_POLICY=/dev/null", NULL, BOUND_DEEP},
        {NULL, "[target\n", BOUND_DEEP},
    };
    const char *path = stage_compile("deep", NULL, "");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int in_space = 0; in_space < 2; in_space++) {
            char output[512];
            int status = scene_run("bind", &(struct scene_options){.policy = cases[i].policy,
                                                                   .environment = {cases[i].environment},
                                                                   .arguments = {path, in_space ? "dlmopen" : NULL},
                                                                   .output = output,
                                                                   .output_size = sizeof output});
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), cases[i].bound);
        }
}

/* It has a libc of its own, which nobody can stand before. */
static void library_in_a_name_space_of_its_own_works(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    void *library = dlmopen(LM_ID_NEWLM, stage_compile("deep", NULL, ""), RTLD_NOW);
    connect_fn *function = function_of(library);
    int fd = caller_socket(&server, 0);
    assert_int_equal(function(fd, AT(&server)), -1); /* its errno is another one, too */
    close(fd);
    expect(&server, "nothing");
    server_stop(&server);
}

static void plugin_is_found_through_its_callers_search_path(void **state)
{
    char folder[PATH_MAX];
    (void)state;
    snprintf(folder, sizeof folder, "%s/plugins", stage_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    stage_compile("deep", folder, "");
    void *library = dlopen(stage_compile("loading", NULL, "-Wl,-rpath,'$ORIGIN/plugins' -ldl"), RTLD_NOW);
    assert_non_null(library);
    void *(*load)(void), *(*load_into)(long);
    int (*loads)(void);
    *(void **)&load = dlsym(library, "load_plugin");
    *(void **)&loads = dlsym(library, "loads_plugin");
    *(void **)&load_into = dlsym(library, "load_plugin_into");
    assert_int_equal(loads(), 1);
    assert_non_null(load());
    assert_non_null(load_into(LM_ID_BASE));
    /* And not through ours. */
    assert_null(dlopen("deep-and-missing.so", RTLD_NOW));
}

static void null_and_flags_work_as_ever(void **state)
{
    (void)state;
    void *program = dlopen(NULL, RTLD_NOW);
    assert_non_null(program);
    assert_int_equal(dlclose(program), 0);
    assert_non_null(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD));
    assert_null(dlopen("libnot-loaded.so.9", RTLD_LAZY | RTLD_NOLOAD));
    assert_null(dlopen("libc.so.6", 0)); /* neither lazy nor now */
    assert_non_null(dlerror());
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(deeply_bound_library_is_guarded),
        cmocka_unit_test(flag_is_left_out_only_where_the_library_guards),
        cmocka_unit_test(library_in_a_name_space_of_its_own_works),
        cmocka_unit_test(plugin_is_found_through_its_callers_search_path),
        cmocka_unit_test(null_and_flags_work_as_ever),
    };
    static const struct scene scenes[] = {{"bind", scene_bind}, {NULL, NULL}};
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
