/*
 * Without memory, at any point, a policy is whole or refused, and nothing is lost. The host process must not find
 * half a policy in force because malloc failed once.
 *
 * malloc and its relatives are this program's own here: the Nth call fails. A sanitizer has its own: then
 * nothing ever fails here.
 */
#include "support_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED
#endif

static long calls, failing = -1, living;

#ifndef SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static bool fails(void)
{
    if (failing < 0 || calls++ != failing)
        return false;
    errno = ENOMEM;
    return true;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    if (fails())
        return NULL;
    living++;
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    if (fails())
        return NULL;
    living++;
    return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t size)
{
    if (fails())
        return NULL;
    if (memory == NULL)
        living++;
    return __libc_realloc(memory, size);
}

__attribute__((visibility("default"))) void *reallocarray(void *memory, size_t count, size_t size)
{
    return realloc(memory, count * size);
}

__attribute__((visibility("default"))) void free(void *memory)
{
    if (memory != NULL)
        living--;
    __libc_free(memory);
}
#endif

static const char text[] = "[defaults]\njitter = 1%\n[x]\nmatch = a.test:1 10.0.0.0/8:* \\\n [::1]:2 unix:/run/*\n"
                           "mode = off\n[b:1]\n[c:1]\nfailures = reset\n";

static struct policy *load(const char *path, struct policy_problems *problems)
{
    static const char *const patterns[] = {"d:1", "e:1", NULL}, *const overrides[] = {"success_threshold=2", NULL};
    return policy_load_with_patterns(path, patterns, overrides, problems);
}

static void without_memory_at_any_point_a_policy_is_whole_or_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/sockfuse-memory-XXXXXX";
    struct policy_problems problems;
    long refused = 0, lost = 0;
    write_temporary(path, text, strlen(text));
    policy_free(load(path, &problems)); /* what libc keeps for ever it takes now */
    for (long n = 0, made = n + 1; made > n; n++) {
        const long before = living;
        calls = 0;
        failing = n;
        struct policy *policy = load(path, &problems);
        made = calls;
        failing = -1;
        assert_true((policy == NULL) == (problems.errors > 0));
        if (policy == NULL) {
            refused++;
        } else {
            assert_int_equal(policy->target_count, 5);
            assert_int_equal(policy->targets[0].pattern_count, 4);
            assert_int_equal(policy->targets[4].breaker.success_threshold, 2);
            assert_non_null(strstr(policy->identity, " + patterns: d:1 e:1"));
        }
        policy_free(policy);
        policy_problems_free(&problems);
        lost += living - before;
    }
    unlink(path);
#ifdef SANITIZED
    assert_int_equal(refused, 0);
    return;
#endif
    assert_true(refused > 20);
    assert_in_range(lost, 0, 2); /* the line buffers of libbsd's fgetln, one for each stream, are kept */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_at_any_point_a_policy_is_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
