/*
 * test_identity.c - what a policy is called, from which it can be taken apart again; and the paths of files.
 */
#define _GNU_SOURCE
#include "support_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/identity.h"
#include "policy/keys.h"
#include "policy/file_path.h"

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_list(char *const *list, const char *const *expected)
{
    size_t i = 0;
    for (; expected != NULL && expected[i] != NULL; i++) {
        assert_non_null(list);
        assert_non_null(list[i]);
        assert_string_equal(list[i], expected[i]);
    }
    assert_true(list == NULL || list[i] == NULL);
}

/* Puts it together and takes it apart; the lists are sorted, each word once. */
static void expect_round_trip(const char *text, const char *path, const char *const *patterns,
                              const char *const *options)
{
    struct identity identity;
    char *written = identity_write(path, patterns, options);
    assert_string_equal(written, text);
    assert_true(identity_read(&identity, written));
    if (path == NULL)
        assert_null(identity.path);
    else
        assert_string_equal(identity.path, path);
    expect_list(identity.patterns, patterns);
    expect_list(identity.options, options);
    assert_int_equal(identity_has_patterns(written), identity.patterns != NULL);
    assert_int_equal(identity_has_options(written), identity.options != NULL);
    identity_free(&identity);
    free(written);
}

static void an_identity_is_taken_apart_as_it_was_put_together(void **state)
{
    (void)state;
    expect_round_trip("/etc/a.policy", "/etc/a.policy", NULL, NULL);
    expect_round_trip("/etc/a b.policy + patterns: b:1 c:2", "/etc/a b.policy", LIST("b:1", "c:2"), NULL);
    expect_round_trip("/etc/a + options: inject=refuse jitter=0%", "/etc/a", NULL, LIST("inject=refuse", "jitter=0%"));
    expect_round_trip("patterns: b:1 + options: window=100\\ calls", NULL, LIST("b:1"), LIST("window=100 calls"));
    expect_round_trip("/a + patterns: b:1 + options: mode=off", "/a", LIST("b:1"), LIST("mode=off"));
    expect_round_trip("patterns:", NULL, NULL, NULL);
    expect_round_trip("patterns: + options: mode=off", NULL, NULL, LIST("mode=off"));
}

static void a_path_that_looks_like_a_list_is_no_list(void **state)
{
    (void)state;
    expect_round_trip("/a + \\patterns: b:1", "/a + patterns: b:1", NULL, NULL);
    expect_round_trip("/a + \\\\options: b + options: mode=off", "/a + \\options: b", NULL, LIST("mode=off"));
    expect_round_trip("/a + + \\options: + patterns: x:1", "/a + + options:", LIST("x:1"), NULL);
    expect_round_trip("/patterns: x + options: mode=off", "/patterns: x", NULL, LIST("mode=off"));
    expect_round_trip("/a + options", "/a + options", NULL, NULL);
    expect_round_trip("/a +  + options: mode=off", "/a + ", NULL, LIST("mode=off"));
}

static void a_word_may_have_any_bytes(void **state)
{
    (void)state;
    expect_round_trip("/a + patterns: \\+ \\+b unix:/a\\ +\\ options:x\\\\", "/a",
                      LIST("+", "+b", "unix:/a + options:x\\"), NULL);
}

