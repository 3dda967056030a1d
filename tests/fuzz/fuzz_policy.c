/*
 * fuzz_policy.c - throws bytes at the reader of policies.
 *
 * `make fuzz` builds and runs it. Longer: make fuzz RUNS=10000000 SEED=2. Without libFuzzer: see alone.c.
 *
 * Beside crashes it looks for these: a policy comes out exactly if there is no error; every problem has a text and a
 * line of the file; a good policy, written back by policy_describe, is good and says the same.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "policy/keys.h"
#include "policy/policy.h"

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

static void write_file(const void *bytes, size_t count)
{
    if (path[0] == '\0') {
        strcpy(path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sockfuse-fuzz-XXXXXX" : "/tmp/sockfuse-fuzz-XXXXXX");
        close(mkstemp(path));
        atexit(remove_file);
    }
    FILE *stream = fopen(path, "w");
    assert(stream != NULL);
    fwrite(bytes, 1, count, stream);
    fclose(stream);
}

static void expect_the_same_target(const struct target *again, const struct target *target)
{
    char values[2][VALUE_TEXT_MAX];
    assert(strcmp(again->name, target->name) == 0 && again->pattern_count == target->pattern_count);
    for (size_t i = 0; i < target->pattern_count; i++)
        assert(strcmp(again->patterns[i].text, target->patterns[i].text) == 0);
    for (unsigned int key = 0; key < KEYS; key++) {
        if (key == KEY_MATCH)
            continue;
        key_format(key, again, values[0], sizeof values[0]);
        key_format(key, target, values[1], sizeof values[1]);
        assert(strcmp(values[0], values[1]) == 0);
    }
}

static void expect_the_same_again(const struct policy *policy)
{
    char *text = policy_write(policy);
    struct policy_problems problems;
    write_file(text, strlen(text));
    struct policy *again = policy_load(path, NULL, &problems);
    if (again == NULL) {
        fprintf(stderr, "%s\nof:\n%s", problems.at[0].text, text);
        abort();
    }
    assert(again->target_count == policy->target_count);
    for (size_t i = 0; i < policy->target_count; i++)
        expect_the_same_target(&again->targets[i], &policy->targets[i]);
    free(text);
    policy_free(again);
    policy_problems_free(&problems);
}

static unsigned int count_lines(const unsigned char *bytes, size_t count)
{
    unsigned int lines = 1;
    for (size_t i = 0; i < count; i++)
        lines += bytes[i] == '\n';
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct policy_problems problems;
    write_file(bytes, count);
    struct policy *policy = policy_load(path, NULL, &problems);
    assert((policy == NULL) == (problems.errors > 0));
    for (size_t i = 0; i < problems.count; i++) {
        assert(problems.at[i].text[0] != '\0' && strchr(problems.at[i].text, '\n') == NULL);
        assert(problems.at[i].line <= count_lines(bytes, count));
        assert(i == 0 || problems.at[i - 1].line <= problems.at[i].line);
    }
    if (policy != NULL)
        expect_the_same_again(policy);
    policy_free(policy);
    policy_problems_free(&problems);
    return 0;
}
