/* Policies: which target takes a destination, what it is called, -o and -t, contradictions, identity. */
#include "support_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policy/keys.h"

/* The name of the target that takes a destination ("-" for none); `names` ends with NULL. */
static const char *taker(const struct policy *policy, const char *destination, const char *const *names)
{
    static char name[TARGET_NAME_MAX];
    struct policy_match match;
    struct endpoint endpoint = endpoint_of(destination);
    size_t count = 0;
    while (names != NULL && names[count] != NULL)
        count++;
    snprintf(name, sizeof name, "%s", policy_match(policy, &endpoint, names, count, &match) ? match.target->name : "-");
    return name;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_first_section_in_file_order_wins(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[one]\nmatch = 10.0.3.7:443\n[net]\nmatch = 10.0.0.0/8:* api.internal:443\n"
                                        "[name]\nmatch = *.internal:443\n[rest]\nmatch = *:443\n");
    assert_string_equal(taker(policy, "10.0.3.7:443", NULL), "one");
    assert_string_equal(taker(policy, "10.0.3.7:444", NULL), "net");
    assert_string_equal(taker(policy, "10.0.3.7:443", NAMES("api.internal")), "one");
    assert_string_equal(taker(policy, "1.2.3.4:443", NAMES("api.internal")), "net");
    assert_string_equal(taker(policy, "1.2.3.4:443", NAMES("db.internal")), "name");
    assert_string_equal(taker(policy, "1.2.3.4:443", NAMES("example.com")), "rest");
    assert_string_equal(taker(policy, "1.2.3.4:443", NULL), "rest");
    assert_string_equal(taker(policy, "1.2.3.4:80", NAMES("api.internal")), "-");
    assert_string_equal(taker(policy, "unix:/run/x", NAMES("api.internal")), "-");
    policy_free(policy);
    policy = good_policy("[name]\nmatch = *.internal:*\n");
    assert_string_equal(taker(policy, "unix:/run/x", NAMES("api.internal")), "-");
    policy_free(policy);
}

static void the_most_recent_name_that_a_pattern_has_is_told(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[x]\nmatch = b.test:1 a.test:1 10.0.0.1:1\n");
    const char *const names[] = {"z.test", NULL, "A.test.", "b.TEST"};
    struct endpoint endpoint = endpoint_of("10.0.0.1:1");
    struct policy_match match;
    assert_true(policy_match(policy, &endpoint, names, 4, &match));
    assert_int_equal(match.name, 2); /* two names on one address: the program means the one it has asked for last */
    assert_string_equal(match.pattern->text, "a.test:1");
    assert_true(policy_match(policy, &endpoint, names + 3, 1, &match));
    assert_int_equal(match.name, 0);
    assert_string_equal(match.pattern->text, "b.test:1");
    assert_true(policy_match(policy, &endpoint, names, 1, &match));
    assert_int_equal(match.name, -1);
    assert_string_equal(match.pattern->text, "10.0.0.1:1");
    policy_free(policy);
}

static void a_name_without_an_address_can_be_asked_for(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[net]\nmatch = 0.0.0.0/0:1\n[x]\nmatch = a.test:1\n[rest]\nmatch = *:1\n");
    const struct endpoint anywhere = {.family = ENDPOINT_NONE, .port = 1};
    struct policy_match match;
    assert_true(policy_match(policy, &anywhere, NAMES("a.test"), 1, &match));
    assert_string_equal(match.target->name, "x");
    assert_true(policy_match(policy, &anywhere, NAMES("b.test"), 1, &match));
    assert_string_equal(match.target->name, "rest");
    policy_free(policy);
}

