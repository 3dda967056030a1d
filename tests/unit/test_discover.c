/* Which policy a process gets: SOCKFUSE_POLICY, the user's folder, the system's. */
#define _GNU_SOURCE /* setresuid */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/discover.h"

#define ONLY(name) ((const char *const[]){name, NULL})

/* A folder for each test, with user/ and system/ in it, and the environment that policy_discover sees. */
static struct {
    char root[64], user[96], system[96];
    const char *named, *config_home, *home;
} world;

static const char *variable(const char *name)
{
    if (strcmp(name, "SOCKFUSE_POLICY") == 0)
        return world.named;
    if (strcmp(name, "XDG_CONFIG_HOME") == 0)
        return world.config_home;
    return strcmp(name, "HOME") == 0 ? world.home : NULL;
}

static char *in_root(const char *path)
{
    static char whole[160];
    snprintf(whole, sizeof whole, "%s/%s", world.root, path);
    return whole;
}

static void make_file(const char *path)
{
    FILE *stream = fopen(in_root(path), "w");
    assert_non_null(stream);
    fclose(stream);
}

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    strcpy(world.root, "/tmp/sockfuse-discover-XXXXXX");
    if (mkdtemp(world.root) == NULL)
        return -1;
    snprintf(world.user, sizeof world.user, "%s/user", world.root);
    snprintf(world.system, sizeof world.system, "%s/system", world.root);
    return mkdir(world.user, 0700) | mkdir(world.system, 0700) | mkdir(in_root("home"), 0700) |
           mkdir(in_root("home/.config"), 0700) | mkdir(in_root("home/.config/sockfuse"), 0700) |
           mkdir(in_root("config"), 0700) | mkdir(in_root("config/sockfuse"), 0700);
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", world.root);
    return system(command);
}

static bool search(const char *program, struct discovery *found)
{
    return policy_discover_in(ONLY(program), (const char *const[]){world.user, world.system, NULL}, found);
}

static void expect_found(const char *program, const char *path)
{
    struct discovery found;
    assert_true(search(program, &found));
    assert_string_equal(found.path, in_root(path));
    assert_false(found.named);
}

static void the_programs_own_files_come_before_the_defaults_and_the_users_first(void **state)
{
    (void)state;
    struct discovery found;
    assert_false(search("curl", &found));
    make_file("system/default.policy");
    expect_found("curl", "system/default.policy");
    make_file("user/default.policy");
    expect_found("curl", "user/default.policy");
    make_file("system/curl.policy");
    expect_found("curl", "system/curl.policy");
    make_file("user/curl.policy");
    expect_found("curl", "user/curl.policy");
    expect_found("wget", "user/default.policy");
}

