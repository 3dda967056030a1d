/*
 * test_foreign.c - functions of TLS libraries that come and go with the plugins that use them, and which of them a
 * caller means.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static const char *const without_policy[] = {"SOCKFUSE_POLICY=", "HOME=/nonexistent"};

/* A folder with a plugin and a TLS library of that number; returns the plugin's path. */
static const char *compile_client(int number, bool linked)
{
    char folder[PATH_MAX], flags[2 * PATH_MAX];
    snprintf(folder, sizeof folder, "%s/tls-%d", stage_folder(), number);
    mkdir(folder, 0700);
    snprintf(flags, sizeof flags, "-DWHICH=%d", number);
    stage_compile("tls", folder, flags);
    snprintf(flags, sizeof flags, linked ? "-O2 -Wl,--no-as-needed '%s/tls.so'" : "-O2", folder);
    return stage_compile("client", folder, flags);
}

static int read_by(void *plugin, const char *function)
{
    int (*read_it)(void);
    *(void **)&read_it = dlsym(plugin, function);
    volatile int got = read_it ? read_it() : -99;
    return got;
}

/* Takes the addresses at which the TLS library was, so that it goes elsewhere the next time. */
static void *place_of_library(void *plugin)
{
    Dl_info where;
    return dladdr(dlsym(plugin, "SSL_read"), &where) ? where.dli_fbase : NULL;
}

static void take_place(void *place)
{
    CHECK(mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == place);
}

/* The plugins of the arguments, one after the other: each answer is the number in its folder's name. */
static int scene_load(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        int number = atoi(strrchr(argv[i], '-') + 1);
        void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        CHECK(plugin);
        void *place = place_of_library(plugin);
        CHECK(place && read_by(plugin, "client_read") == number);
        CHECK(read_by(plugin, "client_read") == number);
        CHECK(dlclose(plugin) == 0);
        CHECK(!dlopen(argv[i], RTLD_NOW | RTLD_NOLOAD)); /* nobody keeps it loaded */
        take_place(place);
    }
    return 0;
}

static void plugins_come_and_go(const char *first, const char *second, const char *third)
{
    struct scene_options options = {.arguments = {first, second, third}};
    assert_true(exited_well(scene_run("load", &options)));
    memcpy(options.environment, without_policy, sizeof without_policy);
    assert_true(exited_well(scene_run("load", &options)));
}

static void plugin_that_is_loaded_again_finds_its_library_where_it_is_now(void **state)
{
    (void)state;
    const char *client = compile_client(1, true);
    plugins_come_and_go(client, client, client);
}

static void plugin_in_the_place_of_another_has_its_own_library(void **state)
{
    (void)state;
    const char *first = compile_client(1, true), *second = compile_client(2, true);
    plugins_come_and_go(first, second, first);
}

static int scene_global(int argc, char **argv)
{
    char path[PATH_MAX];
    CHECK(argc == 1);
    snprintf(path, sizeof path, "%.*s/tls.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *plugin = dlopen(argv[0], RTLD_LAZY);
    CHECK(library && plugin && read_by(plugin, "client_read") == 3);
    CHECK(dlclose(library) == 0);
    CHECK(read_by(plugin, "client_read") == 3);
    return 0;
}

static void library_of_the_global_scope_stays_while_it_is_used(void **state)
{
    (void)state;
    struct scene_options options = {.arguments = {compile_client(3, false)}};
    assert_true(exited_well(scene_run("global", &options)));
}

static int scene_hand_over(int argc, char **argv)
{
    CHECK(argc == 1);
    void *plugin = dlopen(argv[0], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin && read_by(plugin, "client_hands_over") == 4);
    CHECK(dlclose(plugin) == 0);
    CHECK(!dlopen(argv[0], RTLD_NOW | RTLD_NOLOAD));
    return 0;
}

static void plugin_that_ends_in_a_jump_finds_its_library(void **state)
{
    (void)state;
    struct scene_options options = {.arguments = {compile_client(4, true)}};
    assert_true(exited_well(scene_run("hand-over", &options)));
}

static _Atomic bool enough;

static void *read_on(void *plugin)
{
    while (!atomic_load(&enough))
        CHECK(read_by(plugin, "client_read") == 5);
    return NULL;
}

static void readers_are_not_disturbed_by_plugins_that_come_and_go(void **state)
{
    pthread_t readers[2];
    (void)state;
    void *plugin = dlopen(compile_client(5, true), RTLD_NOW | RTLD_LOCAL);
    const char *other = compile_client(6, true);
    assert_non_null(plugin);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, plugin), 0);
    for (int i = 0; i < 300; i++) {
        void *guest = dlopen(other, RTLD_NOW | RTLD_LOCAL);
        CHECK(guest && read_by(guest, "client_read") == 6);
        CHECK(dlclose(guest) == 0);
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(dlclose(plugin), 0);
}

/* In this program there is none. */
static void function_without_a_library_answers_an_error(void **state)
{
    int (*read_it)(void *session, void *buffer, int count);
    int (*read_more)(void *session, void *buffer, size_t count, size_t *got);
    char byte;
    size_t got = 7;
    (void)state;
    *(void **)&read_it = dlsym(RTLD_DEFAULT, "SSL_read");
    *(void **)&read_more = dlsym(RTLD_DEFAULT, "SSL_read_ex");
    assert_true(read_it && read_more);
    assert_int_equal(read_it(&byte, &byte, 1), -1);
    assert_int_equal(read_more(&byte, &byte, 1, &got), 0);
    assert_int_equal(got, 7);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"load", scene_load}, {"global", scene_global}, {"hand-over", scene_hand_over}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(plugin_that_is_loaded_again_finds_its_library_where_it_is_now),
        cmocka_unit_test(plugin_in_the_place_of_another_has_its_own_library),
        cmocka_unit_test(library_of_the_global_scope_stays_while_it_is_used),
        cmocka_unit_test(plugin_that_ends_in_a_jump_finds_its_library),
        cmocka_unit_test(readers_are_not_disturbed_by_plugins_that_come_and_go),
        cmocka_unit_test(function_without_a_library_answers_an_error),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
