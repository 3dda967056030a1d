/*
 * test_secure.c - in a set-user-ID process the library does nothing, even where it is loaded and finds a policy.
 *
 * ld.so preloads into such a program only libraries of the system's folders that have the bit themselves: in a mount
 * namespace of the test's own, ours takes another's place there, and /etc has a policy for every program.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define SOMEBODY 1 /* another user */

static const char policy_of_all[] = "[t]\nmatch = 127.0.0.1:*\nmode = open\non_open = EPERM\n";

/* Exit status: the errno that connect says. */
static int scene_call(int argc, char **argv)
{
    struct server server;
    (void)argc;
    CHECK(geteuid() == (getauxval(AT_SECURE) ? 0 : SOMEBODY));
    CHECK(dlsym(RTLD_DEFAULT, "connect") != (void *)bare.connect); /* the library is in this process */
    server_at_port(&server, argv[0]);
    CHECK(connect(caller_socket(&server, 0), AT(&server)) == -1);
    return errno;
}

struct places {
    char program[PATH_MAX], library[PATH_MAX], state[PATH_MAX];
    const char *system_library;
};

/* In the new process: the mounts, then another user. */
static void enter(void *context)
{
    const struct places *places = context;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(places->library, places->system_library, NULL, MS_BIND, NULL) != 0 ||
        mount("tmpfs", "/etc", "tmpfs", 0, "mode=755") != 0)
        _exit(77);
    CHECK(mkdir("/etc/sockfuse", 0755) == 0);
    FILE *file = fopen("/etc/sockfuse/default.policy", "we");
    CHECK(file != NULL && fputs(policy_of_all, file) >= 0 && fclose(file) == 0);
    CHECK(setgid(SOMEBODY) == 0 && setuid(SOMEBODY) == 0);
}

/* A copy of this program and of the library, both with those permissions. */
static void copy_both(const struct places *places, mode_t mode)
{
    char command[5 * PATH_MAX];
    snprintf(command, sizeof command, "cp '%s' '%s' && cp '%s' '%s'", stage_program(), places->program, stage_library(),
             places->library);
    assert_int_equal(system(command), 0);
    assert_int_equal(chmod(places->program, mode) | chmod(places->library, mode), 0);
}

static int play(const struct places *places, const struct server *server)
{
    char state_folder[PATH_MAX + 32];
    snprintf(state_folder, sizeof state_folder, "SOCKFUSE_STATE=%s", places->state);
    struct scene_options options = {
        .preload = "libjemalloc.so.2",
        .program = places->program,
        .environment = {"SOCKFUSE_POLICY", state_folder},
        .arguments = {server_port(server)},
        .before = enter,
        .context = (void *)places,
    };
    int status = scene_run("call", &options);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("no mount namespaces here\n");
        skip();
    }
    return WEXITSTATUS(status);
}

static void set_user_id_program_is_left_alone(void **state)
{
    static const char *const libraries[] = {"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
                                            "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2"};
    struct server server;
    struct places places;
    (void)state;
    places.system_library = access(libraries[0], F_OK) == 0 ? libraries[0] : libraries[1];
    if (geteuid() != 0 || access(places.system_library, F_OK) != 0) {
        print_message("needs root, and libjemalloc2\n");
        skip();
    }
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    snprintf(places.program, PATH_MAX, "%s/program", stage_folder());
    snprintf(places.library, PATH_MAX, "%s/library.so", stage_folder());
    snprintf(places.state, PATH_MAX, "%s/state-of-somebody", stage_folder());
    assert_int_equal(chmod(stage_folder(), 0755), 0);
    assert_int_equal(mkdir(places.state, 0700) | chown(places.state, SOMEBODY, SOMEBODY), 0);

    /* The policy takes an ordinary program's call; */
    copy_both(&places, 0755);
    assert_int_equal(play(&places, &server), EPERM);
    /* with the bit on the same file, the kernel's own answer comes. */
    copy_both(&places, 04755);
    assert_int_equal(play(&places, &server), ECONNREFUSED);
    expect(&server, "nothing");
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"call", scene_call}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {cmocka_unit_test(set_user_id_program_is_left_alone)};
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