static void order_and_repetition_make_no_other_identity(void **state)
{
    (void)state;
    char *one = identity_write("/a", LIST("b:1", "a:1", "b:1"), LIST("y=2", "x=1"));
    char *other = identity_write("/a", LIST("a:1", "b:1", ""), LIST("x=1", "y=2", "x=1"));
    assert_string_equal(one, "/a + patterns: a:1 b:1 + options: x=1 y=2");
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/* The bytes that mean something, and one that does not. */
static void random_text(char *text, size_t most)
{
    static const char *const pieces[] = {" ", "+", "\\", " + ", "patterns:", "options:", "x", "=", "/", ":1"};
    size_t length = (size_t)random() % most;
    text[0] = '\0';
    for (size_t i = 0; i < length; i++)
        strcat(text, pieces[(size_t)random() % (sizeof pieces / sizeof *pieces)]);
}

static void whatever_is_put_together_comes_apart_again(void **state)
{
    (void)state;
    srandom(1);
    for (unsigned int round = 0; round < 20000; round++) {
        static char path[200], words[4][120];
        const char *patterns[] = {words[0], words[1], NULL}, *options[] = {words[2], words[3], NULL};
        struct identity identity;
        strcpy(path, "/");
        random_text(path + 1, 12);
        for (unsigned int i = 0; i < 4; i++)
            random_text(words[i], 8);
        char *text = identity_write(path, patterns, options);
        assert_true(identity_read(&identity, text));
        assert_string_equal(identity.path, path);
        char *again = identity_write(identity.path, (const char *const *)identity.patterns,
                                     (const char *const *)identity.options);
        assert_string_equal(again, text);
        for (unsigned int i = 0; i < 4; i++) {
            char **list = i < 2 ? identity.patterns : identity.options;
            bool found = words[i][0] == '\0';
            for (; list != NULL && *list != NULL; list++)
                found = found || strcmp(*list, words[i]) == 0;
            assert_true(found);
        }
        assert_int_equal(identity_path_length(again) == strlen(path) || strchr(path, '+') != NULL, true);
        identity_free(&identity);
        free(again);
        free(text);
    }
}

static void any_text_at_all_can_be_read(void **state)
{
    (void)state;
    srandom(2);
    for (unsigned int round = 0; round < 20000; round++) {
        static char text[400];
        struct identity identity;
        random_text(text, 30);
        assert_true(identity_read(&identity, text));
        identity_free(&identity);
    }
}

static void assert_named(const char *wanted_text, const char *text, bool expected)
{
    struct identity wanted, identity;
    assert_true(identity_read(&wanted, wanted_text));
    assert_true(identity_read(&identity, text));
    assert_int_equal(identity_names(&wanted, &identity), expected);
    identity_free(&wanted);
    identity_free(&identity);
}

static void a_path_alone_names_all_its_runs_and_a_list_only_those_that_have_it(void **state)
{
    (void)state;
    const char *const all = "/a + patterns: b:1 + options: x=1";
    assert_named("/a", "/a", true);
    assert_named("/a", all, true);
    assert_named("/b", "/a", false);
    assert_named("/a + options:", "/a", true);
    assert_named("/a + options:", all, false);
    assert_named("/a + options: x=1", all, true);
    assert_named("/a + options: x=2", all, false);
    assert_named("/a + patterns: + options: x=1", all, false);
    assert_named("/a + patterns: b:1", all, true);
    assert_named("/a + patterns: b:1", "/a", false);
    assert_named("patterns: b:1", all, false);
    assert_named("patterns: b:1", "patterns: b:1 + options: x=1", true);
    assert_named(all, all, true);
}

static void expect_cleaned(const char *path, const char *expected)
{
    char text[100];
    strcpy(text, path);
    path_clean(text, true);
    assert_string_equal(text, expected);
}

static void paths_are_cleaned_by_their_letters(void **state)
{
    (void)state;
    expect_cleaned("/", "/");
    expect_cleaned("//", "/");
    expect_cleaned("/a//b/./c/", "/a/b/c");
    expect_cleaned("/a/../b", "/b");
    expect_cleaned("/../../b/..", "/");
    expect_cleaned("/a/..b/...", "/a/..b/...");
    expect_cleaned("/a/b/../../c", "/c");
    char text[] = "/a//./../b";
    path_clean(text, false);
    assert_string_equal(text, "/a/../b");
}

/* --- with files --- */

struct place {
    char folder[64], before[4096];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    *state = place;
    strcpy(place->folder, "/tmp/sockfuse-identity-XXXXXX");
    return place != NULL && getcwd(place->before, sizeof place->before) != NULL && mkdtemp(place->folder) != NULL &&
                   chdir(place->folder) == 0 && mkdir("one", 0700) == 0 && mkdir("two", 0700) == 0 &&
                   mkdir("two/deep", 0700) == 0
               ? 0
               : -1;
}

static int teardown(void **state)
{
    struct place *place = *state;
    char *command = NULL;
    unsetenv("PWD");
    int status = chdir(place->before) == 0 && asprintf(&command, "rm -rf %s", place->folder) > 0 ? system(command) : -1;
    free(command);
    free(place);
    return status;
}

static void write_policy(const char *path)
{
    FILE *stream = fopen(path, "w");
    fputs("[a:1]\n", stream);
    fclose(stream);
}

static void assert_path(const struct place *place, const char *name, const char *below)
{
    char expected[200], *path = policy_file_path(name);
    snprintf(expected, sizeof expected, "%s%s", place->folder, below);
    assert_string_equal(path, expected);
    free(path);
}

static char *identity_of(const char *name, const char *const *options)
{
    struct policy_problems problems;
    struct policy *policy = policy_load(name, options, &problems);
    assert_non_null(policy);
    char *identity = strdup(policy->identity);
    policy_free(policy);
    policy_problems_free(&problems);
    return identity;
}

static void a_link_is_a_name_and_keeps_it_when_it_moves(void **state)
{
    const struct place *place = *state;
    write_policy("one/x.policy");
    write_policy("two/x.policy");
    assert_int_equal(symlink("one", "..data"), 0);
    assert_int_equal(symlink("..data/x.policy", "x.policy"), 0);
    char *before = identity_of("./x.policy", NULL);
    assert_path(place, "x.policy", "/x.policy");
    assert_int_equal(symlink("two", "next"), 0);
    assert_int_equal(rename("next", "..data"), 0);
    char *after = identity_of("x.policy", NULL);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void a_file_that_is_not_there_has_a_name_too(void **state)
{
    const struct place *place = *state;
    assert_path(place, "gone.policy", "/gone.policy");
    assert_path(place, "no/folder//./gone.policy", "/no/folder/gone.policy");
    assert_path(place, "no/../gone.policy", "/gone.policy");
}

/* By its letters it would be another file. */
static void behind_a_link_to_a_folder_the_parent_is_the_real_one(void **state)
{
    const struct place *place = *state;
    write_policy("two/x.policy");
    assert_int_equal(symlink("two/deep", "link"), 0);
    assert_path(place, "link/../x.policy", "/link/../x.policy");
    char *identity = identity_of("link/../x.policy", NULL);
    struct policy_problems problems;
    write_policy("x.policy");
    assert_path(place, "link/../x.policy", "/link/../x.policy");
    assert_path(place, "one/../x.policy", "/x.policy");
    /* Who has the identity reads it by that name, whatever the links are now. */
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("one", "link"), 0);
    struct policy *policy = policy_load_identity(identity, &problems);
    assert_non_null(policy);
    assert_string_equal(policy->identity, identity);
    policy_free(policy);
    free(identity);
}

static void a_relative_name_is_in_the_folder_as_the_shell_calls_it(void **state)
{
    const struct place *place = *state;
    char pwd[100];
    assert_int_equal(symlink("one", "current"), 0);
    assert_int_equal(chdir("current"), 0);
    snprintf(pwd, sizeof pwd, "%s/current", place->folder);
    setenv("PWD", pwd, 1);
    assert_path(place, "x.policy", "/current/x.policy");
    snprintf(pwd, sizeof pwd, "%s/two", place->folder); /* of a parent that went elsewhere */
    setenv("PWD", pwd, 1);
    assert_path(place, "x.policy", "/one/x.policy");
    snprintf(pwd, sizeof pwd, "%s/two/../one", place->folder);
    setenv("PWD", pwd, 1);
    assert_path(place, "x.policy", "/one/x.policy");
    setenv("PWD", "current", 1);
    assert_path(place, "x.policy", "/one/x.policy");
}

static void options_are_part_of_it_however_they_are_spelt(void **state)
{
    struct place *place = *state;
    char expected[300];
    write_policy("x.policy");
    char *one = identity_of("x.policy", LIST("inject=refuse at 10%", "recovery_timeout = 10000ms ", "window=1 calls"));
    char *other = identity_of("x.policy",
                              LIST("window=2 calls", "reset_timeout=10s", "window= 1 call", "inject =refuse  at 10 %"));
    char *none = identity_of("x.policy", NULL);
    snprintf(expected, sizeof expected,
             "%s/x.policy + options: inject=refuse\\ at\\ 10%% reset_timeout=10s window=1\\ call", place->folder);
    assert_string_equal(one, expected);
    assert_string_equal(other, expected);
    expected[strlen(place->folder) + strlen("/x.policy")] = '\0';
    assert_string_equal(none, expected);
    free(one);
    free(other);
    free(none);
}

static void whoever_has_the_identity_can_load_the_very_policy(void **state)
{
    (void)state;
    struct policy_problems problems;
    write_policy("x.policy");
    struct policy *policy = policy_load_with_patterns(
        "x.policy", LIST("c:1", "b:1"), LIST("failure_threshold=7", "inject=refuse at 10%, delay 2s at 5%"), &problems);
    struct policy *again = policy_load_identity(policy->identity, &problems);
    assert_non_null(again);
    assert_string_equal(again->identity, policy->identity);
    assert_int_equal(again->revision, policy->revision);
    assert_int_equal(again->target_count, 3);
    assert_string_equal(described(&again->targets[2], "failure_threshold").value, "7");
    assert_string_equal(described(&again->targets[2], "inject").value, "refuse at 10%, delay 2s at 5%");
    policy_free(again);
    policy_free(policy);
    policy = policy_from_patterns(LIST("b:1"), LIST("mode=observe"), &problems);
    again = policy_load_identity(policy->identity, &problems);
    assert_string_equal(again->identity, "patterns: b:1 + options: mode=observe");
    assert_string_equal(described(&again->targets[0], "mode").value, "observe");
    policy_free(again);
    policy_free(policy);
}

/* Each key's value, as it is written into a name, is one that can be read and says the same. */
static void every_options_value_can_be_read_back(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const odd[] = {
        "failures=none", "failures=refused reset", "http_failures=none", "http_failures=500-599, 429", "window=7 calls",
        "window=90s", "failure_rate=0", "failure_rate=12.5%", "backoff_multiplier=1.5", "slow_call=off",
        "response_timeout=1.5ms", "inject=none", "inject=refuse at 10%, delay 250ms at 5%, reset at 0.5%",
        "inject=hang", "inject=silence", "inject=early-close", "inject=http-503 at 30%", "fallback=none",
        "fallback=[::1]:80", "fallback=Host.test:80", "fallback=unix:/run/a b + options: x\\", "fallback=unix:@abstract",
        "capacity=1 circuit", "journal=1 event", "connect_timeout=1us", "connect_timeout=1h",
    };
    /* clang-format on */
    struct policy_problems problems;
    for (size_t i = 0; i < sizeof odd / sizeof *odd + KEYS; i++) {
        char text[300];
        if (i < KEYS && key_table[i].built_in == NULL)
            continue;
        if (i < KEYS)
            snprintf(text, sizeof text, "%s=%s", key_table[i].name, key_table[i].built_in);
        else
            snprintf(text, sizeof text, "%s", odd[i - KEYS]);
        struct policy *policy = policy_from_patterns(LIST("a:1"), LIST(text), &problems);
        if (policy == NULL) { /* not known to this version, or out of its limits */
            policy_problems_free(&problems);
            assert_true(i >= KEYS);
            continue;
        }
        policy_problems_free(&problems);
        struct policy *again = policy_load_identity(policy->identity, &problems);
        if (again == NULL)
            fail_msg("%s: %s", policy->identity, problems.at[0].text);
        policy_problems_free(&problems);
        assert_string_equal(again->identity, policy->identity);
        char *key = strndup(text, strcspn(text, "="));
        const enum key_index index = key_named(key);
        char one[VALUE_TEXT_MAX], other[VALUE_TEXT_MAX];
        key_format(index, &policy->targets[0], one, sizeof one);
        key_format(index, &again->targets[0], other, sizeof other);
        assert_string_equal(one, other);
        free(key);
        policy_free(again);
        policy_free(policy);
    }
}

/* As a policy of another version could have it. */
static void an_identity_with_an_unknown_option_is_refused(void **state)
{
    (void)state;
    struct policy_problems problems;
    write_policy("x.policy");
    assert_null(policy_load_identity("patterns: b:1 + options: nonsense=1", &problems));
    assert_int_equal(problems.errors, 1);
    policy_problems_free(&problems);
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char words[64][TARGET_NAME_MAX];
    static const char *patterns[65];
    struct loaded loaded;
    for (size_t i = 0; i < 64; i++) {
        snprintf(words[i], sizeof words[i], "h%02zu.%060d.a%020d.test:1", i, 0, 0);
        patterns[i] = words[i];
    }
    loaded.policy = policy_from_patterns(patterns, NULL, &loaded.problems);
    expect_problem_of(&loaded, true, 0, "at most 4095|into a policy file");
    assert_null(loaded.policy);
    unload(&loaded);
    patterns[40] = NULL;
    loaded.policy = policy_from_patterns(patterns, NULL, &loaded.problems);
    assert_non_null(loaded.policy);
    unload(&loaded);
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_identity_is_taken_apart_as_it_was_put_together),
        cmocka_unit_test(a_path_that_looks_like_a_list_is_no_list),
        cmocka_unit_test(a_word_may_have_any_bytes),
        cmocka_unit_test(order_and_repetition_make_no_other_identity),
        cmocka_unit_test(whatever_is_put_together_comes_apart_again),
        cmocka_unit_test(any_text_at_all_can_be_read),
        cmocka_unit_test(a_path_alone_names_all_its_runs_and_a_list_only_those_that_have_it),
        cmocka_unit_test(paths_are_cleaned_by_their_letters),
        WITH_FILES(a_link_is_a_name_and_keeps_it_when_it_moves),
        WITH_FILES(a_file_that_is_not_there_has_a_name_too),
        WITH_FILES(behind_a_link_to_a_folder_the_parent_is_the_real_one),
        WITH_FILES(a_relative_name_is_in_the_folder_as_the_shell_calls_it),
        WITH_FILES(options_are_part_of_it_however_they_are_spelt),
        WITH_FILES(whoever_has_the_identity_can_load_the_very_policy),
        cmocka_unit_test(every_options_value_can_be_read_back),
        WITH_FILES(an_identity_with_an_unknown_option_is_refused),
        WITH_FILES(a_name_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