static void expect_destination(const char *policy_text, const char *endpoint_text, const char *name,
                               const char *expected)
{
    struct policy *policy = good_policy(policy_text);
    struct endpoint endpoint = endpoint_of(endpoint_text);
    struct policy_match match;
    char text[DESTINATION_MAX];
    assert_true(policy_match(policy, &endpoint, &name, 1, &match));
    assert_int_equal(policy_destination(&match, &endpoint, &name, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    for (size_t size = 0; size <= strlen(expected); size++) {
        text[size] = '!';
        assert_int_equal(policy_destination(&match, &endpoint, &name, text, size), 0);
        assert_int_equal(text[size], '!');
    }
    policy_free(policy);
}

static void a_destination_bears_the_name_by_which_the_pattern_took_it(void **state)
{
    (void)state;
    expect_destination("[x]\nmatch = localhost:5432\n", "127.0.0.1:5432", "LOCALHOST.", "localhost:5432");
    expect_destination("[x]\nmatch = *.test:*\n", "127.0.0.1:65535", "a.test", "a.test:65535");
    expect_destination("[x]\nmatch = *.test:*\n", "127.0.0.1:0", "a.test", "a.test:0");
    expect_destination("[x]\nmatch = 127.0.0.1:5432\n", "127.0.0.1:5432", "localhost", "127.0.0.1:5432");
    expect_destination("[x]\nmatch = *:80\n", "[::1]:80", "localhost", "[::1]:80");
    expect_destination("[x]\nmatch = unix:/run/*\n", "unix:/run/x", "localhost", "unix:/run/x");
    expect_destination("[x]\ncircuit = address\nmatch = localhost:80\n", "127.0.0.1:80", "localhost", "127.0.0.1:80");
    expect_destination("[x y]\ncircuit = target\nmatch = localhost:80\n", "127.0.0.1:80", "localhost", "x y");
}

static void a_name_too_long_for_dns_is_no_destination(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[x]\nmatch = *.test:80\n");
    struct endpoint endpoint = endpoint_of("1.2.3.4:80");
    struct policy_match match;
    char name[300], text[400];
    const char *const names[] = {name};
    memset(name, 'a', sizeof name);
    strcpy(name + 248, ".test");
    assert_true(policy_match(policy, &endpoint, names, 1, &match));
    assert_int_equal(policy_destination(&match, &endpoint, names, text, sizeof text), 253 + 3);
    memcpy(name + 248, "a", 1);
    strcpy(name + 249, ".test");
    assert_true(policy_match(policy, &endpoint, names, 1, &match));
    assert_int_equal(policy_destination(&match, &endpoint, names, text, sizeof text), 0);
    policy_free(policy);
}

static void only_names_of_patterns_are_wanted(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[x]\nmatch = 10.0.0.1:1 a.test:1 *.b.test:2\n[y]\nmatch = c.test:*\n");
    assert_true(policy->has_host_patterns);
    assert_true(policy_wants_name(policy, "A.TEST"));
    assert_true(policy_wants_name(policy, "x.y.b.test."));
    assert_true(policy_wants_name(policy, "c.test"));
    assert_false(policy_wants_name(policy, "b.test"));
    assert_false(policy_wants_name(policy, "10.0.0.1"));
    assert_false(policy_wants_name(policy, ""));
    assert_false(policy_wants_name(policy, NULL));
    policy_free(policy);
    policy = good_policy("[x]\nmatch = *:443 10.0.0.0/8:* unix:/x\n");
    assert_false(policy->has_host_patterns);
    assert_false(policy_wants_name(policy, "a.test"));
    policy_free(policy);
}

static void scopes_are_noted_for_the_whole_policy(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n[b:1]\nscope = process\n");
    assert_true(policy->has_host_scope && policy->has_process_scope);
    policy_free(policy);
    policy = good_policy("[a:1]\n");
    assert_true(policy->has_host_scope && !policy->has_process_scope);
    policy_free(policy);
}

static void contradictions_are_told_once_and_built_in_values_give_way(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\nreset_timeout = 5m\n[b:1]\nreset_timeout_max = 5s\n");
    assert_string_equal(described(&policy->targets[0], "reset_timeout_max").value, "5m");
    assert_string_equal(described(&policy->targets[0], "reset_timeout_max").origin, "as reset_timeout");
    assert_string_equal(described(&policy->targets[1], "reset_timeout").value, "5s");
    assert_string_equal(described(&policy->targets[1], "reset_timeout").origin, "as reset_timeout_max");
    policy_free(policy);
    policy = good_policy("[defaults]\nreset_timeout = 5m\n[a:1]\n[b:1]\nreset_timeout = 1s\n");
    assert_string_equal(described(&policy->targets[0], "reset_timeout_max").value, "5m");
    assert_string_equal(described(&policy->targets[1], "reset_timeout_max").value, "1m");
    policy_free(policy);
    policy = good_policy("[a:1]\nreset_timeout = 5s\nreset_timeout_max = 5s\nprobe_timeout = 1s\n"
                         "[b:1]\nconnect_timeout = 30s\n");
    policy_free(policy);
    expect_error("[a:1]\nreset_timeout_max = 5s\nreset_timeout = 6s\n[b:1]\n", 3,
                 "`reset_timeout = 6s` is longer than `reset_timeout_max = 5s` (line 2)");
    expect_error("[defaults]\nreset_timeout_max = 5s\n[b:1]\n[a:1]\nreset_timeout = 6s\n[c:1]\n", 5, "(line 2)");
    expect_error("[a:1]\nreset_timeout_max = 5s\n[b:1]\n[defaults]\nreset_timeout = 6s\n", 2, "(line 5)");
    expect_error("[defaults]\nreset_timeout = 6s\nreset_timeout_max = 5s\n[a:1]\n[b:1]\njitter = 1%\n", 3, "(line 2)");
    expect_warning("[a:1]\nprobe_timeout = 1s\nconnect_timeout = 2s\n", 2, "`probe_timeout = 1s`|shorter|(line 3)");
    expect_warning("[defaults]\nprobe_timeout = 1s\nconnect_timeout = 2s\n[a:1]\n[b:1]\n", 3, "(line 2)");
    expect_warning("[a:1]\nhttp_failures = 500\nhttp = off\n", 2,
                   "`http_failures = 500`|`http = off` (line 3)|answers are not looked at");
    expect_warning("[defaults]\nhttp = off\n[a:1]\nhttp_failures = 500\n", 4, "`http = off` (line 2)");
    policy_free(good_policy("[a:1]\nhttp = off\n"));
    expect_error("[a:1]\nreset_timeout = 9\nreset_timeout_max = 5s\n", 2, "no unit"); /* and nothing of the pair */
}

static void overrides_win_over_sections_and_defaults(void **state)
{
    (void)state;
    struct loaded loaded;
    load_text(&loaded, "[defaults]\njitter = 1%\n[a:1]\nmode = off\njitter = 2%\n[b:1]\n",
              NAMES("mode=observe", "jitter = 3%", "open_duration=7s", "jitter=4%"));
    assert_non_null(loaded.policy);
    for (size_t i = 0; i < 2; i++) {
        const struct target *target = &loaded.policy->targets[i];
        assert_int_equal(target->mode, MODE_OBSERVE);
        assert_string_equal(described(target, "jitter").value, "4%");
        assert_string_equal(described(target, "jitter").origin, "-o");
        assert_string_equal(described(target, "reset_timeout").value, "7s");
        assert_string_equal(described(target, "scope").origin, "built in");
    }
    unload(&loaded);
}

static void a_bad_override_is_named(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"jitter", "-o jitter|KEY=VALUE"},      {"=1", "-o =1|KEY=VALUE"},           {"jitter=", "-o jitter=|`10%`"},
        {"jiter=1%", "did you mean `jitter`?"}, {"match=a:1", "`match`|-t PATTERN"}, {"jitter=1", "-o jitter=1|`1%`"},
        {"colour=red", "nearest known key"},    {"reset_timeout=3", "`3s`"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct loaded loaded;
        load_text(&loaded, "[a:1]\n[b:1]\n", NAMES(bad[i][0]));
        expect_problem_of(&loaded, true, 0, bad[i][1]);
        unload(&loaded);
    }
    struct loaded loaded;
    load_text(&loaded, "[a:1]\n[b:1]\n", NAMES("reset_timeout=3s", "reset_timeout_max=2s"));
    expect_problem_of(&loaded, true, 0, "`reset_timeout = 3s` (-o)|`reset_timeout_max = 2s` (-o)");
    unload(&loaded);
    load_text(&loaded, "[defaults]\nreset_timeout = 5s\nreset_timeout_max = 6s\n[a:1]\n",
              NAMES("reset_timeout=3s", "reset_timeout_max=2s"));
    expect_problem_of(&loaded, true, 0, "`reset_timeout = 3s` (-o)");
    unload(&loaded);
    load_text(&loaded, "[a:1]\nreset_timeout_max = 2s\n[b:1]\n", NAMES("reset_timeout=3s"));
    expect_problem_of(&loaded, true, 2, "`reset_timeout = 3s` (-o)");
    unload(&loaded);
}

static void patterns_alone_make_a_policy_with_a_sorted_identity(void **state)
{
    (void)state;
    struct policy_problems problems;
    struct policy *policy =
        policy_from_patterns(NAMES("localhost:80", "127.0.0.1:5432", "localhost:80"), NAMES("jitter=0%"), &problems);
    assert_non_null(policy);
    assert_int_equal(problems.count, 0);
    assert_null(policy->path);
    assert_string_equal(policy->identity, "patterns: 127.0.0.1:5432 localhost:80 + options: jitter=0%");
    assert_int_equal(policy->target_count, 2);
    assert_string_equal(policy->targets[0].name, "localhost:80");
    assert_int_equal(policy->targets[0].line, 0);
    assert_string_equal(described(&policy->targets[1], "jitter").value, "0%");
    struct policy *other = policy_from_patterns(NAMES("127.0.0.1:5432", "localhost:80"), NULL, &problems);
    assert_string_equal(other->identity, "patterns: 127.0.0.1:5432 localhost:80");
    assert_int_equal(other->revision, policy->revision);
    policy_free(other);
    policy_free(policy);
    policy = policy_from_patterns(NULL, NULL, &problems);
    assert_string_equal(policy->identity, "patterns:");
    assert_int_equal(problems.count, 1);
    assert_int_equal(problems.errors, 0);
    policy_problems_free(&problems);
    policy_free(policy);
}

static void a_bad_pattern_of_the_command_line_has_no_line(void **state)
{
    (void)state;
    char longest[TARGET_NAME_MAX + 10];
    memset(longest, 'a', sizeof longest);
    longest[60] = longest[120] = '.';
    strcpy(longest + TARGET_NAME_MAX - 2, ":1");
    const char *const bad[][2] = {{"localhost", "pattern `localhost`|`localhost:443`"},
                                  {longest, "more than 127 bytes"}};
    for (size_t i = 0; i < 2; i++) {
        struct loaded loaded;
        loaded.policy = policy_from_patterns(NAMES("a:1", bad[i][0]), NULL, &loaded.problems);
        expect_problem_of(&loaded, true, 0, bad[i][1]);
        assert_null(loaded.policy);
        unload(&loaded);
    }
}

static void patterns_stand_behind_the_file_and_take_its_defaults(void **state)
{
    (void)state;
    char path[] = "/tmp/sockfuse-both-XXXXXX", expected[128];
    const char text[] = "[defaults]\njitter = 7%\n[x]\nmatch = a:1\n[b:1]\nmode = off\n";
    write_temporary(path, text, strlen(text));
    struct policy_problems problems;
    struct policy *policy = policy_load_with_patterns(path, NAMES("c:1", "b:1", "a:1"), NULL, &problems);
    assert_int_equal(problems.count, 0);
    assert_int_equal(policy->target_count, 4); /* b:1 is the file's */
    assert_string_equal(policy->targets[2].name, "c:1");
    assert_string_equal(described(&policy->targets[2], "jitter").value, "7%");
    assert_string_equal(taker(policy, "1.1.1.1:1", NAMES("a")), "x");
    snprintf(expected, sizeof expected, "%s + patterns: a:1 b:1 c:1", path);
    assert_string_equal(policy->identity, expected);
    assert_string_equal(policy->path, path);
    struct policy *alone = policy_load_with_patterns(path, NAMES(NULL), NULL, &problems);
    assert_string_equal(alone->identity, path);
    assert_true(alone->revision != policy->revision);
    policy_free(alone);
    policy_free(policy);
    unlink(path);
}

static void the_identity_of_a_file_is_its_path_as_it_was_named(void **state)
{
    (void)state;
    char folder[] = "/tmp/sockfuse-identity-XXXXXX", file[64], link[64], dotted[80];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/x.policy", folder);
    snprintf(link, sizeof link, "%s/y.policy", folder);
    snprintf(dotted, sizeof dotted, "%s/./../%s/y.policy", folder, strrchr(folder, '/') + 1);
    FILE *stream = fopen(file, "w");
    fputs("[a:1]\n", stream);
    fclose(stream);
    assert_int_equal(symlink("x.policy", link), 0);
    struct policy_problems problems;
    struct policy *policy = policy_load(dotted, NULL, &problems);
    assert_string_equal(policy->path, link);
    assert_string_equal(policy->identity, link);
    const uint64_t revision = policy->revision;
    policy_free(policy);
    stream = fopen(file, "a");
    fputs("#\n", stream);
    fclose(stream);
    policy = policy_load(link, NULL, &problems);
    assert_true(policy->revision != revision);
    policy_free(policy);
    unlink(link);
    unlink(file);
    rmdir(folder);
}

/* A value or a name with what else would begin a comment, and a path with a blank. */
static void a_policy_is_written_back_as_a_file_that_says_the_same(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[defaults]\nreset_timeout = 5s\n"
                                        "[one \\#1]\nmatch = unix:/run/a\\#b unix:/run/a\\ b\n"
                                        "fallback = unix:/run/spare\\#1\n"
                                        "[two.example:443]\nwindow = 50 calls\nhttp_failures = 500-599 429\n"
                                        "inject = http-503 at 0.5%, slow 2s at 1%\n");
    char *text = policy_write(policy);
    assert_non_null(text);
    struct loaded again;
    load_text(&again, text, NULL); /* a built-in value that is written may be told to be of no use */
    free(text);
    assert_int_equal(again.problems.errors, 0);
    assert_int_equal(again.policy->target_count, 2);
    for (size_t i = 0; i < again.policy->target_count; i++) {
        const struct target *target = &policy->targets[i], *same = &again.policy->targets[i];
        assert_string_equal(same->name, target->name);
        assert_int_equal(same->pattern_count, target->pattern_count);
        for (size_t j = 0; j < target->pattern_count; j++)
            assert_string_equal(same->patterns[j].text, target->patterns[j].text);
        for (unsigned int key = 0; key < KEYS; key++)
            assert_string_equal(described(same, key_table[key].name).value,
                                described(target, key_table[key].name).value);
    }
    assert_string_equal(again.policy->targets[0].fallback.at[0].path, "/run/spare#1");
    unload(&again);
    policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_section_in_file_order_wins),
        cmocka_unit_test(the_most_recent_name_that_a_pattern_has_is_told),
        cmocka_unit_test(a_name_without_an_address_can_be_asked_for),
        cmocka_unit_test(a_destination_bears_the_name_by_which_the_pattern_took_it),
        cmocka_unit_test(a_name_too_long_for_dns_is_no_destination),
        cmocka_unit_test(only_names_of_patterns_are_wanted),
        cmocka_unit_test(scopes_are_noted_for_the_whole_policy),
        cmocka_unit_test(contradictions_are_told_once_and_built_in_values_give_way),
        cmocka_unit_test(overrides_win_over_sections_and_defaults),
        cmocka_unit_test(a_bad_override_is_named),
        cmocka_unit_test(patterns_alone_make_a_policy_with_a_sorted_identity),
        cmocka_unit_test(a_bad_pattern_of_the_command_line_has_no_line),
        cmocka_unit_test(patterns_stand_behind_the_file_and_take_its_defaults),
        cmocka_unit_test(a_policy_is_written_back_as_a_file_that_says_the_same),
        cmocka_unit_test(the_identity_of_a_file_is_its_path_as_it_was_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