/* In a child process as somebody else, for root can read whatever it likes. */
static bool somebody_else_finds(const char *path)
{
    const pid_t child = fork();
    int status = 0;
    assert_true(child >= 0);
    if (child == 0) {
        struct discovery found;
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        _exit(search("curl", &found) && strcmp(found.path, in_root(path)) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void a_policy_that_is_there_but_unreadable_is_not_passed_over(void **state)
{
    (void)state;
    make_file("system/curl.policy");
    make_file("user/curl.policy");
    assert_int_equal(chmod(world.root, 0755) | chmod(world.user, 0755) | chmod(world.system, 0755), 0);
    assert_int_equal(chmod(in_root("user/curl.policy"), 0), 0);
    assert_true(somebody_else_finds("user/curl.policy"));
    /* a folder into which one can't even look holds nothing: it is somebody else's */
    assert_int_equal(chmod(world.user, 0700), 0);
    assert_int_equal(somebody_else_finds("system/curl.policy"), geteuid() == 0);
    /* a link that leads nowhere is no file */
    assert_int_equal(unlink(in_root("user/curl.policy")), 0);
    assert_int_equal(symlink("nowhere", in_root("user/curl.policy")), 0);
    expect_found("curl", "system/curl.policy");
}

static void a_name_with_a_folder_in_it_gets_the_default_only(void **state)
{
    (void)state;
    struct discovery found;
    make_file("system/x.policy");
    assert_false(search("../system/x", &found));
    assert_false(search("", &found));
    assert_false(search(NULL, &found));
    make_file("system/default.policy");
    expect_found("../system/x", "system/default.policy");
    expect_found("", "system/default.policy");
    expect_found(NULL, "system/default.policy");
    char endless[5000];
    memset(endless, 'a', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    expect_found(endless, "system/default.policy");
}

static void the_named_policy_wins_whether_it_is_there_or_not(void **state)
{
    (void)state;
    struct discovery found;
    make_file("config/sockfuse/curl.policy");
    world.config_home = strdup(in_root("config"));
    world.named = "/nonexistent/x.policy";
    assert_true(policy_discover(ONLY("curl"), variable, &found));
    assert_string_equal(found.path, "/nonexistent/x.policy");
    assert_true(found.named);
    world.named = "relative.policy";
    assert_true(policy_discover(ONLY("curl"), variable, &found));
    assert_string_equal(found.path, "relative.policy");
    world.named = "";
    assert_true(policy_discover(ONLY("curl"), variable, &found));
    assert_string_equal(found.path, in_root("config/sockfuse/curl.policy"));
    assert_false(found.named);
    free((char *)world.config_home);
}

static void a_named_path_too_long_to_open_is_not_cut_to_another_one(void **state)
{
    (void)state;
    struct discovery found;
    char endless[PATH_MAX + 1];
    memset(endless, '/', sizeof endless);
    endless[PATH_MAX] = '\0';
    world.named = endless;
    assert_true(policy_discover(ONLY("curl"), variable, &found));
    assert_true(found.named);
    assert_string_equal(found.path, "");
    endless[PATH_MAX - 1] = '\0';
    assert_true(policy_discover(ONLY("curl"), variable, &found));
    assert_string_equal(found.path, endless);
}

static void expect_of_user(const char *config_home, const char *path)
{
    struct discovery found;
    world.config_home = config_home;
    assert_true(policy_discover(ONLY("sockfuse-test"), variable, &found));
    assert_string_equal(found.path, in_root(path));
}

static void the_users_folder_is_xdg_config_home_or_else_below_home(void **state)
{
    (void)state;
    char config[160], home[160];
    strcpy(config, in_root("config"));
    strcpy(home, in_root("home"));
    make_file("config/sockfuse/sockfuse-test.policy");
    make_file("home/.config/sockfuse/sockfuse-test.policy");
    world.home = home;
    expect_of_user(config, "config/sockfuse/sockfuse-test.policy");
    expect_of_user(NULL, "home/.config/sockfuse/sockfuse-test.policy");
    expect_of_user("", "home/.config/sockfuse/sockfuse-test.policy");
    expect_of_user("config", "home/.config/sockfuse/sockfuse-test.policy"); /* relative: void */
    world.home = NULL;
    expect_of_user(config, "config/sockfuse/sockfuse-test.policy");
    struct discovery found;
    world.config_home = NULL;
    if (access("/etc/sockfuse", F_OK) != 0)
        assert_false(policy_discover(ONLY("sockfuse-test"), variable, &found));
    world.home = "relative";
    if (access("/etc/sockfuse", F_OK) != 0)
        assert_false(policy_discover(ONLY("sockfuse-test"), variable, &found));
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(the_programs_own_files_come_before_the_defaults_and_the_users_first),
        IN_A_WORLD(a_policy_that_is_there_but_unreadable_is_not_passed_over),
        IN_A_WORLD(a_name_with_a_folder_in_it_gets_the_default_only),
        IN_A_WORLD(the_named_policy_wins_whether_it_is_there_or_not),
        IN_A_WORLD(a_named_path_too_long_to_open_is_not_cut_to_another_one),
        IN_A_WORLD(the_users_folder_is_xdg_config_home_or_else_below_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
