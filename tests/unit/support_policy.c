#include "support_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void write_temporary(char *path, const void *bytes, size_t count)
{
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *stream = fdopen(fd, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, count, stream), count);
    assert_int_equal(fclose(stream), 0);
}

void load_bytes(struct loaded *loaded, const void *bytes, size_t count, const char *const *overrides)
{
    snprintf(loaded->path, sizeof loaded->path, "/tmp/sockfuse-policy-XXXXXX");
    write_temporary(loaded->path, bytes, count);
    loaded->policy = policy_load(loaded->path, overrides, &loaded->problems);
    unlink(loaded->path);
    assert_true((loaded->policy == NULL) == (loaded->problems.errors > 0));
}

void load_text(struct loaded *loaded, const char *text, const char *const *overrides)
{
    load_bytes(loaded, text, strlen(text), overrides);
}

void unload(struct loaded *loaded)
{
    policy_free(loaded->policy);
    policy_problems_free(&loaded->problems);
}

struct policy *good_policy(const char *text)
{
    struct loaded loaded;
    load_text(&loaded, text, NULL);
    for (size_t i = 0; i < loaded.problems.count; i++)
        print_error("line %u: %s\nof: %s\n", loaded.problems.at[i].line, loaded.problems.at[i].text, text);
    assert_int_equal(loaded.problems.count, 0);
    policy_problems_free(&loaded.problems);
    return loaded.policy;
}

static void expect_fragments(const char *text, const char *fragments)
{
    char copy[256], *place;
    snprintf(copy, sizeof copy, "%s", fragments);
    for (char *fragment = strtok_r(copy, "|", &place); fragment != NULL; fragment = strtok_r(NULL, "|", &place)) {
        if (strstr(text, fragment) == NULL)
            fail_msg("`%s` is not in: %s", fragment, text);
    }
}

void expect_problem_of(const struct loaded *loaded, bool is_error, unsigned int line, const char *fragments)
{
    for (size_t i = 0; loaded->problems.count != 1 && i < loaded->problems.count; i++)
        print_error("line %u: %s\n", loaded->problems.at[i].line, loaded->problems.at[i].text);
    assert_int_equal(loaded->problems.count, 1);
    const struct policy_problem *problem = &loaded->problems.at[0];
    if (problem->line != line)
        fail_msg("line %u instead of %u: %s", problem->line, line, problem->text);
    assert_int_equal(problem->is_error, is_error);
    assert_int_equal(loaded->problems.errors, is_error);
    expect_fragments(problem->text, fragments);
}

void expect_error(const char *text, unsigned int line, const char *fragments)
{
    struct loaded loaded;
    load_text(&loaded, text, NULL);
    if (loaded.problems.count == 0)
        fail_msg("no error in: %s", text);
    expect_problem_of(&loaded, true, line, fragments);
    assert_null(loaded.policy);
    unload(&loaded);
}

void expect_warning(const char *text, unsigned int line, const char *fragments)
{
    struct loaded loaded;
    load_text(&loaded, text, NULL);
    if (loaded.problems.count == 0)
        fail_msg("no warning in: %s", text);
    expect_problem_of(&loaded, false, line, fragments);
    assert_non_null(loaded.policy);
    unload(&loaded);
}

struct wanted {
    const char *key;
    struct described found;
};

static void keep_line(const char *key, const char *value, const char *origin, void *context)
{
    struct wanted *wanted = context;
    if (strcmp(key, wanted->key) != 0)
        return;
    snprintf(wanted->found.value, sizeof wanted->found.value, "%s", value);
    snprintf(wanted->found.origin, sizeof wanted->found.origin, "%s", origin);
}

struct described described(const struct target *target, const char *key)
{
    struct wanted wanted = {.key = key};
    policy_describe(target, keep_line, &wanted);
    policy_describe_common(target, keep_line, &wanted);
    return wanted.found;
}

struct endpoint endpoint_of(const char *text)
{
    struct endpoint endpoint;
    if (!endpoint_parse(&endpoint, text))
        fail_msg("%s is no endpoint", text);
    return endpoint;
}
