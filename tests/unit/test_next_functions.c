/* test_next_functions.c - all that libc has is found as dlsym(RTLD_NEXT) finds it, and the rest is left to that. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <features.h>

#include "../../src/preload/next_functions.c"

#define FOUND_MAX 4096u

static const char names[] =
#define SYMBOL(name, type, parameters, arguments) #name "\0"
#define OPTIONAL SYMBOL
#define NEEDED SYMBOL
#include "preload/symbols.def"
    /* Of several versions, of versions that are hidden, indirect, of no libc,
       of nobody. */
    "memcpy\0realpath\0posix_spawn\0pthread_cond_wait\0regexec\0timer_create\0"
    "strlen\0strchr\0"
    "cmocka_unit_test\0_cmocka_run_group_tests\0"
    "no_such_function\0\0environ\0stdout\0errno\0__libc_single_threaded\0";

static size_t count_names(void)
{
    size_t count = 0;
    for (const char *name = names; name < names + sizeof names - 1; name += strlen(name) + 1)
        count++;
    return count;
}

static void they_are_those_of_the_loader(void **state)
{
    static void *found[FOUND_MAX];
    const size_t count = count_names();
    const char *name = names;
    size_t none = 0;
    (void)state;
    assert_true(count < FOUND_MAX);
    next_functions(names, names, count, found);
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
        if (found[i] && found[i] != dlsym(RTLD_NEXT, name))
            fail_msg("%s", name);
        none += found[i] == NULL;
    }
    assert_true(none < count / 2);
}

static void without_a_libc_behind_it_none_is_found(void **state)
{
    const char *(*of_libc)(void) = gnu_get_libc_version;
    const void *libc;
    void *found[1] = {NULL};
    (void)state;
    memcpy(&libc, &of_libc, sizeof libc);
    next_functions(libc, "connect", 1, found);
    assert_null(found[0]);
    next_functions(NULL, "connect", 1, found);
    assert_null(found[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_the_loader),
        cmocka_unit_test(without_a_libc_behind_it_none_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
