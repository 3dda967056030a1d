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

static void print_key(const char *key, const char *value, const char *origin, void *stream)
{
    fprintf(stream, "%s = %s # %s\n", key, value, origin);
}

/* The target as a section; the name is left out, for any name will do where `match` is written. */
static char *written_back(const struct target *target)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    fprintf(stream, "[defaults]\n");
    policy_describe_common(target, print_key, stream);
    fprintf(stream, "[x]\n");
    policy_describe(target, print_key, stream);
    fclose(stream);
    return text;
}

static void expect_the_same_again(const struct target *target)
{
    char *text = written_back(target);
    struct policy_problems problems;
    write_file(text, strlen(text));
    struct policy *policy = policy_load(path, NULL, &problems);
    if (policy == NULL) {
        fprintf(stderr, "%s\nof:\n%s", problems.at[0].text, text);
        abort();
    }
    const struct target *again = &policy->targets[0];
    assert(again->pattern_count == target->pattern_count && again->mode == target->mode);
    assert(memcmp(&again->breaker, &target->breaker, sizeof again->breaker) == 0);
    assert(again->rules.failure_mask == target->rules.failure_mask);
    assert(again->rules.http_failure_count == target->rules.http_failure_count);
    assert(memcmp(again->rules.http_failures, target->rules.http_failures, sizeof again->rules.http_failures) == 0);
    assert(again->rules.abandon_after_ns == target->rules.abandon_after_ns);
    assert(again->connect_timeout_ns == target->connect_timeout_ns && again->on_open == target->on_open);
    assert(again->response_timeout_ns == target->response_timeout_ns);
    assert(memcmp(&policy->capacity, &target->capacity, sizeof policy->capacity) == 0);
    free(text);
    policy_free(policy);
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
    for (size_t i = 0; policy != NULL && i < policy->target_count; i++)
        expect_the_same_again(&policy->targets[i]);
    policy_free(policy);
    policy_problems_free(&problems);
    return 0;
}
